"""How deep a graph is, and which of its inputs determine the size of its layers' results.

The strategies of single ops are small integers, whose sums are exact in one op. A layer multiplies the size of its input by some hundred,
so a chain of a dozen layers overflows f32, and one of three f16. In a graph that deep, inputs are reals, and each layer has an input that
scales its result: the weights of a product, or a factor, which scale_weights.py scales to get results of the wanted size.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from math import inf, log2, sqrt

import numpy as np

from benchgraph.core.attrs import Attrs
from benchgraph.core.dtypes import DType
from benchgraph.core.tensor import LogicalTensor, TensorType
from benchgraph.graph.ir import Graph, Op
from benchgraph.ops import spec
from benchgraph.ops.fill_rules.noise import Noise
from benchgraph.ops.spec import Call, Computes, Role
from benchgraph.reference.displace.rule import dequantises, is_transparent, is_wide_float

LAYERS = 6  # products in a chain from which on a graph is deep
FACTOR = 1 / 8  # of a layer: elementwise products change the size by a factor between 1/4 and 8
FEW = 3  # layers whose sums may overflow their type; displacement rules keep two layers in range
MARGIN = 2.0  # bits: the largest numbers are some four times their rms
OTHERS = 3.0  # log2 of the size of the strategies of other ops

# rms of a layer's results: biases of 1 have an effect but do not dominate, and GELU and similar functions are evaluated where they bend
SIZE = 4.0
SIZES = (SIZE, 2.0, 1.0, 0.5)  # of an activation's input: the first for which errors and zeros are few
SHIFTED = 8.0  # input of a normalisation with given statistics, whose shifts of 2 would determine the sign of smaller channels
AFFINE = 3  # a pointwise op with more inputs than this shifts its input
CALM = 1.1  # largest growth of the square of a small relative error in a layer with this activation
STEP = 1e-4  # of numerical derivatives
ZEROS = 0.1  # share of zeros that an activation may make beyond its least for any size
SCORES = 3.0  # input of softmax and exponentials: several elements of a row matter
BENDS = (1.0, 8.0)  # least and largest size of an activation's input
RANGE_SHARE = 1 / 8  # rms as a share of a quantised type's range; one in ten thousand is four times as large
BRANCH = 1 / 4  # size of a sum of two branches before quantisation: a chain of such sums grows


@dataclass(frozen=True)
class ScaledInput:
    """An input of the graph, or all that is read of it, whose scale determines the size of an op's result.

    path: the ops between the tensor and the op, the nearest to the tensor first, each with the port at which it reads the data. port: of
    the op. size: the wanted rms of the result. is_divisor: a larger input makes the result smaller. slack: the factor by which the result
    may be too large or too small. is_tied: other layers read the tensor too, so that their results limit its scale.
    """

    tensor: LogicalTensor
    path: tuple[tuple[Op, int], ...]
    op: Op
    port: int
    size: float
    is_divisor: bool = False
    slack: float = 2.0
    is_tied: bool = False

    @property
    def is_quantised(self) -> bool:
        """Whether the tensor holds integers or 8-bit floats that an op with constant scales converts."""
        return not is_wide_float(self.tensor)


def sums_products(op: Op) -> bool:
    """Whether the op is a matrix product or convolution, whose f32 operands a math mode allows to round."""
    return spec(op.kind).semantics.follows_fpmath


def reduction_length(op: Op) -> int:
    """The number of products summed up in one element of the result."""
    return max(spec(op.kind).semantics.flops(op.call) // (2 * max(op.outputs[0].type.elements, 1)), 1)


def is_deep(graph: Graph) -> bool:
    """Whether a chain of layers is so long, or increases small integers so much, that the strategies of single ops are unsuitable."""
    depth, size = dict[int, float](), dict[int, float]()
    for op in graph.order:
        row = spec(op.kind)
        layers = max((depth.get(t.id, 0.0) for t in op.inputs), default=0.0)
        layers += 1.0 if sums_products(op) else FACTOR if row.semantics.is_product or row.testing.factors else 0.0
        grown = _grown(op, size)
        for t in op.outputs:
            depth[t.id], size[t.id] = layers, grown
            if layers >= LAYERS or (layers >= FEW and t.dtype.is_float and grown + MARGIN > log2(t.dtype.range[1])):
                return True
    return False


def _grown(op: Op, size: dict[int, float]) -> float:
    """log2 of the size of an op's results with the strategies of single ops; size: of the tensors computed so far."""
    row, into = spec(op.kind), op.outputs[0] if op.outputs else None
    if sums_products(op):
        call = op.call
        operands = (size.get(t.id, _drawn(op, port)) for port, t in enumerate(op.inputs[:2]))
        return sum(operands) + log2(reduction_length(op)) / 2 if call.outs[0].elements else 0.0
    operand_sizes = [size.get(t.id, OTHERS) for t in op.inputs] or [0.0]
    if row.semantics.computes is Computes.softmax:
        return 0.0
    if row.lowering.role is Role.row:
        return OTHERS
    if row.semantics.is_conversion and into is not None and not is_wide_float(into):
        return min(max(operand_sizes), log2(into.dtype.range[1]))
    return sum(size.get(t.id, 0.0) for t in op.inputs) if row.semantics.is_product else max(operand_sizes)


def _drawn(op: Op, port: int) -> float:
    """log2 of the size of the op's own data strategy for a port."""
    call = op.call
    few = TensorType(call.ins[port].dtype, (256,))
    values = spec(op.kind).testing.fill(call, port).make(few, Noise(0, 0)).astype(np.float64)
    return log2(max(float(np.sqrt(np.mean(values**2))), 2.0**-10))


def scaled_inputs(graph: Graph, claimed: Collection[int]) -> tuple[ScaledInput, ...]:
    """The scaled inputs of a deep graph, in topological order; each tensor belongs to the first op that computes with it. claimed: tensors
    that cannot be scaled.
    """
    wanted, used, result, sizes = _wanted(graph, claimed), set(claimed), list[ScaledInput](), dict[int, list[float]]()
    for op in graph.order:
        inputs = [(port, *_origin(graph, t)) for port, t in enumerate(op.inputs)]
        given = [(port, t, path) for port, t, path in inputs if t.id not in graph.producers]
        if not is_transparent(op):
            result += _scaled_input(op, [(port, t, path) for port, t, path in given if t.id not in used], wanted)
            used |= {t.id for _, t, _ in given}
            if sums_products(op):
                for _, t, _ in given:
                    sizes.setdefault(t.id, []).append(wanted.get(op.outputs[0].id, SIZE))
    read = {d.tensor.id: sizes[d.tensor.id] for d in result if sums_products(d.op)}
    tied = {id for id, wanted_sizes in read.items() if len(wanted_sizes) > 1}
    return tuple(replace(d, size=min(read[d.tensor.id]), slack=inf, is_tied=True) if d.tensor.id in tied else d for d in result)


def _scaled_input(
    op: Op, free: list[tuple[int, LogicalTensor, tuple[tuple[Op, int], ...]]], wanted: dict[int, float]
) -> Iterator[ScaledInput]:
    """The scaled input of an op, if it has one. free: candidates."""
    row, out = spec(op.kind), op.outputs[0].id if op.outputs else -1
    if sums_products(op):
        weights = [x for x in free if x[0] < 2]
        is_square = len({t.id for _, t, _ in weights}) < len(weights)  # its size depends on both operands
        if weights and not is_square:
            port, t, path = max(weights, key=lambda x: (x[1].is_constant, x[0]))
            yield ScaledInput(t, path, op, port, wanted.get(out, SIZE))
    elif (row.semantics.is_product or row.testing.factors) and len(free) == 1 and (is_wide_float(free[0][1])):
        port, t, path = free[0]
        slack = 2.0 if out in wanted else 8.0
        yield ScaledInput(t, path, op, port, wanted.get(out, SIZE), bool(row.semantics.product_kind) and port == 1, slack)


def _origin(graph: Graph, t: LogicalTensor) -> tuple[LogicalTensor, tuple[tuple[Op, int], ...]]:
    """The graph input that an operand comes from, through ops that move or convert it; for data dequantised by given scales, the scales.

    A computed tensor is its own origin.
    """
    path, at = list[tuple[Op, int]](), t
    while (made := graph.producers.get(at.id)) is not None:
        port = 0 if is_transparent(made) else _scales(graph, made)
        if port < 0:
            return t, ()
        path.append((made, port))
        at = made.inputs[port]
    if any(dequantises(op) and len(op.inputs) == 1 for op, _ in path) and is_wide_float(at):
        return t, ()  # a scale before a Dequantize scales integers
    return at, tuple(reversed(path))


def _scales(graph: Graph, op: Op) -> int:
    """The port of the scales by which an op dequantises a graph input; -1 if it does not."""
    names = [port.name for port in spec(op.kind).schema.inputs[: len(op.inputs)]]
    is_given = all(t.id not in graph.producers for t in op.inputs)
    return names.index("scales") if dequantises(op) and "scales" in names and is_given else -1


def _wanted(graph: Graph, claimed: Collection[int]) -> dict[int, float]:
    """The wanted size of computed tensors where it is not SIZE, from the ops that read them."""
    wanted = dict[int, float]()
    for op in reversed(graph.order):
        if (size := _wanted_input_size(graph, op, wanted, claimed)) < inf:
            wanted |= {t.id: min(wanted.get(t.id, inf), size) for t in op.inputs if t.id in graph.producers}
    return wanted


def _wanted_input_size(graph: Graph, op: Op, wanted: dict[int, float], claimed: Collection[int]) -> float:
    """The size that an op requires of its computed inputs; infinity if it does not matter."""
    row = spec(op.kind)
    if not op.outputs:
        return inf
    if row.semantics.computes in (Computes.softmax, Computes.exp):
        return SCORES
    out, computed = op.outputs[0], [t for t in op.inputs if t.id in graph.producers]
    size = wanted.get(out.id, inf)
    if row.semantics.is_conversion and not is_wide_float(out) and is_wide_float(op.inputs[0]):
        scales = np.abs(op.call.attrs.reals("scales"))
        low, high = out.dtype.range
        reach = (high - low) if out.dtype.is_integer else 2 * min(high, 2.0**5)
        return float(np.mean(scales)) * reach * RANGE_SHARE if scales.size and len(op.inputs) == 1 else inf
    if sums_products(op):
        is_both = all(_origin(graph, t)[0].id in graph.producers for t in op.inputs[:2])
        return sqrt(min(size, SIZE) / sqrt(reduction_length(op))) if is_both else inf
    if len(op.inputs) == 1 and row.lowering.is_pointwise and not row.semantics.is_conversion and out.dtype.is_float:
        return _activation_input_size(op, size)
    if row.lowering.role is Role.pointwise and len(op.inputs) > AFFINE and size == inf:
        return SHIFTED
    if row.lowering.role not in (Role.pointwise, Role.layout_op) or size == inf:
        return inf
    if row.semantics.is_product or row.testing.factors:
        free = [t for t in op.inputs if t.id not in graph.producers and t.id not in claimed and is_wide_float(t)]
        return inf if len(free) == 1 else size
    if row.semantics.computes is Computes.sum and len(computed) > 1:
        return size * BRANCH
    return size


def _activation_input_size(op: Op, size: float) -> float:
    """The size that an activation requires of its input; size: wanted of its result."""
    row, stable_size = spec(op.kind), _stable_size(op.kind, op.call.attrs, op.inputs[0].dtype)
    if size < inf and row.semantics.lower_bound is None:
        size = min(max(size, BENDS[0]), BENDS[1])
    return min(size, stable_size) if stable_size < SIZE else size


@lru_cache(maxsize=64)
def _stable_size(kind: str, attrs: Attrs, dtype: DType) -> float:
    """The largest of SIZES for which a chain of layers with this activation hardly amplifies small errors and makes few zeros.

    Weights are scaled so that the next layer's results have this layer's size. Where the activation is nearly flat, as tanh for large
    numbers, its small slope is amplified by that, and every layer doubles the rounding errors.
    """
    normal = np.random.default_rng(0).standard_normal(1 << 12)
    growth, zeros = list[float](), list[float]()
    t = TensorType(dtype, normal.shape)
    call = Call(kind, attrs, (t,), (t,))
    with np.errstate(all="ignore"):
        for size in SIZES:
            shifted = ((size * normal + step,) for step in (-STEP, 0.0, STEP))
            below, at, above = (spec(kind).semantics.reference(call, ins)[0].astype(np.float64) for ins in shifted)
            slope = (above - below) / (2 * STEP)
            growth.append(float(size**2 * np.mean(slope**2) / max(float(np.mean(np.square(at))), 1e-30)))
            zeros.append(float(np.mean(at == 0)))
    fits = (g <= max(CALM, CALM * min(growth)) and z <= min(zeros) + ZEROS for g, z in zip(growth, zeros, strict=True))
    return next((size for size, is_fit in zip(SIZES, fits, strict=True) if is_fit), SIZE)
