"""Mode P on a fake clock: what is measured, how often, in which order, and when it is unreliable."""

import os
import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from benchgraph.core.config import override
from benchgraph.core.dtypes import DType
from benchgraph.core.errors import Unimplemented
from benchgraph.graph import Graph, GraphBuilder
from benchgraph.harness.timing import distrust, measure
from benchgraph.machine.cpu_affinity import allowed_cpus
from benchgraph.measure.sampling import AGREEING, LEAST_ROUNDS, Rounds, calibrate, called, interleave
from benchgraph.options.knobs import Globals
from benchgraph.options.plugins import load_driver
from benchgraph.options.problem import Problem
from benchgraph.partition.ir import Partition, Policy
from benchgraph.results.mode import Mode
from benchgraph.results.result import PolicyTiming, Result, Status, Timing
from tests.support.fake_library import (
    BANDWIDTH,
    CALL_S,
    COMPILE_S,
    FASTER,
    MEMORY,
    MEMORY_BYTES,
    OP_S,
    PEAK,
    PYTHON_S,
    Chain,
    Clock,
    FakeLibrary,
    fake_bench,
    held,
    two_ops,
)


class Steady:
    """A chain that takes a fixed time per execution."""

    constants = ()

    def __init__(self, clock: Clock, seconds: float) -> None:
        self.clock, self.seconds, self.runs = clock, seconds, list[int]()

    def run(self, times: int) -> None:
        self.runs.append(times)
        self.clock.advance(times * self.seconds)


def problem(**settings: object) -> Problem:
    driver = load_driver("graph")
    return Problem(0, driver, Globals(mode=Mode.performance, **settings), driver.knobs(), Path())


def run(clock: Clock, free_bytes: int = 1 << 40, **settings: object) -> Result:
    library = FakeLibrary(clock)
    return held(measure, problem(**settings), two_ops(), library, fake_bench(library, free_bytes))


@pytest.mark.parametrize(("seconds", "times"), [(30e-3, 1), (21e-3, 1), (11e-3, 2), (9e-3, 4), (10e-6, 2048)])
def test_a_sample_lasts_twenty_milliseconds(seconds: float, times: int) -> None:
    clock = Clock()
    assert calibrate(Steady(clock, seconds), clock).times == times


def test_the_first_execution_is_not_a_sample() -> None:
    clock = Clock()
    chain = Steady(clock, 11e-3)
    calibrate(chain, clock)
    assert chain.runs == [1, 1, *[2] * AGREEING]


def test_one_slow_sample_does_not_end_the_calibration() -> None:
    clock = Clock()

    class Stutters(Steady):
        def run(self, times: int) -> None:
            super().run(times)
            self.clock.advance(1.0 if len(self.runs) == 2 else 0.0)

    assert calibrate(Stutters(clock, 10e-3), clock).times == 2


@pytest.mark.parametrize(("seconds", "times"), [(30e-3, 1), (2e-3, 16), (1e-6, 32768)])
def test_calls_from_python_are_counted_by_their_own_time(seconds: float, times: int) -> None:
    """As many as make a sample, whatever the native call under them takes."""
    clock = Clock()
    steps = [lambda: clock.advance(seconds / 2)] * 2
    assert called(steps, clock).times == times


def test_rounds_end_with_the_budget() -> None:
    clock, done = Clock(), 0
    for _ in Rounds(10.0, 0, clock):
        clock.advance(1.0)
        done += 1
    assert done == 10


def test_a_small_budget_still_gets_five_rounds() -> None:
    clock, done = Clock(), 0
    for _ in Rounds(0.1, 0, clock):
        clock.advance(1.0)
        done += 1
    assert done == LEAST_ROUNDS == 5


@pytest.mark.parametrize("fixed", [1, 3, 8])
def test_a_fixed_number_of_rounds_is_kept(fixed: int) -> None:
    assert len(list(Rounds(0.0, fixed, Clock()))) == fixed


def test_every_round_samples_everything_once_in_changing_order() -> None:
    order = list[int]()
    sources = [lambda i=i: float(order.append(i) or i) for i in range(3)]
    samples = interleave(sources, Rounds(0.0, 20, Clock()), random.Random(0))
    rounds = [tuple(order[i : i + 3]) for i in range(0, 60, 3)]
    assert samples == [(0.0,) * 20, (1.0,) * 20, (2.0,) * 20]
    assert all(sorted(r) == [0, 1, 2] for r in rounds)
    assert len(set(rounds)) > 1


def test_times_are_exact_on_a_fake_clock() -> None:
    fused, post_ops, one_op_each = run(Clock(), fix_times_per_prb=4).timings
    assert fused.timing == Timing((pytest.approx(CALL_S + 2 * OP_S),) * 4, 4)
    assert one_op_each.timing == post_ops.timing == Timing((pytest.approx(2 * (CALL_S + OP_S)),) * 4, 4)
    assert [t.timing.min_s for t in one_op_each.partitions] == pytest.approx([CALL_S + OP_S] * 2)
    assert (fused.compile_s, one_op_each.compile_s) == (COMPILE_S, 2 * COMPILE_S)


def test_the_only_partition_takes_the_samples_of_the_whole() -> None:
    fused = run(Clock(), policy=("fused",), fix_times_per_prb=2).timings[0]
    assert [p.timing for p in fused.partitions] == [fused.timing]


def test_the_overhead_of_python_is_reported_separately(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("benchgraph.harness.timing.MOST_CALLED_S", 1.0)
    fused, apart = run(Clock(), policy=("fused", "one_op_each")).timings
    assert fused.called is not None
    assert (fused.timing.times, fused.called.times) == (4, 4)
    assert fused.timing.min_s == pytest.approx(CALL_S + 2 * OP_S)
    assert fused.execute_s == pytest.approx(PYTHON_S)
    assert apart.execute_s == pytest.approx(2 * PYTHON_S)


@pytest.mark.parametrize("settings", [{}, {"cold_cache": "all"}, {"num_streams": 2}], ids=str)
def test_unmeasurable_overhead_is_not_reported(settings: dict[str, object], monkeypatch: pytest.MonkeyPatch) -> None:
    if settings:
        monkeypatch.setattr("benchgraph.harness.timing.MOST_CALLED_S", 1.0)
    with override(threads=2):
        assert [t.execute_s for t in run(Clock(), policy=("fused",), **settings).timings] == [None]


def test_costs_come_from_the_op_table() -> None:
    result = run(Clock(), fix_times_per_prb=1)
    one_op_each = result.timings[2]
    assert result.flops == sum(p.flops for p in one_op_each.partitions) == 2 * 4 * 8 * 16 + 4 * 16
    assert result.bytes == 4 * (4 * 8 + 8 * 16 + 4 * 16)
    assert [p.ops for p in one_op_each.partitions] == [(0,), (1,)]


def test_the_peak_is_sampled_in_every_round(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("benchgraph.harness.timing.current", lambda: type("Target", (), {"cores": 3}))
    assert run(Clock(), fix_times_per_prb=4).peak_samples == (3 * PEAK,) * 8  # four with the wholes, four with the partitions


@pytest.mark.skipif(len(allowed_cpus()) < 2, reason="there is but one processor")
def test_there_are_as_many_processors_as_threads_while_samples_are_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    """And all of them while partitions are compiled."""
    seen: dict[str, set[int]] = {"compile": set(), "run": set()}

    def watched(name: str, method: Callable[..., object]) -> Callable[..., object]:
        return lambda *args: (seen[name].add(len(os.sched_getaffinity(0))), method(*args))[1]

    for owner, name in ((FakeLibrary, "compile"), (Chain, "run")):
        monkeypatch.setattr(owner, name, watched(name, getattr(owner, name)))
    with override(threads=1):
        run(Clock(), fix_times_per_prb=1)
    assert seen == {"compile": {len(allowed_cpus())}, "run": {1}}


@pytest.mark.parametrize(("dtype", "name"), [(DType.bf16, "bf16"), (DType.f16, "f32")])
def test_shares_are_of_the_peak_of_what_the_products_are_in(dtype: DType, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """And f32's is sampled beside it, from which drift is known."""
    monkeypatch.setattr("benchgraph.harness.timing.current", lambda: type("Target", (), {"cores": 3}))
    b, library = GraphBuilder(), FakeLibrary(Clock())
    b.op("MatMul", b.input((4, 8), dtype), b.constant((8, 16), dtype))
    result = held(measure, problem(fix_times_per_prb=4, policy=("fused",)), b.graph(), library, fake_bench(library))
    assert (result.arithmetic, result.peak) == (name, 3 * FASTER[name] * PEAK)
    assert result.peak_samples == (3 * PEAK,) * 4
    assert result.arithmetic_samples == ((3 * FASTER[name] * PEAK,) * 4 if name != "f32" else ())
    assert result.roofline(result.timings[0]).peak == result.peak


def spent(timing: Timing) -> float:
    return len(timing.samples_s) * timing.times * timing.median_s


def test_the_budget_is_for_all_policies_together() -> None:
    clock = Clock()
    result = run(clock, max_ms_per_prb=3000.0)
    whole = sum(spent(t.timing) for t in result.timings)
    alone = sum(spent(p.timing) for t in result.timings[1:] for p in t.partitions)
    assert 2.0 <= whole < 2.1
    assert 1.0 <= alone < 1.1


class FusesOnly(FakeLibrary):
    """Computes nothing but several ops together."""

    def partitions(self, graph: Graph, policy: Policy) -> tuple[Partition, ...]:
        found = super().partitions(graph, policy)
        return tuple(p if len(p.ops) > 1 else replace(p, reason="no kernel") for p in found)


def test_a_baseline_that_the_library_lacks_is_left_out() -> None:
    library = FusesOnly(Clock())
    result = held(measure, problem(), two_ops(), library, fake_bench(library))
    assert [t.policy for t in result.timings] == ["fused"]
    assert result.warnings[0].startswith("not measured: post_ops: partition 0 (op 0: MatMul")
    assert result.warnings[1].startswith("not measured: one_op_each: partition 0")


@pytest.mark.parametrize("policy", [("one_op_each",), ("fused", "one_op_each")])
def test_a_policy_asked_for_by_name_is_not_left_out(policy: tuple[str, ...]) -> None:
    library = FusesOnly(Clock())
    with pytest.raises(Unimplemented, match=r"^one_op_each: partition 0 .* is unsupported: no kernel$"):
        held(measure, problem(policy=policy), two_ops(), library, fake_bench(library))


def test_policies_too_large_for_memory_are_measured_one_after_another() -> None:
    result = run(Clock(), free_bytes=1000, fix_times_per_prb=2)
    assert [t.policy for t in result.timings] == ["fused", "post_ops", "one_op_each"]
    assert len(result.peak_samples) == 10  # two per policy, and two more for the partitions of those that have several
    assert result.warnings[0].startswith("policies measured one after another: together they need 0.0 GiB of 0.0 free")


def measured(samples: tuple[float, ...], times: int, peaks: tuple[float, ...], **more: object) -> Result:
    """Of a graph with ten million operations on a million bytes."""
    timings = (PolicyTiming("fused", Timing(samples, times), ()),)
    return Result(Status.EXECUTED, flops=10_000_000, bytes=1_000_000, timings=timings, peak_samples=peaks, **more)


BUSY = "cannot be; the machine was busy whenever the peak was measured, or work is left out (--mode=C)"


@pytest.mark.parametrize(
    ("samples", "times", "peaks", "reasons"),
    [
        ((0.0100, 0.0101, 0.0102), 1, (1e9, 1e9), []),
        ((0.010, 0.012, 0.014), 1, (), ["fused: quartiles lie 17% apart; close other programs or raise --max-ms-per-prb"]),
        ((0.0005, 0.0005), 1, (), ["fused: samples last under 1 ms; the clock is too coarse for them"]),
        ((0.0005, 0.0005), 4, (), []),
        ((0.01, 0.01), 1, (0.8e9, 0.8e9), [f"fused: 125% of the peak {BUSY}"]),
        ((0.01, 0.01), 1, (1e9, 2e9), ["the machine's peak moved by 33% during the run (frequency, or other programs)"]),
    ],
)
def test_unreliable_numbers_have_a_reason(samples: tuple[float, ...], times: int, peaks: tuple[float, ...], reasons: list[str]) -> None:
    assert distrust(measured(samples, times, peaks)) == reasons


def test_a_bandwidth_that_is_exceeded_is_doubted() -> None:
    case = measured((0.01, 0.01), 2, (1e9, 1e9), bandwidth_samples={1_000_000: (0.5e8, 0.8e8)})
    what = "fused: 125% of the bandwidth cannot be; the machine was busy whenever the bandwidth was measured"
    assert distrust(case) == [what]


def test_a_cold_sample_may_be_shorter() -> None:
    assert distrust(measured((60e-6, 60e-6), 1, (), cold_cache="all")) == []
    too_short = ["fused: samples last under 50 us; the clock is too coarse for them"]
    assert distrust(measured((40e-6, 40e-6), 1, (), cold_cache="all")) == too_short


WHOLE = 4 * (4 * 8 + 8 * 16 + 4 * 16)  # bytes of the graph, and of the MatMul alone, whose dst is as large as the ReLU's
RELU = 4 * 2 * 4 * 16


def test_the_bandwidth_is_measured_at_the_bytes_of_the_graph_and_of_each_partition(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("benchgraph.harness.timing.current", lambda: type("Target", (), {"cores": 3}))
    samples = run(Clock(), fix_times_per_prb=4).bandwidth_samples
    assert samples == {WHOLE: (3 * BANDWIDTH,) * 8, RELU: (3 * BANDWIDTH,) * 4}


def test_shares_of_the_roofs_of_a_known_multiplication() -> None:
    result = run(Clock(), fix_times_per_prb=2, threads=1, policy=("one_op_each",))
    matmul = result.roofline(result.timings[0].partitions[0])
    flops, seconds = 2 * 4 * 8 * 16, CALL_S + OP_S
    assert (matmul.flops, matmul.bytes, matmul.seconds) == (flops, WHOLE, pytest.approx(seconds))
    assert matmul.intensity == flops / WHOLE
    assert matmul.peak_share == pytest.approx(flops / seconds / result.peak)
    assert matmul.bandwidth_share == pytest.approx(WHOLE / seconds / result.bandwidth(WHOLE))
    assert result.roofline(result.timings[0]).seconds == pytest.approx(2 * seconds)


@pytest.mark.parametrize(("word", "evict"), [("wei", "evict 3 0"), ("all+tlb:2M", "evict 7 2097152"), ("none+tlb", "evict 0 1073741824")])
def test_data_are_made_cold_before_every_execution_and_not_on_the_clock(word: str, evict: str) -> None:
    """Of the whole: the MatMul reads src and wei and writes acc, the ReLU reads acc and writes dst; each has a constant of its own."""
    library = FakeLibrary(Clock())
    settings = problem(cold_cache=word, policy=("one_op_each",), fix_times_per_prb=5)
    result = held(measure, settings, two_ops(), library, fake_bench(library))
    whole, alone = library.events[:11], library.events[11:]
    assert whole == ["1 x MatMul + ReLU", *[evict, "1 x MatMul + ReLU"] * 5]
    assert alone[:2] == ["1 x MatMul", "1 x ReLU"]
    assert [event.split()[0] for event in alone[2:]] == ["evict", "1"] * 10
    assert result.timings[0].timing == Timing((pytest.approx(2 * (CALL_S + OP_S)),) * 5, 1)
    assert [p.timing for p in result.timings[0].partitions] == [Timing((pytest.approx(CALL_S + OP_S),) * 5, 1)] * 2
    assert result.cold_cache == word


def test_hot_data_are_left_alone() -> None:
    library = FakeLibrary(Clock())
    held(measure, problem(fix_times_per_prb=1), two_ops(), library, fake_bench(library))
    assert not [event for event in library.events if "evict" in event]


def test_all_cold_data_come_from_memory() -> None:
    result = run(Clock(), cold_cache="all", fix_times_per_prb=2, threads=1)
    assert list(result.bandwidth_samples) == [MEMORY_BYTES]
    assert result.bandwidth(8) == result.bandwidth(1 << 40) == max(result.bandwidth_samples[MEMORY_BYTES])
    assert result.bandwidth(8) % MEMORY == 0


def test_without_constants_cold_weights_are_none() -> None:
    b = GraphBuilder()
    b.op("ReLU", b.input((4, 8)))
    library = FakeLibrary(Clock())
    result = held(measure, problem(cold_cache="wei", fix_times_per_prb=1), b.graph(), library, fake_bench(library))
    assert result.warnings[0] == "--cold-cache=wei: no input of the graph is constant, so none of the data were cold"
