"""PReLU: dst = src where src > 0, slope * src elsewhere; and its gradients by src and slope.

Broadcasting of slope to src: with one dim, it has a number per channel of data_format, or, without per_channel_broadcast, a number per
index of the last dim; a single number serves all. With more dims they are right-aligned, each equal to src's or 1. PReLUBackward has no
attribute per_channel_broadcast: one dim is per channel. At src = 0 the gradients are slope * diff_dst and 0.

oneDNN infers no more than that the outputs are shaped like the inputs; here a slope that does not fit is refused.
"""

from __future__ import annotations

from math import prod, sqrt

import numpy as np

from benchgraph.core.attrs import Attrs
from benchgraph.core.dtypes import DType
from benchgraph.core.errors import InvalidShape
from benchgraph.core.tensor import Shape, TensorType
from benchgraph.ops import fills, overflow
from benchgraph.ops.broadcast import broadcast_to
from benchgraph.ops.fill_rules import pointwise
from benchgraph.ops.formulas import mul, where
from benchgraph.ops.laws import near, real, relation
from benchgraph.ops.spatial import DATA_FORMAT, channel_axis
from benchgraph.ops.spec import Attr, Decomposer, Elementwise, Law, Lowering, OpSpec, Role, Sample, Schema, Semantics, Testing, ports
from benchgraph.ops.spec.call import Array, Call
from benchgraph.ops.steps import as_dtype, reshaped, stored
from benchgraph.tir.ir import BinOp

FLOPS, BACKWARD_FLOPS = 1, 3  # per element; backward: a product with slope, one with src, and its addition to diff_slope


def aligned(attrs: Attrs, src: Shape, slope: Shape) -> Shape:
    """slope's shape with ones, so that it broadcasts to src as in numpy. Raises InvalidShape when it does not fit."""
    if len(slope) != 1 or (slope == (1,) and src):
        broadcast_to(slope, src, "slope", "src")
        return slope
    if not src:
        raise InvalidShape(f"slope {slope} does not fit src {src}", fix="use rank 0")
    axis = channel_axis(attrs, len(src)) if attrs.get("per_channel_broadcast", True) else len(src) - 1
    if slope[0] != src[axis]:
        what = f"slope {slope} does not fit src {src}"
        raise InvalidShape(what, fix=f"give slope the shape ({src[axis]},), the size of dim {axis}, or (1,)")
    return slope + (1,) * (len(src) - 1 - axis)


def _infer(attrs: Attrs, ins: tuple[TensorType, ...]) -> tuple[Shape, ...]:
    aligned(attrs, ins[0].shape, ins[1].shape)
    return (ins[0].shape,)


def _reference(call: Call, ins: tuple[Array, ...]) -> tuple[Array, ...]:
    src, slope = real(ins[0]), real(ins[1]).reshape(_slope_shape(call))
    with np.errstate(all="ignore"):
        return (np.where(src > 0, src, src * slope),)


def _slope_shape(call: Call) -> Shape:
    return aligned(call.attrs, call.ins[0].shape, call.ins[1].shape)


def _has_slope(call: Call, ins: tuple[Array, ...], outs: tuple[Array, ...], rtol: float) -> bool:
    src, slope = real(ins[0]), np.broadcast_to(real(ins[1]).reshape(_slope_shape(call)), call.ins[0].shape)
    below = src < 0
    return near(real(outs[0])[below] / src[below], slope[below], 8 * rtol)


def _infer_backward(attrs: Attrs, ins: tuple[TensorType, ...]) -> tuple[Shape, ...]:
    src, slope, diff_dst = (t.shape for t in ins)
    aligned(attrs, src, slope)
    if diff_dst != src:
        raise InvalidShape(f"diff_dst {diff_dst} differs from src {src}", fix="give diff_dst the shape of src")
    return src, slope


def _summed_axes(call: Call) -> tuple[int, ...]:
    """The dims of src over which diff_slope is a sum."""
    src, slope = call.ins[0].shape, _slope_shape(call)
    padded = (1,) * (len(src) - len(slope)) + slope
    return tuple(i for i, (a, b) in enumerate(zip(src, padded, strict=True)) if a != b)


def _backward(call: Call, ins: tuple[Array, ...], a: overflow.Arithmetic) -> tuple[Array, ...]:
    src, slope, diff_dst = real(ins[0]), real(ins[1]).reshape(_slope_shape(call)), real(ins[2])
    with np.errstate(all="ignore"):
        diff_src = np.where(src > 0, diff_dst, diff_dst * slope)
        shares = np.where(src > 0, 0.0, diff_dst * src)
    return diff_src, a.sum(shares, _summed_axes(call), keepdims=True).reshape(ins[1].shape)


def _decompose_backward(d: Decomposer, call: Call, ins: tuple[int, ...]) -> tuple[int, ...]:
    """Products selected unless src > 0 (false for NaN), in f32 since diff_slope may sum many of them; ReduceSum where slope broadcasts."""
    src, slope, diff_dst = (as_dtype(d, v, DType.f32) for v in ins)
    zero = d.const(0.0)
    is_positive = d.op("GreaterEqual", src, d.const(DType.f32.least_subnormal), dtype=DType.boolean)
    sloped = d.op("Multiply", diff_dst, reshaped(d, slope, _slope_shape(call)))
    diff_src = d.op("Select", is_positive, diff_dst, sloped, dtype=DType.f32)
    diff_slope = d.op("Select", is_positive, zero, d.op("Multiply", diff_dst, src), dtype=DType.f32)
    axes = _summed_axes(call)
    if axes:
        diff_slope = d.op("ReduceSum", diff_slope, attrs=Attrs(axes=axes, keep_dims=True))
    return tuple(stored(d, v, t) for v, t in zip((diff_src, diff_slope), call.outs, strict=True))


def _euler(call: Call, ins: tuple[Array, ...], outs: tuple[Array, ...], rtol: float) -> bool:
    """dst is linear in slope and, scaled by a positive factor, in src: sums of slope * diff_slope and src * diff_src below 0 are equal."""
    src, slope = real(ins[0]), real(ins[1])
    by_slope, by_src = slope * real(outs[1]), (src * real(outs[0]))[src <= 0]
    slack = rtol * (np.abs(by_slope).sum() + np.abs(by_src).sum() + 1)
    return bool(abs(by_slope.sum() - by_src.sum()) <= slack)


_NCX, _LAST = Attrs(data_format="NCX"), Attrs(data_format="NCX", per_channel_broadcast=False)
_BF16, _F16 = (DType.bf16,) * 3, (DType.f16,) * 3
_SHAPES = (
    ((4, 17), (17,), Attrs(), None, "one slope per channel, which is last; a tail"),
    ((2, 5, 3, 7), (5,), _NCX, None, "one slope per channel, which is dim 1"),
    ((2, 3, 5, 3), (3,), Attrs(), None, "NXC: one slope per channel, dim 3"),
    ((3, 33), (1,), _NCX, None, "one slope for all"),
    ((3,), (3,), _NCX, None, "rank 1"),
    ((2, 5, 16), (5, 1), Attrs(), None, "fewer dims than src, right-aligned"),
    ((4, 6, 3, 4), (4, 1, 1, 4), _NCX, None, "two dims broadcast in the middle"),
    ((3, 4, 5), (3, 4, 5), Attrs(), None, "a slope for every element"),
    ((2, 7, 5, 3, 2), (1, 1, 1, 1, 1), _NCX, None, "rank 5 and a single slope of rank 5"),
    ((0, 4), (4,), Attrs(), None, "no elements; diff_slope is 0"),
    ((4, 33), (33,), Attrs(), _BF16, "bf16"),
    ((2, 7, 5), (7,), _NCX, _F16, "f16, channel in the middle"),
)

SPECS = (
    OpSpec(
        "PReLU",
        Schema(
            inputs=ports("src", "slope"),
            outputs=ports("dst"),
            attrs={"data_format": DATA_FORMAT, "per_channel_broadcast": Attr("bool", default=True)},
        ),
        Semantics(
            infer=_infer,
            reference=_reference,
            flops=lambda call: FLOPS * call.outs[0].elements,
            threshold=lambda call: 2.0,  # one correctly rounded product, as for Multiply
        ),
        Testing(
            fill=pointwise.prelu,
            samples=(
                *(Sample((src, slope), attrs, (dtypes or ())[:2], why=why) for src, slope, attrs, dtypes, why in _SHAPES),
                Sample(((2, 5, 3, 7), (7,)), _LAST, why="one slope per index of the last dim, for any data format"),
            ),
            laws=(
                relation("src itself above 0", lambda ins, dst, slack: (dst == ins[0]) | (ins[0] <= 0)),
                Law("dst / src is the slope below 0", _has_slope),
            ),
            zero_limit=lambda call: 0.50,
        ),
        Lowering(
            Role.pointwise,
            form=Elementwise(lambda attrs, ins: where(ins[0], BinOp.gt, 0, ins[0], mul(*ins))),
            # with its slope reshaped, so that it broadcasts as in numpy
            decompose=lambda d, call, ins: (d.op(call.kind, ins[0], reshaped(d, ins[1], _slope_shape(call)), attrs=call.attrs),),
            is_canonical=lambda call: _slope_shape(call) == call.ins[1].shape,
        ),
    ),
    OpSpec(
        "PReLUBackward",
        Schema(inputs=ports("src", "slope", "diff_dst"), outputs=ports("diff_src", "diff_slope"), attrs={"data_format": DATA_FORMAT}),
        overflow.semantics(
            _backward,
            infer=_infer_backward,
            flops=lambda call: BACKWARD_FLOPS * call.outs[0].elements,
            # a rounded product per element, and the random walk of their sum as for ReduceSum
            threshold=lambda call: sqrt(prod(call.ins[0].shape[i] for i in _summed_axes(call))) + 6,
        ),
        Testing(
            fill=pointwise.prelu,
            domain=fills.per_port(fills.PLAIN, fills.PLAIN, fills.MEAN_ONE),
            samples=tuple(Sample((src, slope, src), attrs, dtypes or (), why=why) for src, slope, attrs, dtypes, why in _SHAPES),
            laws=(
                Law("slope * diff_slope sums to the sum of src * diff_src below 0", _euler),
                relation("diff_dst itself where src is above 0", lambda ins, diff_src, slack: (diff_src == ins[2]) | (ins[0] <= 0)),
            ),
            gradient_of="PReLU",
            zero_limit=lambda call: 0.99,
        ),
        Lowering(Role.row, decompose=_decompose_backward),
    ),
)
