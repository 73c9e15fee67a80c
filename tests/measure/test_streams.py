"""Several executions in flight: at the same time, each on its own data and share of the threads."""

from __future__ import annotations

import gc
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest

from benchgraph.core.config import override
from benchgraph.core.errors import InvalidArguments
from benchgraph.graph import Graph, GraphBuilder
from benchgraph.harness import built
from benchgraph.harness.timing import measure
from benchgraph.measure.streams import Streams, threads_per_stream
from benchgraph.options.knobs import Globals
from benchgraph.options.plugins import load_driver
from benchgraph.options.problem import Problem
from benchgraph.results.mode import Mode
from tests.support.fake_library import BANDWIDTH, CALL_S, OP_S, PEAK, Bound, Clock, FakeLibrary, fake_bench, held

PATIENCE_S = 30.0


@dataclass
class Meets:
    """A chain whose execution waits for the others' to have begun."""

    barrier: threading.Barrier
    constants: Sequence[np.ndarray] = ()
    runs: list[tuple[int, int]] = field(default_factory=list)

    def run(self, times: int) -> None:
        self.barrier.wait(PATIENCE_S)
        self.runs.append((times, threading.get_ident()))


def test_streams_run_at_the_same_time_and_keep_their_threads() -> None:
    barrier, arrays = threading.Barrier(3), [np.zeros(1) for _ in range(3)]
    chains = [Meets(barrier, [a]) for a in arrays]
    streams = Streams(chains)
    for times in (1, 5):
        streams.run(times)
    assert [[times for times, _ in c.runs] for c in chains] == [[1, 5]] * 3
    assert all(len({thread for _, thread in c.runs}) == 1 for c in chains)
    assert len({c.runs[0][1] for c in chains} | {threading.get_ident()}) == 4
    assert [id(a) for a in streams.constants] == [id(a) for a in arrays]


def test_a_failing_stream_raises_when_all_are_done() -> None:
    class Fails(Meets):
        def run(self, times: int) -> None:
            super().run(times)
            raise ValueError("broken")

    barrier = threading.Barrier(2)
    good = Meets(barrier)
    streams = Streams([Fails(barrier), good])
    for runs in (1, 2):
        with pytest.raises(ValueError, match="broken"):
            streams.run(1)
        assert len(good.runs) == runs


def test_threads_end_with_their_streams() -> None:
    before = set(threading.enumerate())
    streams = Streams([Meets(threading.Barrier(1)) for _ in range(4)])
    served = set(threading.enumerate()) - before
    assert len(served) == 4
    del streams
    gc.collect()
    for thread in served:
        thread.join(PATIENCE_S)
    assert not any(thread.is_alive() for thread in served)


@pytest.mark.parametrize(("streams", "threads", "each"), [(1, 4, 4), (2, 4, 2), (3, 4, 1), (4, 4, 1)])
def test_streams_share_the_threads(streams: int, threads: int, each: int) -> None:
    with override(runtime="seq"):
        assert threads_per_stream(streams, threads, is_single=False) == each


@pytest.mark.parametrize(
    ("runtime", "streams", "is_single", "why"),
    [
        ("seq", 5, False, r"--num-streams=5: there are 4 threads, and a stream takes one at least; ask for fewer streams"),
        ("seq", 2, True, r"--num-streams=2: a sample of a cold cache, and of mode S, is one execution, .*; use one stream"),
        ("threadpool", 2, False, r"the threadpool runtime has one team, .*; set BENCHGRAPH_RUNTIME=omp, or --num-streams=4"),
    ],
)
def test_streams_that_cannot_be_measured_are_refused(runtime: str, streams: int, is_single: bool, why: str) -> None:
    with override(runtime=runtime), pytest.raises(InvalidArguments, match=why):
        threads_per_stream(streams, 4, is_single=is_single)


def relu() -> Graph:
    b = GraphBuilder()
    b.op("ReLU", b.input((4, 8)))
    return b.graph()


def test_mode_p_times_executions_that_are_finished(monkeypatch: pytest.MonkeyPatch) -> None:
    """The fake machine executes one after another, so two streams take as long per execution as one; four threads make two of two."""
    bounds = list[Bound]()
    monkeypatch.setattr(FakeLibrary, "sequence", _recorded(FakeLibrary.sequence, bounds))
    library, driver = FakeLibrary(Clock()), load_driver("graph")
    settings = Globals(mode=Mode.performance, policy=("fused",), num_streams=2, fix_times_per_prb=3)
    with override(threads=5, runtime="seq"):
        result = held(measure, Problem(0, driver, settings, driver.knobs(), Path()), relu(), library, fake_bench(library))
    assert library.threads == [2]
    (timing,) = (t.timing for t in result.timings)
    assert timing.samples_s == (pytest.approx(CALL_S + OP_S),) * 3
    assert timing.times % 2 == 0
    assert result.peak_samples == (4 * PEAK,) * 3
    assert result.bandwidth_samples == {2 * 2 * 4 * 32: (4 * BANDWIDTH,) * 3}
    one, other = {id(b): b for b in bounds}.values()
    assert np.array_equal(one.inputs[0], other.inputs[0])
    memory = [a for b in (one, other) for a in (*b.inputs, *b.outputs)]
    assert not any(np.shares_memory(a, b) for i, a in enumerate(memory) for b in memory[:i])


def _recorded(sequence: object, bounds: list[Bound]) -> object:
    def recording(self: FakeLibrary, steps: Sequence[Bound]) -> object:
        bounds.extend(steps)
        return sequence(self, steps)  # type: ignore[operator]

    return recording


def test_copies_have_the_layout_of_the_tensor() -> None:
    b = GraphBuilder()
    b.op("ReLU", b.input((4, 8)))
    graph = b.graph()
    (source,) = graph.inputs
    values = {source.id: np.arange(32, dtype=np.float32).reshape(4, 8)}
    made = built.copies(graph, values)
    assert np.array_equal(made[source.id], values[source.id])
    assert not np.shares_memory(made[source.id], values[source.id])
