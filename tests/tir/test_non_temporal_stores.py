"""non-temporal-stores: whole lines of results that no cache could keep go past them; nothing else does."""

from __future__ import annotations

from dataclasses import replace

import pytest

from benchgraph.core.dtypes import DType
from benchgraph.machine.table import table
from benchgraph.machine.target import ISAS, Target
from benchgraph.tir import non_temporal
from benchgraph.tir.build import add, binary, cast, f32, minimum, mul, seq, sub, type_of, unary
from benchgraph.tir.ir import BinOp, Const, Expr, For, Func, LoopKind, Stmt, Store, Tensor, UnOp
from benchgraph.tir.passes import run
from benchgraph.tir.visit import walk
from tests.support.tir_programs import TARGET, assert_same, at, i, j, loop, param, put

SMALL = replace(TARGET, cores=1, llc_bytes=2 * 64 * 32 * 4)  # what two matrices of 64 by 32 take


def streamed(f: Func, target: Target = SMALL) -> int:
    """How many stores go past the caches, once it is in vectors."""
    after = run(f, target)
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


@pytest.mark.parametrize(
    ("target", "count"),
    [
        (SMALL, 1),
        (replace(SMALL, llc_bytes=SMALL.llc_bytes + 1), 0),
        (replace(SMALL, llc_bytes=0), 0),
        (replace(SMALL, isa=ISAS["portable"]), 0),
        (replace(SMALL, cores=2, llc_bytes=SMALL.llc_bytes * 2 // 3), 1),
        (replace(SMALL, cores=2, llc_bytes=SMALL.llc_bytes * 2 // 3 + 1), 0),
    ],
    ids=[
        "more than the cache holds",
        "as much",
        "of a cache that nothing is known of",
        "in vectors that are no whole lines",
        "half more than the cache of several cores holds",
        "not that much",
    ],
)
def test_it_depends_on_the_machine(target: Target, count: int) -> None:
    assert streamed(doubled(), target) == count


@pytest.mark.parametrize(("more", "count"), [(0, 1), (1, 0)])
def test_the_size_of_a_cache_is_capped(more: int, count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    machine = replace(table(SMALL), llc_most_bytes=SMALL.llc_bytes + more)
    monkeypatch.setattr(non_temporal, "table", lambda target: machine)
    assert streamed(doubled(), replace(SMALL, llc_bytes=480 << 20)) == count


def test_it_depends_on_the_nest() -> None:
    """Two nests that each fit are not one that does not."""
    x, y = param("x", 64, 32), param("y", 64, 32)
    half = [loop(i, 32, loop(j, 32, put(t, i, j, value=at(x, add(i, 32), j)))) for t in (y, param("z", 64, 32))]
    f = Func("two", (x, y, param("z", 64, 32)), seq(*half))
    assert streamed(f) == 2
    assert streamed(f, replace(SMALL, llc_bytes=3 * 64 * 32 * 4)) == 0


def test_rows_that_end_or_begin_within_a_line_are_unchanged() -> None:
    large = replace(SMALL, llc_bytes=1)
    assert streamed(doubled(columns=48), large) == 1
    assert streamed(doubled(columns=40), large) == 0


@pytest.mark.parametrize(
    ("dtype", "columns", "count"), [(DType.bf16, 64, 1), (DType.f16, 96, 1), (DType.u8, 64, 1), (DType.bf16, 48, 0), (DType.u8, 96, 0)]
)
def test_narrow_results_are_stored_in_whole_lines_only(dtype: DType, columns: int, count: int) -> None:
    assert streamed(doubled(columns=columns, dtype=dtype), replace(SMALL, llc_bytes=1)) == count


@pytest.mark.parametrize(("target", "lanes"), [(replace(SMALL, llc_bytes=1), 32), (SMALL, 32), (replace(SMALL, llc_bytes=1 << 20), 16)])
def test_vectors_are_as_wide_as_ever_where_a_cache_keeps_what_they_make(target: Target, lanes: int) -> None:
    after = run(doubled(columns=64, dtype=DType.bf16), target)
    assert {type_of(s.value) for s in walk(after.body) if isinstance(s, Store)} == {(DType.bf16, lanes)}


@pytest.mark.parametrize("count", [200, 224, 231])
def test_narrow_results_in_blocks_the_last_of_which_is_shorter(count: int) -> None:
    x, y, n = param("x", count), param("y", count, dtype=DType.bf16), 64
    place = add(mul(i, n), j)
    block = loop(j, minimum(n, sub(count, mul(i, n))), put(y, place, value=cast(binary(BinOp.mul, at(x, place), f32(2.0)), DType.bf16)))
    f = Func("blocks", (x, y), For(i, Const(-(-count // n)), block, LoopKind.parallel))
    assert streamed(f, replace(SMALL, llc_bytes=1)) == 1


def test_narrow_results_of_functions_are_unchanged() -> None:
    x, y = param("x", 4096), param("y", 4096, dtype=DType.bf16)
    f = Func("exp", (x, y), loop(j, 4096, put(y, j, value=cast(unary(UnOp.exp, at(x, j)), DType.bf16))))
    after = run(f, replace(SMALL, llc_bytes=1))
    assert {type_of(s.value) for s in walk(after.body) if isinstance(s, Store)} == {(DType.bf16, 16)}


def test_narrow_results_of_shorter_registers_are_unchanged() -> None:
    after = run(doubled(columns=64, dtype=DType.bf16), replace(SMALL, isa=ISAS["avx2"], llc_bytes=1))
    assert {type_of(s.value) for s in walk(after.body) if isinstance(s, Store)} == {(DType.bf16, 8)}


def test_tensors_that_are_read_again_are_unchanged() -> None:
    x, y, z = (param(name, 64, 32) for name in "xyz")

    def copied(src: Tensor, dst: Tensor) -> Stmt:
        return loop(i, 64, loop(j, 32, put(dst, i, j, value=at(src, i, j))))

    assert streamed(Func("chain", (x, y, z), seq(copied(x, y), copied(y, z)))) == 1


def test_nests_that_read_much_more_than_they_write_are_unchanged() -> None:
    def window(rows: int, dtype: DType = DType.f32) -> Func:
        x, y = param("x", 70, 32), param("y", 64, 32, dtype=dtype)
        value: Expr = at(x, i, j)
        for k in range(1, rows):
            value = binary(BinOp.max, value, at(x, add(i, k), j))
        return Func("window", (x, y), loop(i, 64, loop(j, 32, put(y, i, j, value=cast(value, dtype)))))

    assert [streamed(window(rows)) for rows in (4, 5)] == [1, 0]
    narrow = replace(SMALL, llc_bytes=1)
    lanes = [{type_of(s.value)[1] for s in walk(run(window(rows, DType.bf16), narrow).body) if isinstance(s, Store)} for rows in (4, 5)]
    assert lanes == [{32}, {16}]


def test_lines_that_are_not_contiguous_are_unchanged() -> None:
    x, y = param("x", 64, 16), param("y", 64 * 32)
    body = loop(i, 64, loop(j, 16, put(y, add(mul(i, 32), j), value=at(x, i, j))))
    assert streamed(Func("gaps", (x, y), body), replace(SMALL, llc_bytes=1)) == 0
