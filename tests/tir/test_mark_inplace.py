"""mark-inplace: what may be overwritten and what may not; results are the same in memory that is shared as marked, and only there."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from numpy.typing import NDArray

from benchgraph.core.dtypes import DType
from benchgraph.tir.build import add, binary, cast, minimum, mul, seq, sub, unary
from benchgraph.tir.interpret import interpret
from benchgraph.tir.ir import Alloc, BinOp, Brgemm, Const, Expr, Func, If, InplacePair, Stmt, Tensor, UnOp, flat_slice, tensor
from benchgraph.tir.passes import run
from benchgraph.tir.passes.mark_inplace import mark_inplace
from benchgraph.tir.text import print_tir
from benchgraph.tir.verify import VerifyError, verify
from tests.support.tensor_ir import before
from tests.support.tir_programs import F32, PROGRAMS, TARGET, at, i, j, loop, mo, parallel, param, put
from tests.tir.random_programs import functions

N = 64
X, Y, Z = (param(name, N) for name in "xyz")
T = tensor("t", F32, (N,))
ROW, TAIL, CHUNK = add(mul(i, 16), j), add(j, 48), add(mul(mo, 30), j)
RAGGED = minimum(30, sub(N, mul(mo, 30)))
ROWS_COLS = (8, 1)


def exp(t: Tensor, index: Expr) -> Expr:
    return unary(UnOp.exp, at(t, index))


def product(dst: Tensor) -> Brgemm:
    return Brgemm(flat_slice(X, Const(0), ROWS_COLS), flat_slice(Z, Const(0), ROWS_COLS), flat_slice(dst, Const(0), ROWS_COLS), 8, 8, 8)


def func(*body: Stmt, params: tuple[Tensor, ...] = (X, Y, Z)) -> Func:
    return Func("f", params, seq(*body))


def marks(f: Func) -> str:
    return ", ".join(f"{o.dst} over {o.src}" for o in mark_inplace(f, TARGET).inplace)


SAFE = {
    "one element after the other": ("y over x", func(loop(i, N, put(Y, i, value=exp(X, i))))),
    "in parallel": ("y over x", func(parallel(i, N, put(Y, i, value=exp(X, i))))),
    "two inputs": ("z over x, z over y", func(loop(i, N, put(Z, i, value=binary(BinOp.add, at(X, i), at(Y, i)))))),
    "the last of two stores": ("z over x", func(loop(i, N, put(Y, i, value=at(X, i)), put(Z, i, value=at(X, i))))),
    "a row is read before it is overwritten": (
        "y over x",
        func(Alloc(T), loop(i, 4, loop(j, 16, put(T, j, value=exp(X, ROW))), loop(j, 16, put(Y, ROW, value=at(T, sub(15, j)))))),
    ),
    "the nest before reads it all": (
        "y over x",
        func(Alloc(T), loop(i, N, put(T, i, value=exp(X, sub(63, i)))), loop(i, N, put(Y, i, value=at(T, i)))),
    ),
    "a ragged last chunk": ("y over x", func(parallel(mo, 3, loop(j, RAGGED, put(Y, CHUNK, value=exp(X, CHUNK)))))),
    "tiles, then the rest": (
        "y over x",
        func(loop(i, 3, loop(j, 16, put(Y, ROW, value=exp(X, ROW)))), loop(j, 16, put(Y, TAIL, value=exp(X, TAIL)))),
    ),
    "either branch": (
        "y over x",
        func(loop(i, N, If(binary(BinOp.lt, i, Const(5)), put(Y, i, value=exp(X, i)), put(Y, i, value=at(X, i))))),
    ),
    "a microkernel reads, a copy overwrites": (
        "y over x, y over z",
        func(Alloc(T), product(T), loop(i, N, put(Y, i, value=at(T, i)))),
    ),
}

# Overwriting x with y gives wrong numbers here.
UNSAFE = {
    "read again after the store": func(loop(i, N, put(Y, i, value=exp(X, i)), put(Z, i, value=at(X, i)))),
    "backwards": func(loop(i, N, put(Y, i, value=exp(X, sub(63, i))))),
    "one back": func(loop(i, N - 1, put(Y, add(i, 1), value=exp(X, i)))),
    "transposed": func(loop(i, 8, loop(j, 8, put(Y, add(mul(i, 8), j), value=exp(X, add(mul(j, 8), i)))))),
    "every element by all": func(loop(i, N, put(Y, i, value=binary(BinOp.add, at(X, i), at(X, 0))))),
    "a row read again by its last element": func(
        loop(i, 4, loop(j, 16, put(Y, ROW, value=binary(BinOp.add, at(X, ROW), at(X, mul(i, 16))))))
    ),
    "two nests": func(loop(i, N, put(Y, i, value=exp(X, i))), loop(i, N, put(Z, i, value=at(X, i)))),
    "tiles that overlap the rest": func(
        loop(i, 4, loop(j, 16, put(Y, ROW, value=exp(X, ROW)))), loop(j, 16, put(Y, TAIL, value=exp(X, TAIL)))
    ),
    "one branch": func(
        loop(i, N, If(binary(BinOp.lt, i, Const(5)), seq(put(Y, i, value=exp(X, i)), put(Z, i, value=at(X, i))), put(Y, i, value=at(X, i))))
    ),
}

HALF, NARROW, SHORT = param("y", N, dtype=DType.bf16), (param("x", N, dtype=DType.s4), param("y", N, dtype=DType.s4)), param("y", N - 1)
NOT_MARKED = {
    "another width": func(loop(i, N, put(HALF, i, value=cast(at(X, i), DType.bf16))), params=(X, HALF)),
    "another size": func(loop(i, N - 1, put(SHORT, i, value=at(X, i))), params=(X, SHORT)),
    "two elements in a byte": func(loop(i, N, put(NARROW[1], i, value=at(NARROW[0], i))), params=NARROW),
    "a microkernel": func(product(Y)),
    "an input that is not read": func(loop(i, N, put(Y, i, value=at(Z, i))), params=(X, Y, param("z", N - 1))),
    "a parameter that is read and written": func(loop(i, N, put(Y, i, value=at(X, i))), loop(i, N, put(X, i, value=at(Y, i)))),
}


@pytest.mark.parametrize("case", SAFE)
def test_inputs_that_may_be_overwritten_are_marked(case: str) -> None:
    want, f = SAFE[case]
    assert marks(f) == want


@pytest.mark.parametrize("case", UNSAFE)
def test_inputs_that_are_read_later_are_not_marked(case: str) -> None:
    f = UNSAFE[case]
    assert "y over x" not in marks(f)
    assert not is_same_over(f, InplacePair("y", "x"), f), "the case is there to be wrong when marked"


@pytest.mark.parametrize("case", NOT_MARKED)
def test_inputs_of_another_size_or_use_are_not_marked(case: str) -> None:
    assert marks(NOT_MARKED[case]) == ""


# ---- what marks mean -------------------------------------------------------------------------------------------------


def flat_arguments(f: Func) -> dict[str, NDArray[np.generic]]:
    """Random 1-d arrays for a function after flatten-index."""
    rng = np.random.default_rng(7)
    return {p.name: rng.uniform(-1, 1, p.nbytes // p.dtype.numpy.itemsize).astype(p.dtype.numpy) for p in f.params}


def is_same_over(f: Func, over: InplacePair, original: Func) -> bool:
    """Whether f with dst laid over src gives the results of original, where dst has its own; parallel loops run in a random order."""
    want, got = flat_arguments(original), flat_arguments(f)
    interpret(original, list(want.values()))
    got[over.dst] = got[over.src]
    interpret(f, list(got.values()), seed=3)
    pairs = [(got[name].astype(np.float64), want[name].astype(np.float64)) for name in got if name != over.src]
    return all(np.allclose(a, b, rtol=1e-5, atol=1e-5) for a, b in pairs)


@pytest.mark.parametrize("case", SAFE)
def test_results_over_marked_memory_are_the_same(case: str) -> None:
    f = mark_inplace(SAFE[case][1], TARGET)
    assert all(is_same_over(f, over, f) for over in f.inplace)


def assert_marks_hold(f: Func) -> None:
    """After the whole pipeline: vectors and arenas keep what was proven of loops."""
    after = run(f, TARGET)
    flat = run(f, TARGET, pipeline=before("merge-blocks"))
    for over in after.inplace:
        assert is_same_over(after, over, flat), print_tir(after)


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.__name__)
def test_programs_are_the_same_in_place(program) -> None:
    assert_marks_hold(program())


@settings(max_examples=60, derandomize=True)
@given(functions())
def test_random_programs_are_the_same_in_place(f: Func) -> None:
    assert_marks_hold(f)


def test_some_random_programs_have_marks() -> None:
    """The property above is about something."""
    assert marks(run(PROGRAMS[0](), TARGET, pipeline=before("merge-blocks"))) == "y over x"


# ---- the field -------------------------------------------------------------------------------------------------------


def test_the_text_shows_marks() -> None:
    assert print_tir(mark_inplace(SAFE["in parallel"][1], TARGET)).startswith("func f(x: f32[64], y: f32[64], z: f32[64]) y over x {")


def test_marks_stay_when_loops_have_become_vectors() -> None:
    once = run(PROGRAMS[0](), TARGET)
    assert once.inplace == (InplacePair("y", "x"),)
    assert mark_inplace(once, TARGET) is once


@pytest.mark.parametrize("over", [InplacePair("y", "y"), InplacePair("t", "x")])
def test_a_mark_names_two_parameters(over: InplacePair) -> None:
    with pytest.raises(VerifyError, match="only a parameter can overwrite another one"):
        verify(replace(SAFE["in parallel"][1], inplace=(over,)))


def test_parameters_of_init_are_not_marked() -> None:
    """What it makes lies in memory of our own, and it makes as many constants as a network has weights."""
    f = SAFE["one element after the other"][1]
    assert marks(f)
    assert not marks(replace(f, runs_once=True))
