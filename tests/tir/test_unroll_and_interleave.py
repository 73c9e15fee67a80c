"""unroll-and-interleave: independent rows with folds go together; nothing else changes, and never what is computed."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import reduce

import pytest

from benchgraph.core.dtypes import DType
from benchgraph.machine.table import table
from benchgraph.machine.target import ISAS
from benchgraph.tir.build import add, binary, cast, f32, mul, seq, sub, unary
from benchgraph.tir.ir import Alloc, BinOp, Const, Expr, For, Func, Scope, Stmt, Tensor, UnOp, tensor
from benchgraph.tir.passes.unroll_and_interleave import unroll_and_interleave
from benchgraph.tir.visit import walk
from tests.support.tir_programs import TARGET, assert_same, at, i, j, k, loop, param, put

MACHINE = table(TARGET)
ROWS, LONGEST, MOST_REDUCTIONS = MACHINE.interleaved_rows, MACHINE.interleaved_row_elements, MACHINE.interleaved_reductions
STREAMED, FAR_BYTES = MACHINE.streamed_row_elements, MACHINE.far_row_bytes
FAR = (16 << 20) // (4 * STREAMED) + 1  # rows of f32 that are more than half of a last-level cache


def softmax(rows: int, n: int, dst: Expr = i) -> Func:
    """exp(x - max of the row) / its sum, written to row `dst`."""
    x, y = param("x", rows, n), param("y", rows, n)
    most, total = (tensor(name, DType.f32, (), Scope.register) for name in ("most", "total"))
    e = tensor("e", DType.f32, (n,), Scope.thread)
    body: tuple[Stmt, ...] = (
        Alloc(most),
        put(most, value=f32(-math.inf)),
        loop(j, n, put(most, value=binary(BinOp.max, at(most), at(x, i, j)))),
        Alloc(total),
        put(total, value=f32(0.0)),
        Alloc(e),
        loop(
            j,
            n,
            put(e, j, value=unary(UnOp.exp, binary(BinOp.sub, at(x, i, j), at(most)))),
            put(total, value=binary(BinOp.add, at(total), at(e, j))),
        ),
        loop(j, n, put(y, dst, j, value=binary(BinOp.div, at(e, j), at(total)))),
    )
    return Func("softmax", (x, y), loop(i, rows, *body))


def interleaved(f: Func) -> Func:
    after = unroll_and_interleave(f, TARGET)
    assert_same(after, f)
    return after


@pytest.mark.parametrize("rows", [ROWS, ROWS + 1, 3 * ROWS - 1])
def test_remaining_rows_follow_the_groups(rows: int) -> None:
    after = interleaved(softmax(rows, 5))
    outer = [s for s in (after.body.stmts if hasattr(after.body, "stmts") else (after.body,)) if isinstance(s, For)]
    assert len(outer) == (1 if rows % ROWS == 0 else 2)


def test_each_loop_of_a_row_becomes_one_loop_of_all() -> None:
    after = interleaved(softmax(2 * ROWS, 20))
    assert sum(isinstance(s, For) for s in walk(after.body)) == 4


def stays(f: Func) -> bool:
    return interleaved(f) is f


@pytest.mark.parametrize(("rows", "times", "count"), [(8, 1, 1), (24, 1, 2), (8, 3, 2)])
def test_rows_with_a_small_share_of_the_time_are_unchanged(rows: int, times: int, count: int) -> None:
    """Beside 160 of the same length: a twentieth, three of them, and three times the one."""
    x, y, z = param("x", 160, 20), param("y", 160), param("z", 160)
    most = tensor("most", DType.f32, (), Scope.register)

    def maxima(dst: Tensor, n: int) -> Stmt:
        folded = loop(j, 20, put(most, value=binary(BinOp.max, at(most), at(x, i, j))))
        return loop(i, n, Alloc(most), put(most, value=f32(-math.inf)), folded, put(dst, i, value=at(most)))

    after = interleaved(Func("maxima", (x, y, z), seq(maxima(y, 160), loop(k, times, maxima(z, rows)))))
    together = [s for s in walk(after.body) if isinstance(s, For) and s.extent in (Const(160 // ROWS), Const(rows // ROWS))]
    assert len(together) == count


def test_few_rows_and_long_rows_are_unchanged() -> None:
    assert stays(softmax(ROWS - 1, 8))
    assert stays(softmax(ROWS, LONGEST + 1))


def sums(rows: int, n: int, dtype: DType = DType.f32, functions: int = 0) -> Func:
    """The sum of each row of x, after so many functions of each element."""
    x, y, total = param("x", rows, n, dtype=dtype), param("y", rows), tensor("total", DType.f32, (), Scope.register)
    element = reduce(lambda e, _: unary(UnOp.tanh, e), range(functions), cast(at(x, i, j), DType.f32))
    fold = loop(j, n, put(total, value=binary(BinOp.add, at(total), element)))
    return Func("sums", (x, y), loop(i, rows, Alloc(total), put(total, value=f32(0.0)), fold, put(y, i, value=at(total))))


@pytest.mark.parametrize(
    ("f", "goes_alone"),
    [
        (sums(64, STREAMED), True),
        (sums(32, STREAMED), False),
        (sums(8200, STREAMED), False),
        (sums(96, STREAMED - 1), False),
        (sums(128, STREAMED, DType.bf16), False),
        (softmax(64, STREAMED), False),
        (sums(FAR, STREAMED), True),
        (sums(2 * FAR, STREAMED, DType.bf16), True),
        (sums(1 << 18, FAR_BYTES // 2 - 1, DType.bf16), False),
        (softmax(FAR, STREAMED), True),
    ],
    ids=[
        "from L2", "from L1", "from beyond", "short rows", "conversions", "several folds",
        "from memory", "conversions from memory", "short rows from memory", "several folds from memory",
    ],
)  # fmt: skip
def test_long_rows_read_from_l2_or_memory_are_unchanged(f: Func, goes_alone: bool) -> None:
    assert (unroll_and_interleave(f, replace(TARGET, cores=8, llc_bytes=32 << 20)) is f) == goes_alone


def test_reductions_that_fill_the_registers_are_unchanged() -> None:
    """Four rows of them would spill."""

    def folds(count: int) -> Func:
        x, y = param("x", 8, 20), param("y", 8, count)
        totals = [tensor(f"total{c}", DType.f32, (), Scope.register) for c in range(count)]
        begin = [s for t in totals for s in (Alloc(t), put(t, value=f32(0.0)))]
        fold = loop(j, 20, *(put(t, value=binary(BinOp.add, at(t), at(x, i, j))) for t in totals))
        return Func("folds", (x, y), loop(i, 8, *begin, fold, *(put(y, i, Const(c), value=at(t)) for c, t in enumerate(totals))))

    assert not stays(folds(MOST_REDUCTIONS))
    assert stays(folds(MOST_REDUCTIONS + 1))


@pytest.mark.parametrize(("functions", "goes_alone"), [(2, False), (8, True)])
def test_rows_with_much_work_per_vector_are_unchanged(functions: int, goes_alone: bool) -> None:
    """One row's functions hide what its fold waits for."""
    assert stays(sums(2 * ROWS, 20, functions=functions)) == goes_alone


def test_rows_that_write_one_row_of_dst_are_unchanged() -> None:
    assert stays(softmax(8, 5, dst=sub(i, i)))


def test_rows_that_read_the_previous_row_are_unchanged() -> None:
    """total runs on from row to row."""
    x, y, total = param("x", 8, 5), param("y", 8), tensor("total", DType.f32, (), Scope.register)
    own = tensor("own", DType.f32, (), Scope.register)
    body = loop(
        i,
        8,
        Alloc(own),
        put(own, value=f32(0.0)),
        loop(j, 5, put(own, value=binary(BinOp.add, at(own), at(x, i, j)))),
        put(total, value=binary(BinOp.add, at(total), at(own))),
        put(y, i, value=at(total)),
    )
    assert stays(Func("running", (x, y), seq(Alloc(total), put(total, value=f32(0.0)), body)))


def shifted(y: Tensor) -> Stmt:
    """Row i is made of what row i - 1 became."""
    own = tensor("own", DType.f32, (), Scope.register)
    return loop(
        i,
        8,
        Alloc(own),
        put(own, value=f32(0.0)),
        loop(j, 5, put(own, value=binary(BinOp.add, at(own), at(y, i, j)))),
        loop(j, 5, put(y, add(i, 1), j, value=at(own))),
    )


def test_rows_computed_from_their_neighbour_are_unchanged() -> None:
    y = tensor("t", DType.f32, (9, 5), Scope.thread)
    x, z = param("x", 5), param("z", 5)
    fill = loop(j, 5, put(y, 0, j, value=at(x, j)))
    assert stays(Func("chain", (x, z), seq(Alloc(y), fill, shifted(y), loop(j, 5, put(z, j, value=at(y, 8, j))))))


def test_without_registers_for_several_rows_nothing_changes() -> None:
    f = softmax(8, 20)
    assert unroll_and_interleave(f, replace(TARGET, isa=ISAS["avx2"])) is f


@pytest.mark.parametrize(("pitch", "is_row"), [(1, True), (64, False)])
def test_rows_that_are_contiguous_are_left_to_vectorise(pitch: int, is_row: bool) -> None:
    """As those of windows are, whose taps lie rows of an image apart. A factor for each row lies so too, and is one of each row."""
    x, factor, y, acc = param("x", 64 * 64), param("factor", 64), param("y", 64), tensor("acc", DType.f32, (), Scope.register)
    read = at(x, add(mul(i, 64 if is_row else 1), mul(j, pitch)))
    fold = loop(j, 20, put(acc, value=add(at(acc), mul(read, at(factor, i)))))
    f = Func("f", (x, factor, y), loop(i, 32, Alloc(acc), put(acc, value=f32(0.0)), fold, put(y, i, value=at(acc))))
    assert (interleaved(f) is not f) is is_row
