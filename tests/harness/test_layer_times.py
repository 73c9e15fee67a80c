"""The times of layers on a fake clock: whose they are, what they add up to, and when they are not to be believed."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from benchgraph.core.config import override
from benchgraph.core.layers import Span
from benchgraph.graph import Graph
from benchgraph.harness.timing import measure
from benchgraph.options.knobs import Globals
from benchgraph.options.plugins import load_driver
from benchgraph.options.problem import Problem
from benchgraph.results.layers import LayerProfile, distrust
from benchgraph.results.mode import Mode
from benchgraph.results.result import Result
from tests.support.fake_library import BANDWIDTH, CALL_S, OP_S, PEAK, Clock, FakeLibrary, fake_bench, held, two_ops
from tests.support.result_sets import LAYERED, LAYERS

WHOLE = CALL_S + 2 * OP_S  # of both ops in one partition


def problem(**settings: object) -> Problem:
    driver = load_driver("graph")
    return Problem(
        0, driver, Globals(**{"mode": Mode.performance, "layers": "true", "fix_times_per_prb": 3} | settings), driver.knobs(), Path()
    )


def run(library: FakeLibrary, graph: Graph | None = None, **settings: object) -> Result:
    with override(threads=2):
        return held(measure, problem(**settings), graph or two_ops(), library, fake_bench(library))


def profile(result: Result, policy: str = "fused") -> LayerProfile:
    found = next(t.layers for t in result.timings if t.policy == policy)
    assert found is not None
    return found


def test_layers_have_the_times_that_the_library_tells() -> None:
    result = run(FakeLibrary(Clock(), layer_s=(0.004, 0.001)))
    found = profile(result)
    product, relu = found.layers
    assert (product.median_s, relu.median_s, found.sum_s) == pytest.approx((0.004, 0.001, 0.005))
    assert found.share(product) == pytest.approx(0.8)
    assert found.plain_s == pytest.approx(WHOLE)
    assert (product.kinds, product.ops, product.name) == (("MatMul",), (0,), "MatMul#0")
    assert (product.flops, product.bytes) == (2 * 4 * 8 * 16, 4 * (4 * 8 + 8 * 16 + 4 * 16))
    assert (relu.flops, relu.bytes) == (4 * 16, 4 * 2 * 4 * 16)
    assert product.shapes == "f32 4x8, f32 8x16 -> f32 4x16"
    assert result.roofline(product).bandwidth_share == pytest.approx(product.bytes / 0.004 / (BANDWIDTH * 2))
    assert result.roofline(product).peak_share == pytest.approx(product.flops / 0.004 / (PEAK * 2))


def test_threads_wait_for_the_time_in_which_they_do_not_compute() -> None:
    found = profile(run(FakeLibrary(Clock(), layer_s=(0.004, 0.001))))
    assert [layer.busy for layer in found.layers] == pytest.approx([0.75, 0.75])


def test_the_spans_of_one_execution_begin_at_zero() -> None:
    found = profile(run(FakeLibrary(Clock(), layer_s=(0.004, 0.001))))
    assert (found.spans[0].begin_s, found.spans[-1].begin_s, found.spans[0].thread) == pytest.approx((0.0, 0.004, -1))
    assert max(s.end_s for s in found.spans) == pytest.approx(0.005)


def test_an_execution_without_a_profiler_stands_beside_each_profiled_one() -> None:
    library = FakeLibrary(Clock(), layer_s=(0.004, 0.001))
    run(library, policy=("fused",))
    rounds = library.events[library.events.index("profiled") :]
    assert rounds == ["profiled", *["1 x MatMul ReLU"] * 3, *["1 x MatMul ReLU", "1 x MatMul ReLU", "profiled", "profiled"] * 3]


@pytest.mark.parametrize(("layer_s", "is_wrong"), [((0.004, 0.00124), False), ((0.004, 0.00126), True), ((0.003, 0.001), True)])
def test_layers_that_do_not_add_up_are_told(layer_s: tuple[float, ...], is_wrong: bool) -> None:
    result = run(FakeLibrary(Clock(), layer_s=layer_s), policy=("fused",))
    assert any("fused: executions whose layers are timed take" in w for w in result.warnings) == is_wrong


def test_the_first_policy_is_profiled_unless_others_are_named() -> None:
    library = FakeLibrary(Clock(), layer_s=(0.004, 0.001))
    assert [t.policy for t in run(library).timings if t.layers] == ["fused"]
    named = run(library, policy=("post_ops", "one_op_each"))
    assert [t.policy for t in named.timings if t.layers] == ["post_ops", "one_op_each"]
    assert [layer.partition for layer in profile(named, "one_op_each").layers] == [0, 1]


@pytest.mark.parametrize("settings", [{"layers": "auto"}, {"layers": "false"}, {"mode": Mode.simulation}])
def test_nothing_is_profiled_unless_asked_for(settings: dict[str, object]) -> None:
    library = FakeLibrary(Clock(), layer_s=(0.004, 0.001))
    assert not problem(**settings).wants_layers
    if settings.get("mode") is not Mode.simulation:
        assert all(t.layers is None for t in run(library, **settings).timings)
        assert "profiled" not in library.events


@pytest.mark.parametrize(
    ("mode", "layers", "wants"),
    [(Mode.performance, "auto", True), (Mode.performance, "false", False), (Mode.fast_performance, "auto", False)],
)
def test_a_driver_of_models_profiles_in_mode_p(mode: Mode, layers: str, wants: bool) -> None:
    plain = problem(mode=mode, layers=layers)
    assert replace(plain, driver=load_driver("model")).wants_layers == wants


def test_without_a_profiler_each_partition_is_a_layer() -> None:
    found = profile(run(FakeLibrary(Clock()), policy=("one_op_each",)), "one_op_each")
    assert [layer.median_s for layer in found.layers] == pytest.approx([CALL_S + OP_S] * 2)
    assert [layer.ops for layer in found.layers] == [(0,), (1,)]
    assert found.plain_s == pytest.approx(2 * (CALL_S + OP_S))
    assert not found.is_profiled


def test_cold_caches_are_made_before_every_execution() -> None:
    library = FakeLibrary(Clock(), layer_s=(0.004, 0.001))
    run(library, policy=("fused",), cold_cache="all")
    assert library.events[-4:] == ["evict 4 0", "1 x MatMul ReLU", "evict 4 0", "profiled"]


def test_the_numbers_of_a_profile() -> None:
    assert LAYERS.profiled_s == (0.3 + 0.375) / 2
    assert LAYERS.sum_s == 0.225 + 0.1125
    assert LAYERS.plain_s == 0.375
    assert LAYERS.excess == pytest.approx(-0.1)
    assert list(distrust("a", LAYERS)) == ["a: executions whose layers are timed take 337.5 ms, others 375 ms (-10%)"]
    assert LAYERED.roofline(LAYERS.layers[0]).peak_share == pytest.approx(60 / 0.225 / 16e9)


def test_noise_that_hits_another_layer_each_time_is_told() -> None:
    a, b = (replace(LAYERS.layers[0], samples_s=samples) for samples in ((1.0, 1.0, 2.0, 1.0, 2.0), (1.0, 1.0, 1.0, 2.0, 1.0)))
    found = LayerProfile((a, b), (3.0,))
    assert (found.sum_s, found.profiled_s) == (2.0, 3.0)
    assert list(distrust("a", found)) == [
        "a: the medians of layers add up to 67% of an execution; close other programs or raise --max-ms-per-prb"
    ]


def test_a_span_without_a_busy_time_is_busy_all_along() -> None:
    assert Span(0, 1.0, 3.0).seconds == 2.0
