"""Weights that are read block by block: the schedules of such a product, and that their cost ranks blocks as measurements do.

The times are those of docs/measurements/on-the-fly-packing.md, in ms.
"""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchgraph.core.dtypes import DType
from benchgraph.core.isa import ISAS
from benchgraph.machine.table import rates
from benchgraph.machine.target import Target
from benchgraph.schedule.choose import choose
from benchgraph.schedule.cost import Costs
from benchgraph.schedule.gemm import Blocks, Gemm, Source
from benchgraph.schedule.primitives import parse
from benchgraph.schedule.space import Tiling, in_blocks, space, tiled
from benchgraph.schedule.steps import alone
from tests.support.gemms import dense

ZEN4 = Target(ISAS["avx512_core_bf16"], 32 << 10, 1 << 20, 1, llc_bytes=32 << 20, machine="zen4")
CASCADE_LAKE = Target(ISAS["avx512_core_vnni"], 32 << 10, 1 << 20, 1, llc_bytes=33 << 20, machine="cascade_lake")
IN_PLACE = Blocks(32, 1, 8)
sizes = st.integers(1, 3000)


def product(m: int, n: int, k: int, blocks: Blocks, target: Target, bits: int, dtype: DType = DType.f32) -> Gemm:
    """bits: of what an element of the weights is made from."""
    gemm = dense(1, m, n, k, dtype, dtype, target)
    src, wei, dst = gemm.operands
    return replace(gemm, operands=(src, replace(wei, bits=bits), dst), blocks=blocks)


def converted(m: int, n: int, k: int) -> Gemm:
    """f16 to f32, row by row."""
    return product(m, n, k, Blocks(32, 1, 1, cycles=3.0), CASCADE_LAKE, 16)


def packed(m: int, n: int, k: int, dtype: DType = DType.bf16, source: Source = Source.rows) -> Gemm:
    cycles = 3.0 if source is Source.rows else 3.0 + rates(ZEN4).vector.transpose_cycles
    return product(m, n, k, Blocks(dtype.bits, 2, 8, source, cycles, may_fetch=True), ZEN4, dtype.bits, dtype)


@given(sizes, sizes, sizes, st.integers(1, 4), st.sampled_from([16, 48, 64]))
def test_no_schedule_with_blocks_costs_less_than_arithmetic_and_packing(m: int, n: int, k: int, cores: int, nb: int) -> None:
    """Nothing is known of blocks that are read in place."""
    gemm, target = packed(m, n, k), replace(ZEN4, cores=cores)
    costs = Costs(alone(gemm), target)
    least = costs.least_in_blocks(nb)
    assert all(least <= (1 + 1e-9) * costs(schedule).total for schedule in in_blocks(alone(gemm), (nb,), cores, may_spread=True))
    assert Costs(alone(replace(gemm, blocks=IN_PLACE)), target).least_in_blocks(nb) == 0.0


def milliseconds(gemm: Gemm, target: Target, ks: int, ns: int, *, fetches: bool = False) -> float:
    assert gemm.blocks is not None
    makes = gemm.blocks.cycles > 0
    return Costs(alone(gemm), target)(tiled(gemm, Tiling(gemm.m, 64 if makes else ns, False, ns, ks, makes, fetches))).total / 1e6


@given(sizes, sizes, sizes, st.integers(1, 4), st.booleans())
def test_each_schedule_is_there_once_and_is_read_back(m: int, n: int, k: int, cores: int, may_spread: bool) -> None:
    for gemm in (packed(m, n, k), replace(packed(m, n, k), blocks=IN_PLACE)):
        every = list(space(alone(gemm), (64,), replace(ZEN4, cores=cores), may_spread=may_spread))
        assert len(set(every)) == len(every)
        assert [parse(str(s)) for s in every] == every
        assert all(tiled(gemm, Tiling.of(s)) == s for s in every)


@pytest.mark.covering(1)
@pytest.mark.parametrize("cores", [1, 2, 3])
@pytest.mark.parametrize(
    ("m", "n", "k"), [(1, 4096, 4096), (16, 1024, 1024), (77, 200, 2560), (128, 3072, 768), (1000, 1000, 1000), (2048, 700, 300)]
)
def test_fewer_rows_that_are_left_out_cost_little_less(m: int, n: int, k: int, cores: int) -> None:
    gemm, target = packed(m, n, k), replace(ZEN4, cores=cores)
    found, costs = choose(alone(gemm), (64,), target, may_spread=True), Costs(alone(gemm), target)
    assert found.cost.total <= 1.03 * min(costs(s).total for s in space(alone(gemm), (64,), target, may_spread=True))


@pytest.mark.parametrize(
    ("gemm", "target", "better", "worse"),
    [
        (converted(1, 14336, 4096), CASCADE_LAKE, {(16, 2048): 24.3, (8, 2048): 28.0}, {(16, 256): 58.7, (16, 512): 37.5, (8, 512): 35.7}),
        (converted(12, 4096, 4096), CASCADE_LAKE, {(64, 1024): 15.2, (32, 1024): 15.4}, {(128, 256): 24.7, (256, 256): 18.9}),
        (packed(16, 14336, 4096), ZEN4, {(64, 1024): 15.1, (64, 2048): 13.9, (128, 2048): 13.4}, {(512, 64): 26.0}),
        (packed(64, 14336, 4096), ZEN4, {(64, 2048): 42.6, (128, 2048): 40.7}, {(512, 64): 49.9}),
        (product(1, 14336, 4096, IN_PLACE, ZEN4, 32), ZEN4, {(8, 2048): 11.0, (8, 14336): 7.9}, {(4096, 64): 19.2}),
        (product(4, 14336, 4096, IN_PLACE, ZEN4, 32), ZEN4, {(8, 4096): 12.3, (8, 14336): 10.3}, {(4096, 64): 19.9}),
        (product(12, 4096, 4096, IN_PLACE, ZEN4, 32), ZEN4, {(8, 4096): 6.7}, {(4096, 64): 8.4}),
        (product(2, 1024, 1024, IN_PLACE, ZEN4, 32), ZEN4, {(8, 1024): 0.055}, {(1024, 64): 0.072}),
        (product(6, 1024, 1024, IN_PLACE, ZEN4, 32), ZEN4, {(1024, 64): 0.113}, {(8, 1024): 0.130}),
    ],
)
def test_costs_rank_blocks_as_they_were_measured(
    gemm: Gemm, target: Target, better: dict[tuple[int, int], float], worse: dict[tuple[int, int], float]
) -> None:
    slowest, fastest = (extreme(milliseconds(gemm, target, *block) for block in of) for extreme, of in ((max, better), (min, worse)))
    assert slowest < fastest


def test_rows_in_few_sets_of_a_cache_cost_more() -> None:
    """Of rows 4 KiB apart L1 holds as many as it has ways; a line more, and they fall in all sets."""
    gemm = product(64, 1024, 96, IN_PLACE, ZEN4, 32)
    src, wei, dst = gemm.operands
    few, all_sets = (
        choose(alone(replace(gemm, operands=(src, replace(wei, apart=apart), dst))), (64,), ZEN4, may_spread=False).cost.total
        for apart in (4096, 4096 + 64)
    )
    assert few > all_sets


@pytest.mark.parametrize("source", [Source.rows, Source.columns])
@pytest.mark.parametrize("dtype", [DType.bf16, DType.f32])
def test_what_the_next_block_is_made_from_is_fetched_where_it_is_far(dtype: DType, source: Source) -> None:
    """And where L2 has it, nothing is."""
    far, near = packed(16, 14336, 4096, dtype, source), packed(16, 256, 256, dtype, source)
    assert choose(alone(far), (64,), ZEN4, may_spread=False).schedule.prefetches
    assert not choose(alone(near), (64,), ZEN4, may_spread=False).schedule.prefetches


def test_columns_are_tasks_where_each_core_then_makes_fewer_blocks() -> None:
    few, many = (
        choose(alone(packed(m, n, 512)), (64,), replace(ZEN4, cores=2), may_spread=True).schedule for m, n in ((8, 1024), (4096, 64))
    )
    assert "n.0" in few.parallel
    assert many.sizes("m")[0] < 4096


@pytest.mark.parametrize(("m", "n", "k"), [(256, 512, 512), (256, 2048, 2048), (1024, 1024, 1024)])
def test_of_equal_costs_blocks_have_the_fewest_columns(m: int, n: int, k: int) -> None:
    target = replace(ZEN4, cores=2)
    nest = alone(packed(m, n, k))
    best, costs = choose(nest, (64,), target, may_spread=True), Costs(nest, target)
    alike = (
        s for s in space(nest, (64,), target, may_spread=True) if costs(s).total <= best.cost.total and s.parallel == best.schedule.parallel
    )
    assert all(s.sizes("n") >= best.schedule.sizes("n") for s in alike if s.sizes("m") == best.schedule.sizes("m"))
