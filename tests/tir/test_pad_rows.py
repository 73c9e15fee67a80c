"""pad-rows: rows of temporaries become whole vectors, but for those of which something means a part."""

from __future__ import annotations

from dataclasses import replace

import pytest

from benchgraph.core.dtypes import DType
from benchgraph.tir.build import add, binary, floordiv, minimum, mod, mul, seq, unary
from benchgraph.tir.ir import Alloc, BinOp, Brgemm, Func, Scope, Slice, Stmt, Store, Tensor, UnOp, tensor
from benchgraph.tir.passes.flatten_index import flatten_index
from benchgraph.tir.passes.pad_rows import pad_rows
from benchgraph.tir.passes.plan_buffers import plan_buffers
from benchgraph.tir.passes.vectorise import vectorise
from benchgraph.tir.verify import verify
from benchgraph.tir.visit import loads, walk
from tests.support.tir_programs import ROWS_COLS, TARGET, ZERO, assert_same, at, i, j, k, loop, p, parallel, param, put

ROWS = 7


def rows_of(n: int, dtype: DType = DType.f32) -> Tensor:
    return tensor("t", dtype, (ROWS, n), Scope.thread)


def program(t: Tensor, *body: Stmt) -> Func:
    """What a task does with t, a temporary of its own, x f32[7,80] and y f32[7,80]."""
    return Func("f", (X, Y), parallel(p, 2, Alloc(t), *body))


X, Y = param("x", ROWS, 80), param("y", ROWS, 80)


def exponentials(t: Tensor) -> Func:
    """t = exp(x), y = t * t."""
    n = t.shape[-1]
    made = loop(i, ROWS, loop(j, n, put(t, i, j, value=unary(UnOp.exp, at(X, i, j)))))
    return program(t, made, loop(i, ROWS, loop(j, n, put(Y, i, j, value=binary(BinOp.mul, at(t, i, j), at(t, i, j))))))


def after_pipeline(f: Func) -> Func:
    for step in (pad_rows, flatten_index, plan_buffers, vectorise):
        f = step(f, TARGET)
        verify(f)
    return f


def padded(f: Func) -> Func:
    """What the pass makes of it computes the same, at once and by vectors."""
    after = pad_rows(f, TARGET)
    verify(after)
    assert_same(after, f)
    assert_same(after_pipeline(f), f)
    return after


@pytest.mark.parametrize(("n", "padding"), [(3, 1), (4, 0), (5, 3), (7, 1), (8, 0), (9, 7), (16, 0), (20, 12), (28, 4), (64, 0), (77, 3)])
def test_rows_are_padded_when_the_last_vector_is_half_full(n: int, padding: int) -> None:
    f = exponentials(rows_of(n))
    after = padded(f)
    found = {s.tensor.padding: s.tensor.shape for s in walk(after.body) if isinstance(s, Alloc)}
    assert found == {padding: (ROWS, n + padding)}
    assert (after is f) == (padding == 0)


@pytest.mark.parametrize("n", [5, 7, 28, 77])
def test_accesses_of_padded_rows_have_no_mask(n: int) -> None:
    after = after_pipeline(exponentials(rows_of(n)))
    masks = [s.mask for s in walk(after.body) if isinstance(s, Store) and s.tensor.name == "t"]
    masks += [x.mask for s in walk(after.body) for x in loads(s) if x.tensor.name == "t"]
    assert masks
    assert not any(masks)
    assert any(s.mask for s in walk(after.body) if isinstance(s, Store) and s.tensor.name == "y"), "what others read is as it was"


def as_accumulator(t: Tensor) -> tuple[Stmt, ...]:
    """A row that others are added to; one element of it is read besides."""
    return (
        loop(j, 7, put(t, 0, j, value=at(X, 0, j))),
        loop(i, ROWS, loop(j, 7, put(t, 0, j, value=binary(BinOp.add, at(t, 0, j), at(X, i, j))))),
        loop(j, 7, put(Y, 0, j, value=binary(BinOp.mul, at(t, 0, j), at(t, 0, 3)))),
    )


def test_one_row_and_elements_of_it() -> None:
    t = rows_of(7)
    after = after_pipeline(f := program(t, *as_accumulator(t)))
    assert_same(after, f)
    assert not any(s.mask for s in walk(after.body) if isinstance(s, Store) and s.tensor.name == "t")


def test_column_accesses_keep_their_mask() -> None:
    """Else it would read a row too many."""
    t = tensor("t", DType.f32, (14, 14), Scope.thread)
    f = program(t, loop(i, 14, loop(j, 14, put(t, i, j, value=at(X, 0, j)))), loop(i, 14, put(Y, 0, i, value=at(t, i, 0))))
    assert padded(f) is not f
    masks = [x.mask for s in walk(after_pipeline(f).body) for x in loads(s) if x.tensor.name == "t"]
    assert masks
    assert all(masks)


def test_last_vector_that_ends_before_the_padding_keeps_its_mask() -> None:
    t = replace(T, shape=(ROWS * 8,), strides=(1,), padding=1)
    part = loop(j, 5, put(t, j, value=at(X, 1, j)))
    f = program(t, loop(j, 7, put(t, j, value=at(X, 0, j))), part, loop(j, 7, put(Y, 0, j, value=at(t, j))))
    after = after_pipeline(f)
    assert_same(after, f)
    assert [s.mask is None for s in walk(after.body) if isinstance(s, Store) and s.tensor.name == "t"] == [True, False]


def filled(t: Tensor) -> Stmt:
    return loop(i, ROWS, loop(j, 7, put(t, i, j, value=at(X, i, j))))


def read(t: Tensor) -> Stmt:
    return loop(i, ROWS, loop(j, 7, put(Y, i, j, value=at(t, i, j))))


T = rows_of(7)
FOR_KERNEL = Brgemm(Slice(T, (ZERO, ZERO), ROWS_COLS), Slice(X, (ZERO, ZERO), ROWS_COLS), Slice(Y, (ZERO, ZERO), ROWS_COLS), ROWS, 7, 7)
BY_KERNEL = Brgemm(Slice(X, (ZERO, ZERO), ROWS_COLS), Slice(X, (ZERO, ZERO), ROWS_COLS), Slice(T, (ZERO, ZERO), ROWS_COLS), ROWS, 7, ROWS)
OTHERWISE = {
    "part": seq(filled(T), loop(i, ROWS, loop(j, 5, put(T, i, j, value=at(X, i, 0)))), read(T)),
    "offset": seq(filled(T), loop(i, ROWS, loop(j, 3, put(T, i, add(j, 1), value=at(X, i, 0)))), read(T)),
    "rest": seq(filled(T), loop(i, ROWS, loop(j, minimum(7, add(i, 1)), put(T, i, j, value=at(X, i, 0)))), read(T)),
    "diagonal": seq(filled(T), loop(j, 7, put(T, j, j, value=at(X, 0, j))), read(T)),
    "as one": seq(filled(T), loop(k, 49, put(Y, 0, k, value=at(T, floordiv(k, 7), mod(k, 7))))),
    "backwards": seq(filled(T), loop(i, ROWS, loop(j, 7, put(Y, i, j, value=at(T, i, add(mul(j, -1), 6)))))),
    "divided": seq(loop(i, ROWS, loop(j, 7, put(T, i, j, value=at(X, i, floordiv(j, 3))))), read(T)),
    "made by a kernel": seq(BY_KERNEL, read(T)),
    "read by a kernel": seq(filled(T), FOR_KERNEL),
}


@pytest.mark.parametrize("how", OTHERWISE)
def test_tensors_with_other_uses_are_not_padded(how: str) -> None:
    f = program(T, OTHERWISE[how])
    verify(f)
    assert pad_rows(f, TARGET) is f
    assert_same(after_pipeline(f), f)


def test_only_thread_private_tensors_are_padded() -> None:
    t = tensor("t", DType.f32, (ROWS, 7), Scope.shared)
    f = Func("f", (X, Y), seq(Alloc(t), filled(t), read(t)))
    assert pad_rows(f, TARGET) is f
