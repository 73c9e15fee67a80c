"""Products of quantised operands in integers: src = (a - za) * sa, wei = (b - zb) * sb.

    src x wei = sa * sb * (a x b - za * colsum(b) - zb * rowsum(a) + K * za * zb)

Dot products take u8 times s8, or s16, which holds bytes of either sign; otherwise an operand of the other sign is recentred: its
stored value and its zero point are both shifted by 128. All sums are exact.

_Recentre   u8 less 128 as s8, or s8 plus 128 as u8
_Total      the sum of u8 or s8 along axes, in s32
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from benchgraph.core.attrs import Attrs
from benchgraph.core.dtypes import DType
from benchgraph.core.tensor import TensorType
from benchgraph.ops.elementwise.unary import same_shape
from benchgraph.ops.fill_rules import filling
from benchgraph.ops.laws import real, relation
from benchgraph.ops.reduce import AXES, reduced_axes
from benchgraph.ops.reduce import infer as reduced
from benchgraph.ops.spec import Decomposer, Law, Lowering, OpSpec, Role, Sample, Schema, Semantics, Testing, ports
from benchgraph.ops.spec.call import Array, Call
from benchgraph.ops.spec.forms import Elementwise, Reduction
from benchgraph.ops.steps import as_dtype
from benchgraph.tir.build import binary, cast, type_of
from benchgraph.tir.groups import SHORTS, DTypes
from benchgraph.tir.ir import BinOp, Const, Expr

MIDDLE = 128  # between the ranges of u8 and s8
_OTHER = {DType.u8: DType.s8, DType.s8: DType.u8}


@dataclass(frozen=True)
class Quantised:
    """An operand (stored - zero) * scale. stored: u8 or s8; zero (s32 or f32; None: 0) and scales (any float dtype) broadcast against it
    and are constant along the summed axes.
    """

    stored: int
    zero: int | None
    scales: tuple[int, ...]


def is_exact(k: int, dtypes: DTypes) -> bool:
    """Whether sums over k products fit s32. Words may hold u8 on both sides."""
    return k * 255 * (255 if dtypes == SHORTS else MIDDLE) < 2**31


def multiply(d: Decomposer, product: Call, src: Quantised, wei: Quantised, over: tuple[int, ...], dtypes: DTypes) -> int:
    """The product in f32, given the call of the f32 one, whose k is the last axis of src. over: the summed axes of wei,
    counted from the end; k alone if wei has zero points. dtypes: BYTES or SHORTS.
    """
    a, za = _converted(d, src, dtypes[0])
    b, zb = _converted(d, wei, dtypes[1])
    out = product.outs[0]
    acc = d.op(product.kind, a, b, attrs=product.attrs, shape=out.shape, dtype=DType.s32)
    if za is not None:
        columns = _total(d, wei.stored if dtypes == SHORTS else b, over)
        if zb is not None:
            both = d.op("Multiply", zb, d.const(product.ins[0].shape[-1], DType.s32))
            columns = d.op("Subtract", columns, both)
        acc = d.op("Subtract", acc, d.op("Multiply", columns, za))
    if zb is not None:
        rows = _total(d, src.stored if dtypes == SHORTS else a, (-1,))
        acc = d.op("Subtract", acc, d.op("Multiply", rows, zb))
    dst = as_dtype(d, acc, DType.f32)
    scales = [as_dtype(d, scale, DType.f32) for scale in (*src.scales, *wei.scales)]
    if not scales:
        return dst
    scale = scales[0]
    for other in scales[1:]:
        scale = d.op("Multiply", scale, other)
    return d.op("Multiply", dst, scale)


def _converted(d: Decomposer, operand: Quantised, wanted: DType) -> tuple[int, int | None]:
    """The stored value in the wanted dtype, and its zero point in s32; None for 0."""
    zero = None if operand.zero is None else as_dtype(d, operand.zero, DType.s32)
    if wanted not in _OTHER or d.type(operand.stored).dtype is wanted:
        return as_dtype(d, operand.stored, wanted), zero
    shift = d.const(MIDDLE if wanted is DType.u8 else -MIDDLE, DType.s32)
    return d.op(RECENTRE, operand.stored, dtype=wanted), shift if zero is None else d.op("Add", zero, shift)


def _total(d: Decomposer, value: int, over: tuple[int, ...]) -> int:
    """The sum over axes, counted from the end, which are kept as 1."""
    rank = len(d.type(value).shape)
    return d.op(TOTAL, value, attrs=Attrs(axes=tuple(rank + axis for axis in over), keep_dims=True), dtype=DType.s32)


RECENTRE, TOTAL = "_Recentre", "_Total"


def _shift(t: TensorType) -> int:
    return -MIDDLE if t.dtype is DType.u8 else MIDDLE


def _recentred_element(attrs: Attrs, ins: tuple[Expr, ...]) -> Expr:
    (src,) = ins
    dtype = type_of(src)[0]
    return cast(binary(BinOp.add, cast(src, DType.s32), Const(_shift(TensorType(dtype, ())), DType.s32)), _OTHER[dtype])


def _totalled(call: Call, ins: tuple[Array, ...]) -> tuple[Array, ...]:
    return (ins[0].astype(np.int64).sum(axis=reduced_axes(call.attrs, ins[0].ndim)).reshape(call.outs[0].shape).astype(np.int32),)


SPECS = (
    OpSpec(
        RECENTRE,
        Schema(inputs=ports("src:T1"), outputs=ports("dst:T2"), types={"T1": tuple(_OTHER), "T2": tuple(_OTHER)}),
        Semantics(
            infer=same_shape,
            reference=lambda call, ins: ((ins[0].astype(np.int64) + _shift(call.ins[0])).astype(call.outs[0].dtype.numpy),),
            flops=lambda call: 0,
            is_conversion=True,
        ),
        Testing(
            fill=filling.MOVED,
            samples=(
                Sample(((5, 67),), dtypes=(DType.u8,), out_dtypes=(DType.s8,), why="u8, a tail"),
                Sample(((4, 32),), dtypes=(DType.s8,), out_dtypes=(DType.u8,), why="s8"),
            ),
            laws=(Law("128 away", lambda call, ins, outs, rtol: bool(np.all(real(outs[0]) - real(ins[0]) == _shift(call.ins[0])))),),
            zero_limit=lambda call: 1.0,
        ),
        Lowering(Role.pointwise, form=Elementwise(_recentred_element)),
    ),
    OpSpec(
        TOTAL,
        Schema(inputs=ports("src:T1"), outputs=ports("dst:T2"), types={"T1": tuple(_OTHER), "T2": (DType.s32,)}, attrs=AXES),
        Semantics(infer=reduced, reference=_totalled, flops=lambda call: call.ins[0].elements),
        Testing(
            fill=filling.MOVED,
            samples=(
                Sample(((5, 67),), Attrs(axes=(1,), keep_dims=True), (DType.u8,), (DType.s32,), why="rows of u8, with a tail"),
                Sample(((17, 5),), Attrs(axes=(0,)), (DType.s8,), (DType.s32,), why="columns of s8"),
                Sample(((3, 4, 64),), Attrs(axes=(-1, 0)), (DType.s8,), (DType.s32,), why="two axes"),
                Sample(((2, 300),), Attrs(axes=(1,)), (DType.u8,), (DType.s32,), why="several vectors at once, then some"),
            ),
            laws=(relation("dst sums to the sum of src", lambda ins, dst, slack: dst.sum() == ins[0].sum()),),
            zero_limit=lambda call: 1.0,
        ),
        Lowering(Role.row, form=Reduction(BinOp.add, 0.0, acc=DType.s32)),
    ),
)
