"""transpose: copies between dense columns and dense rows become one statement; all else stays."""

from __future__ import annotations

from dataclasses import replace
from math import ceil

import pytest

from benchgraph.core.dtypes import DType
from benchgraph.tir.build import add, binary, block_size, cast, f32, floordiv, minimum, mod, mul, sub
from benchgraph.tir.ir import BinOp, Const, Expr, For, Func, If, InplacePair, Load, LoopKind, Pack, Store
from benchgraph.tir.passes.transpose import transpose
from benchgraph.tir.visit import substitute_all, walk
from tests.support.tir_programs import TARGET, assert_same, at, i, j, k, loop, param, put, q

BF16 = DType.bf16


def copy(
    rows: int = 6, columns: int = 20, *, dtype: DType = BF16, step: int = 1, apart: int = 7, row: int = 24, kind: LoopKind = LoopKind.serial
) -> Func:
    """y[i, j] = x[j, i], 3 of these side by side; step: of x along i, apart: along j, row: of y along i."""
    x, y = param("x", 600, dtype=dtype), param("y", 600, dtype=dtype)
    value = at(x, add(add(mul(k, 150), mul(i, step)), mul(j, apart)))
    line = loop(j, columns, put(y, add(add(mul(k, 150), mul(i, row)), j), value=value))
    return Func("copy", (x, y), loop(k, 3, For(i, Const(rows), line, kind)))


def padded(condition: Expr, *, first: int = 1) -> Func:
    """y[i, j] = x[j, i - first] where the condition holds, 0 elsewhere, for 4 matrices."""
    x, y = param("x", 600, dtype=BF16), param("y", 4 * 8 * 20, dtype=BF16)
    where = add(add(mul(k, 160), mul(i, 20)), j)
    taken = loop(j, 20, put(y, where, value=at(x, sub(add(add(mul(k, 6), i), mul(j, 24)), first))))
    pad = loop(j, 20, put(y, where, value=cast(f32(0.0), BF16)))
    return Func("padded", (x, y), loop(k, 4, loop(i, 8, If(condition, taken, pad))))


def after(f: Func) -> Func:
    """What the pass makes of it computes the same."""
    after = transpose(f, TARGET)
    assert_same(after, f)
    return after


def transpositions(f: Func) -> list[Pack]:
    """Those to the result, not to a tile of what is computed with."""
    return [s for s in walk(after(f).body) if isinstance(s, Pack) and s.dst.tensor in f.params]


def both(*conditions: Expr) -> Expr:
    first, *rest = conditions
    for c in rest:
        first = binary(BinOp.and_, first, c)
    return first


WITHIN = binary(BinOp.ge, i, Const(1)), binary(BinOp.lt, i, Const(7))


@pytest.mark.parametrize("dtype", [DType.u8, DType.s8, DType.bf16, DType.f16, DType.f32, DType.s32])
def test_copies_of_every_width_are_transposed_by_tiles(dtype: DType) -> None:
    (found,) = transpositions(copy(dtype=dtype))
    assert (found.k, found.n, found.transposes, found.group) == (6, 20, True, 1)


def in_blocks(rows: int, columns: int, size: int = 8, height: Expr | None = None) -> Func:
    """y[i, j] = x[j, i], in blocks of at most `size` x `size`, or of that height."""
    x, y = param("x", rows * columns, dtype=BF16), param("y", rows * columns, dtype=BF16)
    value = at(x, add(add(mul(k, size), i), mul(add(mul(q, size), j), rows)))
    stored = put(y, add(mul(add(mul(k, size), i), columns), add(mul(q, size), j)), value=value)
    block = loop(i, height or block_size(rows, size, k), loop(j, block_size(columns, size, q), stored))
    return Func("blocks", (x, y), loop(k, ceil(rows / size), loop(q, ceil(columns / size), block)))


@pytest.mark.parametrize(
    ("rows", "columns", "found"),
    [(21, 16, [(5, 8), (8, 8)]), (16, 29, [(8, 8)])],
    ids=["rows", "columns too short for a vector"],
)
def test_the_last_block_gets_its_own_loop(rows: int, columns: int, found: list[tuple[int, int]]) -> None:
    assert sorted((t.k, t.n) for t in transpositions(in_blocks(rows, columns))) == found


def test_the_last_block_gets_a_branch_inside_the_loop_over_blocks() -> None:
    """Here the loop right outside is the one over the blocks of all matrices, whose variable means nothing in front of it."""
    x, y = param("x", 2 * 13 * 20, dtype=BF16), param("y", 2 * 13 * 20, dtype=BF16)
    matrix, row = mul(floordiv(k, 2), 260), add(mul(mod(k, 2), 8), i)
    stored = put(y, add(matrix, add(mul(row, 20), j)), value=at(x, add(matrix, add(row, mul(j, 13)))))
    found = transpositions(Func("blocks", (x, y), loop(k, 4, loop(i, block_size(13, 8, mod(k, 2)), loop(j, 20, stored)))))
    assert [(pack.k, pack.n) for pack in found] == [(5, 20), (8, 20)]


def test_extents_with_more_than_two_values_are_unchanged() -> None:
    f = in_blocks(21, 16, height=minimum(8, sub(11, mul(k, 4))))
    assert after(f) is f


def test_blocks_too_small_for_registers_are_no_transpositions() -> None:
    assert not transpositions(in_blocks(21, 3))


def test_a_last_block_among_other_statements_gets_its_own_branch() -> None:
    f = in_blocks(21, 16)
    (block,) = (s for s in walk(f.body) if isinstance(s, For) and s.var == i)
    block = replace(block, body=substitute_all(block.body, {q.name: Const(1)}))
    first = put(f.params[1], 0, value=at(f.params[0], 0))
    assert [t.k for t in transpositions(replace(f, body=loop(k, 3, block, first)))] == [5, 8]


@pytest.mark.parametrize("dtype", [DType.bf16, DType.f16, DType.f8_e4m3])
def test_transposed_copies_may_convert_to_f32(dtype: DType) -> None:
    x, y = param("x", 600, dtype=dtype), param("y", 600)
    line = loop(j, 20, put(y, add(mul(i, 24), j), value=cast(at(x, add(i, mul(j, 7))), DType.f32)))
    (found,) = transpositions(Func("copy", (x, y), loop(i, 6, line)))
    assert (found.k, found.n, found.transposes) == (6, 20, False)


def test_the_outer_loop_may_be_the_dense_one_of_dst() -> None:
    x, y = param("x", 600, dtype=BF16), param("y", 600, dtype=BF16)
    (found,) = transpositions(Func("copy", (x, y), loop(i, 20, loop(j, 6, put(y, add(i, mul(j, 24)), value=at(x, add(mul(i, 7), j)))))))
    assert (found.k, found.n) == (6, 20)


def test_a_conversion_to_f32_and_back_is_dropped() -> None:
    f = copy()
    through = next(s for s in walk(f.body) if isinstance(s, Store))
    x, y = f.params
    there = put(y, *through.index, value=cast(cast(through.value, DType.f32), BF16))
    (found,) = transpositions(Func("copy", (x, y), loop(k, 3, loop(i, 6, loop(j, 20, there)))))
    assert found.src.tensor is x


@pytest.mark.parametrize(
    ("condition", "first", "rows"), [(both(*WITHIN), 1, 6), (WITHIN[0], 1, 7), (WITHIN[1], 0, 7)], ids=["between", "behind", "before"]
)
def test_the_tile_covers_the_rows_between_the_borders(condition: Expr, first: int, rows: int) -> None:
    (found,) = transpositions(padded(condition, first=first))
    assert found.k == rows


@pytest.mark.parametrize(
    "f",
    [
        copy(step=2),
        copy(columns=7),
        copy(rows=3),
        copy(kind=LoopKind.parallel),
        padded(binary(BinOp.ge, mul(i, k), Const(1))),
        padded(binary(BinOp.eq, i, Const(1))),
    ],
    ids=["rows step by two", "short rows", "few rows", "in parallel", "no bounds", "one of them"],
)
def test_other_loops_are_unchanged(f: Func) -> None:
    assert after(f) is f


def test_copies_between_aliasing_tensors_are_unchanged() -> None:
    f = copy()
    over = Func(f.name, f.params, f.body, inplace=(InplacePair("y", "x"),))
    assert transpose(over, TARGET) is over


def test_rows_that_overlap_are_stored_in_order() -> None:
    assert not transpositions(copy(row=13, columns=20))


def test_converting_or_masked_copies_are_no_transpositions() -> None:
    x, y = param("x", 600, dtype=DType.f16), param("y", 600, dtype=BF16)
    value = cast(cast(at(x, add(i, mul(j, 7))), DType.f32), BF16)
    f = Func("convert", (x, y), loop(i, 6, loop(j, 20, put(y, add(mul(i, 24), j), value=value))))
    assert not transpositions(f)
    z = param("z", 600, dtype=BF16)
    masked = Load(y, (add(i, mul(j, 7)),), binary(BinOp.lt, j, Const(3)))
    g = Func("masked", (y, z), loop(i, 6, loop(j, 20, put(z, add(mul(i, 24), j), value=masked))))
    assert transpose(g, TARGET) is g


def test_copies_that_recentre_s8_are_transposed() -> None:
    x, y = param("x", 600, dtype=DType.s8), param("y", 600, dtype=DType.u8)
    value = cast(add(cast(at(x, add(i, mul(j, 7))), DType.s32), Const(128, DType.s32)), DType.u8)
    (found,) = transpositions(Func("recentred", (x, y), loop(i, 6, loop(j, 20, put(y, add(mul(i, 24), j), value=value)))))
    assert (found.src.tensor, found.dst.tensor) == (x, y)


def test_a_lossy_conversion_and_back_is_no_transposition() -> None:
    x, y = param("x", 600), param("y", 600)
    value = cast(cast(at(x, add(i, mul(j, 7))), DType.s32), DType.f32)
    f = Func("lossy", (x, y), loop(i, 6, loop(j, 20, put(y, add(mul(i, 24), j), value=value))))
    assert not transpositions(f)
