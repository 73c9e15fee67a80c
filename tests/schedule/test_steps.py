"""What the time of nests of several products, and of nests one after the other, must be like, whatever the machine."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from math import ceil

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchgraph.core.dtypes import DType
from benchgraph.core.isa import ISAS
from benchgraph.machine.table import rates
from benchgraph.machine.target import Target
from benchgraph.schedule.choose import choose
from benchgraph.schedule.cost import Costs, is_short, sequence_ns
from benchgraph.schedule.primitives import Schedule, parse
from benchgraph.schedule.space import Tiling, row_tiling, space, tiled
from benchgraph.schedule.steps import Nest, Step, alone
from benchgraph.schedule.traffic import dropped
from tests.support.gemms import dense

MACHINES = ("zen3", "zen4", "zen5", "cascade_lake", "granite_rapids")
WIDE = 1024  # k and columns of layers whose weights are 4 MiB


def target(machine: str = "zen4", l2_bytes: int = 1 << 20, cores: int = 1) -> Target:
    return Target(ISAS["avx2" if machine == "zen3" else "avx512_core"], 32 << 10, l2_bytes, cores, machine=machine)


def step(at: Target, number: int, m: int, k: int, n: int, batch: int = 1, *, waits: bool = False, is_reduced: bool = False) -> Step:
    gemm = dense(batch, m, n, k, DType.f32, DType.f32, at, has_one_wei=batch == 1)
    return Step(gemm, (f"x{number}", f"w{number}", f"x{number + 1}"), 64, waits=waits, is_reduced=is_reduced)


def layers(at: Target, m: int, *sizes: int, waits: bool = False) -> Nest:
    steps = tuple(step(at, i, m, k, n, waits=waits) for i, (k, n) in enumerate(pairwise(sizes)))
    return Nest(steps, temporaries=frozenset(f"x{i}" for i in range(1, len(steps))))


def attention(at: Target, m: int, n: int, *, is_masked: bool = False) -> Nest:
    steps = step(at, 0, m, 64, n, 32, is_reduced=True), step(at, 1, m, n, 64, 32)
    return Nest(steps, temporaries=frozenset({"x1"}), works_on_rows=True, is_flash=True, is_masked=is_masked)


def in_order_ns(nests: Sequence[tuple[Nest, Schedule]], at: Target) -> float:
    return sequence_ns([Costs(nest, at).run(schedule) for nest, schedule in nests], at)


def chosen(nest: Nest, at: Target) -> Schedule:
    return choose(nest, (), at, may_spread=False).schedule


@pytest.mark.parametrize("machine", MACHINES)
@given(st.integers(1, 2000), st.integers(1, 600), st.integers(1, 600), st.integers(1, 2000), st.integers(1, 8))
def test_no_nest_is_faster_than_its_multiplications(machine: str, m: int, k: int, n: int, mb: int, cores: int) -> None:
    at = target(machine, cores=cores)
    macs_per_ns = rates(at).products.f32.macs_per_cycle * rates(at).clock_ghz
    nest = layers(at, m, k, n, k)
    assert Costs(nest, at)(row_tiling(nest, mb)).total >= 0.999 * 2 * m * n * k / cores / macs_per_ns


@given(st.integers(1, 2000), st.integers(1, 600), st.integers(1, 8))
def test_schedules_parse_and_say_their_tiling(m: int, n: int, group: int) -> None:
    nest = replace(attention(target(), m, n), group=group)
    for schedule in space(nest, (), target(), may_spread=False):
        (rows,), columns = schedule.sizes("m"), sum(schedule.sizes("n"))
        assert row_tiling(nest, rows, columns) == parse(str(schedule)) == schedule
        assert rows % group == 0 or rows == m
        assert columns < n


@pytest.mark.parametrize("machine", MACHINES)
@given(st.integers(1, 300), st.integers(1, 300), st.integers(1, 300), st.integers(1, 64), st.integers(2, 8))
def test_what_repays_fork_and_join_does_so_with_more_work(machine: str, m: int, k: int, n: int, mb: int, cores: int) -> None:
    """One core has none of them, and tests want all loops on several."""
    at = target(machine, cores=cores)
    nest, schedule = layers(at, m, k, n, k), row_tiling(layers(at, m, k, n, k), min(mb, m))
    assert is_short(nest, schedule, 10**6, at) <= is_short(nest, schedule, 0, at)
    assert not is_short(nest, schedule, 0, replace(at, cores=1))
    assert not is_short(nest, schedule, 0, replace(at, shares_all=True))


def test_short_loops_run_on_one_thread() -> None:
    at = target(cores=2)
    short, long = layers(at, 8, 16, 16, 16), layers(at, 128, 256, 256, 256)
    schedule = row_tiling(short, 4)
    assert is_short(short, schedule, 0, at)
    assert not is_short(short, schedule, 10**6, at)
    assert not is_short(long, row_tiling(long, 64), 0, at)


def test_scores_are_cut_in_flash_attention_alone() -> None:
    nest = layers(target(), 64, 64, 128, 64)
    assert row_tiling(nest, 32, 64) not in space(nest, (), target(), may_spread=False)
    assert row_tiling(nest, 32, 64) in space(replace(nest, is_flash=True), (), target(), may_spread=False)


@pytest.mark.parametrize("machine", MACHINES)
def test_tasks_are_taller_where_each_fetches_all_weights(machine: str) -> None:
    near, far = target(machine, l2_bytes=64 << 20), target(machine)
    assert chosen(layers(far, 1024, WIDE, WIDE, WIDE), far).sizes("m") >= (64,)
    few, many = (Costs(layers(at, 1024, WIDE, WIDE, WIDE), at)(row_tiling(layers(at, 1024, WIDE, WIDE, WIDE), 8)) for at in (near, far))
    assert few.l3 == 0 < many.l3


@given(st.integers(1, 64), st.integers(2, 8))
def test_every_core_has_rows(rows_per_core: int, cores: int) -> None:
    at = target(cores=cores)
    m = rows_per_core * cores
    assert ceil(m / chosen(layers(at, m, 512, 512, 512), at).sizes("m")[0]) >= min(cores, m) / 2


def test_long_rows_of_scores_that_l2_does_not_hold_are_cut() -> None:
    at = target(l2_bytes=256 << 10)
    whole, cut = (Costs(attention(at, 64, 65536), at)(row_tiling(attention(at, 64, 65536), 64, n)) for n in (0, 64))
    assert cut.l3 < whole.l3


def test_short_blocks_leave_out_more_of_what_a_mask_hides() -> None:
    nest = attention(target(), 1024, 1024, is_masked=True)
    assert nest.computed_share(32, 64) < nest.computed_share(32, 256) < nest.computed_share(1024, 64) == 1
    assert replace(nest, is_masked=False).computed_share(32, 64) == 1
    assert chosen(nest, target()).sizes("n") != ()
    assert chosen(replace(nest, is_masked=False), target()).sizes("n") == ()


@pytest.mark.parametrize("machine", MACHINES)
def test_one_nest_is_slower_where_few_rows_would_fetch_all_weights(machine: str) -> None:
    at = target(machine)
    one = layers(at, 112, WIDE, WIDE, 64)
    first, second = (Nest((s,)) for s in one.steps)
    apart = [(first, tiled(first.first, Tiling(16, 64, True, 64))), (second, tiled(second.first, Tiling(16, 64)))]
    assert in_order_ns(apart, at) < 0.95 * in_order_ns([(one, row_tiling(one, 8))], at)


@pytest.mark.parametrize("machine", MACHINES)
def test_one_nest_is_as_fast_where_l2_holds_all_weights(machine: str) -> None:
    at = target(machine, l2_bytes=64 << 20, cores=2)
    one = layers(at, 128, 256, 256, 256)
    apart = [(nest, tiled(nest.first, Tiling(32, 64))) for nest in (Nest((s,)) for s in one.steps)]
    assert in_order_ns([(one, row_tiling(one, 32))], at) < in_order_ns(apart, at)  # fork and join


def test_weights_that_nothing_fetches_ahead_take_longer() -> None:
    at = target()
    waiting, fetched = (layers(at, 128, WIDE, WIDE, WIDE, waits=waits) for waits in (True, False))
    assert Costs(waiting, at)(row_tiling(waiting, 32)).total > Costs(fetched, at)(row_tiling(fetched, 32)).total


def test_a_reader_with_other_tasks_fetches_lines_from_other_cores() -> None:
    at = target(l2_bytes=64 << 20, cores=2)
    one = layers(at, 128, 256, 256, 256)
    maker, reader = (Nest((s,)) for s in one.steps)
    first = maker, tiled(maker.first, Tiling(32, 64))
    by_rows, by_columns = (in_order_ns([first, (reader, tiled(reader.first, Tiling(32, 64, spreads)))], at) for spreads in (False, True))
    assert by_columns > by_rows


def test_a_lone_product_costs_the_same_as_a_step() -> None:
    at = target()
    nest = layers(at, 128, WIDE, WIDE)
    schedule = tiled(nest.first, Tiling(32, 64))
    assert Costs(nest, at)(schedule) == Costs(alone(nest.first), at)(schedule)


@given(st.floats(0, 1e9), st.floats(0, 1e9), st.integers(1, 1 << 25))
def test_more_bytes_are_dropped_more(some: float, more: float, cache_bytes: int) -> None:
    assert 0 <= dropped(some, cache_bytes) <= dropped(some + more, cache_bytes) <= 1
