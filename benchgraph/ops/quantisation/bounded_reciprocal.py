"""_BoundedReciprocal: dst = 1 / src, clamped to the finite numbers of f32 unless src is 0. An internal op.

Below 2**-128 a divisor's reciprocal overflows f32, and 0 * inf is NaN where 0 / divisor is 0. With the largest finite number instead, 0
stays 0, and dividends from 2**-120 on have products of 255 and more, as they have quotients. For dividends in between, the products are
nearer to 0 than the quotients: one multiplication cannot give more.
"""

from __future__ import annotations

import numpy as np

from benchgraph.core.attrs import Attrs
from benchgraph.core.dtypes import DType
from benchgraph.ops import fills
from benchgraph.ops.elementwise.unary import same_shape
from benchgraph.ops.fill_rules import filling
from benchgraph.ops.formulas import div, where, within
from benchgraph.ops.laws import Reals, near, real
from benchgraph.ops.spec import Decomposer, Elementwise, Law, Lowering, OpSpec, Role, Sample, Schema, Semantics, Testing, ports
from benchgraph.ops.spec.call import Array, Call, F
from benchgraph.tir.build import f32
from benchgraph.tir.ir import BinOp, Expr

KIND = "_BoundedReciprocal"
MOST = DType.f32.range[1]


def bounded_reciprocal(d: Decomposer, divisor: int) -> int:
    """The value to multiply by instead of dividing, in f32, where quotients end as 8-bit integers."""
    return d.op(KIND, divisor, dtype=DType.f32)


def is_finite(divisors: Array, dtype: DType = DType.f32) -> bool:
    """Whether the reciprocals of all of these numbers are in the range of a dtype."""
    with np.errstate(divide="ignore"):
        return bool(np.all(np.abs(1.0 / real(divisors)) <= dtype.range[1]))


def reference(call: Call, ins: tuple[Array, ...]) -> tuple[Array, ...]:
    src = real(ins[0])
    with np.errstate(divide="ignore"):
        exact: Reals = 1.0 / src
    return (np.where(src == 0, exact, np.clip(exact, -MOST, MOST)),)


def _expr(attrs: Attrs, ins: tuple[Expr, ...]) -> Expr:
    (src,) = ins
    exact = div(f32(1), src)
    return where(src, BinOp.eq, 0, exact, within(exact, -MOST, MOST))


SPECS = (
    OpSpec(
        KIND,
        Schema(inputs=ports("src:T1"), outputs=ports("dst:T2"), types={"T1": F, "T2": (DType.f32,)}),
        Semantics(
            infer=same_shape,
            reference=reference,
            flops=lambda call: call.outs[0].elements,
            threshold=lambda call: 0.5,  # rounded once
        ),
        Testing(
            fill=filling.MOVED,
            domain=fills.AWAY_FROM_ZERO,
            samples=(
                Sample(((3, 17),), why="a tail"),
                Sample(((),), why="rank 0"),
                Sample(((4, 16),), dtypes=(DType.bf16,), out_dtypes=(DType.f32,), why="narrow divisors, reciprocals in f32"),
            ),
            laws=(Law("src times it is 1", lambda call, ins, outs, rtol: near(real(ins[0]) * real(outs[0]), np.ones(1), rtol)),),
            zero_limit=lambda call: 1.0,
        ),
        Lowering(Role.pointwise, form=Elementwise(_expr)),
    ),
)
