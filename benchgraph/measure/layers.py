"""From what a library's profiler tells to a profile: what each layer computes, and how long it took in each execution."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from benchgraph.core.implementation import Implementation, names
from benchgraph.core.layers import CALLER, Layer, Span
from benchgraph.core.printable import printable
from benchgraph.core.tensor import LogicalTensor
from benchgraph.graph.ir import END, Graph, Op
from benchgraph.ops import spec
from benchgraph.results.layers import LayerProfile, LayerTiming, busy_shares, mean_shares


def profile_of(layers: Sequence[LayerTiming], executions: Sequence[Sequence[Span]], whole_s: Sequence[float], threads: int) -> LayerProfile:
    """The profile of these executions. layers: without times; whole_s: of executions that are not profiled."""
    sums = [_sums(spans, len(layers)) for spans in executions]
    busy = mean_shares([busy_shares(tuple(spans), threads) for spans in executions])
    timed = (replace(layer, samples_s=tuple(each[n] for each in sums), busy=busy.get(n)) for n, layer in enumerate(layers))
    middle = sorted(range(len(sums)), key=lambda n: sum(sums[n]))[len(sums) // 2]
    return LayerProfile(tuple(timed), tuple(whole_s), tuple(_from_zero(executions[middle])), threads)


def described(graph: Graph, layer: Layer, ran: Sequence[Implementation] = ()) -> LayerTiming:
    """What a layer computes, without its times. ran: the implementations of its partition, where the layer has none of its own."""
    implementation = layer.implementation or names(ran)
    ops = [op for op in graph.order if op.id in layer.ops]
    if not ops:
        return LayerTiming(printable(layer.name), (layer.kind,), (), (), layer.partition, implementation, "", 0, 0, ())
    principal = max(ops, key=lambda op: flops([op]))  # the first of several
    others = [op for op in ops if op is not principal]
    return LayerTiming(
        name_of(principal),
        (layer.kind or principal.kind, *(op.kind for op in others)),
        tuple(op.id for op in (principal, *others)),
        tuple(map(name_of, others)),
        layer.partition,
        implementation,
        f"{_shapes(principal.inputs)} -> {_shapes(principal.outputs)}",
        flops(ops),
        _traffic(graph, ops),
        (),
        nests=layer.nests,
    )


def name_of(op: Op) -> str:
    """The model's name of an op; its kind and id where it has none."""
    return printable(op.name) or f"{op.kind}#{op.id}"


def flops(ops: Iterable[Op]) -> int:
    """Floating-point operations, by the op table."""
    return sum(spec(op.kind).semantics.flops(op.call) for op in ops if op.kind != END)


def _traffic(graph: Graph, ops: Sequence[Op]) -> int:
    """Bytes that must enter the ops together, and leave them because others read them or the graph has them as outputs."""
    inside = {op.id for op in ops}
    left = {t.id for t in graph.outputs} | {t.id for op in graph.ops if op.id not in inside for t in op.inputs}
    made = {t.id: t for op in ops for t in op.outputs}
    ins = {t.id: t for op in ops for t in op.inputs if t.id not in made}
    return sum(t.nbytes for t in (*ins.values(), *(t for id, t in made.items() if id in left)))


def _shapes(tensors: Sequence[LogicalTensor]) -> str:
    return ", ".join(f"{t.dtype.value} {'x'.join(map(str, t.known_shape)) or 'scalar'}" for t in tensors)


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
