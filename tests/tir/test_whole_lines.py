"""whole-lines: whole lines of results that go past the caches do; nothing else does."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from benchgraph.core.dtypes import DType
from benchgraph.machine.target import ISAS
from benchgraph.tir.build import add, binary, cast, f32, minimum, mul, sub, type_of, unary
from benchgraph.tir.ir import BinOp, Const, Expr, For, Func, LoopKind, Stmt, Store, UnOp
from benchgraph.tir.passes import run
from benchgraph.tir.visit import map_children, walk
from tests.support.tir_programs import TARGET, assert_same, at, i, j, loop, param, put


def uncached(s: Stmt) -> Stmt:
    """The statement with all stores past the caches."""
    return replace(s, non_temporal=True) if isinstance(s, Store) else map_children(s, uncached)


def streamed(f: Func) -> int:
    """How many stores go past the caches, of those that all should, once it is in vectors."""
    after = run(replace(f, body=uncached(f.body)), TARGET)
    assert_same(after, f)
    return sum(isinstance(s, Store) and s.non_temporal for s in walk(after.body))


def doubled(*more: Expr, rows: int = 64, columns: int = 32, dtype: DType = DType.f32) -> Func:
    """y[i, j] = 2 * x[i, j] and more."""
    x, y = param("x", rows, columns), param("y", rows, columns, dtype=dtype)
    value: Expr = binary(BinOp.mul, at(x, i, j), f32(2.0))
    for term in more:
        value = binary(BinOp.add, value, term)
    body = loop(j, columns, put(y, i, j, value=cast(value, dtype)))
    return Func("doubled", (x, y), For(i, loop(i, rows).extent, body, LoopKind.parallel))


def test_rows_that_end_or_begin_within_a_line_are_unchanged() -> None:
    assert streamed(doubled(columns=48)) == 1
    assert streamed(doubled(columns=40)) == 0


@pytest.mark.parametrize(
    ("dtype", "columns", "count"), [(DType.bf16, 64, 1), (DType.f16, 96, 1), (DType.u8, 64, 1), (DType.bf16, 48, 0), (DType.u8, 96, 0)]
)
def test_narrow_results_are_stored_in_whole_lines_only(dtype: DType, columns: int, count: int) -> None:
    assert streamed(doubled(columns=columns, dtype=dtype)) == count


@pytest.mark.parametrize(("change", "lanes"), [(uncached, 32), (lambda s: s, 16)])
def test_vectors_are_as_wide_as_ever_where_a_cache_keeps_what_they_make(change: Callable[[Stmt], Stmt], lanes: int) -> None:
    f = doubled(columns=64, dtype=DType.bf16)
    after = run(replace(f, body=change(f.body)), TARGET)
    assert {type_of(s.value) for s in walk(after.body) if isinstance(s, Store)} == {(DType.bf16, lanes)}


@pytest.mark.parametrize("count", [200, 224, 231])
def test_narrow_results_in_blocks_the_last_of_which_is_shorter(count: int) -> None:
    x, y, n = param("x", count), param("y", count, dtype=DType.bf16), 64
    place = add(mul(i, n), j)
    block = loop(j, minimum(n, sub(count, mul(i, n))), put(y, place, value=cast(binary(BinOp.mul, at(x, place), f32(2.0)), DType.bf16)))
    f = Func("blocks", (x, y), For(i, Const(-(-count // n)), block, LoopKind.parallel))
    assert streamed(f) == 1


def test_narrow_results_of_functions_are_unchanged() -> None:
    x, y = param("x", 4096), param("y", 4096, dtype=DType.bf16)
    f = Func("exp", (x, y), uncached(loop(j, 4096, put(y, j, value=cast(unary(UnOp.exp, at(x, j)), DType.bf16)))))
    after = run(f, TARGET)
    assert {type_of(s.value) for s in walk(after.body) if isinstance(s, Store)} == {(DType.bf16, 16)}


def test_narrow_results_of_shorter_registers_are_unchanged() -> None:
    f = doubled(columns=64, dtype=DType.bf16)
    after = run(replace(f, body=uncached(f.body)), replace(TARGET, isa=ISAS["avx2"]))
    assert {type_of(s.value) for s in walk(after.body) if isinstance(s, Store)} == {(DType.bf16, 8)}


def test_lines_that_are_not_contiguous_are_unchanged() -> None:
    x, y = param("x", 64, 16), param("y", 64 * 32)
    body = loop(i, 64, loop(j, 16, put(y, add(mul(i, 32), j), value=at(x, i, j))))
    assert streamed(Func("gaps", (x, y), body)) == 0
