"""unroll-and-jam: rows that are folded into one row go several at a time where nobody can tell; the bits stay what they were."""

from __future__ import annotations

from dataclasses import replace

import pytest

from benchgraph.core.dtypes import DType
from benchgraph.machine.table import table
from benchgraph.machine.target import PAGE_BYTES
from benchgraph.tir.build import add, binary, f32, minimum, seq, sub, unary
from benchgraph.tir.ir import Alloc, BinOp, Expr, Func, Scope, Stmt, Store, UnOp, tensor
from benchgraph.tir.passes.unroll_and_jam import unroll_and_jam
from benchgraph.tir.visit import walk
from tests.support.tir_programs import TARGET, assert_same, at, i, j, loop, param, put

ROWS, LONGEST = table(TARGET).jammed_rows, table(TARGET).jammed_row_elements
FAR_BYTES = table(TARGET).far_row_bytes


def sums(rows: Expr | int, columns: int, *more: Stmt) -> Func:
    """acc[j] = the sum over i of the square of x[i, j]."""
    x, acc = param("x", 40, columns), param("acc", columns)
    square = tensor("square", DType.f32, (), Scope.register)
    body = loop(
        j,
        columns,
        Alloc(square),
        put(square, value=binary(BinOp.mul, at(x, i, j), at(x, i, j))),
        put(acc, j, value=binary(BinOp.add, at(acc, j), at(square))),
        *more,
    )
    return Func("sums", (x, acc, param("y", 40, columns)), seq(loop(j, columns, put(acc, j, value=f32(0.0))), loop(i, rows, body)))


def jammed(f: Func) -> Func:
    """What the pass makes of it computes the same."""
    after = unroll_and_jam(f, TARGET)
    assert_same(after, f)
    return after


@pytest.mark.parametrize("rows", [ROWS, ROWS + 1, 3 * ROWS - 1, minimum(7, sub(40, 3))])
def test_each_accumulator_is_stored_once_for_all_rows_of_a_group(rows: Expr | int) -> None:
    after = jammed(sums(rows, 5))
    stores = [s for s in walk(after.body) if isinstance(s, Store) and s.tensor.name == "acc"]
    assert len(stores) == (2 if rows == ROWS else 3)  # to clear it, in groups, and for what is left


def test_other_stores_of_a_row_are_kept() -> None:
    x, y = param("x", 40, 9), param("y", 40, 9)
    assert not stays(sums(9, 9, put(y, i, j, value=at(x, i, j))))


def stays(f: Func) -> bool:
    return jammed(f) is f


def test_few_rows_and_long_rows_are_unchanged() -> None:
    assert stays(sums(ROWS - 1, 8))
    assert stays(sums(ROWS, LONGEST + 1))


@pytest.mark.parametrize(
    ("columns", "apart", "goes_alone"),
    [
        (FAR_BYTES // 4, FAR_BYTES // 4, True),
        (FAR_BYTES // 4 - 1, FAR_BYTES // 4 - 1, False),
        (FAR_BYTES // 4, FAR_BYTES // 4 + 1, False),
        (PAGE_BYTES // (4 * ROWS), PAGE_BYTES // (4 * ROWS), True),
        (PAGE_BYTES // (4 * ROWS) + 1, PAGE_BYTES // (4 * ROWS) + 1, False),
    ],
    ids=["close", "short", "with others between", "a page", "more than a page"],
)
def test_rows_from_memory_that_share_a_page_are_unchanged(columns: int, apart: int, goes_alone: bool) -> None:
    x, acc = param("x", 2 * ROWS, apart), param("acc", columns)
    row = loop(j, columns, put(acc, j, value=binary(BinOp.add, at(acc, j), at(x, i, j))))
    f = Func("sums", (x, acc), loop(i, 2 * ROWS, row))
    nbytes = x.nbytes
    assert (unroll_and_jam(f, replace(TARGET, llc_bytes=2 * nbytes - 1)) is f) == goes_alone
    assert unroll_and_jam(f, replace(TARGET, llc_bytes=2 * nbytes)) is not f, "what the last-level cache holds"


def test_rows_that_call_functions_are_unchanged() -> None:
    assert stays(sums(9, 8, put(param("y", 40, 8), i, j, value=unary(UnOp.exp, at(param("x", 40, 8), i, j)))))


def test_rows_that_read_the_accumulator_are_unchanged() -> None:
    """Every row but the last would see another sum."""
    acc, y = param("acc", 8), param("y", 40, 8)
    assert stays(sums(9, 8, put(y, i, j, value=at(acc, j))))


def test_rows_that_read_results_of_other_rows_are_unchanged() -> None:
    y = param("y", 40, 8)
    assert stays(sums(9, 8, put(y, add(i, 1), j, value=at(y, i, j))))


def test_reductions_of_all_elements_into_one_are_unchanged() -> None:
    x, y = param("x", 8, 8), param("y", 8)
    body = loop(j, 8, put(y, 0, value=binary(BinOp.add, at(y, 0), at(x, i, j))))
    assert stays(Func("all", (x, y), seq(put(y, 0, value=f32(0.0)), loop(i, 8, body))))


def test_reductions_within_an_element_are_unchanged() -> None:
    """Of one element, as where the folded axis has size 1: what is stored behind it reads it."""
    x, y, total = param("x", 8, 8), param("y", 8, 8), tensor("total", DType.f32, (), Scope.register)
    fold = put(total, value=binary(BinOp.add, at(total), at(x, i, j)))
    body = loop(j, 8, Alloc(total), put(total, value=f32(0.0)), fold, put(y, i, j, value=at(total)))
    assert stays(Func("single", (x, y), loop(i, 8, body)))


def test_accumulators_that_are_overwritten_are_unchanged() -> None:
    """y is folded as it was, whether a row's or an element's own."""
    acc, y = param("acc", 8), tensor("t", DType.f32, (9, 8), Scope.thread)
    own = tensor("own", DType.f32, (), Scope.register)
    start = seq(Alloc(y), loop(i, 9, loop(j, 8, put(y, i, j, value=f32(2.0)))), loop(j, 8, put(acc, j, value=f32(0.0))))
    fold, again = put(acc, j, value=binary(BinOp.add, at(acc, j), at(y, i, j))), put(y, i, j, value=f32(1.0))
    assert stays(Func("row", (acc,), seq(start, loop(i, 9, loop(j, 8, fold, again)))))
    fold, again = put(acc, j, value=binary(BinOp.add, at(acc, j), at(own))), put(own, value=f32(1.0))
    assert stays(Func("own", (acc,), seq(start, loop(i, 9, loop(j, 8, Alloc(own), put(own, value=at(y, i, j)), fold, again)))))


def test_reductions_into_an_element_of_the_row_are_unchanged() -> None:
    x, y = param("x", 8, 8), param("y", 8, 8)
    assert stays(Func("own", (x, y), loop(i, 8, loop(j, 8, put(y, i, j, value=binary(BinOp.max, at(y, i, j), at(x, i, j)))))))


def test_rows_of_several_loops_are_unchanged() -> None:
    x, acc = param("x", 8, 8), param("acc", 8)
    fold = loop(j, 8, put(acc, j, value=binary(BinOp.max, at(acc, j), at(x, i, j))))
    assert stays(Func("two", (x, acc), seq(loop(j, 8, put(acc, j, value=f32(0.0))), loop(i, 8, fold, fold))))
