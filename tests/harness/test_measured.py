"""Mode P with the real library and clock: the parts fit together. No times are checked."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from benchgraph.core.config import override
from benchgraph.core.tensor import PropertyType
from benchgraph.graph import Graph, GraphBuilder
from benchgraph.harness.bench import Bench
from benchgraph.harness.case import run_case
from benchgraph.measure import bandwidth
from benchgraph.options.knobs import Globals
from benchgraph.options.plugins import load_driver
from benchgraph.options.problem import Problem
from benchgraph.results.mode import Mode
from benchgraph.results.result import Result, Status
from tests.support.fake_library import two_ops


def run(monkeypatch: pytest.MonkeyPatch, made: Callable[[], Graph] = two_ops, **settings: object) -> Result:
    monkeypatch.setattr(Problem, "graph", lambda self: made())
    monkeypatch.setattr(bandwidth, "last_level_bytes", lambda: 1 << 20)  # a memory that is soon read
    driver = load_driver("graph")
    knobs = Globals(mode=settings.pop("mode", Mode.performance), policy=("one_op_each",), fix_times_per_prb=2, **settings)
    return run_case(Problem(0, driver, knobs, driver.knobs(), Path()), Bench(), print).result


@pytest.mark.parametrize(
    "settings",
    [
        {"threads": 2, "cold_cache": "wei"},
        {"threads": 1, "cold_cache": "all+tlb:1M"},
        {"threads": 2, "num_streams": 2},
        {"threads": 2, "mode": Mode.simulation},
    ],
    ids=["wei", "all", "streams", "simulation"],
)
def test_a_case_is_measured(monkeypatch: pytest.MonkeyPatch, settings: dict[str, object]) -> None:
    result = run(monkeypatch, **settings)
    assert (result.status, result.reason) == (Status.EXECUTED, "")
    (timing,) = result.timings
    timed = [timing.timing, *(p.timing for p in timing.partitions)]
    assert all(t.min_s > 0 for t in timed)
    if settings.get("mode") is Mode.simulation:
        assert [len(t.samples_s) for t in timed] == [1, 1, 1]
        assert result.bandwidth_samples == {}
        return
    assert [len(t.samples_s) for t in timed] == [2, 2, 2]
    assert all((t.times == 1) == ("cold_cache" in settings) for t in timed)
    for work in (result.roofline(t) for t in (timing, *timing.partitions)):
        assert work.bandwidth_share is not None
        assert work.peak_share is not None
    assert (min(result.bandwidth_samples) >= 1 << 22) == (settings.get("cold_cache") == "all+tlb:1M")


def scaled_by_a_host_scalar() -> Graph:
    b = GraphBuilder()
    b.op("Multiply", b.input((4, 8)), b.input((), property_type=PropertyType.host_scalar))
    return b.graph()


def test_a_host_scalar_is_given_to_execute_too(monkeypatch: pytest.MonkeyPatch) -> None:
    result = run(monkeypatch, scaled_by_a_host_scalar, threads=1)
    assert (result.status, result.reason) == (Status.EXECUTED, "")
    assert result.timings[0].called is not None


def test_more_streams_than_threads_are_invalid_arguments(monkeypatch: pytest.MonkeyPatch) -> None:
    with override(threads=2):
        result = run(monkeypatch, num_streams=3)
    assert result.status is Status.INVALID_ARGUMENTS
    assert "there are 2 threads, and a stream takes one at least" in result.reason
