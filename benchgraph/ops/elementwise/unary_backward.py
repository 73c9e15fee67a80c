"""Gradients of the functions in unary: diff_src = diff_dst * slope, element by element. The inputs are src or dst, then diff_dst.

The attribute use_dst, where there is one, is true by default: the first input is then the forward op's result. At a kink the slope is that
of the flat side: 0 for Abs, ReLU, Clamp and HardSigmoid; HardSwish has 0 at -3 and 1 at 3 (as oneDNN computes it; its documentation leaves
both open). Gradients are selected rather than multiplied by 0, since inf * 0 is NaN. At infinities the slope is the limit: GELU and Mish
clamp src to where it is reached; oneDNN's formulas give inf * 0, and f32_alternatives allows that NaN.

Cost: two operations per element, the slope and the product, except for GELU. Thresholds as in unary, and one more multiplication.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from math import pi, sqrt

import numpy as np

from benchgraph.core.attrs import Attrs
from benchgraph.core.dtypes import DType
from benchgraph.core.errors import InvalidShape
from benchgraph.core.tensor import Shape, TensorType
from benchgraph.ops import overflow
from benchgraph.ops.elementwise import unary, unary_backward_data
from benchgraph.ops.elementwise.unary_backward_data import uses_dst
from benchgraph.ops.fill_rules import pointwise
from benchgraph.ops.formulas import add, div, exp, mul, normal_cdf, sigmoid, sub, where, within
from benchgraph.ops.laws import Reals, near, real, relation
from benchgraph.ops.ranges import REAL
from benchgraph.ops.spec import Attr, Domain, FillRule, Law, Lowering, OpSpec, Port, Role, Sample, Schema, Semantics, Testing, ports
from benchgraph.ops.spec.call import Array, Call, Declared
from benchgraph.ops.spec.forms import Elementwise
from benchgraph.ops.spec.schema import Check
from benchgraph.tir import build
from benchgraph.tir.build import f32
from benchgraph.tir.ir import BinOp, Expr, UnOp

EXACT, ARITHMETIC, TRANSCENDENTAL = 0.0, 4.0, 20.0
FLOPS = 2
GELU_FLOPS = 11  # the erf form: x / sqrt(2), erf, + 1, / 2; x * x, / -2, exp, times x, times a constant; the sum; the product
FAR = 1e4  # from here on, both ways, slopes are their limits in float64
_FORWARD = {row.kind: row for row in unary.SPECS}


def infer(attrs: Attrs, ins: tuple[TensorType, ...]) -> tuple[Shape, ...]:
    src, diff = ins[0].shape, ins[1].shape
    if src != diff:
        raise InvalidShape(f"diff_dst {diff} differs from the first input {src}", fix="give both the shape of the forward op's tensors")
    return (src,)


def _slopes(bounds: Callable[[Attrs], tuple[float, float]]) -> Law:
    """bounds(attrs): the least and the greatest slope of the forward function."""

    def holds(call: Call, ins: tuple[Array, ...], outs: tuple[Array, ...], rtol: float) -> bool:
        low, high = bounds(call.attrs)
        diff, got = real(ins[1]), real(outs[0])
        slack = rtol * max(1.0, float(np.max(np.abs(got), initial=0.0)))
        return bool(np.all(np.abs(got - (low + high) / 2 * diff) <= (high - low) / 2 * np.abs(diff) + slack))

    return Law("diff_src / diff_dst is a slope the forward function has", holds)


def _row(
    kind: str,
    expr: Callable[[Attrs, Expr, Expr], Expr],
    compute: Callable[[Attrs, Reals, Reals], Reals],
    threshold: float,
    laws: tuple[Law, ...],
    *,
    attrs: dict[str, Attr] | None = None,
    samples: tuple[tuple[str, Attrs], ...] = (("", Attrs()),),
    domain: Domain | None = None,
    fill: FillRule | None = None,
    flops: int = FLOPS,
    guaranteed_zeros: Callable[[Attrs], bool] = lambda attrs: False,
    has_limit: bool = False,
    check: Check | None = None,
) -> OpSpec:
    """expr, compute: of (attrs, first input, diff_dst). samples: why and attributes; the first ones are used with every shape. has_limit:
    the slope at infinities is a limit, where the formula gives inf * 0."""
    forward, schema = _FORWARD[kind.removesuffix("Backward")], attrs or {}

    def reference(call: Call, ins: tuple[Array, ...]) -> tuple[Array, ...]:
        with np.errstate(all="ignore"):
            return (real(compute(call.attrs, real(ins[0]), real(ins[1]))),)

    def f32_alternatives(call: Call, ins: tuple[Array, ...]) -> tuple[tuple[Array, ...], ...]:
        (right,), (v, diff) = reference(call, ins), map(real, ins)
        slope = real(compute(call.attrs, v, np.ones(v.shape)))
        steep = np.where(overflow.is_beyond(np.abs(slope)), diff * np.copysign(np.inf, slope), right)
        return (steep,), (np.where(np.isinf(v) & has_limit, np.nan, steep),)

    return OpSpec(
        kind,
        Schema(
            inputs=(Port("src/dst" if "use_dst" in schema else "src"), Port("diff_dst")),
            outputs=ports("diff_src"),
            attrs=schema,
            check=check,
            family="eltwise",
        ),
        Semantics(
            infer=infer,
            reference=reference,
            flops=lambda call: flops * call.outs[0].elements,
            threshold=lambda call: threshold,
            f32_alternatives=f32_alternatives,
        ),
        Testing(
            fill=fill or unary_backward_data.pattern_of(forward),
            domain=domain or unary_backward_data.like(forward),
            samples=unary.samples_of(samples[0][1], 2) + tuple(Sample(((2, 19), (2, 19)), a, why=why) for why, a in samples[1:]),
            laws=laws,
            gradient_of=forward.kind,
            zero_limit=lambda call: pointwise.ELTWISE_ZEROS,
            guaranteed_zeros=lambda call: float(guaranteed_zeros(call.attrs)),
        ),
        Lowering(Role.pointwise, form=Elementwise(lambda a, ins: expr(a, *ins))),
    )


_neg, _sqrt = (partial(build.unary, op) for op in (UnOp.neg, UnOp.sqrt))


def _bump(x: Expr) -> Expr:
    """sigmoid(x) * (1 - sigmoid(x)) = t / (1 + t)**2 with t = e**-|x|: 1 - sigmoid would leave no digits for large x."""
    t = exp(_neg(build.unary(UnOp.abs, x)))
    w = add(f32(1), t)
    return div(t, mul(w, w))


def _check_elu(attrs: Attrs, ins: tuple[Declared, ...], out_dtypes: tuple[DType, ...]) -> str:
    """Below alpha 0, dst is above 0 on both sides of src 0."""
    alpha, fix = attrs.real("alpha"), "give it 0 or more, or set use_dst to false"
    return f"attribute 'alpha' is {alpha}, with which dst does not tell src; {fix}" if uses_dst(attrs) and alpha < 0 else ""


def _elu(attrs: Attrs, v: Expr, diff: Expr) -> Expr:
    """dst + alpha is alpha * e**src."""
    alpha = f32(attrs.real("alpha"))
    slope = add(v, alpha) if uses_dst(attrs) else mul(alpha, exp(v))
    return where(v, BinOp.gt, 0, diff, mul(diff, slope))


def _hard_sigmoid(attrs: Attrs, x: Expr, diff: Expr) -> Expr:
    alpha = f32(attrs.real("alpha"))
    line = add(mul(alpha, x), f32(attrs.real("beta")))
    return where(line, BinOp.le, 0, f32(0), where(line, BinOp.ge, 1, f32(0), mul(alpha, diff)))


def _tanh(attrs: Attrs, v: Expr, diff: Expr) -> Expr:
    """(1 - dst) * (1 + dst) rather than 1 - dst * dst, which cancels near 1; from src it is 4 times the slope of sigmoid at 2 * src."""
    slope = mul(sub(f32(1), v), add(f32(1), v)) if uses_dst(attrs) else mul(f32(4), _bump(mul(f32(2), v)))
    return mul(diff, slope)


def _mish(attrs: Attrs, x: Expr, diff: Expr) -> Expr:
    """With e = e**x, n = e * (e + 2) and r = 1 / (n + 2), tanh(softplus) is n * r and its slope 4 * e * (1 + e) * r * r.

    From x = 20 on the slope is 1 in f32; clamping x there keeps e * e from overflowing, and avoids 0 times a huge x. Below -110 e is 0,
    and so is the slope at -inf.
    """
    x = within(x, -110, 20)
    e = exp(x)
    n = mul(e, add(e, f32(2)))
    r = div(f32(1), add(n, f32(2)))
    rise = mul(mul(mul(f32(4), e), r), mul(add(f32(1), e), r))
    return mul(diff, add(mul(n, r), mul(x, rise)))


def _gelu(attrs: Attrs, x: Expr, diff: Expr) -> Expr:
    """Both forms have a slope of 0 or 1 in f32 well before the bound on x, which avoids inf * 0.

    tanh form: dst = x * s with s = sigmoid(2 * g(x)), so the slope is s + x * 2 * g'(x) * s * (1 - s), where 1 - s = s * e**(-2 * g(x)).
    """
    if attrs.get("mode") == "gelu_tanh":
        x = within(x, -9, 9)
        square = mul(x, x)
        t = exp(mul(f32(-2 * sqrt(2 / pi)), mul(x, add(f32(1), mul(f32(0.044715), square)))))
        s = div(f32(1), add(f32(1), t))
        steepness = mul(f32(2 * sqrt(2 / pi)), add(f32(1), mul(f32(3 * 0.044715), square)))
        return mul(diff, mul(s, add(f32(1), mul(mul(x, steepness), mul(t, s)))))
    x = within(x, -14, 14)
    density = mul(f32(1 / sqrt(2 * pi)), build.unary(UnOp.gauss, x))
    return mul(diff, add(normal_cdf(x), mul(x, density)))


def _gelu_reference(attrs: Attrs, x: Reals, diff: Reals) -> Reals:
    x = np.clip(x, -FAR, FAR)
    from scipy.special import expit, ndtr  # takes 0.2 s to import, and only this needs it

    if attrs.get("mode") == "gelu_tanh":
        g = 2 * sqrt(2 / pi) * (x + 0.044715 * x**3)
        return real(diff * expit(g) * (1 + x * expit(-g) * 2 * sqrt(2 / pi) * (1 + 3 * 0.044715 * x**2)))
    return real(diff * (ndtr(x) + x * np.exp(-(x**2) / 2) / sqrt(2 * pi)))


def _mish_reference(attrs: Attrs, x: Reals, diff: Reals) -> Reals:
    x = np.clip(x, -FAR, FAR)
    bump = np.tanh(np.logaddexp(0, x))
    return real(diff * (bump + x * (1 - bump**2) * np.exp(-np.logaddexp(0, -x))))


def _hard_sigmoid_reference(attrs: Attrs, x: Reals, diff: Reals) -> Reals:
    line = attrs.real("alpha") * x + attrs.real("beta")
    return np.where((line <= 0) | (line >= 1), 0.0, attrs.real("alpha") * diff)


def _is_alpha_or_nothing(call: Call, ins: tuple[Array, ...], outs: tuple[Array, ...], rtol: float) -> bool:
    want, got = call.attrs.real("alpha") * real(ins[1]), real(outs[0])
    slack = (rtol + call.outs[0].dtype.eps) * np.abs(want)
    return bool(np.all((np.abs(got - want) <= slack) | (got == 0)))


def _undoes_sqrt(call: Call, ins: tuple[Array, ...], outs: tuple[Array, ...], rtol: float) -> bool:
    got, src = real(outs[0]), real(ins[0]) ** (2 if uses_dst(call.attrs) else 1)
    return near(4 * src * got**2 * np.sign(got), real(ins[1]) ** 2 * np.sign(ins[1]), 8 * rtol)


_USE_DST = {"use_dst": Attr("bool", default=True)}
_EITHER = (("from dst", Attrs()), ("from src", Attrs(use_dst=False)))

_ALL_OR_NOTHING = relation("diff_dst or nothing", lambda ins, dst, slack: (dst == ins[1]) | (dst == 0))

SPECS = (
    _row(
        "AbsBackward",
        lambda attrs, x, diff: where(x, BinOp.gt, 0, diff, where(x, BinOp.lt, 0, _neg(diff), f32(0))),
        lambda attrs, x, diff: np.where(x > 0, diff, np.where(x < 0, -diff, 0.0)),
        EXACT,
        (relation("times src it is diff_dst times |src|", lambda ins, dst, slack: dst * ins[0] == ins[1] * np.abs(ins[0])),),
    ),
    _row(
        "ClampBackward",
        lambda attrs, v, diff: where(v, BinOp.gt, attrs.real("min"), where(v, BinOp.lt, attrs.real("max"), diff, f32(0)), f32(0)),
        lambda attrs, v, diff: np.where((v > attrs.real("min")) & (v < attrs.real("max")), diff, 0.0),
        EXACT,
        (_ALL_OR_NOTHING,),
        attrs={"min": unary.NUMBER, "max": unary.NUMBER} | _USE_DST,
        check=unary.check_limits,
        samples=(
            ("from dst", Attrs(min=-1.0, max=0.5)),
            ("from src", Attrs(min=-1.0, max=0.5, use_dst=False)),
            ("nothing between min and max", Attrs(min=0.0, max=0.0, use_dst=False)),
        ),
        guaranteed_zeros=lambda attrs: attrs.real("min") >= attrs.real("max"),
    ),
    _row(
        "EluBackward",
        _elu,
        lambda attrs, v, diff: np.where(
            v > 0, diff, diff * (v + attrs.real("alpha") if uses_dst(attrs) else attrs.real("alpha") * np.exp(v))
        ),
        TRANSCENDENTAL,
        (
            _slopes(lambda attrs: (0.0, max(1.0, attrs.real("alpha")))),
            relation("diff_dst above 0", lambda ins, dst, slack: (dst == ins[1]) | (ins[0] <= 0)),
        ),
        attrs={"alpha": unary.NUMBER} | _USE_DST,
        check=_check_elu,
        samples=(
            ("from dst", Attrs(alpha=0.75)),
            ("from src", Attrs(alpha=0.75, use_dst=False)),
            ("alpha 0 is ReLU", Attrs(alpha=0.0, use_dst=False)),
        ),
    ),
    _row(
        "GELUBackward",
        _gelu,
        _gelu_reference,
        TRANSCENDENTAL,
        (_slopes(lambda attrs: (-0.129, 1.129)),),
        attrs={"mode": Attr("string", default="gelu_erf", choices=("gelu_erf", "gelu_tanh"))},
        samples=(("erf", Attrs()), ("the tanh form", Attrs(mode="gelu_tanh"))),
        flops=GELU_FLOPS,
        has_limit=True,
    ),
    _row(
        "HardSigmoidBackward",
        _hard_sigmoid,
        _hard_sigmoid_reference,
        ARITHMETIC,
        (Law("alpha times diff_dst, or 0", _is_alpha_or_nothing),),
        attrs={"alpha": unary.NUMBER, "beta": unary.NUMBER},
        samples=(
            ("rising", Attrs(alpha=0.25, beta=0.5)),
            ("falling", Attrs(alpha=-1.25, beta=0.125)),
            ("flat", Attrs(alpha=0.0, beta=0.5)),
        ),
        domain=unary_backward_data.off_the_kinks,
        fill=unary_backward_data.pattern_off_the_kinks,
    ),
    _row(
        "HardSwishBackward",
        lambda attrs, x, diff: where(x, BinOp.le, -3, f32(0), where(x, BinOp.ge, 3, diff, mul(diff, add(mul(f32(1 / 3), x), f32(0.5))))),
        lambda attrs, x, diff: np.where(x <= -3, 0.0, np.where(x >= 3, diff, diff * (2 * x + 3) / 6)),
        ARITHMETIC,
        (_slopes(lambda attrs: (-0.5, 1.5)),),
    ),
    _row("MishBackward", _mish, _mish_reference, TRANSCENDENTAL, (_slopes(lambda attrs: (-0.1126, 1.0885)),), has_limit=True),
    _row(
        "ReLUBackward",
        lambda attrs, v, diff: where(v, BinOp.gt, 0, diff, f32(0)),
        lambda attrs, v, diff: np.where(v > 0, diff, 0.0),
        EXACT,
        (_ALL_OR_NOTHING, relation("nothing below 0", lambda ins, dst, slack: (dst == 0) | (ins[0] > 0))),
        attrs=_USE_DST,
        samples=_EITHER,
    ),
    _row(
        "SigmoidBackward",
        lambda attrs, v, diff: mul(diff, mul(v, sub(f32(1), v)) if uses_dst(attrs) else _bump(v)),
        lambda attrs, v, diff: diff * (v * (1 - v) if uses_dst(attrs) else np.exp(-np.logaddexp(0, v) - np.logaddexp(0, -v))),
        TRANSCENDENTAL,
        (_slopes(lambda attrs: (0.0, 0.25)),),
        attrs=_USE_DST,
        samples=_EITHER,
    ),
    _row(
        "SoftPlusBackward",
        lambda attrs, x, diff: mul(diff, sigmoid(mul(f32(attrs.real("beta")), x))),
        lambda attrs, x, diff: diff * np.exp(-np.logaddexp(0, -attrs.real("beta") * x)),
        TRANSCENDENTAL,
        (_slopes(lambda attrs: (0.0, 1.0)),),
        attrs={"beta": Attr("f32", default=1.0, range=REAL)},
        samples=(("softplus", Attrs()), ("log of sigmoid", Attrs(beta=-1.0)), ("steeper", Attrs(beta=2.5))),
    ),
    _row(
        "SqrtBackward",
        lambda attrs, v, diff: div(mul(f32(0.5), diff), v if uses_dst(attrs) else _sqrt(v)),  # 2 * v may be beyond f32
        lambda attrs, v, diff: diff / (2 * (v if uses_dst(attrs) else np.sqrt(v))),
        ARITHMETIC,
        (Law("4 * src * diff_src**2 is diff_dst**2, and the signs are equal", _undoes_sqrt),),
        attrs=_USE_DST,
        samples=_EITHER,
    ),
    _row(
        "TanhBackward",
        _tanh,
        lambda attrs, v, diff: diff * ((1 - v) * (1 + v) if uses_dst(attrs) else np.cosh(v) ** -2),
        TRANSCENDENTAL,
        (_slopes(lambda attrs: (0.0, 1.0)),),
        attrs=_USE_DST,
        samples=_EITHER,
    ),
)
