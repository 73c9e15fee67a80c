"""transpose: what lies across the loops, and is computed with, is copied to where it does not; all else stays."""

from __future__ import annotations

import pytest

from benchgraph.core.dtypes import DType
from benchgraph.tir.build import add, binary, block_size, cast, f32, mul
from benchgraph.tir.ir import Alloc, BinOp, Const, For, Func, If, LoopKind, Scope, Store
from benchgraph.tir.passes.plan_buffers import plan_buffers
from benchgraph.tir.passes.transpose import transpose
from benchgraph.tir.visit import loads, tensors, walk
from tests.support.tir_programs import TARGET, assert_same, at, i, j, k, loop, param, put

ROWS, COLUMNS = 6, 20


def scaled(rows: int = ROWS, columns: int = COLUMNS, *, dtype: DType = DType.u8, step: int = 1, kind: LoopKind = LoopKind.serial) -> Func:
    """y[i, j] = x[j, i] * 0.1, 3 of these side by side; step: of x along i."""
    x, y = param("x", 3 * 40 * columns, dtype=dtype), param("y", 3 * 40 * columns)
    across = cast(at(x, add(add(mul(k, 40 * columns), mul(i, step)), mul(j, 40))), DType.f32)
    line = loop(j, columns, put(y, add(add(mul(k, 40 * columns), mul(i, columns)), j), value=binary(BinOp.mul, across, f32(0.1))))
    return Func("scaled", (x, y), For(k, Const(3), loop(i, rows, line), kind))


def after(f: Func) -> Func:
    """What the pass makes of it computes the same."""
    after = transpose(f, TARGET)
    assert_same(after, f)
    return after


def tiles(f: Func) -> list[Alloc]:
    return [s for s in walk(after(f).body) if isinstance(s, Alloc)]


@pytest.mark.parametrize("dtype", [DType.u8, DType.s8, DType.bf16, DType.f16, DType.f32])
def test_strided_reads_of_every_width_are_transposed(dtype: DType) -> None:
    (found,) = tiles(scaled(dtype=dtype))
    assert (found.tensor.dtype, found.tensor.shape) == (dtype, (ROWS * COLUMNS,))


@pytest.mark.parametrize(("kind", "scope"), [(LoopKind.serial, Scope.shared), (LoopKind.parallel, Scope.thread)])
def test_each_thread_has_a_private_tile(kind: LoopKind, scope: Scope) -> None:
    planned = plan_buffers(after(scaled(kind=kind)), TARGET)
    assert {t.scope for t in tensors(planned.body) if t.name == "x_transposed"} == {scope}


@pytest.mark.parametrize("doubled", [True, False])
def test_a_last_block_uses_part_of_a_tile(doubled: bool) -> None:
    """Loops that only copy need none."""
    x, y = param("x", 40 * COLUMNS, dtype=DType.u8), param("y", 21 * COLUMNS, dtype=DType.u8)
    row = add(mul(k, 8), i)
    taken = at(x, add(row, mul(j, 40)))
    value = cast(binary(BinOp.mul, cast(taken, DType.f32), f32(2.0)), DType.u8) if doubled else taken
    block = loop(i, block_size(21, 8, k), loop(j, COLUMNS, put(y, add(mul(row, COLUMNS), j), value=value)))
    found = tiles(Func("blocks", (x, y), loop(k, 3, block)))
    assert [s.tensor.shape for s in found] == ([(8 * COLUMNS,)] if doubled else [])


def test_repeated_reads_are_copied_once_and_contiguous_reads_are_unchanged() -> None:
    x, z, y = param("x", 1000, dtype=DType.u8), param("z", 1000, dtype=DType.u8), param("y", 1000)
    across = cast(at(x, add(i, mul(j, 40))), DType.f32)
    along = cast(at(z, add(mul(i, 40), j)), DType.f32)
    value = binary(BinOp.add, binary(BinOp.mul, across, across), along)
    new = after(Func("f", (x, z, y), loop(i, ROWS, loop(j, COLUMNS, put(y, add(mul(i, COLUMNS), j), value=value)))))
    (tile,) = (s.tensor for s in walk(new.body) if isinstance(s, Alloc))
    *_, store = (s for s in walk(new.body) if isinstance(s, Store))
    assert [load.tensor.name for load in loads(store)] == [tile.name, tile.name, "z"]


def written_over() -> Func:
    """x[j, i] of one row is what the row before has stored."""
    x = param("x", 1000, dtype=DType.u8)
    value = cast(binary(BinOp.mul, cast(at(x, add(i, mul(j, 40))), DType.f32), f32(0.5)), DType.u8)
    return Func("f", (x,), loop(i, ROWS, loop(j, COLUMNS, put(x, add(add(i, mul(j, 40)), 1), value=value))))


def guarded() -> Func:
    """Only the columns that are there are read."""
    x, y = param("x", 500, dtype=DType.u8), param("y", 1000)
    value = cast(at(x, add(i, mul(j, 40))), DType.f32)
    there = If(binary(BinOp.lt, j, Const(12)), put(y, add(mul(i, COLUMNS), j), value=binary(BinOp.mul, value, f32(0.5))))
    return Func("f", (x, y), loop(i, ROWS, loop(j, COLUMNS, there)))


@pytest.mark.parametrize(
    "f",
    [
        scaled(step=2),
        scaled(columns=15),
        scaled(rows=3),
        written_over(),
        guarded(),
    ],
    ids=["rows step by two", "short rows", "few rows", "written over", "within bounds"],
)
def test_other_reads_are_unchanged(f: Func) -> None:
    assert after(f) is f
