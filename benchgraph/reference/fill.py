"""Data for a graph's inputs.

fill      mode C: benchdnn's strategies. A tensor gets the test data of the op that reads it first, unless a displacement rule claims it.
          In deep graphs, where such data overflow every type, reals, with scaled weights (deep_graphs.py)
uniform   timed modes: real numbers in a range that depends on the dtype, quickly generated
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from benchgraph.core.dtypes import DType
from benchgraph.core.tensor import LogicalTensor, TensorType
from benchgraph.graph.ir import Graph
from benchgraph.ops import spec
from benchgraph.ops.fill_rules.filling import constant, integers
from benchgraph.ops.fill_rules.noise import Noise
from benchgraph.ops.spec import Array, Filling, port_of
from benchgraph.reference.deep_graphs import ScaledInput, is_deep, scaled_inputs, sums_products
from benchgraph.reference.displace import displaced
from benchgraph.reference.displace.rule import Displaced
from benchgraph.reference.evaluate import evaluate
from benchgraph.reference.index_ranges import index_ranges
from benchgraph.reference.real_values import real_values
from benchgraph.reference.scale_weights import Draw, scale_inputs


@dataclass(frozen=True)
class InputPlan:
    """The data of one input of the graph. reader: the op and port whose strategy is used; rule: the displacement rule, '' for none.

    target: what a deep graph scales it for.
    """

    tensor: LogicalTensor
    filling: Filling
    reader: str = ""
    rule: str = ""
    derived: Displaced | None = None
    target: ScaledInput | None = None

    def __str__(self) -> str:
        t, target = self.tensor, self.target
        scaled = f", scaled so that {target.op.label} makes numbers of size {target.size:.3g}" if target is not None else ""
        shape = "x".join(map(str, t.known_shape))
        return f"%{t.id} {t.dtype.value}:{shape}: {self.filling.description}{scaled} ({self.rule or self.reader})"


# The rules that apply to deep graphs too: masks, and tensors that depend on others. The other rules make
# operands of products small integers.
AT_ANY_DEPTH = frozenset(
    {"compressed_attention", "statistics", "bottom_right", "causal_mask", "implicit_mask", "quantised_scores", "factors", "scores"}
)


def plan(graph: Graph, given: Collection[int] = ()) -> tuple[InputPlan, ...]:
    """The data of every input of a shape-inferred graph that is not given, in the order of graph.inputs."""
    claimed, plans, deep = displaced(graph), list[InputPlan](), is_deep(graph)
    if deep:
        claimed = {id: decided for id, decided in claimed.items() if decided[0] in AT_ANY_DEPTH}
    scaled = {d.tensor.id: d for d in scaled_inputs(graph, {id for id, (rule, _) in claimed.items() if rule != "factors"})} if deep else {}
    indices = index_ranges(graph)
    scaled = {} if given else scaled
    for t in (t for t in graph.inputs if t.id not in given):
        if t.id in indices:
            plans.append(InputPlan(t, integers(*indices[t.id]), "indices and masks of Wildcards"))
        elif t.id in claimed:
            rule, decision = claimed[t.id]
            derived = decision if decision.derive else None
            plans.append(InputPlan(t, decision.filling, rule=rule, derived=derived, target=scaled.get(t.id)))
        else:
            planned = _by_first_reader(graph, t)
            if deep and (t.id not in scaled or not sums_products(scaled[t.id].op)):
                filling = Filling("reals that are typical for the op", partial(_typical, graph, t))
                planned = replace(planned, filling=filling)
            plans.append(replace(planned, target=scaled.get(t.id)))
    return tuple(plans)


def _typical(graph: Graph, t: LogicalTensor, made: TensorType, noise: Noise) -> Array:
    return real_values(graph, t, noise.chunk(0))


def _by_first_reader(graph: Graph, t: LogicalTensor) -> InputPlan:
    """The strategy of the first op, in topological order, that computes with the tensor; zeros if none does."""
    op = graph.first_reader(t.id, lambda reader: reader.is_computed)
    if op is None:
        return InputPlan(t, constant(0), "read by nothing that computes")
    port = [s.id for s in op.inputs].index(t.id)
    row = spec(op.kind)
    return InputPlan(t, row.testing.fill(op.call, port), f"{op.label}, {port_of(row.schema.inputs, port).name}")


def fill(graph: Graph, seed: int, given: Mapping[int, Array] | None = None) -> dict[int, Array]:
    """An array per input of a shape-inferred graph, in the tensor's dtype and strides (s4 and u4: one element to a byte).

    given: the elements of inputs that have data of their own, which are left out; then no weights are scaled.

    An element depends only on the seed, its tensor's id and its index, except for tensors derived from others, and for scaled weights of a
    deep graph. Padding between strides is 0.
    """
    own = given or {}
    planned = plan(graph, own)
    independent = ((p.tensor, p.filling) for p in planned if p.derived is None)
    arrays = {t.id: in_layout(t, filling.make(TensorType(t.dtype, t.known_shape), Noise(seed, t.id))) for t, filling in independent}
    if scaled := [p.target for p in planned if p.target is not None]:
        unknown = {p.tensor.id: in_layout(p.tensor, np.zeros(1)) for p in planned if p.derived is not None}
        arrays |= scaled_contents(graph, scaled, {**arrays, **unknown}, _small_integers, seed)
    position = {t.id: n for n, op in enumerate(graph.order) for t in op.outputs}
    derived = [(p.tensor, p.derived) for p in planned if p.derived is not None]
    for t, derivation in sorted(derived, key=lambda d: position.get(d[1].of, -1)):  # one may depend on what is computed from another
        if derivation.derive is not None:
            arrays[t.id] = in_layout(t, derivation.derive(_computed(graph, derivation.of, {**own, **arrays})))
    return {t.id: arrays[t.id] for t in graph.inputs if t.id in arrays}


def scaled_contents(graph: Graph, scaled: Sequence[ScaledInput], made: Mapping[int, Array], draw: Draw, seed: int) -> dict[int, Array]:
    """The contents of scaled inputs, in their layouts."""
    arrays = scale_inputs(graph, scaled, made, draw, seed)
    return {target.tensor.id: in_layout(target.tensor, arrays[target.tensor.id]) for target in scaled if target.tensor.id in arrays}


def _small_integers(target: ScaledInput, t: TensorType, noise: Noise) -> Array:
    return spec(target.op.kind).testing.fill(target.op.call, target.port).make(t, noise)


def _computed(graph: Graph, id: int, inputs: Mapping[int, Array]) -> Array:
    """The reference's value of a tensor, from the ops before it."""
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


def uniform(graph: Graph, seed: int, given: Collection[int] = ()) -> dict[int, Array]:
    """As `domain`, for timing: uniform numbers in benchdnn's range of the dtype; the last two dims are generated, and repeated over the
    others.
    """
    made = {t.id: in_layout(t, _uniform(t, np.random.default_rng((seed, t.id)))) for t in graph.inputs if t.id not in given}
    return made | indices_of(graph, seed, given)


def indices_of(graph: Graph, seed: int, given: Collection[int] = ()) -> dict[int, Array]:
    """Of the inputs that Wildcards take as indices or masks: uniform among the legal ones."""
    made, tensors = dict[int, Array](), graph.tensors
    for id, (low, high) in index_ranges(graph).items():
        if id in given:
            continue
        values = np.random.default_rng((seed, id)).integers(low, high, tensors[id].known_shape, endpoint=True)
        made[id] = in_layout(tensors[id], values)
    return made


def _uniform(t: LogicalTensor, rng: np.random.Generator) -> Array:
    low, high = RANGES.get(t.dtype, (-WIDEST, WIDEST))
    block = tuple(min(d, 1) for d in t.known_shape[:-2]) + t.known_shape[-2:]  # repeated along the other dims
    if not t.dtype.is_float:
        return np.resize(rng.integers(int(low), int(high), block, endpoint=True), t.known_shape)
    unit = np.asarray(rng.random(block, dtype=np.float32))
    return np.resize(unit * np.float32(high - low) + np.float32(low), t.known_shape)


def in_layout(t: LogicalTensor, values: Array) -> Array:
    """The values in a new buffer, viewed with the tensor's strides."""
    dtype = t.dtype.numpy
    buffer = np.zeros(t.storage_elements * dtype.itemsize, np.uint8)
    array: Array = np.ndarray(t.known_shape, dtype, buffer=buffer, strides=[s * dtype.itemsize for s in t.known_strides])
    array[...] = values
    return array
