"""Times the layers of a graph under one contender, beside executions that no profiler watches."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import ceil

from benchgraph.core.implementation import Implementation, names
from benchgraph.core.layers import CALLER, Layer, Profiled, Span
from benchgraph.core.printable import printable
from benchgraph.core.tensor import LogicalTensor
from benchgraph.graph.ir import Graph, Op
from benchgraph.harness.built import Built
from benchgraph.harness.partitioning import flops, traffic
from benchgraph.library.protocol import Library
from benchgraph.measure.sampling import Rounds, seconds
from benchgraph.partition.ir import Partition
from benchgraph.results.layers import LayerProfile, LayerTiming, busy_shares, mean_shares
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
        layers = [_described(graph, layer, ran[layer.partition] if layer.partition < len(ran) else ()) for layer in profiled.layers]
        sums = [_sums(spans, len(layers)) for spans in executions]
        busy = mean_shares([busy_shares(tuple(spans), self.threads) for spans in executions])
        timed = (replace(layer, samples_s=tuple(each[n] for each in sums), busy=busy.get(n)) for n, layer in enumerate(layers))
        middle = sorted(range(len(sums)), key=lambda n: sum(sums[n]))[len(sums) // 2]
        return LayerProfile(tuple(timed), tuple(whole), tuple(_from_zero(executions[middle])), self.threads)

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
            layer = _described(graph, Layer(tuple(op.id for op in p.ops), n), ran)
            layers.append(replace(layer, samples_s=t.timing.samples_s[:samples]))
            spans.append(Span(n, now, now + t.timing.median_s))
            now += t.timing.median_s
        return LayerProfile(tuple(layers), timing.timing.samples_s, tuple(spans), self.threads)


def _sums(spans: Sequence[Span], layers: int) -> list[float]:
    """Seconds of each layer in one execution."""
    found = [0.0] * layers
    for span in spans:
        if span.thread == CALLER:
            found[span.layer] += span.seconds
    return found


def _from_zero(spans: Sequence[Span]) -> list[Span]:
    start = min((s.begin_s for s in spans), default=0.0)
    return [replace(s, begin_s=s.begin_s - start, end_s=s.end_s - start) for s in spans]


def _described(graph: Graph, layer: Layer, ran: Sequence[Implementation]) -> LayerTiming:
    """What a layer computes, without its times. ran: the implementations of its partition."""
    implementation = layer.implementation or names(ran)
    ops = [op for op in graph.order if op.id in layer.ops]
    if not ops:
        return LayerTiming(printable(layer.name), (layer.kind,), (), (), layer.partition, implementation, "", 0, 0, ())
    principal = max(ops, key=lambda op: flops([op]))  # the first of several
    others = [op for op in ops if op is not principal]
    return LayerTiming(
        name_of(principal),
        tuple(op.kind for op in (principal, *others)),
        tuple(op.id for op in (principal, *others)),
        tuple(map(name_of, others)),
        layer.partition,
        implementation,
        f"{_shapes(principal.inputs)} -> {_shapes(principal.outputs)}",
        flops(ops),
        traffic(_alone(graph, ops)),
        (),
    )


def name_of(op: Op) -> str:
    """The model's name of an op; its kind and id where it has none."""
    return printable(op.name) or f"{op.kind}#{op.id}"


def _shapes(tensors: Sequence[LogicalTensor]) -> str:
    return ", ".join(f"{t.dtype.value} {'x'.join(map(str, t.known_shape)) or 'scalar'}" for t in tensors)


def _alone(graph: Graph, ops: Sequence[Op]) -> Partition:
    """The ops as a partition of their own, whose outputs are what others read of them, or the graph has as outputs."""
    inside = {op.id for op in ops}
    left = {t.id for t in graph.outputs} | {t.id for op in graph.ops if op.id not in inside for t in op.inputs}
    made = {t.id: t for op in ops for t in op.outputs}
    ins = {t.id: t for op in ops for t in op.inputs if t.id not in made}
    return Partition(0, "", tuple(ops), tuple(ins.values()), tuple(t for id, t in made.items() if id in left))
