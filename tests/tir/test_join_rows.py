"""join-rows: folds that follow one another end in one vector, wherever that is so; and never is anything else computed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

import pytest

from benchgraph.core.dtypes import DType
from benchgraph.core.target import ISAS
from benchgraph.tir.build import add, binary, cast, f32, mul, seq, unary
from benchgraph.tir.ir import (
    Alloc,
    BinOp,
    Const,
    Expr,
    Func,
    Lane,
    Load,
    Ramp,
    ReduceLanes,
    Scope,
    Select,
    Stmt,
    Store,
    Tensor,
    UnOp,
)
from benchgraph.tir.passes import PIPELINE, run
from benchgraph.tir.passes.interleave_rows import ROWS
from benchgraph.tir.passes.join_rows import join_rows
from benchgraph.tir.passes.simplify import simplify
from benchgraph.tir.passes.vectorize import vectorize
from benchgraph.tir.text import print_tir
from benchgraph.tir.verify import verify
from benchgraph.tir.visit import exprs, tensors, walk, walk_expr
from benchgraph.tir.widen import neutral
from tests.table import by_row
from tests.tir.programs import TARGET, assert_same, at, i, j, loop, param, put
from tests.tir.test_interleave_rows import softmax

LENGTH = 40  # elements of a row: whole vectors and some more, at every level
X, Y, Z = param("x", 8 * LENGTH), param("y", 64), param("z", 8 * LENGTH)


def register(name: str, dtype: DType = DType.f32) -> Tensor:
    return Tensor(name, dtype, (), (), Scope.register)


R = [register(f"r{u}") for u in range(8)]


def begun(rows: Sequence[Tensor], op: BinOp = BinOp.add) -> list[Stmt]:
    return [*map(Alloc, rows), *(put(r, value=neutral(op, r.dtype)) for r in rows)]


def fold(rows: Sequence[Tensor], op: BinOp = BinOp.add, x: Tensor = X) -> Stmt:
    return loop(j, LENGTH, *(put(r, value=binary(op, at(r), at(x, add(j, u * LENGTH)))) for u, r in enumerate(rows)))


def stored(rows: Sequence[Tensor], step: int = 1) -> list[Stmt]:
    return [put(Y, u * step, value=at(r)) for u, r in enumerate(rows)]


def joined(*body: Stmt, isa: str = "avx512_core", params: tuple[Tensor, ...] = (X, Y, Z)) -> Func:
    f = Func("f", params, seq(*body))
    target = replace(TARGET, isa=ISAS[isa])
    before = simplify(vectorize(f, target), target)
    after = join_rows(before, target)
    verify(after)
    assert_same(after, f)
    assert join_rows(after, target) is after
    return after


def found(f: Func, kind: type) -> list[Expr]:
    return [e for s in walk(f.body) for outer in exprs(s) for e in walk_expr(outer) if isinstance(e, kind)]


def widths(f: Func) -> list[int]:
    """Of each fold: how many vectors it takes."""
    return [1 + len(e.more) for e in found(f, ReduceLanes) if isinstance(e, ReduceLanes)]


def test_softmax(golden) -> None:
    original = softmax(2 * ROWS, 20)
    after = run(original, TARGET, pipeline=PIPELINE)
    assert_same(after, original)
    golden(print_tir(after))


@by_row(
    (isa, f"{op.value} of {rows} in {dtype.value}", (isa, op, rows, dtype))
    for isa in ("avx512_core", "avx2", "portable")
    for op in (BinOp.add, BinOp.mul, BinOp.min, BinOp.max)
    for rows in range(1, 9)
    for dtype in (DType.f32, DType.s32, DType.u8)
    if dtype is DType.f32 or rows in (2, 3, 4)
)
def test_any_number_of_rows(isa: str, op: BinOp, rows: int, dtype: DType) -> None:
    x, y = param("x", 8 * LENGTH, dtype=dtype), param("y", 8, dtype=dtype)
    own = [register(r.name, dtype) for r in R[:rows]]
    results = [put(y, u, value=at(r)) for u, r in enumerate(own)]
    after = joined(*begun(own, op), fold(own, op, x), *results, isa=isa, params=(x, y))
    fours, rest = divmod(rows, 4)
    assert widths(after) == [4] * fours + [2] * (rest // 2) + [1] * (rest % 2)


def test_what_is_done_with_the_number_of_each_row_is_done_with_all() -> None:
    """To the point where a row wants its own."""
    four, half, whole = R[:4], [register(f"h{u}") for u in range(4)], [register(f"s{u}", DType.s32) for u in range(4)]
    lines = print_tir(
        joined(
            *begun(four),
            fold(four),
            *map(Alloc, half),
            *(put(h, value=unary(UnOp.exp, binary(BinOp.mul, at(r), f32(-0.01)))) for h, r in zip(half, four, strict=True)),
            *map(Alloc, whole),
            *(put(s, value=cast(at(h), DType.s32)) for s, h in zip(whole, half, strict=True)),
            *(put(Y, u, value=Select(binary(BinOp.gt, at(s), Const(1, DType.s32)), at(Y, 4 + u), f32(0.5))) for u, s in enumerate(whole)),
            *(loop(j, 16, put(Z, add(j, 16 * u), value=binary(BinOp.add, at(h), at(X, j)))) for u, h in enumerate(half)),
        )
    )
    assert "h0 = exp(r0 * x4(-0.01))" in lines
    assert "s0 = s32(h0)" in lines
    assert "y[0:+4] = select(s0 > x4(s32(1)), y[4:+4], x4(0.5))" in lines
    assert "z[32:+16] = x16(lane(h0, 2)) + x[0:+16]" in lines


def lanes_of_folds(*body: Stmt) -> str:
    """The text, where only the folds go together and every row takes its lane."""
    after = joined(*body)
    assert {r.name for s in walk(after.body) if isinstance(s, Alloc) and (r := s.tensor).lanes == 4} == {"r0_rows"}
    assert {e.lane for e in found(after, Lane) if isinstance(e, Lane)} == {0, 1, 2, 3}
    return print_tir(after)


FOUR = R[:4]


def test_a_row_with_a_store_of_its_own_keeps_its_register() -> None:
    text = lanes_of_folds(*begun(FOUR), put(R[2], value=f32(7.0)), fold(FOUR), *stored(FOUR))
    assert "r3 = r3 + lane(r0_rows, 3)" in text


def test_vectors_of_the_same_names_in_another_block_stay_what_they_are() -> None:
    """As a softmax over 17 rows of one column left them: numbers for some rows, vectors of equal numbers for others."""
    wide, lanes = [replace(r, lanes=16) for r in FOUR], (Ramp(Const(0), 1, 16),)
    read = [Store(r, (), Load(X, (Ramp(Const(u), 1, 16),))) for u, r in enumerate(wide)]
    total = binary(BinOp.add, binary(BinOp.add, *map(at, wide[:2])), binary(BinOp.add, *map(at, wide[2:])))
    vectors = loop(i, 2, *map(Alloc, wide), *read, Store(Z, lanes, total))
    after = joined(loop(i, 2, *begun(FOUR), fold(FOUR), *stored(FOUR)), vectors)
    assert {t.lanes for t in tensors(after.body) if t.name == "r0"} == {1, 16}


def test_a_store_that_is_all_of_a_loop_counts() -> None:
    less = loop(j, 3, put(R[1], value=binary(BinOp.sub, at(R[1]), at(X, j))))
    assert "r1 = r1 - x[j]" in lanes_of_folds(*begun(FOUR), fold(FOUR), less, *stored(FOUR))


def test_rows_that_are_folded_in_two_orders_keep_their_registers() -> None:
    """The folds of each order go together."""
    after = joined(*begun(FOUR), fold(FOUR), fold([R[1], R[0], R[2], R[3]]), *stored(FOUR))
    assert widths(after) == [4, 4]
    assert "r0 = r0 + lane(r1_rows, 1)" in print_tir(after)


def test_what_depends_on_such_a_register_stays_too() -> None:
    """r joins as far as it goes; the register made of it has a store of its own, after which r's group is looked at again."""
    more = [register(f"h{u}") for u in range(4)]
    made = [put(h, value=unary(UnOp.neg, at(r))) for h, r in zip(more, FOUR, strict=True)]
    after = joined(*begun(FOUR), fold(FOUR), *map(Alloc, more), *made, put(more[1], value=f32(3.0)), *stored(more))
    assert "h1 = -lane(r0, 1)" in print_tir(after)


def test_zeros_of_both_signs_are_different_numbers() -> None:
    start = [put(r, value=f32(-0.0 if u == 3 else 0.0)) for u, r in enumerate(FOUR)]
    lanes_of_folds(*map(Alloc, FOUR), *start, fold(FOUR), *stored(FOUR))


def test_registers_declared_in_another_order_stay() -> None:
    lanes_of_folds(*map(Alloc, FOUR[::-1]), *(put(r, value=f32(0.0)) for r in FOUR), fold(FOUR), *stored(FOUR))


def test_results_that_lie_apart_are_stored_one_by_one() -> None:
    text = print_tir(joined(*begun(FOUR), fold(FOUR), *stored(FOUR, step=2)))
    assert "y[6] = lane(r0, 3)" in text


def test_operations_that_differ_stay() -> None:
    ops = (BinOp.add, BinOp.max, BinOp.add, BinOp.max)
    both = loop(
        j, LENGTH, *(put(r, value=binary(op, at(r), at(X, add(j, u * LENGTH)))) for u, (r, op) in enumerate(zip(FOUR, ops, strict=True)))
    )
    assert widths(joined(*begun(FOUR), both, *stored(FOUR))) == [1, 1, 1, 1]


def test_a_result_that_the_next_row_reads_is_stored_before() -> None:
    """y[u] = r_u + y[u - 1]."""
    chain = [put(Y, u, value=binary(BinOp.add, at(r), at(Y, u - 1))) for u, r in enumerate(FOUR, start=1)]
    text = print_tir(joined(*begun(FOUR), fold(FOUR), put(Y, 0, value=f32(1.0)), *chain))
    assert "y[2] = lane(r0, 1) + y[1]" in text


def test_a_row_that_reads_the_row_before_stays() -> None:
    """r_u = r_u + r_(u-1), after the folds."""
    chain = [put(r, value=binary(BinOp.add, at(r), at(before))) for before, r in pairwise(FOUR)]
    lanes_of_folds(*begun(FOUR), fold(FOUR), *chain, *stored(FOUR))


def test_buffers_that_share_bytes_are_one_memory() -> None:
    """Row u's result lies where row u + 1 reads."""
    a = replace(Tensor("a", DType.f32, (8,), (1,), Scope.shared), offset=0)
    b = replace(Tensor("b", DType.f32, (8,), (1,), Scope.shared), offset=4)
    start = loop(j, 8, put(a, j, value=f32(2.0)))
    scaled = [put(b, u, value=binary(BinOp.mul, at(r), at(a, u))) for u, r in enumerate(FOUR)]
    out = [put(Y, u, value=at(b, u)) for u in range(4)]
    f = Func("f", (X, Y), seq(start, *begun(FOUR), fold(FOUR), *scaled, *out), shared_bytes=64)
    after = join_rows(vectorize(f, TARGET), TARGET)
    assert_same(after, f)
    assert "b[3] = lane(r0, 3) * a[3]" in print_tir(after)


def test_places_read_from_memory_are_stored_one_by_one() -> None:
    first = replace(Tensor("first", DType.s64, (1,), (1,), Scope.shared), offset=0)
    body = [put(first, 0, value=Const(3)), *begun(FOUR), fold(FOUR)]
    f = Func("f", (X, Y), seq(*body, *(put(Y, add(at(first, 0), u), value=at(r)) for u, r in enumerate(FOUR))), shared_bytes=64)
    after = join_rows(vectorize(f, TARGET), TARGET)
    assert_same(after, f)
    assert "y[first[0] + 3] = lane(r0, 3)" in print_tir(after)


def test_folds_into_memory() -> None:
    step = [put(Y, u, value=binary(BinOp.max, at(Y, u), at(X, add(j, u * LENGTH)))) for u in range(4)]
    nests = [loop(j, LENGTH, s) for s in step]
    assert widths(joined(*nests)) == [1, 1, 1, 1]  # each ends in a block of its own


def test_a_masked_read_of_a_row_is_a_lane_of_the_masked_vector() -> None:
    on = binary(BinOp.lt, i, Const(1))
    reads = [put(Y, add(mul(u, 2), mul(i, 16)), value=Load(r, (), on)) for u, r in enumerate(FOUR)]
    assert "lane((r0 where x4(i < 1)), 3)" in print_tir(joined(*begun(FOUR), fold(FOUR), loop(i, 2, *reads)))


def test_without_folds_nothing_changes() -> None:
    f = Func("f", (X, Y), seq(*begun(FOUR), *stored(FOUR)))
    assert join_rows(f, TARGET) is f


@pytest.mark.parametrize("isa", ["avx512_core", "avx2", "portable"])
def test_two_folds_of_a_row_go_together(isa: str) -> None:
    """The sums of a LayerNorm."""
    a, b = R[:2]
    both = loop(
        j,
        LENGTH,
        put(a, value=binary(BinOp.add, at(a), at(X, j))),
        put(b, value=binary(BinOp.add, at(b), binary(BinOp.mul, at(X, j), at(X, j)))),
    )
    assert widths(joined(*begun([a, b]), both, *stored([a, b]), isa=isa)) == [2]
