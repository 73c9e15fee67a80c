"""Times the layers of a graph under one contender, beside executions that no profiler watches."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import ceil

from benchgraph.core.layers import Layer, Profiled, Span
from benchgraph.graph.ir import Graph
from benchgraph.harness.built import Built
from benchgraph.library.protocol import Library
from benchgraph.measure.layers import described, profile_of
from benchgraph.measure.sampling import Rounds, seconds
from benchgraph.results.layers import LayerProfile, LayerTiming
from benchgraph.results.result import PolicyTiming

SAMPLE_S = 1e-3  # executions of a round last so long at least, so that the clock's resolution and the call do not show
MOST_PER_ROUND = 64


@dataclass(frozen=True)
class LayerSampler:
    """How layers are sampled. prepare: before every execution, None where they follow each other: it makes caches cold."""

    clock: Callable[[], float]
    rounds: Rounds
    threads: int
    prepare: Callable[[], None] | None = None

    def profile(self, graph: Graph, built: Built, library: Library, timing: PolicyTiming) -> LayerProfile:
        """By the library's profiler; a layer per partition, as they were timed, for a library without one."""
        arrays = [[array for _, array in work.data] for work in built.alone]
        inputs = [own[: len(p.inputs)] for own, p in zip(arrays, built.partitions, strict=True)]
        outputs = [own[len(p.inputs) :] for own, p in zip(arrays, built.partitions, strict=True)]
        profiled = library.profiled(built.partitions, inputs, outputs)
        ran = built.implementations
        if profiled is None:
            return self._by_partition(graph, built, timing)
        executions, whole = self._executions(built, profiled)
        layers = [described(graph, layer, ran[layer.partition] if layer.partition < len(ran) else ()) for layer in profiled.layers]
        return profile_of(layers, executions, whole, self.threads)

    def _executions(self, built: Built, profiled: Profiled) -> tuple[list[Sequence[Span]], list[float]]:
        """Profiled executions, and the seconds of others, in turns."""
        profiled.run()  # computes constants
        times = self._per_round(built)
        spans, whole = list[Sequence[Span]](), list[float]()
        for _ in self.rounds:
            if self.prepare is None:
                built.whole.chain.run(1)  # finds the caches as the following ones do
                whole.append(seconds(built.whole.chain, times, self.clock) / times)
                profiled.run()
                spans += [profiled.run() for _ in range(times)]
                continue
            self.prepare()
            whole.append(seconds(built.whole.chain, 1, self.clock))
            self.prepare()
            spans.append(profiled.run())
        return spans, whole

    def _per_round(self, built: Built) -> int:
        once = min(seconds(built.whole.chain, 1, self.clock) for _ in range(3))
        return max(1, min(MOST_PER_ROUND, ceil(SAMPLE_S / once))) if once > 0 else 1

    def _by_partition(self, graph: Graph, built: Built, timing: PolicyTiming) -> LayerProfile:
        """Each partition, measured on its own, is a layer."""
        layers, spans, now = list[LayerTiming](), list[Span](), 0.0
        samples = min(len(t.timing.samples_s) for t in timing.partitions)
        for n, (p, t, ran) in enumerate(zip(built.partitions, timing.partitions, built.implementations, strict=True)):
            layer = described(graph, Layer(tuple(op.id for op in p.ops), n), ran)
            layers.append(replace(layer, samples_s=t.timing.samples_s[:samples]))
            spans.append(Span(n, now, now + t.timing.median_s))
            now += t.timing.median_s
        return LayerProfile(tuple(layers), timing.timing.samples_s, tuple(spans), self.threads, is_profiled=False)
