"""Data for a graph's inputs.

fill      mode C: benchdnn's strategies. A tensor gets what the op that reads it first is tested on, unless a displacement rule claims it
uniform   timed modes: real numbers in a range that goes with the dtype, quickly made
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from benchgraph.core.dtypes import DType
from benchgraph.core.tensor import LogicalTensor, Shape, TensorType
from benchgraph.graph.ir import Graph
from benchgraph.ops import spec
from benchgraph.ops.spec import Array, Filling
from benchgraph.ops.strategies.filling import constant
from benchgraph.ops.strategies.noise import Noise
from benchgraph.reference.displace import displaced
from benchgraph.reference.displace.rule import Displaced
from benchgraph.reference.evaluate import call_of, evaluate


@dataclass(frozen=True)
class Planned:
    """What one input of the graph will hold. reader: the op and port whose strategy it is; rule: the displacement, '' for none."""

    tensor: LogicalTensor
    filling: Filling
    reader: str = ""
    rule: str = ""
    derived: Displaced | None = None

    def __str__(self) -> str:
        t = self.tensor
        return f"%{t.id} {t.dtype.value}:{'x'.join(map(str, t.known_shape))}: {self.filling.says} ({self.rule or self.reader})"


def plan(graph: Graph) -> tuple[Planned, ...]:
    """What every input of a shape-inferred graph will hold, in the order of graph.inputs."""
    claimed, found = displaced(graph), list[Planned]()
    for t in graph.inputs:
        if t.id in claimed:
            rule, decision = claimed[t.id]
            found.append(Planned(t, decision.filling, rule=rule, derived=decision if decision.derive else None))
        else:
            found.append(_by_first_reader(graph, t))
    return tuple(found)


def _by_first_reader(graph: Graph, t: LogicalTensor) -> Planned:
    """The strategy of the first op, in topological order, that computes with the tensor; zeros when none does."""
    for op in graph.order:
        ports = [i for i, s in enumerate(op.inputs) if s.id == t.id]
        if ports and not spec(op.kind).unsupported:
            row = spec(op.kind)
            names = (*row.inputs, *(row.inputs[-1:] * len(op.inputs)))  # the last port of a variadic op repeats
            return Planned(t, row.fill(call_of(op), ports[0]), f"{op.label}, {names[ports[0]].name}")
    return Planned(t, constant(0), "read by nothing that computes")


def fill(graph: Graph, seed: int) -> dict[int, Array]:
    """An array per input of a shape-inferred graph, in the tensor's dtype and strides (s4 and u4: one element to a byte).

    An element depends on the seed, its tensor's id and its place alone, but for what is derived from other tensors. Elements between
    the strides are 0.
    """
    planned = plan(graph)
    made = {p.tensor.id: _made(p, seed) for p in planned if p.derived is None}
    for p in planned:
        if p.derived is not None and p.derived.derive is not None:
            made[p.tensor.id] = in_layout(p.tensor, p.derived.derive(_computed(graph, p.derived.of, made)))
    return {t.id: made[t.id] for t in graph.inputs}


def _made(p: Planned, seed: int) -> Array:
    t = TensorType(p.tensor.dtype, p.tensor.known_shape)
    return in_layout(p.tensor, p.filling.make(t, Noise(seed, p.tensor.id)))


def _computed(graph: Graph, id: int, inputs: Mapping[int, Array]) -> Array:
    """What the reference computes for a tensor, from the ops above it."""
    needed, above = {id}, []
    for op in reversed(graph.order):
        if any(t.id in needed for t in op.outputs):
            above.append(op)
            needed |= {t.id for t in op.inputs}
    part = Graph(tuple(reversed(above)))
    return evaluate(part, inputs, keep=(id,))[id]


# ---- timed modes -----------------------------------------------------------------------------------------------------

WIDEST = 1024.0
RANGES: dict[DType, tuple[float, float]] = {
    DType.bf16: (-32, 32), DType.f16: (-8, 8), DType.f8_e4m3: (-2, 2), DType.f8_e5m2: (-2, 2), DType.s8: (-32, 32), DType.u8: (0, 64),
    DType.s4: (-8, 7), DType.u4: (0, 15), DType.boolean: (0, 1),
}  # fmt: skip


def uniform(graph: Graph, seed: int) -> dict[int, Array]:
    """As `fill`, for timing: uniform numbers in benchdnn's range of the dtype; the last two dims are made, and repeated over the others."""
    return {t.id: in_layout(t, _uniform(t, np.random.default_rng((seed, t.id)))) for t in graph.inputs}


def _uniform(t: LogicalTensor, rng: np.random.Generator) -> Array:
    low, high = RANGES.get(t.dtype, (-WIDEST, WIDEST))
    block = _block(t.known_shape)
    if not t.dtype.is_float:
        return np.resize(rng.integers(int(low), int(high), block, endpoint=True), t.known_shape)
    unit = np.asarray(rng.random(block, dtype=np.float32))
    return np.resize(unit * np.float32(high - low) + np.float32(low), t.known_shape)


def _block(shape: Shape) -> Shape:
    """The shape with all but the last two dims 1: the part that is repeated."""
    return tuple(min(d, 1) for d in shape[:-2]) + shape[-2:]


def in_layout(t: LogicalTensor, values: Array) -> Array:
    """The values in a buffer of the tensor's own, viewed through its strides."""
    dtype = t.dtype.numpy
    buffer = np.zeros(t.storage_elements * dtype.itemsize, np.uint8)
    array: Array = np.ndarray(t.known_shape, dtype, buffer=buffer, strides=[s * dtype.itemsize for s in t.known_strides])
    array[...] = values
    return array
