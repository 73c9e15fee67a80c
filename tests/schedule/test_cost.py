"""What a cost must be like, whatever the machine."""

from __future__ import annotations

from dataclasses import replace
from math import ceil

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchgraph.core.dtypes import DType
from benchgraph.core.isa import ISAS
from benchgraph.machine.table import rates
from benchgraph.machine.target import Target
from benchgraph.schedule.cost import Cost, Costs
from benchgraph.schedule.gemm import Gemm
from benchgraph.schedule.microkernel import cycles
from benchgraph.schedule.primitives import Schedule
from benchgraph.schedule.space import Tiling, space, tiled
from benchgraph.schedule.steps import alone, share
from tests.support.gemms import dense

MACHINES = ("zen3", "zen4", "zen5", "cascade_lake", "granite_rapids")
sizes = st.integers(1, 3000)


def target(machine: str, cores: int = 1) -> Target:
    level = "avx512_core_amx" if machine == "granite_rapids" else "avx2" if machine == "zen3" else "avx512_core"
    return Target(ISAS[level], 32 << 10, 1 << 20, cores, machine=machine)


def gemm(m: int, n: int, k: int, src: DType = DType.f32, batch: int = 1, machine: str = "zen4", *, has_one_wei: bool = True) -> Gemm:
    return dense(batch, m, n, k, src, DType.s8 if src is DType.u8 else src, target(machine), has_one_wei=has_one_wei)


def costed(g: Gemm, schedule: Schedule, machine: str = "zen4", cores: int = 1) -> Cost:
    at = target(machine, cores)
    return Costs(alone(g), at)(schedule)


def rows(g: Gemm, mb: int, nb: int) -> Schedule:
    return tiled(g, Tiling(mb, nb))


@pytest.mark.parametrize("machine", MACHINES)
@given(sizes, sizes, sizes, st.integers(1, 3000), st.integers(1, 64), st.booleans(), st.integers(1, 8))
def test_no_product_is_faster_than_its_multiplications(
    machine: str, m: int, n: int, k: int, mb: int, nb: int, split: bool, cores: int
) -> None:
    g, machine_rates = gemm(m, n, k, machine=machine), rates(target(machine))
    least = m * n * k / cores / machine_rates.products.f32.macs_per_cycle / machine_rates.clock_ghz
    assert costed(g, tiled(g, Tiling(mb, 16 * nb, split)), machine, cores).total >= 0.999 * least


@pytest.mark.parametrize("machine", MACHINES)
@given(sizes, sizes, sizes, st.integers(1, 8), st.integers(1, 16), st.sampled_from([16, 48, 64]))
def test_no_schedule_costs_less_than_the_least_of_its_calls(machine: str, m: int, n: int, k: int, batch: int, cores: int, nb: int) -> None:
    nest = alone(gemm(m, n, k, batch=batch, machine=machine))
    costs = Costs(nest, target(machine, cores))
    for schedule in space(nest, (nb,), target(machine, cores), may_spread=True):
        assert costs.least(schedule.sizes("m")[0], nb) <= (1 + 1e-9) * costs(schedule).total


@given(sizes, sizes, sizes, st.integers(1, 3000), st.integers(1, 64), st.booleans(), st.integers(1, 64))
def test_shares_of_all_cores_cover_the_product(m: int, n: int, k: int, mb: int, nb: int, split: bool, cores: int) -> None:
    g = gemm(m, n, k, batch=3)
    own = share(g.extents, tiled(g, Tiling(mb, nb, split)), cores)
    assert own.calls * cores >= 0.999 * 3 * ceil(m / mb) * ceil(n / nb)
    assert own.cores <= cores


@pytest.mark.parametrize(("mb", "nb", "spreads"), [(77, 64, True), (64, 200, False)])
def test_the_last_block_is_small_and_another_cores(mb: int, nb: int, spreads: bool) -> None:
    """Two cores have 128 and 72 of 200 columns, or 64 and 13 of 77 rows."""
    g, tiling = gemm(77, 200, 2560), Tiling(mb, nb, spreads)
    one, two = (costed(g, tiled(g, tiling), cores=cores).arithmetic for cores in (1, 2))
    assert two > 0.6 * one


def test_a_core_that_goes_through_an_axis_has_its_last_block() -> None:
    g = gemm(128, 200, 256)
    one, two = (costed(g, rows(g, 64, 64), cores=cores).arithmetic for cores in (1, 2))
    assert two == pytest.approx(one / 2)


def test_a_product_takes_longer_with_more_terms() -> None:
    times = [costed(g, rows(g, 64, 64)).total for g in (gemm(128, 512, k) for k in (64, 256, 1024, 4096))]
    assert times == sorted(times)


def test_cores_share_arithmetic_and_pay_for_fork_and_join() -> None:
    g = gemm(512, 512, 512)
    one, two = (costed(g, rows(g, 64, 64), cores=cores) for cores in (1, 2))
    assert two.arithmetic == pytest.approx(one.arithmetic / 2)
    assert (one.fork_join, two.fork_join > 0) == (0.0, True)


def test_single_rows_read_weights_again_and_again() -> None:
    g = gemm(256, 1024, 1024)
    assert costed(g, rows(g, 1, 64)).l3 > 10 * costed(g, rows(g, 64, 64)).l3


def test_panels_first_fetch_weights_once_for_all_entries() -> None:
    g = gemm(7, 512, 1152, batch=56)
    assert costed(g, tiled(g, Tiling(7, 64, spreads=True, ns=64))).l3 < costed(g, rows(g, 7, 64)).l3 / 3


def test_columns_over_cores_read_rows_that_other_cores_have_written() -> None:
    g = replace(gemm(512, 512, 512), is_made=True)
    apart, spread = (costed(g, s, cores=2).written for s in (rows(g, 256, 64), tiled(g, Tiling(512, 64, spreads=True))))
    assert (apart, spread > 0) == (0, True)


def test_results_that_wait_in_temporaries_are_best_in_small_tiles() -> None:
    g = replace(gemm(1024, 512, 64), waiting_bytes=8)
    assert costed(g, rows(g, 32, 64)).total < costed(g, rows(g, 1024, 64)).total


def test_weights_of_each_batch_entry_are_fetched_once_for_it() -> None:
    shared, apart = (gemm(64, 512, 1024, batch=8, has_one_wei=one) for one in (True, False))
    assert costed(apart, rows(apart, 64, 64)).l3 >= costed(shared, rows(shared, 64, 64)).l3


@pytest.mark.parametrize(("rows", "columns"), [(16, 64), (32, 32), (128, 256)])
def test_tiles_whose_rows_begin_within_lines_take_longer(rows: int, columns: int) -> None:
    machine = rates(target("granite_rapids"))
    whole, split = (gemm(rows, columns, k, DType.bf16, machine="granite_rapids").kernel for k in (1024, 1000))
    assert cycles(split, rows, columns, machine) > 0.97 * cycles(whole, rows, columns, machine)


@pytest.mark.parametrize(("machine", "share"), [("zen4", 0.5), ("zen5", 1.0)])
@given(rows=st.integers(10, 200), k=st.integers(1, 500))
def test_calls_with_few_columns_have_as_few_lanes(machine: str, share: float, rows: int, k: int) -> None:
    """With which a core that takes two passes for a whole vector loads, multiplies and stores in half the time."""
    kernel, known = gemm(rows, 16, k, machine=machine).kernel, rates(target(machine))
    assert cycles(kernel, rows, 8, known) == pytest.approx(share * cycles(kernel, rows, 16, known))


@pytest.mark.parametrize("columns", [5, 16, 48, 64])
@given(rows=st.integers(1, 200), k=st.integers(1, 500))
def test_bytes_that_are_multiplied_four_at_a_time_take_as_long_as_floats(columns: int, rows: int, k: int) -> None:
    """A Zen 4 loads as many vectors and begins as many instructions, of the same latency."""
    floats, integers = gemm(rows, columns, k).kernel, gemm(rows, columns, 4 * k, DType.u8).kernel
    known = rates(replace(target("zen4"), isa=ISAS["avx512_core_bf16"]))
    assert cycles(integers, rows, columns, known) == pytest.approx(cycles(floats, rows, columns, known))


@given(st.integers(1, 600), st.integers(2, 8))
def test_cores_that_share_rows_fetch_the_lines_behind_their_columns(m: int, cores: int) -> None:
    """Whole rows of a core end once, columns of a core in each row."""
    g = gemm(m * cores, 64 * 2 * cores, 13)
    by_rows, by_columns = (
        costed(g, tiled(g, Tiling(mb, 64, spreads)), cores=cores).written for mb, spreads in ((m, False), (m * cores, True))
    )
    assert by_rows == 0
    assert by_columns == pytest.approx(m * cores * rates(target("zen4")).written.line_ns)


@given(st.integers(1, 100), st.integers(2, 8))
def test_calls_of_few_rows_take_no_lines_of_the_core_below(mb: int, cores: int) -> None:
    """From four register tiles on, of six rows each, hardware fetches the one behind: a row of 64 floats is four lines."""
    g = gemm(mb * cores, 256, 13)
    waiting = [costed(g, tiled(g, Tiling(mb, 64)), cores=many).waiting for many in (1, cores)]
    tiles = ceil(mb / 6)
    lines = 4 * 4 * mb / tiles if tiles >= 4 else 0.0
    assert waiting == [0.0, pytest.approx(lines * rates(target("zen4")).written.line_ns)]


@given(st.integers(24, 400))
def test_cores_that_share_columns_have_no_rows_below(m: int) -> None:
    g = gemm(m, 256, 13)
    assert costed(g, tiled(g, Tiling(m, 64, spreads=True)), cores=2).waiting == 0
