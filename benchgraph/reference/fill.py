"""Data for a graph's inputs.

fill      mode C: benchdnn's strategies. A tensor gets what the op that reads it first is tested on, unless a displacement rule claims it.
          In deep graphs, where what such data give leaves the range of every type, reals, and layers whose size is set (depth.py)
uniform   timed modes: real numbers in a range that goes with the dtype, quickly made
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from benchgraph.core.dtypes import DType
from benchgraph.core.tensor import LogicalTensor, Shape, TensorType
from benchgraph.graph.ir import Graph
from benchgraph.ops import spec
from benchgraph.ops.spec import Array, Filling, port_of
from benchgraph.ops.strategies.filling import constant
from benchgraph.ops.strategies.noise import Noise
from benchgraph.reference.depth import Dial, dials, is_deep, sums_products
from benchgraph.reference.displace import displaced
from benchgraph.reference.displace.rule import Displaced
from benchgraph.reference.evaluate import call_of, evaluate
from benchgraph.reference.real_values import real_values
from benchgraph.reference.settle import Draw, settle


@dataclass(frozen=True)
class Planned:
    """What one input of the graph will hold. reader: the op and port whose strategy it is; rule: the displacement, '' for none.

    dial: how its size is set by what is computed of it, in a deep graph.
    """

    tensor: LogicalTensor
    filling: Filling
    reader: str = ""
    rule: str = ""
    derived: Displaced | None = None
    dial: Dial | None = None

    def __str__(self) -> str:
        t, dial = self.tensor, self.dial
        scaled = f", scaled so that {dial.op.label} makes numbers of size {dial.size:.3g}" if dial is not None else ""
        return (
            f"%{t.id} {t.dtype.value}:{'x'.join(map(str, t.known_shape))}: {self.filling.description}{scaled} ({self.rule or self.reader})"
        )


# The rules that stay in force in deep graphs: what is masked, or follows from other tensors, is so at any depth. The others say what makes
# small integers of the operands of one product or another.
AT_ANY_DEPTH = frozenset(
    {"compressed_attention", "statistics", "bottom_right", "causal_mask", "implicit_mask", "quantised_scores", "factors", "scores"}
)


def plan(graph: Graph) -> tuple[Planned, ...]:
    """What every input of a shape-inferred graph will hold, in the order of graph.inputs."""
    claimed, found, deep = displaced(graph), list[Planned](), is_deep(graph)
    if deep:
        claimed = {id: decided for id, decided in claimed.items() if decided[0] in AT_ANY_DEPTH}
    turned = {d.tensor.id: d for d in dials(graph, {id for id, (rule, _) in claimed.items() if rule != "factors"})} if deep else {}
    for t in graph.inputs:
        if t.id in claimed:
            rule, decision = claimed[t.id]
            derived = decision if decision.derive else None
            found.append(Planned(t, decision.filling, rule=rule, derived=derived, dial=turned.get(t.id)))
        else:
            planned = _by_first_reader(graph, t)
            if deep and (t.id not in turned or not sums_products(turned[t.id].op)):
                planned = replace(planned, filling=_reals(graph, t))
            found.append(replace(planned, dial=turned.get(t.id)))
    return tuple(found)


def _reals(graph: Graph, t: LogicalTensor) -> Filling:
    return Filling("reals as the op meets them in use", lambda made, noise: real_values(graph, t, noise.chunk(0)))


def _by_first_reader(graph: Graph, t: LogicalTensor) -> Planned:
    """The strategy of the first op, in topological order, that computes with the tensor; zeros when none does."""
    op = graph.first_reader(t.id, lambda reader: not spec(reader.kind).lowering.unsupported)
    if op is None:
        return Planned(t, constant(0), "read by nothing that computes")
    port = [s.id for s in op.inputs].index(t.id)
    row = spec(op.kind)
    return Planned(t, row.testing.fill(call_of(op), port), f"{op.label}, {port_of(row.schema.inputs, port).name}")


def fill(graph: Graph, seed: int) -> dict[int, Array]:
    """An array per input of a shape-inferred graph, in the tensor's dtype and strides (s4 and u4: one element to a byte).

    An element depends on the seed, its tensor's id and its place alone, but for what is derived from other tensors, and, in a deep graph,
    for what the sizes of weights are set by. Elements between the strides are 0.
    """
    planned = plan(graph)
    made = {p.tensor.id: _made(p, seed) for p in planned if p.derived is None}
    if turned := [p.dial for p in planned if p.dial is not None]:
        unknown = {p.tensor.id: in_layout(p.tensor, np.zeros(1)) for p in planned if p.derived is not None}
        made |= settled(graph, turned, {**made, **unknown}, _small_integers, seed)
    place = {t.id: n for n, op in enumerate(graph.order) for t in op.outputs}
    derived = [(p.tensor, p.derived) for p in planned if p.derived is not None]
    for t, how in sorted(derived, key=lambda d: place.get(d[1].of, -1)):  # one may follow from what is computed of another
        if how.derive is not None:
            made[t.id] = in_layout(t, how.derive(_computed(graph, how.of, made)))
    return {t.id: made[t.id] for t in graph.inputs}


def settled(graph: Graph, turned: Sequence[Dial], made: Mapping[int, Array], draw: Draw, seed: int) -> dict[int, Array]:
    """What the dials' tensors hold, in their layouts."""
    found = settle(graph, turned, made, draw, seed)
    return {dial.tensor.id: in_layout(dial.tensor, found[dial.tensor.id]) for dial in turned if dial.tensor.id in found}


def _small_integers(dial: Dial, t: TensorType, noise: Noise) -> Array:
    """The strategy of the op that reads a dial."""
    return spec(dial.op.kind).testing.fill(call_of(dial.op), dial.port).make(t, noise)


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
