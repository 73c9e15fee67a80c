"""RMSNorm: dst = gamma * src / sqrt(mean(src^2) + epsilon), the mean over src's dims from begin_norm_axis on.

One square root: oneDNN's page prints two, its primitive and its documentation of that take one. gamma broadcasts against src.
"""

from __future__ import annotations

import numpy as np

from benchgraph.core.attrs import Attrs
from benchgraph.core.dtypes import DType
from benchgraph.core.tensor import Shape, TensorType
from benchgraph.ops import fills, overflow
from benchgraph.ops.broadcast import broadcast_to
from benchgraph.ops.fill_rules import norms
from benchgraph.ops.fill_rules.filling import per_port
from benchgraph.ops.laws import Reals, near, real
from benchgraph.ops.norms import normalise
from benchgraph.ops.norms.layer_norm import BEGIN, first_axis, norm, row_axes
from benchgraph.ops.norms.normalise import EPSILON
from benchgraph.ops.spec import Array, Call, Declared, Decomposer, F, Law, Lowering, OpSpec, Role, Sample, Schema, Semantics, Testing, ports
from benchgraph.ops.steps import in_steps, reduced

FLOPS = 4  # per element: square, sum, divide, scale


def infer(attrs: Attrs, ins: tuple[TensorType, ...]) -> tuple[Shape, ...]:
    src = ins[0].shape
    first_axis(attrs, len(src))
    if len(ins) > 1:
        broadcast_to(ins[1].shape, src, "gamma", "src")
    return (src,)


def _check(attrs: Attrs, ins: tuple[Declared, ...], out_dtypes: tuple[DType, ...]) -> str:
    src, gamma = ins[0][0], ins[-1][0]
    if gamma in (DType.f32, src):
        return ""
    return f"gamma has dtype {gamma.value} while src has {src.value}; use f32" + (f" or {src.value}" if src is not DType.f32 else "")


def reference(call: Call, ins: tuple[Array, ...]) -> tuple[Array, ...]:
    src = real(ins[0])
    dst = src / np.sqrt(np.square(src).mean(axis=row_axes(call), keepdims=True) + call.attrs.real("epsilon"))
    return (dst * real(ins[1]) if len(ins) > 1 else dst,)


def _in_f32(call: Call, ins: tuple[Array, ...]) -> tuple[tuple[Array, ...], ...]:
    """Rows whose squares overflow f32 are 0."""
    src, (dst,) = real(ins[0]), reference(call, ins)
    beyond = overflow.is_beyond(np.square(src).sum(axis=row_axes(call), keepdims=True))
    gamma = real(ins[1]) if len(ins) > 1 else 1.0
    return ((np.where(beyond, 0.0 * gamma, dst),),) if beyond.any() else ()


def decompose(d: Decomposer, call: Call, ins: tuple[int, ...]) -> tuple[int, ...]:
    """Square, ReduceMean, Add, Sqrt, Divide, Multiply, Multiply."""
    power = reduced(d, "ReduceMean", d.op("Square", ins[0], dtype=DType.f32), row_axes(call))
    inverse = normalise.inverse_deviation(d, power, call.attrs.real("epsilon"))
    return (in_steps(d, ins[0], (("Multiply", inverse), *normalise.affine(ins[1:])), call.outs[0].dtype),)


def _bare(ins: tuple[Array, ...], outs: tuple[Array, ...]) -> Reals:
    return real(outs[0]) / real(ins[1]) if len(ins) > 1 else real(outs[0])


def _has_power_one(call: Call, ins: tuple[Array, ...], outs: tuple[Array, ...], rtol: float) -> bool:
    first, count, epsilon = row_axes(call)[0], norm(call).reduced_size, call.attrs.real("epsilon")
    powers = [np.linalg.norm(a.reshape(*a.shape[:first], -1), axis=-1) ** 2 / count for a in (real(ins[0]), _bare(ins, outs))]
    return near(powers[1] * (powers[0] + epsilon), powers[0], 16 * rtol)


def _keeps_direction(call: Call, ins: tuple[Array, ...], outs: tuple[Array, ...], rtol: float) -> bool:
    axes = row_axes(call)
    src, dst = (a / np.sqrt(np.square(a).sum(axis=axes, keepdims=True)) for a in (real(ins[0]), _bare(ins, outs)))
    return near(dst, src, 16 * rtol)


SPECS = (
    OpSpec(
        "RMSNorm",
        Schema(
            inputs=ports("src:T1", "gamma:T2"),
            outputs=ports("dst:T1"),
            num_inputs=(1, 2),
            types={"T1": F, "T2": F},
            attrs={"begin_norm_axis": BEGIN, "epsilon": EPSILON},
            check=_check,
        ),
        Semantics(
            infer=infer,
            reference=reference,
            flops=lambda call: FLOPS * call.ins[0].elements,
            threshold=lambda call: normalise.walk(norm(call).reduced_size),
            f32_alternatives=_in_f32,
        ),
        Testing(
            fill=per_port(norms.paired(norm), norms.scale),
            domain=fills.per_port(fills.MEAN_ONE, fills.AWAY_FROM_ZERO),
            samples=(
                Sample(((4, 17), (17,)), why="rows with gamma, a tail"),
                Sample(((3, 16),), why="no gamma, no tail"),
                Sample(((2, 3, 4, 5), (4, 5)), Attrs(begin_norm_axis=2), why="rows of two dims, gamma in their shape"),
                Sample(((2, 3, 5), (5,)), Attrs(begin_norm_axis=0), why="everything is one row"),
                Sample(((2, 3, 15), (3, 1)), why="a gamma per row"),
                Sample(((5, 1), (1,)), why="a row of one is gamma's size with src's sign"),
                Sample(((1000,),), why="a long vector"),
                Sample(((3, 7), (7,)), Attrs(epsilon=0.5), why="an epsilon that matters"),
                Sample(((4, 33), (33,)), dtypes=(DType.bf16, DType.f32), why="bf16 with an f32 gamma"),
                Sample(((4, 19), (19,)), dtypes=(DType.bf16, DType.bf16), why="bf16 throughout"),
                Sample(((3, 31), (31,)), dtypes=(DType.f16, DType.f16), why="f16 throughout"),
                Sample(((3, 8), (8,)), dtypes=(DType.f16, DType.f32), why="f16 with an f32 gamma"),
            ),
            laws=(
                Law("over gamma, the mean square is that of src over itself plus epsilon", _has_power_one),
                Law("over gamma, rows point where src's do", _keeps_direction),
            ),
        ),
        Lowering(Role.row, decompose=decompose),
    ),
)
