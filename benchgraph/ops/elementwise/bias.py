"""BiasAdd: dst = src + bias, one number per channel, and its gradient by bias. The channel is the last dim (NXC) or dim 1 (NCX).

BiasAddBackward takes rank 2 or more, as BiasAdd does; oneDNN infers its shape from rank 4 on only, and has no implementation.
"""

from __future__ import annotations

from math import prod, sqrt

import numpy as np

from benchgraph.core.attrs import Attrs
from benchgraph.core.dtypes import DType
from benchgraph.core.errors import InvalidShape
from benchgraph.core.tensor import Shape, TensorType
from benchgraph.ops import fills, overflow
from benchgraph.ops.fill_rules import pointwise, rows
from benchgraph.ops.laws import near, real
from benchgraph.ops.spatial import DATA_FORMAT, all_but_channel, beside_channel, channel_axis, channels_of
from benchgraph.ops.spec import Array, Call, Decomposer, Law, Lowering, OpSpec, Role, Sample, Schema, Semantics, Testing, ports
from benchgraph.ops.steps import reshaped


def infer(attrs: Attrs, ins: tuple[TensorType, ...]) -> tuple[Shape, ...]:
    src, bias = ins[0].shape, ins[1].shape
    channels = channels_of(attrs, src, "src", "BiasAdd")
    if bias != (channels,):
        raise InvalidShape(f"bias {bias} does not fit src {src}, which has {channels} channels", fix=f"give bias the shape ({channels},)")
    return (src,)


def reference(call: Call, ins: tuple[Array, ...]) -> tuple[Array, ...]:
    return (real(ins[0]) + real(ins[1]).reshape(beside_channel(call.attrs, ins[0].shape)),)


def decompose(d: Decomposer, call: Call, ins: tuple[int, ...]) -> tuple[int, ...]:
    """Add, with the bias reshaped to (C, 1, ...) where the channel is not last."""
    src, bias = ins
    bias = reshaped(d, bias, beside_channel(call.attrs, call.ins[0].shape))
    return (d.op("Add", src, bias, dtype=call.outs[0].dtype),)


def _moves_each_channel_alike(call: Call, ins: tuple[Array, ...], outs: tuple[Array, ...], rtol: float) -> bool:
    moved = real(outs[0]) - real(ins[0])
    want = real(ins[1]).reshape(beside_channel(call.attrs, call.ins[0].shape))
    return near(moved, np.broadcast_to(want, moved.shape), 8 * rtol)


def _summed_axes(call: Call) -> tuple[int, ...]:
    return all_but_channel(call.attrs, len(call.ins[0].shape))


def _summed(call: Call) -> int:
    return prod(call.ins[0].shape[i] for i in _summed_axes(call))


def _weighted_totals_are_equal(call: Call, ins: tuple[Array, ...], outs: tuple[Array, ...], rtol: float) -> bool:
    """Different numbers per channel, so that a sum over other dims fails."""
    diff_dst, got = np.moveaxis(real(ins[0]), channel_axis(call.attrs, ins[0].ndim), -1), real(outs[0])
    number = np.arange(1, got.size + 1)
    return bool(abs(np.sum(diff_dst * number) - np.sum(got * number)) <= rtol * (np.sum(np.abs(got * number)) + 1))


SPECS = (
    OpSpec(
        "BiasAdd",
        Schema(inputs=ports("src", "bias"), outputs=ports("dst"), attrs={"data_format": DATA_FORMAT}, family="binary"),
        Semantics(
            infer=infer,
            reference=reference,
            flops=lambda call: call.outs[0].elements,
            threshold=lambda call: 2.0,  # one correctly rounded addition, as for Add
        ),
        Testing(
            fill=pointwise.binary,
            samples=(
                Sample(((4, 17), (17,)), why="the usual bias of a layer, a tail"),
                Sample(((2, 5, 3, 3), (5,)), Attrs(data_format="NCX"), why="channel in dim 1"),
                Sample(((2, 3, 3, 16), (16,)), Attrs(data_format="NXC"), why="channel last, rank 4"),
                Sample(((3, 4), (4,)), Attrs(data_format="NCX"), why="rank 2 is the same in both formats"),
                Sample(((1, 1), (1,)), why="sizes 1"),
                Sample(((3, 33), (33,)), dtypes=(DType.bf16, DType.bf16), why="bf16"),
                Sample(((2, 7, 5), (7,)), Attrs(data_format="NCX"), (DType.f16, DType.f16), why="f16, channel in the middle"),
            ),
            laws=(Law("dst - src is the bias, the same along all but the channel", _moves_each_channel_alike),),
        ),
        Lowering(Role.pointwise, decompose=decompose),
    ),
    OpSpec(
        "BiasAddBackward",
        Schema(inputs=ports("diff_dst"), outputs=ports("diff_bias"), attrs={"data_format": DATA_FORMAT}, family="binary"),
        overflow.semantics(
            lambda call, ins, a: (a.sum(real(ins[0]), _summed_axes(call)),),
            infer=lambda attrs, ins: ((channels_of(attrs, ins[0].shape, "diff_dst", "BiasAddBackward"),),),
            flops=lambda call: call.ins[0].elements,
            threshold=lambda call: sqrt(_summed(call)) + 4,  # the random walk of a sum, as for ReduceSum
        ),
        Testing(
            fill=rows.total(_summed),
            domain=fills.MEAN_ONE,
            samples=(
                Sample(((4, 17),), why="rank 2, a tail"),
                Sample(((2, 5, 3, 7),), Attrs(data_format="NCX"), why="channel in dim 1: sums on both sides of it"),
                Sample(((2, 3, 3, 16),), Attrs(data_format="NXC"), why="channel last, rank 4"),
                Sample(((3, 4),), Attrs(data_format="NCX"), why="rank 2 is the same in both formats"),
                Sample(((1, 1),), why="sizes 1"),
                Sample(((0, 3),), why="a sum of nothing is 0"),
                Sample(((300, 5),), why="many numbers"),
                Sample(((3, 33),), dtypes=(DType.bf16,), why="bf16"),
                Sample(((2, 7, 5),), Attrs(data_format="NCX"), (DType.f16,), why="f16, channel in the middle"),
            ),
            laws=(Law("weighted with the channel's number, both sum to the same", _weighted_totals_are_equal),),
            gradient_of="BiasAdd",
        ),
        Lowering(Role.row, decompose=lambda d, call, ins: (d.op("ReduceSum", ins[0], attrs=Attrs(axes=_summed_axes(call))),)),
    ),
)
