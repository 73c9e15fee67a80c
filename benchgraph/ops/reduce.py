"""Reductions of src along axes. ReduceL1: the sum of |src|. ReduceL2: the root of the sum of squares. _RowMax: the maximum for a softmax.

The maximum and minimum of numbers with a NaN among them are NaN. _RowMax may ignore NaN, with half of the instructions: the softmax
subtracts it, and the difference is NaN all the same.

The threshold of sums and products is sqrt(n) + 4 for n numbers, by the random walk that MatMul describes (the root halves the error of the
sum of squares); picking is exact.
"""

from __future__ import annotations

from collections.abc import Callable
from math import inf, prod, sqrt

import numpy as np

from benchgraph.core.attrs import Attrs
from benchgraph.core.dtypes import DType
from benchgraph.core.errors import InvalidShape
from benchgraph.core.tensor import Shape, TensorType
from benchgraph.ops import fills, overflow
from benchgraph.ops.axis import kept
from benchgraph.ops.fill_rules import rows
from benchgraph.ops.laws import Reals, near, real
from benchgraph.ops.spec import Attr, Domain, FillRule, Law, Lowering, OpSpec, Role, Sample, Schema, Semantics, Testing, ports
from benchgraph.ops.spec.call import Array, Call, Declared, F
from benchgraph.ops.spec.forms import Reduction
from benchgraph.ops.spec.lowering import Decompose, Decomposer
from benchgraph.tir.build import binary, f32
from benchgraph.tir.ir import BinOp

AXES = {"axes": Attr("s64[]", default=()), "keep_dims": Attr("bool", default=False)}


def reduced_axes(attrs: Attrs, rank: int) -> tuple[int, ...]:
    """The axes attribute as sorted numbers 0 <= axis < rank. Raises InvalidShape when it is empty, out of range, or repeats one."""
    given = attrs.integers("axes")
    if not given:
        raise InvalidShape("attribute 'axes' is empty", fix="name at least one axis to reduce")
    outside = [a for a in given if not -rank <= a < rank]
    if outside:
        raise InvalidShape(f"axis {outside[0]} is out of range for src of rank {rank}", fix=f"use {-rank} to {rank - 1}")
    axes = tuple(sorted(a % rank for a in given))
    if len(set(axes)) < len(axes):
        raise InvalidShape(f"axes {given} name an axis twice", fix="name every axis once")
    return axes


def infer(attrs: Attrs, ins: tuple[TensorType, ...]) -> tuple[Shape, ...]:
    src = ins[0].shape
    axes = reduced_axes(attrs, len(src))
    if attrs.get("keep_dims"):
        return (kept(src, axes),)
    return (tuple(d for i, d in enumerate(src) if i not in axes),)


def check(attrs: Attrs, ins: tuple[Declared, ...], out_dtypes: tuple[DType, ...]) -> str:
    """The schema has an axes input, but also wants exactly one of input and attribute, and the attribute is always there by default."""
    if len(ins) > 1:
        return "input axes cannot be used, since the attribute 'axes' always has a value; remove the input and set the attribute 'axes'"
    return ""


def reduced_size(call: Call) -> int:
    """The number of elements reduced to one of dst."""
    src = call.ins[0].shape
    return prod(src[a] for a in reduced_axes(call.attrs, len(src)))


def _factors(call: Call, port: int, rng: np.random.Generator) -> Array:
    """Factors 2**u, u uniform around 0 and narrower the more there are, so that the product stays within a few powers of two."""
    t, width = call.ins[0], min(1.0, 8 / sqrt(max(reduced_size(call), 1)))
    return fills.rounded(np.exp2(fills.reals(-width, width, t.shape, rng)), t.dtype)


Reduce = Callable[[Reals, tuple[int, ...]], Array | np.float64]


SAMPLES = (
    Sample(((5, 17),), Attrs(axes=(1,)), why="rows, with a tail"),
    Sample(((17, 5),), Attrs(axes=(0,)), why="columns"),
    Sample(((3, 33),), Attrs(axes=(-1,), keep_dims=True), why="a negative axis, kept as 1"),
    Sample(((2, 3, 4, 5),), Attrs(axes=(1, 3)), why="two axes that are not neighbours"),
    Sample(((2, 3, 4, 5),), Attrs(axes=(3, -3), keep_dims=True), why="axes out of order"),
    Sample(((3, 7),), Attrs(axes=(0, 1)), why="everything, to rank 0"),
    Sample(((4, 1, 16),), Attrs(axes=(1,)), why="an axis of size 1"),
    Sample(((1000,),), Attrs(axes=(0,), keep_dims=True), why="a long vector"),
    Sample(((4, 19),), Attrs(axes=(1,)), (DType.bf16,), why="bf16"),
    Sample(((2, 15, 3),), Attrs(axes=(1,), keep_dims=True), (DType.f16,), why="f16, a middle axis"),
)


def _row(
    kind: str,
    lower: Reduction | Decompose,
    compute: Reduce,
    laws: tuple[Law, ...],
    *,
    is_exact: bool = False,
    fill: FillRule | None = None,
    domain: Domain = fills.PLAIN,
    per_src: int = 1,
    per_dst: int = 0,
    power: int | None = None,
) -> OpSpec:
    """The row of a reduction. per_src, per_dst: operations per element of src and of dst. power: the intermediate result is the sum of
    |src|**power, which may overflow; 0: it is the product."""

    def reference(call: Call, ins: tuple[Array, ...]) -> tuple[Array, ...]:
        return (real(np.asarray(compute(real(ins[0]), reduced_axes(call.attrs, ins[0].ndim)))).reshape(call.outs[0].shape),)

    def in_f32(call: Call, ins: tuple[Array, ...]) -> tuple[tuple[Array, ...], ...]:
        if power is None:
            return ()
        (right,), axes = reference(call, ins), reduced_axes(call.attrs, ins[0].ndim)
        if power == 0:
            return _products_in_f32(right, np.abs(real(ins[0])), axes)
        terms = np.abs(real(ins[0])) ** power
        if power == 1:
            return overflow.overflowed((right,), (overflow.is_beyond(terms.sum(axis=axes)).reshape(right.shape),))
        total = overflow.as_f32(overflow.as_f32(terms).sum(axis=axes)).reshape(right.shape)
        is_lost = np.isfinite(right) & ((total > overflow.MOST) | (total < DType.f32.least_normal / DType.f32.eps))
        return ((np.where(is_lost, np.sqrt(total), right),),) if is_lost.any() else ()

    return OpSpec(
        kind,
        Schema(
            inputs=ports("src:T1", "axes:T2"),
            outputs=ports("dst:T1"),
            num_inputs=(1, 2),
            types={"T1": F, "T2": (DType.s32,)},
            attrs=AXES,
            check=check,
        ),
        Semantics(
            infer=infer,
            reference=reference,
            flops=lambda call: per_src * call.ins[0].elements + per_dst * call.outs[0].elements,
            threshold=lambda call: 0.0 if is_exact else sqrt(reduced_size(call)) + 4,
            f32_alternatives=in_f32,
        ),
        Testing(fill=fill or rows.total(reduced_size), domain=domain, samples=SAMPLES, laws=laws),
        Lowering(Role.row, *((lower, None) if isinstance(lower, Reduction) else (None, lower))),
    )


def _products_in_f32(right: Array, sizes: Reals, axes: tuple[int, ...]) -> tuple[tuple[Array, ...], ...]:
    """Partial products are at most the product of all factors above 1, and at least that of all factors below."""
    above, below = (np.where(sizes > 0, pick(sizes, 1.0), 1.0).prod(axis=axes).reshape(right.shape) for pick in (np.fmax, np.fmin))
    others = overflow.overflowed((right,), (above > overflow.MOST,))
    is_lost = np.isfinite(right) & (below < DType.f32.least_normal)
    return (*others, (np.where(is_lost, 0.0, right),)) if is_lost.any() else others


def _kept(call: Call, dst: Array) -> Reals:
    """dst with its reduced axes put back as 1, to broadcast against src."""
    src = call.ins[0].shape
    return real(dst).reshape(kept(src, reduced_axes(call.attrs, len(src))))


def _extreme(kind: str, op: BinOp, sign: int) -> OpSpec:
    """sign 1: a maximum; -1: a minimum."""

    def is_reached_bound(call: Call, ins: tuple[Array, ...], outs: tuple[Array, ...], rtol: float) -> bool:
        src, dst = sign * real(ins[0]), sign * _kept(call, outs[0])
        axes = reduced_axes(call.attrs, src.ndim)
        return bool(np.all(dst >= src) and np.all((dst == src).any(axis=axes)))

    return _row(
        kind,
        Reduction(op, -sign * inf),
        lambda x, axes: sign * np.max(sign * x, axis=axes, initial=-inf),
        (Law(f"a bound of src from {'above' if sign > 0 else 'below'}, and reached", is_reached_bound),),
        is_exact=True,
        fill=rows.extreme(sign),
    )


def _totals(name: str, weight: Callable[[Call], int]) -> Law:
    """weight times the sum of dst is the sum of src."""

    def holds(call: Call, ins: tuple[Array, ...], outs: tuple[Array, ...], rtol: float) -> bool:
        dst = weight(call) * real(outs[0])
        return bool(abs(dst.sum() - real(ins[0]).sum()) <= rtol * (float(np.abs(dst).sum()) + 1))

    return Law(name, holds)


def _logs_add(call: Call, ins: tuple[Array, ...], outs: tuple[Array, ...], rtol: float) -> bool:
    src, dst = real(ins[0]), _kept(call, outs[0])
    logs = np.log(np.abs(src)).sum(axis=reduced_axes(call.attrs, src.ndim), keepdims=True)
    return near(np.abs(dst), np.exp(logs), 8 * rtol)


def _decompose_l1(d: Decomposer, call: Call, ins: tuple[int, ...]) -> tuple[int, ...]:
    return (d.op("ReduceSum", d.op("Abs", ins[0], dtype=DType.f32), attrs=call.attrs, dtype=call.outs[0].dtype),)


def _decompose_l2(d: Decomposer, call: Call, ins: tuple[int, ...]) -> tuple[int, ...]:
    power = d.op("ReduceSum", d.op("Square", ins[0], dtype=DType.f32), attrs=call.attrs)
    return (d.op("Sqrt", power, dtype=call.outs[0].dtype),)


def _norms(power: int) -> tuple[Law, ...]:
    """power p of the p-norm."""

    def totals(call: Call, ins: tuple[Array, ...], outs: tuple[Array, ...], rtol: float) -> bool:
        """The powers of all norms sum to the powers of all elements, positive and negative ones counted apart."""
        above, below = np.maximum(real(ins[0]), 0) ** power, np.maximum(-real(ins[0]), 0) ** power
        return near(np.array((real(outs[0]) ** power).sum()), np.array(above.sum() + below.sum()), 8 * rtol)

    def between(call: Call, ins: tuple[Array, ...], outs: tuple[Array, ...], rtol: float) -> bool:
        """Between the largest element and n^(1/p) times it."""
        dst = _kept(call, outs[0])
        top = np.abs(real(ins[0])).max(axis=reduced_axes(call.attrs, ins[0].ndim), keepdims=True)
        return bool(np.all(dst >= top * (1 - rtol)) and np.all(dst <= reduced_size(call) ** (1 / power) * top * (1 + rtol)))

    return (
        Law(f"to the power of {power}, dst sums to what all elements do", totals),
        Law("between the largest element and n^(1/p) times it", between),
    )


SPECS = (
    _row(
        "ReduceSum",
        Reduction(BinOp.add, 0.0),
        lambda x, axes: x.sum(axis=axes),
        (_totals("dst sums to the sum of src", lambda call: 1),),
        power=1,
        domain=fills.MEAN_ONE,
    ),
    _row(
        "ReduceMean",
        Reduction(BinOp.add, 0.0, lambda count, acc: binary(BinOp.mul, acc, f32(1 / count if count else inf))),
        lambda x, axes: x.mean(axis=axes),
        (_totals("dst times the count sums to the sum of src", reduced_size),),
        power=1,
        fill=rows.total(reduced_size, shift=1),
        domain=fills.MEAN_ONE,
        per_dst=1,
    ),
    _extreme("ReduceMax", BinOp.maximum, 1),
    _extreme("ReduceMin", BinOp.minimum, -1),
    _extreme("_RowMax", BinOp.max, 1),
    _row(
        "ReduceProd",
        Reduction(BinOp.mul, 1.0),
        lambda x, axes: x.prod(axis=axes),
        (Law("logarithms add", _logs_add),),
        fill=rows.product(reduced_size),
        domain=_factors,
        power=0,
    ),
    _row("ReduceL1", _decompose_l1, lambda x, axes: np.abs(x).sum(axis=axes), _norms(1), per_src=2, power=1),
    _row("ReduceL2", _decompose_l2, lambda x, axes: np.sqrt(np.square(x).sum(axis=axes)), _norms(2), per_src=2, per_dst=1, power=2),
)
