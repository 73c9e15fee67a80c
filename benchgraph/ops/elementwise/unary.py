"""One input, element by element: activations and elementary functions. dst has the shape and dtype of src.

Cost: one operation per element, except for GELU. Thresholds (units of eps(f32) = 2 half-ulps): EXACT picks or rounds, so there is no
error. ARITHMETIC is a few correctly rounded operations. TRANSCENDENTAL has a polynomial of a few ulp, and the rounding of its argument,
which exp makes a relative error of |x| times as much (|x| <= 4 in the test data).

NaN stays NaN but for ReLU, which gives 0 as oneDNN does unless PROPAGATE_NAN is set.
"""

from __future__ import annotations

from collections.abc import Callable
from math import inf, pi, sqrt

import numpy as np

from benchgraph.core.attrs import Attrs
from benchgraph.core.dtypes import DType
from benchgraph.core.tensor import Shape, TensorType
from benchgraph.ops import fills
from benchgraph.ops.fill_rules import pointwise
from benchgraph.ops.formulas import add, at_most, div, exp, mul, sigmoid, softplus, sub, where, within
from benchgraph.ops.laws import INCREASING, Reals, near, real, recovers, relation
from benchgraph.ops.ranges import FINITE_NOT_ZERO, REAL
from benchgraph.ops.spec import Attr, Computes, Domain, Elementwise, Law, Lowering, OpSpec, Role, Sample, Schema, Semantics, Testing, ports
from benchgraph.ops.spec.call import Array, Call, Declared
from benchgraph.ops.spec.schema import Check
from benchgraph.tir.build import binary, f32, unary
from benchgraph.tir.ir import BinOp, Expr, UnOp

EXACT, ARITHMETIC, TRANSCENDENTAL = 0.0, 2.0, 16.0
GELU_FLOPS = 8  # x*x*x*c + x, scaled, tanh, +1, *x, /2: the operations of the tanh form as it is written, with tanh as one


PROPAGATE_NAN = {"propagate_nan": Attr("bool")}  # extends ops that lose NaN in oneDNN: NaN propagates, as in frameworks


def propagates_nan(attrs: Attrs) -> bool:
    """Whether an op with the extension PROPAGATE_NAN keeps NaN."""
    return attrs.get("propagate_nan") is True


def same_shape(attrs: Attrs, ins: tuple[TensorType, ...]) -> tuple[Shape, ...]:
    return (ins[0].shape,)


def samples_of(attrs: Attrs, inputs: int = 1) -> tuple[Sample, ...]:
    """Samples of an op whose inputs all have one shape."""
    cases: tuple[tuple[Shape, DType, str], ...] = (
        ((17,), DType.f32, "one element more than a vector of 16"),
        ((3, 5, 33), DType.f32, "every dim odd"),
        ((1,), DType.f32, "a single element") if inputs == 1 else ((0, 4), DType.f32, "no elements"),
        ((), DType.f32, "rank 0"),
        ((4, 15), DType.bf16, "bf16, one element less than a vector"),
        ((2, 16), DType.f16, "f16, no tail"),
    )
    return tuple(Sample((shape,) * inputs, attrs, (dtype,) * inputs, why=why) for shape, dtype, why in cases)


def _row(
    kind: str,
    expr: UnOp | Callable[[Attrs, Expr], Expr],
    compute: np.ufunc | Callable[[Attrs, Reals], Reals],
    threshold: float,
    laws: tuple[Law, ...],
    *,
    attrs: dict[str, Attr] | None = None,
    samples: tuple[Attrs, ...] = (Attrs(),),
    more: tuple[Sample, ...] = (),
    domain: Domain = fills.PLAIN,
    first: tuple[float, ...] = (),
    alpha_beta: tuple[float, ...] = (),
    computes: Computes | None = None,
    flops: int = 1,
    guaranteed_zeros: Callable[[Attrs], bool] = lambda attrs: False,
    lower_bound: float | None = None,
    extensions: dict[str, Attr] | None = None,
    check: Check | None = None,
) -> OpSpec:
    """expr, compute: of attributes and src, or of src alone."""

    def reference(call: Call, ins: tuple[Array, ...]) -> tuple[Array, ...]:
        src = real(ins[0])
        with np.errstate(all="ignore"):
            return (real(compute(src) if isinstance(compute, np.ufunc) else compute(call.attrs, src)),)

    return OpSpec(
        kind,
        Schema(inputs=ports("src"), outputs=ports("dst"), attrs=attrs or {}, extensions=extensions or {}, check=check, family="eltwise"),
        Semantics(
            infer=same_shape,
            reference=reference,
            flops=lambda call: flops * call.outs[0].elements,
            threshold=lambda call: threshold,
            computes=computes,
            lower_bound=lower_bound,
        ),
        Testing(
            fill=pointwise.activation(attrs or {}, first, alpha_beta),
            domain=domain,
            samples=samples_of(samples[0]) + tuple(Sample(((2, 19),), a, why="other attributes") for a in samples[1:]) + more,
            laws=laws,
            zero_limit=lambda call: pointwise.ELTWISE_ZEROS,
            guaranteed_zeros=lambda call: float(guaranteed_zeros(call.attrs)),
        ),
        Lowering(Role.pointwise, form=Elementwise(lambda a, ins: unary(expr, ins[0]) if isinstance(expr, UnOp) else expr(a, ins[0]))),
    )


def _gelu(attrs: Attrs, x: Expr) -> Expr:
    """x times a gate without cancellation: (1 + tanh(g)) / 2 = sigmoid(2 * g), and (1 + erf(x / sqrt(2))) / 2 is the normal distribution.

    The latter times x is max(x, 0) - |x| * tail. The tail is 0 well before 14, so that inf - inf does not occur.
    """
    if attrs.get("mode") == "gelu_tanh":
        return mul(x, sigmoid(mul(f32(2 * sqrt(2 / pi)), mul(x, add(f32(1), mul(f32(0.044715), mul(x, x)))))))
    size = at_most(unary(UnOp.abs, x), 14)
    return sub(binary(BinOp.max, f32(0), x), mul(size, unary(UnOp.normal_tail, x)))


def _gelu_reference(attrs: Attrs, x: Reals) -> Reals:
    from scipy.special import expit, ndtr  # takes 0.2 s to import, and only this needs it

    if attrs.get("mode") == "gelu_tanh":
        return real(x * expit(2 * sqrt(2 / pi) * (x + 0.044715 * x**3)))
    return np.where(np.isneginf(x), 0.0, x * ndtr(x))


def _mish(attrs: Attrs, x: Expr) -> Expr:
    """tanh(log(1 + e)), e = e**x, is n / (n + 2) with n = e * (e + 2): no cancellation. It is 1 from x = 20 on; e * e cannot overflow."""
    e = exp(at_most(x, 20))
    n = mul(e, add(e, f32(2)))
    return mul(x, div(n, add(n, f32(2))))


def _is_within_limits(call: Call, ins: tuple[Array, ...], outs: tuple[Array, ...], rtol: float) -> bool:
    dst, low, high = real(outs[0]), call.attrs.real("min"), call.attrs.real("max")
    slack = (rtol + call.outs[0].dtype.eps) * max(abs(low), abs(high))
    return bool(np.all((dst >= low - slack) & (dst <= high + slack)))


def _is_elu(call: Call, ins: tuple[Array, ...], outs: tuple[Array, ...], rtol: float) -> bool:
    src, dst, alpha = real(ins[0]), real(outs[0]), call.attrs.real("alpha")
    return bool(np.all(dst >= -abs(alpha) * (1 + rtol))) and near(dst[src >= 0], src[src >= 0], rtol)


def _is_on_the_line(call: Call, ins: tuple[Array, ...], outs: tuple[Array, ...], rtol: float) -> bool:
    src, dst = real(ins[0]), real(outs[0])
    between = (dst > 0) & (dst < 1)
    return near((dst - call.attrs.real("beta"))[between], call.attrs.real("alpha") * src[between], 8 * (rtol + call.outs[0].dtype.eps))


def _recovers_softplus(call: Call, ins: tuple[Array, ...], outs: tuple[Array, ...], rtol: float) -> bool:
    beta = call.attrs.real("beta")
    with np.errstate(all="ignore"):
        return near(np.log(np.expm1(beta * real(outs[0]))) / beta, ins[0], 8 * rtol)


def _scales_below_zero(call: Call, ins: tuple[Array, ...], outs: tuple[Array, ...], rtol: float) -> bool:
    return near(real(outs[0]) - np.maximum(ins[0], 0), call.attrs.real("alpha") * real(np.minimum(ins[0], 0)), rtol)


def _bounded(name: str, low: float, high: float) -> Law:
    return relation(name, lambda ins, dst, slack: (dst >= low - slack) & (dst <= high + slack))


NUMBER = Attr("f32", required=True, range=REAL)


def check_limits(attrs: Attrs, ins: tuple[Declared, ...], out_dtypes: tuple[DType, ...]) -> str:
    least, most = attrs.real("min"), attrs.real("max")
    return f"attribute 'min' is {least}, and 'max' {most}; give a min of at most max" if least > most else ""


SPECS = (
    _row(
        "ReLU",
        # 0 or NaN for NaN, in one instruction either way: max gives its second operand if one is NaN
        lambda attrs, x: within(x, 0, inf) if propagates_nan(attrs) else where(x, BinOp.gt, 0, x, f32(0)),
        lambda attrs, x: np.where(np.isnan(x) | (x > 0) if propagates_nan(attrs) else x > 0, x, 0.0),
        EXACT,
        (
            relation("never below 0", lambda ins, dst, slack: dst >= 0),
            relation("dst - src is 0 or -src", lambda ins, dst, slack: (dst == ins[0]) | (dst == 0) & (ins[0] <= 0)),
        ),
        more=(Sample(((0, 4),), why="no elements"), Sample(((2, 3, 2, 2, 7),), why="rank 5")),
        lower_bound=0.0,
        extensions=PROPAGATE_NAN,
    ),
    _row(
        "LeakyReLU",
        lambda attrs, x: where(x, BinOp.ge, 0, x, mul(f32(attrs.real("alpha")), x)),
        lambda attrs, x: np.where(x >= 0, x, attrs.real("alpha") * x),
        ARITHMETIC,
        (Law("identity above 0, alpha times src below", _scales_below_zero),),
        attrs={"alpha": NUMBER},
        samples=(Attrs(alpha=0.25), Attrs(alpha=0.0), Attrs(alpha=1.5)),
    ),
    _row(
        "GELU",
        _gelu,
        _gelu_reference,
        TRANSCENDENTAL,
        (
            relation(
                "between -0.171 and max(src, 0)", lambda ins, dst, slack: (dst >= -0.171 - slack) & (dst <= np.maximum(ins[0], 0) + slack)
            ),
        ),
        attrs={"mode": Attr("string", default="gelu_erf", choices=("gelu_erf", "gelu_tanh"))},
        samples=(Attrs(), Attrs(mode="gelu_tanh"), Attrs(mode="gelu_erf")),
        domain=fills.uniform(-4, 4),
        flops=GELU_FLOPS,
    ),
    _row("Tanh", UnOp.tanh, np.tanh, TRANSCENDENTAL, (_bounded("within [-1, 1]", -1, 1), INCREASING)),
    _row(
        "Sigmoid",
        lambda attrs, x: sigmoid(x),
        lambda attrs, x: np.exp(-np.logaddexp(0, -x)),
        TRANSCENDENTAL,
        (_bounded("within [0, 1]", 0, 1), INCREASING),
        domain=fills.uniform(-8, 8),
    ),
    _row(
        "Exp",
        UnOp.exp,
        np.exp,
        TRANSCENDENTAL,
        (relation("at least 1 + src", lambda ins, dst, slack: dst >= 1 + ins[0] - slack), INCREASING),
        domain=fills.uniform(-4, 4),
        computes=Computes.exp,
    ),
    _row(
        "Log",
        UnOp.log,
        np.log,
        TRANSCENDENTAL,
        (recovers("exp undoes it", np.exp), INCREASING),
        domain=fills.uniform(0.125, 8),
        first=pointwise.INFINITIES,
    ),
    _row("Sqrt", UnOp.sqrt, np.sqrt, ARITHMETIC, (recovers("squaring undoes it", np.square), INCREASING), domain=fills.uniform(0.0625, 4)),
    _row(
        "Square",
        lambda attrs, x: mul(x, x),
        np.square,
        ARITHMETIC,
        (
            relation("never negative", lambda ins, dst, slack: dst >= 0),
            recovers("its root is |src|", lambda ins, dst: np.copysign(np.sqrt(np.abs(dst)), ins[0])),
        ),
    ),
    _row(
        "Clamp",
        lambda attrs, x: within(x, attrs.real("min"), attrs.real("max")),
        lambda attrs, x: np.minimum(np.maximum(x, attrs.real("min")), attrs.real("max")),
        ARITHMETIC,
        (Law("between min and max", _is_within_limits), INCREASING),
        attrs={"min": NUMBER, "max": NUMBER},
        check=check_limits,
        samples=(Attrs(min=-1.0, max=0.5), Attrs(min=0.0, max=6.0), Attrs(min=0.0, max=0.0)),
        guaranteed_zeros=lambda attrs: attrs.real("min") == attrs.real("max") == 0,
    ),
    _row(
        "Elu",
        lambda attrs, x: where(x, BinOp.ge, 0, x, mul(f32(attrs.real("alpha")), unary(UnOp.decay, x))),
        lambda attrs, x: np.where(x >= 0, x, attrs.real("alpha") * np.expm1(x)),
        TRANSCENDENTAL,
        (Law("never below -alpha, identity above 0", _is_elu),),
        attrs={"alpha": NUMBER},
        samples=(Attrs(alpha=1.0), Attrs(alpha=0.25)),
        domain=fills.uniform(-4, 4),
    ),
    _row(
        "HardSwish",
        lambda attrs, x: mul(x, mul(within(add(x, f32(3)), 0, 6), f32(1 / 6))),  # 6 * x could overflow
        lambda attrs, x: x * np.clip(x + 3, 0, 6) / 6,
        2 * ARITHMETIC,
        (
            _bounded("never below -3/8", -0.375, np.inf),
            relation(
                "src where src >= 3, 0 where src <= -3",
                lambda ins, dst, slack: np.abs(dst - np.maximum(ins[0], 0)) * (np.abs(ins[0]) >= 3) <= slack,
            ),
        ),
        domain=fills.uniform(-5, 5),
        alpha_beta=(1 / 6, 1 / 2),  # oneDNN's primitive has them
    ),
    _row(
        "HardSigmoid",
        lambda attrs, x: within(add(mul(f32(attrs.real("alpha")), x), f32(attrs.real("beta"))), 0, 1),
        lambda attrs, x: np.clip(attrs.real("alpha") * x + attrs.real("beta"), 0, 1),
        2 * ARITHMETIC,
        (_bounded("within [0, 1]", 0, 1), Law("alpha times src plus beta where it is neither", _is_on_the_line)),
        attrs={"alpha": NUMBER, "beta": NUMBER},
        samples=(Attrs(alpha=0.25, beta=0.5), Attrs(alpha=-1.25, beta=0.125), Attrs(alpha=0.0, beta=1.0)),
        domain=fills.uniform(-4, 4),
    ),
    _row(
        "SoftPlus",
        lambda attrs, x: softplus(x, attrs.real("beta")),
        lambda attrs, x: np.logaddexp(0, attrs.real("beta") * x) / attrs.real("beta"),
        TRANSCENDENTAL,
        (Law("log(exp(beta * dst) - 1) / beta is src", _recovers_softplus),),
        attrs={"beta": Attr("f32", default=1.0, range=FINITE_NOT_ZERO)},
        samples=(Attrs(), Attrs(beta=-1.0), Attrs(beta=2.5)),
        domain=fills.uniform(-4, 4),
    ),
    _row(
        "Mish",
        _mish,
        lambda attrs, x: x * np.tanh(np.logaddexp(0, x)),
        TRANSCENDENTAL,
        (
            _bounded("never below -0.309", -0.309, np.inf),
            relation("src made smaller", lambda ins, dst, slack: (dst * ins[0] >= 0) & (np.abs(dst) <= np.abs(ins[0]) + slack)),
        ),
        domain=fills.uniform(-4, 4),
    ),
    _row(
        "Abs",
        UnOp.abs,
        np.abs,
        EXACT,
        (relation("never negative, src or -src", lambda ins, dst, slack: (dst >= 0) & ((dst == ins[0]) | (dst == -ins[0]))),),
    ),
    _row(
        "Round",
        UnOp.round,
        np.rint,
        EXACT,
        (relation("an integer at most 1/2 away", lambda ins, dst, slack: (dst == np.floor(dst)) & (np.abs(dst - ins[0]) <= 0.5)),),
        domain=fills.stepped(-20, 20, 0.25),
    ),
    _row(
        "Reciprocal",
        lambda attrs, x: div(f32(1), x),
        np.reciprocal,
        ARITHMETIC,
        (recovers("its reciprocal is src", np.reciprocal),),
        domain=fills.AWAY_FROM_ZERO,
    ),
)
