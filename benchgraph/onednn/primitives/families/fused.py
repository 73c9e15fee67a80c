"""Attributes of products: bias and post-ops from the ops behind, scales and zero points from the quantisation around.

Dequantize src, Dequantize weights, MatMul, Add, ReLU, Quantize   ->   src and weights scales and zero points, bias, relu, dst scale
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from benchgraph.core.tensor import LogicalTensor, Shape
from benchgraph.graph.ir import Op
from benchgraph.onednn.primitives.capi import BIAS, DST, SRC, SRC_2, SUMMED, WEIGHTS, post_op_arg
from benchgraph.onednn.primitives.families.binary import ADD, ALGS, SELECT, bias_view, selects
from benchgraph.onednn.primitives.families.eltwise import FORWARD, SWISH, function_of
from benchgraph.onednn.primitives.families.movement import factors
from benchgraph.onednn.primitives.messages import Attributes, Binary, Eltwise, Factors, Operand, PostOp, Sum, View
from benchgraph.onednn.primitives.step import NoPrimitive, Step, Target, broadcast, dtype_code, is_dense, operand, view
from benchgraph.ops import spec


@dataclass
class Fused:
    """What the ops around a product became.

    inputs: further operands. sums_another_dtype: whether a Sum reads dst's memory in another dtype.
    """

    attributes: Attributes
    inputs: list[Operand] = field(default_factory=list)
    sums_another_dtype: bool = False
    post_ops: list[PostOp] = field(default_factory=list)


def channel_dims(op: Op, weights: View) -> Shape:
    """The dims of a convolution's weights that make an output channel together: the group and the channel in it."""
    return (0, 1) if op.full_attrs.integer("groups") > 1 else (0,)


def attributes(
    step: Step,
    target: Target,
    order: Shape | None,
    channel: int,
    output_channel: Shape,
    shape: Shape | None = None,
    weights_shift: int = 0,
) -> Fused:
    """order: dst's dims in the order of the primitive's. shape: the primitive's dims of dst where they are not the graph's. channel: the
    axis of output channels in the graph's weights; output_channel: the dims of them in the primitive's weights. weights_shift: what is
    subtracted from the weights before.

    Raises NoPrimitive for what attributes cannot say.
    """
    made = Fused(target.attributes)
    scales, zero_points = list[Factors](), list[Factors]()
    for arg, t in zip((SRC, WEIGHTS), step.anchor.inputs, strict=False):
        for op in (op for op in step.folded.get(t.id, ()) if _is_quantisation(op)):
            found = _factors(op, arg, channel, output_channel)
            scales += found[0]
            zero_points += _shifted(found[1], weights_shift) if arg == WEIGHTS and weights_shift else found[1]
    rank = len(shape or step.dst.known_shape)
    layout = _Layout(rank, order or tuple(range(rank)), shape)
    if len(step.anchor.inputs) > 2:
        _bias(made, step.anchor.inputs[2], layout, step.anchor)
    _append(made, step, layout)
    last = step.post_ops[-1] if step.post_ops else None
    if last is not None and _is_quantisation(last):
        found = factors(last, DST)
        if found[0][0].mask:
            raise NoPrimitive("dst scales per channel")
        scales += found[0]
        zero_points += found[1]
    made.attributes = replace(made.attributes, scales=tuple(scales), zero_points=tuple(zero_points), post_ops=tuple(made.post_ops))
    return made


@dataclass(frozen=True)
class _Layout:
    """Dims of dst as the primitive has them."""

    rank: int
    order: Shape
    shape: Shape | None

    def view(self, t: LogicalTensor) -> View:
        """An operand that broadcasts to dst."""
        if self.shape is not None and len(t.known_shape) > self.rank:
            if t.type.elements == t.known_shape[-1]:
                return View((*(1,) * (self.rank - 1), t.known_shape[-1]), (1,) * self.rank, dtype_code(t.dtype), None)
            if not is_dense(t):
                raise NoPrimitive(f"tensor {t.id} is not dense")
            strides = (self.shape[-1], 1)
            return View(self.shape, strides, dtype_code(t.dtype), None)
        return broadcast(t, self.rank, self.order)

    def bias(self, op: Op, bias: LogicalTensor) -> View:
        """The bias of a BiasAdd."""
        v = bias_view(op, bias)
        if self.shape is not None and len(v.dims) > self.rank:
            return self.view(bias)
        return replace(v, dims=tuple(v.dims[i] for i in self.order), strides=tuple(v.strides[i] for i in self.order))


def _is_quantisation(op: Op) -> bool:
    return spec(op.kind).semantics.is_conversion and "scales" in op.full_attrs


def _is_cast(op: Op) -> bool:
    return spec(op.kind).semantics.is_conversion and "scales" not in op.full_attrs


def _factors(op: Op, arg: int, channel: int, output_channel: Shape) -> tuple[tuple[Factors, ...], tuple[Factors, ...]]:
    scales, zero_points = factors(op, arg)
    mask = sum(1 << dim for dim in output_channel)
    if scales[0].mask and (arg == SRC or scales[0].mask != 1 << channel):
        raise NoPrimitive("scales along another axis than that of the output channels")
    return tuple(replace(f, mask=mask if f.mask else 0) for f in scales), tuple(replace(f, mask=mask if f.mask else 0) for f in zero_points)


def _shifted(zero_points: tuple[Factors, ...], shift: int) -> tuple[Factors, ...]:
    return tuple(replace(f, values=tuple(v - shift for v in f.values)) for f in zero_points or (Factors(WEIGHTS, 0, (0.0,)),))


def _bias(made: Fused, bias: LogicalTensor, layout: _Layout, anchor: Op) -> None:
    """The bias as an argument: one element for each channel; for a matmul with as many dims as dst."""
    if anchor.kind != "MatMul":
        made.inputs.append(operand(BIAS, bias, view(bias)))
    else:
        made.inputs.append(operand(BIAS, bias, layout.view(bias)))


def _append(made: Fused, step: Step, layout: _Layout) -> None:
    running = step.anchor.outputs[0].id
    swish: int | None = None  # the result of a Sigmoid whose product with its operand is swish
    for n, op in enumerate(step.post_ops):
        others = [t for t in op.inputs if t.id not in (running, swish)]
        if swish is not None:
            made.post_ops.append(Eltwise(SWISH, 1.0, 0.0))
            swish = None
        elif _is_cast(op) or _is_quantisation(op):
            pass
        elif op.kind in FORWARD:
            if n + 1 < len(step.post_ops) and running in (t.id for t in step.post_ops[n + 1].inputs):
                swish = op.outputs[0].id
                continue
            made.post_ops.append(function_of(op))
        elif others and step.folded.get(others[0].id):
            _sum(made, step, op, others[0], layout)
        elif selects(op):
            condition, _, other = op.inputs
            # oneDNN 3.13 accepts some conditions that broadcast behind another post-op, and computes wrong results.
            if condition.known_shape != step.dst.known_shape:
                raise NoPrimitive("a condition that broadcasts")
            _binary(made, SELECT, operand(0, other, layout.view(other)), operand(0, condition, layout.view(condition)))
        elif op.kind in ALGS:
            # An operand of dst's shape may have the layout that the primitive chooses for dst.
            is_whole = others[0].known_shape == step.dst.known_shape
            _binary(made, ALGS[op.kind], operand(0, others[0], layout.view(others[0]), is_free=is_whole))
        else:
            _binary(made, ADD, operand(0, others[0], layout.bias(op, others[0])))
        running = op.outputs[0].id


def _binary(made: Fused, alg: int, o: Operand, condition: Operand | None = None) -> None:
    arg = post_op_arg(len(made.post_ops))
    made.inputs.append(replace(o, arg=arg))
    if condition is None:
        made.post_ops.append(Binary(alg, arg))
        return
    made.inputs.append(replace(condition, arg=post_op_arg(len(made.post_ops), SRC_2)))
    made.post_ops.append(Binary(alg, arg, made.inputs[-1].arg))


def _sum(made: Fused, step: Step, op: Op, other: LogicalTensor, layout: _Layout) -> None:
    """Adding a dequantised tensor to dst: it must have dst's shape, and a dtype of its size."""
    stored = step.stored(other)
    if (
        op.kind not in ALGS
        or ALGS[op.kind] != ADD
        or stored.known_shape != step.dst.known_shape
        or stored.dtype.bits != step.dst.dtype.bits
    ):
        raise NoPrimitive("a dequantised operand that is not added, or has another shape or size of elements than dst")
    (dequantise,) = (c for c in step.folded[other.id] if _is_quantisation(c))
    (scales,), zero_points = factors(dequantise, DST)
    if scales.mask:
        raise NoPrimitive("what is added has scales per channel")
    zero_point = int(zero_points[0].values[0]) if zero_points else 0
    made.inputs.append(operand(SUMMED, stored, layout.view(stored)))
    made.post_ops.append(Sum(scales.values[0], zero_point, dtype_code(stored.dtype), SUMMED))
    made.sums_another_dtype = made.sums_another_dtype or stored.dtype is not step.dst.dtype
