"""unroll-and-jam: iterations of marked loops go together where nobody can tell; the bits stay what they were."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from benchgraph.core.dtypes import DType
from benchgraph.tir.build import add, binary, f32, minimum, seq, sub, unary
from benchgraph.tir.ir import Alloc, BinOp, Expr, For, Func, LoopKind, Scope, Stmt, Store, Tensor, UnOp, Var, tensor
from benchgraph.tir.parse import parse_tir
from benchgraph.tir.passes.unroll_and_jam import unroll_and_jam
from benchgraph.tir.text import print_tir
from benchgraph.tir.visit import walk
from tests.support.tir_programs import TARGET, assert_same, at, i, j, loop, param, put

ROWS = 4  # of the loops below that go together


def rows(var: Var, extent: Expr | int, *body: Stmt) -> For:
    return replace(loop(var, extent, *body), unroll_jam=ROWS)


def jammed(f: Func) -> Func:
    """What the pass makes of it computes the same."""
    after = unroll_and_jam(f, TARGET)
    assert_same(after, f)
    return after


def stays(f: Func) -> bool:
    return jammed(f) is f


def folded(total: Tensor, value: Expr, op: BinOp = BinOp.add) -> Store:
    return put(total, value=binary(op, at(total), value))


# ---- rows that are each reduced


def softmax(count: Expr | int, n: Expr | int, dst: Expr = i) -> Func:
    """exp(x - max of the row) / its sum, written to row `dst`."""
    x, y = param("x", 16, 20), param("y", 16, 20)
    most, total = (tensor(name, DType.f32, (), Scope.register) for name in ("most", "total"))
    e = tensor("e", DType.f32, (20,), Scope.thread)
    exponential = put(e, j, value=unary(UnOp.exp, binary(BinOp.sub, at(x, i, j), at(most))))
    body: tuple[Stmt, ...] = (
        Alloc(most),
        put(most, value=f32(-math.inf)),
        loop(j, n, folded(most, at(x, i, j), BinOp.max)),
        Alloc(total),
        put(total, value=f32(0.0)),
        Alloc(e),
        loop(j, n, exponential, folded(total, at(e, j))),
        loop(j, n, put(y, dst, j, value=binary(BinOp.div, at(e, j), at(total)))),
    )
    return Func("softmax", (x, y), rows(i, count, *body))


@pytest.mark.parametrize("count", [ROWS, ROWS + 1, 3 * ROWS - 1, minimum(7, sub(40, 3))])
def test_remaining_rows_follow_the_groups(count: Expr | int) -> None:
    after = jammed(softmax(count, 5))
    outer = [s for s in (after.body.stmts if hasattr(after.body, "stmts") else (after.body,)) if isinstance(s, For)]
    assert len(outer) == (1 if count == ROWS else 2)
    assert all(s.unroll_jam == 1 for s in outer)


def test_each_loop_of_a_row_becomes_one_loop_of_all() -> None:
    assert sum(isinstance(s, For) for s in walk(jammed(softmax(2 * ROWS, 20)).body)) == 4


def test_loops_of_different_lengths_follow_each_other() -> None:
    after = jammed(softmax(2 * ROWS, add(i, 1)))
    assert sum(isinstance(s, For) for s in walk(after.body)) == 1 + 3 * ROWS


def test_few_rows_are_unchanged_and_so_are_loops_without_a_mark() -> None:
    assert stays(softmax(ROWS - 1, 8))
    f = softmax(8, 8)
    assert isinstance(f.body, For)
    assert stays(replace(f, body=replace(f.body, unroll_jam=1)))
    assert stays(replace(f, body=replace(f.body, kind=LoopKind.parallel)))
    assert stays(replace(f, runs_once=True))


def test_rows_that_write_one_row_of_dst_are_unchanged() -> None:
    assert stays(softmax(8, 5, dst=sub(i, i)))


def test_rows_that_read_the_previous_row_are_unchanged() -> None:
    """total runs on from row to row."""
    x, y, total = param("x", 8, 5), param("y", 8), tensor("total", DType.f32, (), Scope.register)
    own = tensor("own", DType.f32, (), Scope.register)
    fold = loop(j, 5, folded(own, at(x, i, j)))
    body = rows(i, 8, Alloc(own), put(own, value=f32(0.0)), fold, folded(total, at(own)), put(y, i, value=at(total)))
    assert stays(Func("running", (x, y), seq(Alloc(total), put(total, value=f32(0.0)), body)))


def test_rows_computed_from_their_neighbour_are_unchanged() -> None:
    y, own = tensor("t", DType.f32, (9, 5), Scope.thread), tensor("own", DType.f32, (), Scope.register)
    x, z = param("x", 5), param("z", 5)
    shifted = loop(j, 5, put(y, add(i, 1), j, value=at(own)))
    body = rows(i, 8, Alloc(own), put(own, value=f32(0.0)), loop(j, 5, folded(own, at(y, i, j))), shifted)
    fill = loop(j, 5, put(y, 0, j, value=at(x, j)))
    assert stays(Func("chain", (x, z), seq(Alloc(y), fill, body, loop(j, 5, put(z, j, value=at(y, 8, j))))))


# ---- rows that are reduced into one


def sums(count: Expr | int, columns: int, *more: Stmt) -> Func:
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
    return Func("sums", (x, acc, param("y", 40, columns)), seq(loop(j, columns, put(acc, j, value=f32(0.0))), rows(i, count, body)))


@pytest.mark.parametrize("count", [ROWS, ROWS + 1, 3 * ROWS - 1, minimum(7, sub(40, 3))])
def test_each_accumulator_is_stored_once_for_all_rows_of_a_group(count: Expr | int) -> None:
    after = jammed(sums(count, 5))
    stores = [s for s in walk(after.body) if isinstance(s, Store) and s.tensor.name == "acc"]
    assert len(stores) == (2 if count == ROWS else 3)  # to clear it, in groups, and for what is left


def test_other_stores_of_a_row_are_kept() -> None:
    x, y = param("x", 40, 9), param("y", 40, 9)
    assert not stays(sums(9, 9, put(y, i, j, value=at(x, i, j))))


def test_rows_that_read_the_accumulator_are_unchanged() -> None:
    """Every row but the last would see another sum."""
    acc, y = param("acc", 8), param("y", 40, 8)
    assert stays(sums(9, 8, put(y, i, j, value=at(acc, j))))


def test_rows_that_read_results_of_other_rows_are_unchanged() -> None:
    y = param("y", 40, 8)
    assert stays(sums(9, 8, put(y, add(i, 1), j, value=at(y, i, j))))


def test_reductions_of_all_elements_into_one_are_unchanged() -> None:
    """Their sum would be of another order."""
    x, y = param("x", 8, 8), param("y", 8)
    body = loop(j, 8, put(y, 0, value=binary(BinOp.add, at(y, 0), at(x, i, j))))
    assert stays(Func("all", (x, y), seq(put(y, 0, value=f32(0.0)), rows(i, 8, body))))


def test_operands_that_are_overwritten_are_reduced_as_they_were() -> None:
    """y is folded as it was, whether a row's or an element's own."""
    acc, y = param("acc", 8), tensor("t", DType.f32, (9, 8), Scope.thread)
    own = tensor("own", DType.f32, (), Scope.register)
    start = seq(Alloc(y), loop(i, 9, loop(j, 8, put(y, i, j, value=f32(2.0)))), loop(j, 8, put(acc, j, value=f32(0.0))))
    fold, again = put(acc, j, value=binary(BinOp.add, at(acc, j), at(y, i, j))), put(y, i, j, value=f32(1.0))
    assert not stays(Func("row", (acc,), seq(start, rows(i, 9, loop(j, 8, fold, again)))))
    fold, again = put(acc, j, value=binary(BinOp.add, at(acc, j), at(own))), put(own, value=f32(1.0))
    assert not stays(Func("own", (acc,), seq(start, rows(i, 9, loop(j, 8, Alloc(own), put(own, value=at(y, i, j)), fold, again)))))


def test_an_accumulator_of_several_loops_is_unchanged() -> None:
    x, acc = param("x", 8, 8), param("acc", 8)
    fold = loop(j, 8, put(acc, j, value=binary(BinOp.max, at(acc, j), at(x, i, j))))
    assert stays(Func("two", (x, acc), seq(loop(j, 8, put(acc, j, value=f32(0.0))), rows(i, 8, fold, fold))))


# ---- text


def test_a_mark_is_text() -> None:
    f = softmax(8, 5)
    assert "for i in 8 unroll_jam by 4 {" in print_tir(f)
    assert parse_tir(print_tir(f)) == (f,)
