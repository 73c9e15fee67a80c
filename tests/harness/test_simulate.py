"""Mode S: one execution per policy and nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchgraph.core.errors import InvalidArguments
from benchgraph.harness import inputs
from benchgraph.harness.case import run_case
from benchgraph.harness.simulate import simulate
from benchgraph.options.knobs import Globals
from benchgraph.options.plugins import load_driver
from benchgraph.options.problem import Problem
from benchgraph.results.mode import Mode
from benchgraph.results.result import Status, Timing
from tests.support.fake_library import CALL_S, COMPILE_S, OP_S, Clock, FakeLibrary, fake_bench, held, two_ops


def problem(**settings: object) -> Problem:
    driver = load_driver("graph")
    return Problem(0, driver, Globals(mode=Mode.simulation, **settings), driver.knobs(), Path())


def test_every_policy_is_executed_exactly_once() -> None:
    library = FakeLibrary(Clock())
    result = held(simulate, problem(policy=("fused", "one_op_each")), two_ops(), library, fake_bench(library))
    assert library.events == ["1 x MatMul ReLU", "1 x MatMul", "1 x ReLU"]
    assert library.log == []
    fused, one_op_each = result.timings
    assert fused.timing == Timing((pytest.approx(CALL_S + 2 * OP_S),), 1)
    assert one_op_each.timing == Timing((pytest.approx(2 * (CALL_S + OP_S)),), 1)
    assert [p.timing for p in one_op_each.partitions] == [Timing((pytest.approx(CALL_S + OP_S),), 1)] * 2
    assert one_op_each.compile_s == 2 * COMPILE_S
    assert (result.status, result.n_partitions, result.peak_samples, result.bandwidth_samples) == (
        *(Status.EXECUTED, {"fused": 1, "one_op_each": 2}),
        *((), {}),
    )


def test_mode_s_generates_no_data(monkeypatch: pytest.MonkeyPatch) -> None:
    def never(*_: object, **__: object) -> None:
        raise AssertionError("mode S writes no inputs")

    for name in ("uniform", "constant_inputs", "load_inputs"):
        monkeypatch.setattr(inputs, name, never)
    library, settings = FakeLibrary(Clock()), problem(policy=("fused",))
    monkeypatch.setattr(Problem, "graph", lambda self: two_ops())
    case = run_case(settings, fake_bench(library), print)
    assert (case.result.status, case.result.reason) == (Status.EXECUTED, "")
    assert library.events == ["1 x MatMul ReLU"]


def test_the_one_execution_may_be_cold() -> None:
    library = FakeLibrary(Clock())
    result = held(simulate, problem(policy=("fused",), cold_cache="all"), two_ops(), library, fake_bench(library))
    assert library.events == ["evict 4 0", "1 x MatMul ReLU"]
    assert result.timings[0].timing.samples_s == (pytest.approx(CALL_S + 2 * OP_S),)


def test_one_execution_has_one_stream() -> None:
    library = FakeLibrary(Clock())
    with pytest.raises(InvalidArguments, match="too short to start several streams at once"):
        held(simulate, problem(num_streams=2), two_ops(), library, fake_bench(library))
