"""shrink-tensors: temporaries move inwards and keep only what one run of their block touches; never further than is sound."""

from __future__ import annotations

import pytest

from benchgraph.core.dtypes import DType
from benchgraph.tir.build import add, binary, f32, minimum, mul, seq, sub
from benchgraph.tir.ir import Alloc, BinOp, Brgemm, Const, Func, If, Scope, Slice, Stmt, Tensor, tensor
from benchgraph.tir.passes.collapse_parallel import collapse_parallel
from benchgraph.tir.passes.merge_parallel import merge_parallel
from benchgraph.tir.passes.shrink_tensors import shrink_tensors
from benchgraph.tir.passes.simplify import simplify
from benchgraph.tir.text import print_tir
from benchgraph.tir.verify import verify
from benchgraph.tir.visit import walk
from tests.support.tir_programs import (
    PROGRAMS,
    ROWS_COLS,
    TARGET,
    ZERO,
    assert_same,
    at,
    i,
    j,
    k,
    loop,
    mo,
    no,
    parallel,
    param,
    put,
)

X, Y = param("x", 64, 64), param("y", 64, 64)
T = tensor("t", DType.f32, (64, 64))
ROW = tensor("t", DType.f32, (64,))


def one_level(f: Func) -> Func:
    return collapse_parallel(merge_parallel(simplify(f, TARGET), TARGET), TARGET)


def shrunk(t: Tensor, *body: Stmt) -> Func:
    f = Func("f", (X, Y), seq(Alloc(t), *body))
    after = shrink_tensors(f, TARGET)
    verify(after)
    assert_same(after, f)
    return after


def declared(f: Func) -> dict[str, tuple[tuple[int, ...], Scope]]:
    return {s.tensor.name: (s.tensor.shape, s.tensor.scope) for s in walk(f.body) if isinstance(s, Alloc)}


def shape(t: Tensor, *body: Stmt) -> tuple[int, ...]:
    (found, _) = declared(shrunk(t, *body))["t"]
    return found


def test_temporary_of_one_loop_body_becomes_a_register() -> None:
    body = [put(T, i, j, value=at(X, i, j)), put(Y, i, j, value=at(T, i, j))]
    assert declared(shrunk(T, loop(i, 64, loop(j, 64, *body)))) == {"t": ((), Scope.register)}


def test_row_is_kept_when_a_second_loop_reads_it() -> None:
    body = [loop(j, 64, put(T, i, j, value=at(X, i, j))), loop(k, 64, put(Y, i, k, value=at(T, i, sub(63, k))))]
    assert shape(T, loop(i, 64, *body)) == (1, 64)


def test_shared_outside_thread_inside_a_parallel_loop() -> None:
    body = [loop(j, 64, put(T, i, j, value=at(X, i, j))), loop(k, 64, put(Y, i, k, value=at(T, i, sub(63, k))))]
    assert declared(shrunk(T, parallel(i, 64, *body)))["t"][1] is Scope.thread
    assert declared(shrunk(T, loop(i, 64, *body)))["t"][1] is Scope.shared


def test_window_with_an_offset() -> None:
    body = [loop(j, 8, put(T, i, add(j, 40), value=at(X, i, j))), loop(k, 8, put(Y, i, k, value=at(T, i, sub(47, k))))]
    assert shape(T, loop(i, 64, *body)) == (1, 8)


def test_ragged_tile_uses_the_upper_bound() -> None:
    rows = minimum(24, sub(64, mul(mo, 24)))
    m = add(mul(mo, 24), i)
    body = [
        loop(i, rows, loop(j, 64, put(T, m, j, value=at(X, m, j)))),
        loop(i, rows, loop(j, 64, put(Y, m, j, value=at(T, m, sub(63, j))))),
    ]
    assert shape(T, parallel(mo, 3, *body)) == (24, 64)


def test_microkernel_slices_count_in_full() -> None:
    call = Brgemm(
        Slice(X, (mul(mo, 16), ZERO), ROWS_COLS), Slice(X, (ZERO, ZERO), ROWS_COLS), Slice(T, (mul(mo, 16), ZERO), ROWS_COLS), 16, 32, 64
    )
    m = add(mul(mo, 16), i)
    assert shape(T, loop(mo, 4, call, loop(i, 16, loop(j, 32, put(Y, m, j, value=at(T, m, j)))))) == (16, 32)


def test_batch_of_slices_counts_in_full() -> None:
    """Entries 8 apart along the columns, which are the batch dim too: 3*8 columns are read, at any row block."""
    fill = loop(i, 16, loop(j, 24, put(T, add(mul(mo, 16), i), j, value=at(X, i, j))))
    src = Slice(T, (mul(mo, 16), ZERO), (*ROWS_COLS, (1, 8)))
    call = Brgemm(src, Slice(X, (ZERO, ZERO), (*ROWS_COLS, (0, 8))), Slice(Y, (mul(mo, 16), ZERO), ROWS_COLS), 16, 32, 8, (3,))
    assert shape(T, loop(mo, 4, fill, call)) == (16, 24)


def test_value_carried_to_the_next_iteration_keeps_the_tensor_outside() -> None:
    step = put(ROW, add(j, 1), value=binary(BinOp.add, at(ROW, j), at(X, 0, j)))
    copy = put(Y, 0, j, value=at(ROW, add(j, 1)))
    assert shape(ROW, put(ROW, 0, value=f32(0.0)), loop(j, 63, step, copy)) == (64,)


def test_accumulator_over_the_loop_stays_outside() -> None:
    one = tensor("t", DType.f32, (1,))
    total = loop(j, 64, put(one, 0, value=binary(BinOp.add, at(one, 0), at(X, 0, j))))
    f = shrunk(one, put(one, 0, value=f32(0.0)), total, put(Y, 0, 0, value=at(one, 0)))
    assert declared(f) == {"t": ((), Scope.register)}
    assert print_tir(f.body).splitlines()[0] == "alloc t: f32 register"


def test_scratch_row_that_every_iteration_fills_first_moves_in() -> None:
    body = [loop(j, 64, put(ROW, j, value=at(X, i, j))), loop(k, 64, put(Y, i, k, value=at(ROW, sub(63, k))))]
    lines = print_tir(shrunk(ROW, loop(i, 64, *body)).body).splitlines()
    assert lines[:2] == ["for i in 64 {", "  alloc t: f32[64] shared"]


def test_scratch_matrix_that_is_filled_in_parts_moves_in() -> None:
    """By groups of 8 rows and the rest, as a block of weights is packed; from the first part on or from the last."""
    rows = loop(no, 6, loop(k, 8, loop(j, 64, put(T, add(mul(no, 8), k), j, value=at(X, i, j)))))
    rest = loop(k, 5, loop(j, 64, put(T, add(k, 48), j, value=at(X, i, j))))
    last = loop(j, 64, put(T, 53, j, value=at(X, i, j)))
    use = loop(k, 54, loop(j, 64, put(Y, i, j, value=at(T, sub(53, k), j))))
    for fill in ((rows, rest, last), (last, rest, rows)):
        assert shape(T, loop(i, 64, *fill, use)) == (54, 64)
        assert print_tir(shrunk(T, loop(i, 64, *fill, use)).body).startswith("for i in 64 {")


@pytest.mark.parametrize(
    "fill",
    [
        loop(j, 63, put(ROW, j, value=at(X, i, j))),
        seq(*(loop(j, 31, put(ROW, add(j, first), value=at(X, i, j))) for first in (0, 32))),
        If(binary(BinOp.lt, i, Const(1)), loop(j, 64, put(ROW, j, value=at(X, i, j)))),
        loop(j, 32, put(ROW, mul(j, 2), value=at(X, i, j))),
        loop(k, sub(1, i), loop(j, 64, put(ROW, j, value=at(X, i, j)))),
    ],
    ids=["one short", "parts that leave one out", "only the first time", "every other", "a loop that may not run"],
)
def test_scratch_row_that_is_filled_in_part_stays_outside(fill: Stmt) -> None:
    """The rest is left from the first iteration, which fills all of it."""
    start = If(binary(BinOp.lt, i, Const(1)), loop(j, 64, put(ROW, j, value=f32(1.0))))
    f = shrunk(ROW, loop(i, 2, start, fill, loop(k, 64, put(Y, i, k, value=at(ROW, sub(63, k))))))
    assert print_tir(f.body).splitlines()[0] == "alloc t: f32[64] shared"


def test_temporary_filled_anew_becomes_two() -> None:
    def use(row: int) -> list[Stmt]:
        return [loop(j, 64, put(ROW, j, value=at(X, row, j))), loop(k, 64, put(Y, row, k, value=at(ROW, sub(63, k))))]

    assert list(declared(shrunk(ROW, *use(0), *use(1)))) == ["t", "t_1"]


def test_branches_have_a_temporary_each() -> None:
    """A register in one branch and a row in the other; without the split it would be a row in both."""
    element = loop(j, 64, put(ROW, j, value=at(X, i, j)), put(Y, i, j, value=at(ROW, j)))
    row = [loop(j, 64, put(ROW, j, value=at(X, i, j))), loop(k, 64, put(Y, i, k, value=at(ROW, sub(63, k))))]
    f = shrunk(ROW, loop(i, 4, If(binary(BinOp.lt, i, Const(2)), element, seq(*row))))
    assert declared(f) == {"t": ((), Scope.register), "t_1": ((64,), Scope.shared)}


def test_a_temporary_read_behind_the_branches_stays_outside() -> None:
    fill = If(binary(BinOp.lt, i, Const(2)), loop(j, 64, put(ROW, j, value=at(X, i, j))), loop(j, 64, put(ROW, j, value=f32(1.0))))
    f = shrunk(ROW, loop(i, 4, fill, loop(k, 64, put(Y, i, k, value=at(ROW, sub(63, k))))))
    assert declared(f) == {"t": ((64,), Scope.shared)}


def test_accesses_without_a_common_base_keep_the_dim() -> None:
    """Columns 0..7 and no+8..no+15: a window of 16 columns, but not at one place."""
    fill = [put(T, no, j, value=at(X, no, j)), put(T, no, add(add(no, 8), j), value=at(X, no, add(j, 8)))]
    read = [put(Y, no, j, value=at(T, no, sub(7, j))), put(Y, no, add(j, 8), value=at(T, no, sub(add(no, 15), j)))]
    assert shape(T, loop(no, 48, loop(j, 8, *fill), loop(j, 8, *read))) == (1, 64)


def test_index_from_memory_is_not_a_place_that_stands_still() -> None:
    where = tensor("where", DType.s64, (2,), Scope.param)
    t = tensor("t", DType.f32, (8,))
    column = at(where, 0)
    body = [put(t, column, value=f32(1.0)), put(where, 0, value=Const(5)), put(t, column, value=f32(2.0))]
    f = Func("f", (where, X), loop(i, 4, *body, put(where, 0, value=Const(3))))
    assert declared(shrink_tensors(Func("f", (where, X), seq(Alloc(t), f.body)), TARGET))["t"][0] == (8,)


def test_temporary_shared_by_parallel_iterations_is_not_a_register() -> None:
    one = tensor("t", DType.f32, (1,))
    assert shape(one, put(one, 0, value=f32(3.0)), parallel(i, 4, put(Y, i, 0, value=at(one, 0)))) == (1,)


def test_unused_temporary_is_dropped() -> None:
    assert declared(shrunk(T, put(Y, 0, 0, value=f32(1.0)))) == {}


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.__name__)
def test_no_change_returns_the_same_function(program) -> None:
    once = shrink_tensors(one_level(program()), TARGET)
    assert shrink_tensors(once, TARGET) is once
