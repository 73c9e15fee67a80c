"""What the norms share: dst = (src - mean) / sqrt(variance + epsilon), then gamma and beta; mean and variance over some axes of src.

The variance is the mean of the squared deviations, from a second pass over src: E[x^2] - E[x]^2 would lose every digit when the mean is
large. All arithmetic is in f32; only the last op rounds to dst's type. Statistics, gamma and beta have one type, f32 or src's.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import inf, prod, sqrt

import numpy as np

from benchgraph.core.attrs import Attrs
from benchgraph.core.dtypes import DType
from benchgraph.core.errors import InvalidShape
from benchgraph.core.tensor import Shape, TensorType
from benchgraph.ops import fills, overflow
from benchgraph.ops.axis import kept
from benchgraph.ops.fill_rules import filling, norms
from benchgraph.ops.laws import Reals, real
from benchgraph.ops.overflow import EXACT, Arithmetic
from benchgraph.ops.ranges import FINITE_NOT_NEGATIVE
from benchgraph.ops.spec import Attr, Check, Decomposer, Infer, Law, Lowering, OpSpec, Role, Sample, Schema, Semantics, Testing, ports
from benchgraph.ops.spec.call import Array, Call, Declared, F
from benchgraph.ops.steps import in_steps, reduced, reshaped, stored

STATS = (DType.f32, DType.bf16)
USE_AFFINE = Attr("bool", default=True)
EPSILON = Attr("f32", default=1e-05, range=FINITE_NOT_NEGATIVE)
KEEP_STATS = Attr("bool", default=True)
FLOPS = 7  # per element, forward: sum, subtract, square, sum, divide, scale, shift
SCALED = Arithmetic(inf)  # gamma times the normalised src may overflow f32 where adding beta would not
VARIANCES = fills.uniform(0.5, 2)


def walk(reduced_size: int) -> float:
    """The threshold of a norm over n elements: two sums, each a random walk of sqrt(n) / 4, and about 16 roundings, roots and quotients."""
    return sqrt(reduced_size) / 2 + 16


def gradient_walk(summed: int) -> float:
    """The threshold of a norm's gradient, whose sums cancel: a random walk of 1.1 sqrt(n), derived as for MatMul."""
    return 1.1 * sqrt(summed) + 16


# ---- checks ----------------------------------------------------------------------------------------------------------


def check_stats(names: str, *, data: int) -> Check:
    """gamma, beta and statistics have f32 or the dtype of src: all inputs after the first `data`, and all outputs after the first."""

    def check(attrs: Attrs, ins: tuple[Declared, ...], out_dtypes: tuple[DType, ...]) -> str:
        src, others = ins[0][0], (*(dtype for dtype, _ in ins[data:]), *out_dtypes[1:])
        wrong = next((t for t in others if t not in (DType.f32, src)), None)
        if wrong is None:
            return ""
        return f"{names} have dtype {wrong.value} while src has {src.value}; use f32" + (f" or {src.value}" if src in STATS[1:] else "")

    return check


def check_affine(attrs: Attrs, given: int, names: str) -> str:
    """use_affine is true exactly if gamma (and beta) are given; given: their number."""
    if attrs.flag("use_affine") == bool(given):
        return ""
    if given:
        return f"use_affine is false, but there are inputs {names}; set use_affine to true, or remove them"
    return f"use_affine is true, but inputs are missing: {names}; add them, or set use_affine to false"


def check_forward(attrs: Attrs, ins: tuple[Declared, ...], out_dtypes: tuple[DType, ...]) -> str:
    """LayerNorm and GroupNorm: src, [gamma, beta] -> dst, [mean, variance]."""
    if attrs.flag("keep_stats") and len(out_dtypes) != 3:
        return "keep_stats is true, but the outputs mean and variance are missing; add them, or set keep_stats to false"
    wrong_types = check_stats("gamma, beta and statistics", data=1)
    return check_affine(attrs, len(ins) - 1, "gamma, beta") or wrong_types(attrs, ins, out_dtypes)


def expect_shape(name: str, t: TensorType, want: Shape, why: str) -> None:
    """Raises InvalidShape when t has another shape."""
    if t.shape != want:
        raise InvalidShape(f"{name} has shape {t.shape}, {why}", fix=f"give {name} the shape {want}")


# ---- float64 ---------------------------------------------------------------------------------------------------------


def moments(src: Reals, axes: tuple[int, ...]) -> tuple[Reals, Reals]:
    """Mean and variance (biased) over axes, which stay as 1; of no elements NaN."""
    count = np.float64(prod(src.shape[axis] for axis in axes))
    with np.errstate(invalid="ignore"):
        mean = src.sum(axis=axes, keepdims=True) / count
        return mean, np.square(src - mean).sum(axis=axes, keepdims=True) / count


def gradient_formula(x: Reals, g: Reals, axes: tuple[int, ...], a: Arithmetic) -> Reals:
    """g - mean(g) - x * mean(g * x), as in `gradient`. Errors and overflows of both means move the result in one direction."""
    count = np.float64(prod(x.shape[axis] for axis in axes))
    mean, along = (a.step(a.sum(terms, axes, keepdims=True)) / count for terms in (g, g * x))
    if a != a.opposite:
        along = np.where(x < 0, a.opposite.step(a.opposite.sum(g * x, axes, keepdims=True)) / count, along)
    return a.step(a.step(g - mean) - a.step(x * along))


def moments_in_f32(src: Reals, axes: tuple[int, ...]) -> tuple[tuple[Reals, Reals], ...]:
    """Mean and variance that f32 may give when its range or precision does not suffice; () when it does.

    A sum that overflows is any of overflow.ANY: a row of 3e38 has no mean, unless every element is scaled before it is added. Deviations
    from 1.8e19 on have no square: the variance is infinite, and quotients by it are 0. The deviations of equal numbers are the rounding
    error of their mean, of either sign: the norm of a row of 1e19 is 1, -1 or 0.
    """
    count = np.float64(prod(src.shape[axis] for axis in axes))
    with np.errstate(all="ignore"):
        mean, variance = moments(src, axes)
        beyond = overflow.is_beyond(np.abs(src).sum(axis=axes, keepdims=True))
        step = DType.f32.eps * np.abs(mean)
        rounded = np.where(np.sqrt(variance) < step, overflow.ROUNDED * step, 0.0)
        alternatives = []
        for value, sign in (*((value, 0.0) for value in overflow.ANY), (None, 1.0), (None, -1.0)):
            centre = mean + sign * rounded if value is None else np.where(beyond, value, mean)
            power = overflow.as_f32(np.square(src - centre).sum(axis=axes, keepdims=True)) / count
            alternatives.append((centre, np.where(rounded > 0, power, np.where(np.isfinite(power), variance, power))))
    alternatives = alternatives if beyond.any() else alternatives[len(overflow.ANY) :]
    differs = beyond.any() or rounded.any() or any((np.isfinite(variance) & ~np.isfinite(power)).any() for _, power in alternatives)
    return tuple(alternatives) if differs else ()


# ---- decompositions --------------------------------------------------------------------------------------------------


def sum_to(d: Decomposer, value: int, want: TensorType) -> int:
    """The sum over all axes along which `want` broadcasts against value: the gradient of an operand that was broadcast."""
    shape = d.type(value).shape
    lead = len(shape) - len(want.shape)
    axes = tuple(i for i in range(len(shape)) if i < lead or want.shape[i - lead] == 1)
    return stored(d, reduced(d, "ReduceSum", value, axes) if axes else value, want)


def centre(d: Decomposer, src: int, axes: tuple[int, ...]) -> tuple[int, int, int]:
    """src less its mean, the mean and the variance over axes, all f32; the axes stay as 1."""
    mean = reduced(d, "ReduceMean", src, axes)
    centred = d.op("Subtract", src, mean, dtype=DType.f32)
    return centred, mean, reduced(d, "ReduceMean", d.op("Square", centred), axes)


def inverse_deviation(d: Decomposer, variance: int, epsilon: float) -> int:
    """1 / sqrt(variance + epsilon), f32: one division for all that it scales."""
    return d.op("Divide", d.const(1.0), d.op("Sqrt", d.op("Add", variance, d.const(epsilon), dtype=DType.f32)))


def affine(gamma_beta: tuple[int, ...]) -> tuple[tuple[str, int], ...]:
    """The steps that apply gamma and beta, as far as they are given."""
    return tuple(zip(("Multiply", "Add"), gamma_beta, strict=False))


def standardised(d: Decomposer, src: int, mean: int, inverse: int) -> int:
    """x = (src - mean) * inverse with given statistics, f32."""
    return d.op("Multiply", d.op("Subtract", src, mean, dtype=DType.f32), inverse)


def gradient(d: Decomposer, x: int, inverse: int, g: int, axes: tuple[int, ...], dtype: DType) -> int:
    """diff_src = (g - mean(g) - x * mean(g * x)) * inverse, where g is diff_dst times gamma."""
    along = reduced(d, "ReduceMean", d.op("Multiply", g, x, dtype=DType.f32), axes)
    left = d.op("Subtract", g, reduced(d, "ReduceMean", g, axes), dtype=DType.f32)
    return in_steps(d, left, (("Subtract", d.op("Multiply", x, along)), ("Multiply", inverse)), dtype)


# ---- LayerNorm, GroupNorm: src, [gamma, beta] -> dst, [mean, variance] -----------------------------------------------


def forward_row(kind: str, norm_of: norms.NormOf, infer: Infer, attrs: dict[str, Attr], samples: tuple[Sample, ...]) -> OpSpec:
    """The row of a norm that computes the statistics of src."""

    def moments_of(call: Call, ins: tuple[Array, ...]) -> tuple[Reals, Reals]:
        norm = norm_of(call)
        return moments(real(ins[0]).reshape(norm.shape), norm.axes)

    def f32_alternatives(call: Call, ins: tuple[Array, ...]) -> tuple[tuple[Array, ...], ...]:
        norm = norm_of(call)
        alternatives = moments_in_f32(real(ins[0]).reshape(norm.shape), norm.axes) or (moments_of(call, ins),)
        return tuple(with_moments(call, ins, *statistics, SCALED) for statistics in alternatives)

    def with_moments(call: Call, ins: tuple[Array, ...], mean: Reals, variance: Reals, a: Arithmetic = EXACT) -> tuple[Array, ...]:
        norm = norm_of(call)
        src = real(ins[0]).reshape(norm.shape)
        dst = (src - mean) / np.sqrt(variance + call.attrs.real("epsilon"))
        if len(ins) > 1:
            gamma, beta = (real(p).reshape(norm.affine) for p in ins[1:])
            dst = np.asarray(a.result(a.step(dst * gamma) + beta))
        stats = (s.reshape(t.shape) for s, t in zip((mean, variance), call.outs[1:], strict=False))
        return (dst.reshape(call.outs[0].shape), *stats)

    def decompose(d: Decomposer, call: Call, ins: tuple[int, ...]) -> tuple[int, ...]:
        """ReduceMean, Subtract, Square, ReduceMean, Add, Sqrt, Divide, Multiply, Multiply, Add: three passes over a row."""
        norm = norm_of(call)
        src = reshaped(d, ins[0], norm.shape)
        gamma_beta = tuple(reshaped(d, v, norm.affine) for v in ins[1:])
        centred, mean, variance = centre(d, src, norm.axes)
        inverse = inverse_deviation(d, variance, call.attrs.real("epsilon"))
        dst = in_steps(d, centred, (("Multiply", inverse), *affine(gamma_beta)), call.outs[0].dtype)
        stats = (stored(d, s, t) for s, t in zip((mean, variance), call.outs[1:], strict=False))
        return (reshaped(d, dst, call.outs[0].shape), *stats)

    def rows(call: Call, ins: tuple[Array, ...], outs: tuple[Array, ...]) -> Rows:
        norm = norm_of(call)
        dst: Reals = real(outs[0]).reshape(norm.shape)
        if len(ins) > 1:
            gamma, beta = (real(a).reshape(norm.affine) for a in ins[1:])
            dst = (dst - beta) / gamma
        mean, variance = (real(s).reshape(kept(norm.shape, norm.axes)) for s in outs[1:]) if len(outs) > 1 else (None, None)
        return Rows(real(ins[0]).reshape(norm.shape), dst, norm.axes, mean, variance)

    return OpSpec(
        kind,
        Schema(
            inputs=ports("src:T1", "gamma:T2", "beta:T2"),
            outputs=ports("dst:T1", "mean:T2", "variance:T2"),
            num_inputs=(1, 3),
            num_outputs=(1, 3),
            types={"T1": F, "T2": STATS},
            attrs=attrs,
            check=check_forward,
        ),
        Semantics(
            infer=infer,
            reference=lambda call, ins: with_moments(call, ins, *moments_of(call, ins)),
            flops=lambda call: FLOPS * call.ins[0].elements,
            threshold=lambda call: walk(norm_of(call).reduced_size),
            f32_alternatives=f32_alternatives,
        ),
        Testing(
            fill=filling.per_port(norms.paired(norm_of), norms.scale, norms.shift),
            domain=fills.per_port(fills.MEAN_ONE, fills.AWAY_FROM_ZERO, fills.PLAIN),
            samples=samples,
            laws=forward_laws(rows),
        ),
        Lowering(Role.row, decompose=decompose),
    )


# ---- laws ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Rows:
    """A forward norm's result for its laws. src and dst have a shape whose `axes` are normalised; gamma and beta are undone in dst.
    mean, variance: the statistics of the outputs, with those axes as 1, or None."""

    src: Reals
    dst: Reals
    axes: tuple[int, ...]
    mean: Reals | None = None
    variance: Reals | None = None

    @property
    def reduced_size(self) -> int:
        return prod(self.src.shape[a] for a in self.axes)

    def mean_of(self, values: Reals) -> Reals:
        return np.asarray(values.sum(axis=self.axes, keepdims=True) / self.reduced_size)


View = Callable[[Call, tuple[Array, ...], tuple[Array, ...]], Rows]


def _within(gap: Array, slack: float) -> bool:
    return bool(np.all(np.abs(gap) <= slack))


def forward_laws(view: View) -> tuple[Law, ...]:
    """Properties of a normalised tensor, without its formula: its moments, its deviations, and the statistics."""

    def is_standard(call: Call, ins: tuple[Array, ...], outs: tuple[Array, ...], rtol: float) -> bool:
        rows = view(call, ins, outs)
        spread = np.maximum(rows.mean_of(rows.src**2) - rows.mean_of(rows.src) ** 2, 0)
        want = spread / (spread + call.attrs.real("epsilon"))
        slack = 64 * (rtol + 1e-9)
        return _within(rows.mean_of(rows.dst), slack) and _within(rows.mean_of(rows.dst**2) - want, slack)

    def is_src_moved_and_scaled(call: Call, ins: tuple[Array, ...], outs: tuple[Array, ...], rtol: float) -> bool:
        rows = view(call, ins, outs)
        src, dst = rows.src - rows.mean_of(rows.src), rows.dst - rows.mean_of(rows.dst)
        sizes = np.sqrt(rows.mean_of(src**2)), np.sqrt(rows.mean_of(dst**2))
        return _within(dst * sizes[0] - src * sizes[1], 64 * rtol * (1 + float(np.max(np.abs(src), initial=0.0))))

    def has_srcs_statistics(call: Call, ins: tuple[Array, ...], outs: tuple[Array, ...], rtol: float) -> bool:
        rows = view(call, ins, outs)
        if rows.mean is None or rows.variance is None:
            return True
        slack = 16 * rtol * (1 + float(np.max(rows.src**2, initial=0.0)))
        first, second = rows.mean_of(rows.src), rows.mean_of(rows.src**2)
        return _within(rows.mean - first, slack) and _within(rows.variance + rows.mean**2 - second, slack)

    return (
        Law("less beta, over gamma, the mean is 0 and the mean square variance / (variance + epsilon)", is_standard),
        Law("less beta, over gamma, it is src moved and scaled", is_src_moved_and_scaled),
        Law("the statistics, when there, are the first two moments of src", has_srcs_statistics),
    )


@dataclass(frozen=True)
class Gradient:
    """A backward norm's result for its laws; x: src normalised with the given statistics. g: diff_dst times gamma."""

    diff_src: Reals
    x: Reals
    g: Reals
    deviation: Reals
    axes: tuple[int, ...]


def backward_laws(view: Callable[[Call, tuple[Array, ...], tuple[Array, ...]], Gradient]) -> tuple[Law, ...]:
    """These hold for any given statistics."""

    def sums(call: Call, ins: tuple[Array, ...], outs: tuple[Array, ...], rtol: float) -> bool:
        v = view(call, ins, outs)
        h = v.diff_src * v.deviation
        count = prod(h.shape[a] for a in v.axes)
        total = h.sum(axis=v.axes) * count + v.x.sum(axis=v.axes) * (v.g * v.x).sum(axis=v.axes)
        return _within(total, 64 * rtol * count * (1 + float(np.max(np.abs(h).sum(axis=v.axes), initial=0.0))))

    def spans(call: Call, ins: tuple[Array, ...], outs: tuple[Array, ...], rtol: float) -> bool:
        v = view(call, ins, outs)
        rest = v.g - v.diff_src * v.deviation
        rest, x = (a - a.mean(axis=v.axes, keepdims=True) for a in (rest, v.x))
        along = (rest * x).sum(axis=v.axes, keepdims=True)
        size = (x * x).sum(axis=v.axes, keepdims=True)
        return _within(rest * size - x * along, 64 * rtol * (1 + float(np.max(size, initial=0.0)) * (1 + float(np.max(np.abs(v.g))))))

    return (
        Law("sums along the axes are those of x, times -mean(g * x)", sums),
        Law("g - diff_src * deviation is a multiple of x plus a constant", spans),
    )
