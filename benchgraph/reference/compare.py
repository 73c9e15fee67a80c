"""Compares an output with the reference: the definition of a right result.

A point of a float tensor passes when any of these holds:
  - got equals want rounded to the dtype (this covers infinities), or both are NaN;
  - got is infinite, and want, enlarged by its tolerance, overflows to the same infinity; or the other way round;
  - |got - want| <= rtol * max(|want|, scale) + slack, where scale is the rms of the wants, or sixteen times their median if less,
    and slack is the least normal number of f32, since smaller results may be flushed to 0, and 0.5 eps(dtype) * |want| for types narrower
    than f32: one rounding to nearest, and at least one subnormal step. A whole step would let truncation pass. Exact ops (rtol = 0) have
    no slack.

The scale relates a small result of large terms (cancellation) to the terms. The scale of the point's row along the last axis is used where
it is larger: the gradient by a key that most queries attend to is 50 times as large as others. Zeros do not count in the median, and values
beyond half of the dtype's range neither in the median nor in the rms: they stand for infinity.

A point of an integer or boolean tensor passes when it is equal. After inexact arithmetic (rtol > 0), points off by one pass too if they are
at most max(1/1024, rtol) of all, or one: sums that differ in their last bits occasionally fall on different sides of a tie.

A graph with bf16 or f16 between its ops has two right results, and ties and cancellation have several (accepted_results.py). So have rows
that declare it for values beyond f32 (Semantics.f32_alternatives), such as the squares of a norm of 1e19. Subnormal bf16 numbers may be
flushed to 0 by any arithmetic, including exact ops (evaluate.InF32).

Zeros prove little. An output that passes but has more zeros than the op that made it should produce is mistrusted (Testing.zero_limit).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from math import isfinite, sqrt

import numpy as np
from numpy.typing import NDArray

from benchgraph.core.dtypes import DType
from benchgraph.graph.ir import END, Graph, Op
from benchgraph.ops import spec
from benchgraph.ops.spec import Array, Role
from benchgraph.ops.structural import COMPUTES

CHUNK = 1 << 18  # elements per chunk: the temporaries stay in the L2 cache
SHOWN = 10  # failing points in the report, as in benchdnn
LEAST_ELEMENTS = 10  # with fewer elements all may be zero, as in benchdnn
# The rms of a normal distribution is 1.5 medians of absolute values, and rows of a gradient by keys differ tenfold under a causal mask;
# larger ratios are due to a few large values.
MEDIANS = 16.0
# The eps of the type that a math mode allows operands to be rounded to.
FPMATH_EPS = {"strict": 0.0, "tf32": 2.0**-10, "f16": 2.0**-10, "bf16": 2.0**-7, "any": 2.0**-7}
MASK = -1e4  # and less, as the least number of f16 or f32, hides what it is added to as -inf does
SAMPLED = 1 << 16  # values that the median is estimated from


@dataclass(frozen=True)
class Point:
    index: tuple[int, ...]
    want: float
    got: float

    def __str__(self) -> str:
        return f"[{':'.join(map(str, self.index))}] want {self.want:.9g}, got {self.got:.9g}"


@dataclass(frozen=True)
class Comparison:
    """The difference of `got` and `want`, whether it passes or not.

    errors: failing points. off_by_one: integer points off by one, accepted or not. max_abs, max_rel, l2_rel, max_ulp: over points where
    both are finite; max_rel over those with want != 0; max_ulp in steps of the dtype at want. zero_share: of got. nonfinite: failing points
    at which got and want are not both finite. points: the first failing ones, nonfinite ones first.
    """

    dtype: DType
    total: int
    errors: int
    off_by_one: int
    max_abs: float
    max_rel: float
    l2_rel: float
    max_ulp: float
    zero_share: float
    points: tuple[Point, ...] = ()
    nonfinite: int = 0

    @property
    def ok(self) -> bool:
        return self.errors == 0

    def __str__(self) -> str:
        """The error in one line; NaN and infinities first, which the distances leave out."""
        first = self.points[0]
        where = f"first at {list(first.index)}: want {first.want:.6g}, got {first.got:.6g}"
        sizes = f"by up to {self.max_abs:.3g} ({self.max_rel:.3g} relative)"
        if not self.nonfinite:
            return f"{self.errors} of {self.total} values differ, {sizes}; {where}"
        others = "" if self.nonfinite == self.errors else f"; the others {sizes}"
        return f"{self.errors} of {self.total} values differ, {self.nonfinite} of them in NaN or infinity, {where}{others}"

    def is_mistrusted(self, zero_limit: float) -> bool:
        """Whether it passes, but with a larger share of zeros than this."""
        return self.ok and self.total >= LEAST_ELEMENTS and self.zero_share > zero_limit


def masked(arrays: Iterable[Array]) -> float:
    """The largest share of -inf, or what models have for it, in one of the arrays: a mask that leaves little of what it is added to."""
    floats = (a for a in arrays if a.ndim > 1 and a.size and a.dtype.kind not in "biu")
    return max((float(np.mean(a <= np.array(MASK, a.dtype))) for a in floats), default=0.0)


def zero_limit(graph: Graph, tensor: int, sure: float = 0.0, whole: Graph | None = None) -> float:
    """The largest share of zeros that is trusted in an output of a shape-inferred graph, from the row of the op that makes it.

    It applies to elements that are not certainly 0. sure: the share of the output that certainly is; raised if an op of the graph has more.
    whole: a graph that contains this one, with more of the ops that made its inputs.
    """
    sure = max((sure, *(spec(op.kind).testing.guaranteed_zeros(op.call) for op in graph.ops)))
    return sure + (1 - sure) * max(_own_limit(graph, tensor), 0.0 if whole is None else _own_limit(whole, tensor))


def _own_limit(graph: Graph, tensor: int) -> float:
    """A product is 0 where an operand is, a quotient where its dividend is, a moved element where it was before, and a reduction where all
    of its elements are, as in a channel that a ReLU made 0; so they may be 0 as often as those may.
    """
    if tensor not in graph.producers or _is_of_integers(graph, tensor):
        return 1.0
    limit, seen, work = 0.0, {tensor}, [tensor]
    while work:
        maker = graph.producers[work.pop()]
        row = spec(maker.kind)
        limit = max(limit, row.testing.zero_limit(maker.call))
        carries_all = row.semantics.is_product or row.lowering.role is Role.layout_op or row.lowering.is_reduction
        operands = {t.id for t in (maker.inputs if carries_all else maker.inputs[:1] if row.testing.factors else ())}
        work += (new := [id for id in operands if id in graph.producers and id not in seen])
        seen.update(new)
    return limit


def _is_of_integers(graph: Graph, tensor: int) -> bool:
    """Whether Wildcards make it of nothing but integers and constants: a mask, or a position."""
    seen, work, is_of_wildcard = {tensor}, [tensor], False
    while work:
        id = work.pop()
        maker = graph.producers.get(id)
        if maker is None:
            t = graph.tensors[id]
            if t.dtype.is_float and not t.is_constant:
                return False
            continue
        is_of_wildcard = is_of_wildcard or COMPUTES in maker.attrs
        new = [t.id for t in maker.inputs if t.id not in seen]
        seen.update(new)
        work += new
    return is_of_wildcard


def tolerance(graph: Graph) -> float:
    """The relative error allowed at the outputs of a shape-inferred graph: the sum over its ops.

    Each op may be off by its row's threshold, in units of eps(f32), since everything is computed in f32. A result between two ops may be
    stored in a narrower float, and a sum of many such results is off by up to 2 eps of that type: the roundings are uniform in eps/2 both
    ways, 0.29 eps rms, and the worst of a million sums is five times that, so 2 leaves a margin. A quantised one may occasionally be off by
    one step, which is a 2^-bits-th of its range, and twice that after a multiplication. A math mode permits rounding the f32 operands of
    products, which some libraries do and others do not.
    """
    read = {t.id for op in graph.ops if op.kind != END for t in op.inputs}  # an output may be read as well
    rtol = 0.0
    for op in graph.ops:
        rtol += spec(op.kind).semantics.threshold(op.call) * DType.f32.eps + fpmath_tolerance(op, graph.fpmath_mode)
        for t in op.outputs:
            if t.id not in read:
                continue
            if t.dtype.is_float:
                rtol += 2.0 * t.dtype.eps if t.dtype.bits < DType.f32.bits else 0.0
            elif t.dtype.is_integer and any(s.dtype.is_float for s in op.inputs):
                rtol += 2.0 ** (1 - t.dtype.bits)
    return rtol


def fpmath_tolerance(op: Op, mode: str) -> float:
    """The error of an op due to the math mode: 2 eps for each operand, like a narrow result that is summed up; the roundings of both are
    independent, which gives a factor of sqrt(2).
    """
    if not spec(op.kind).semantics.follows_fpmath or all(t.dtype is not DType.f32 for t in op.inputs):
        return 0.0
    return 2.0 * sqrt(2.0) * FPMATH_EPS[mode]


@dataclass
class _Sums:
    errors: int = 0
    off_by_one: int = 0
    max_abs: float = 0.0
    max_rel: float = 0.0
    max_ulp: float = 0.0
    square_error: float = 0.0
    zeros: int = 0
    nonfinite: int = 0


def compare(got: Array, want: Array, dtype: DType, rtol: float) -> Comparison:
    """Compare an output in `dtype` with the float64 (or exact integer) reference of the same shape, by the module's rules.

    Works in chunks: a hundred million elements take seconds and little memory. Any strides.
    """
    if got.shape != want.shape:
        raise ValueError(f"got has shape {got.shape}, want {want.shape}")
    square, scale = _sizes(want, dtype)
    sums, misses, off_by_one_points, nonfinite_points = _Sums(), list[Point](), list[Point](), list[Point]()
    for start, g, w in _chunks(got, want):
        diff, bad = _failing_points(start, g, w, want, dtype, rtol, scale)
        close = bad & (diff <= 1) if not dtype.is_float else np.zeros_like(bad)
        bad &= ~close
        _add(sums, g, w, diff, bad, close, dtype)
        if bad.any() and (nonfinite := bad & differ_in_kind(g, w)).any():
            sums.nonfinite += int(np.count_nonzero(nonfinite))
            _keep(nonfinite_points, start, got.shape, g, w, nonfinite)
            bad &= ~nonfinite
        _keep(misses, start, got.shape, g, w, bad)
        _keep(off_by_one_points, start, got.shape, g, w, close)
    accepted = rtol > 0 and sums.off_by_one <= max(1.0, got.size * max(1 / 1024, rtol))
    errors = sums.errors + (0 if accepted else sums.off_by_one)
    shown = sorted(misses if accepted else misses + off_by_one_points, key=lambda point: point.index)
    return Comparison(
        dtype=dtype,
        total=got.size,
        errors=errors,
        off_by_one=sums.off_by_one,
        max_abs=sums.max_abs,
        max_rel=sums.max_rel,
        l2_rel=sqrt(sums.square_error / square) if square else sqrt(sums.square_error),
        max_ulp=sums.max_ulp,
        zero_share=sums.zeros / got.size if got.size else 0.0,
        points=tuple([*nonfinite_points, *shown][:SHOWN]),
        nonfinite=sums.nonfinite,
    )


def failing(got: Array, want: Array, dtype: DType, rtol: float) -> NDArray[np.bool_]:
    """The points of a float tensor that `compare` counts as errors."""
    scale = _sizes(want, dtype)[1]
    chunks = [_failing_points(start, g, w, want, dtype, rtol, scale)[1] for start, g, w in _chunks(got, want)]
    return np.concatenate([np.zeros(0, np.bool_), *chunks]).reshape(want.shape)


def differ_in_kind(got: Array, want: Array) -> NDArray[np.bool_]:
    """Where one of two arrays has a NaN or an infinity and the other has something else, so that there is no distance."""
    g, w = got.astype(np.float64), want.astype(np.float64)
    return np.asarray(~(np.isfinite(g) & np.isfinite(w)) & (g != w) & ~(np.isnan(g) & np.isnan(w)))


def _square(values: NDArray[np.float64]) -> float:
    """The sum of squares; without BLAS, whose threads cost more than so few numbers, especially beside other programs."""
    return float(np.einsum("i,i->", values, values))


def _sizes(want: Array, dtype: DType) -> tuple[float, float]:
    """The sum of squares of the finite values, and the scale; see the module."""
    finite, square, count, huge = 0.0, 0.0, 0, dtype.range[1] / 2
    step, samples = max(want.size // SAMPLED, 1), [np.zeros(0)]
    for start, _, w in _chunks(want, want):
        samples.append(np.abs(w[-start % step :: step]))
        ordinary, of_all = w, _square(w)
        if not of_all < huge * huge:  # there may be a huge one, or an infinity or NaN
            ordinary = w[np.abs(w) < huge]
            of_all = _square(w[np.isfinite(w)])
        of_ordinary = of_all if ordinary is w else _square(ordinary)
        finite, square, count = finite + of_all, square + of_ordinary, count + ordinary.size
    if not count:
        return finite, 0.0
    sizes = np.concatenate(samples)
    counted = sizes[(sizes > 0) & (sizes < huge)]
    rms = sqrt(square / count)
    return finite, min(rms, MEDIANS * float(np.median(counted))) if counted.size else rms


def _row_scales(want: Array, points: NDArray[np.int64], dtype: DType) -> NDArray[np.float64]:
    """For each point, given by its position in row-major order, the scale of its row, defined as in `_sizes`."""
    rows, row_of = np.unique(points // want.shape[-1], return_inverse=True)
    sizes = np.abs(want[np.unravel_index(rows, want.shape[:-1])].astype(np.float64))
    ordinary = sizes < dtype.range[1] / 2
    counts = np.maximum(ordinary.sum(axis=1), 1)
    rms = np.sqrt((np.where(ordinary, sizes, 0.0) ** 2).sum(axis=1) / counts)
    counted = ordinary & (sizes > 0)
    medians = np.nanmedian(np.where(counted, sizes, np.where(counted.any(axis=1, keepdims=True), np.nan, np.inf)), axis=1)
    return np.asarray(np.minimum(rms, MEDIANS * medians)[row_of])


def _chunks(got: Array, want: Array) -> Iterator[tuple[int, Array, NDArray[np.float64]]]:
    """(position of the first element, got, want as float64) in row-major order, whatever the strides."""
    start = 0
    for g, w in np.nditer((got, want), flags=["external_loop", "buffered", "zerosize_ok"], order="C", buffersize=CHUNK):
        if g.size:
            yield start, g, w.astype(np.float64, copy=False)
        start += g.size


def _failing_points(
    start: int, got: Array, want: NDArray[np.float64], whole: Array, dtype: DType, rtol: float, scale: float
) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """`_failing` for a chunk of the array `whole` that begins at this position, with the scales of rows where those are larger."""
    with np.errstate(invalid="ignore", over="ignore"):
        diff, bad = _failing(got, want, dtype, rtol, scale)
        if rtol > 0 and dtype.is_float and whole.ndim > 1 and bad.any():
            scales = np.maximum(scale, _row_scales(whole, start + np.flatnonzero(bad), dtype))
            bad[bad] = _failing(got[bad], want[bad], dtype, rtol, scales)[1]
    return diff, bad


def _failing(
    got: Array, want: NDArray[np.float64], dtype: DType, rtol: float, scale: float | NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    exact = got.astype(np.float64)
    diff = np.abs(exact - want)
    if not dtype.is_float:
        return diff, diff != 0
    allowed = np.abs(want)
    np.maximum(allowed, scale, out=allowed)
    allowed *= rtol
    if rtol > 0:
        allowed += DType.f32.least_normal
        if dtype.bits < DType.f32.bits:
            allowed += np.maximum(0.5 * dtype.eps * np.abs(want), dtype.least_subnormal)
    bad = ~((diff <= allowed) & np.isfinite(want))
    if bad.any():
        rounded = want[bad].astype(dtype.numpy).astype(np.float64)
        right = (exact[bad] == rounded) | (np.isnan(exact[bad]) & np.isnan(rounded))
        bad[bad] = ~(right | _both_overflow(exact[bad], want[bad], dtype, rtol))
    return diff, bad


def _both_overflow(got: NDArray[np.float64], want: NDArray[np.float64], dtype: DType, rtol: float) -> Array:
    """One is infinite, the other so near the end of the range that its tolerance makes it so too. Exact ops have no tolerance."""
    edge = dtype.range[1] * (1 - 2 * rtol - dtype.eps) if rtol > 0 else np.inf
    are_near = (np.abs(got) >= edge) & (np.abs(want) >= edge) & (np.sign(got) == np.sign(want))
    return np.asarray(are_near & (np.isinf(got) | np.isinf(want)))


def _add(sums: _Sums, got: Array, want: NDArray[np.float64], diff: NDArray[np.float64], bad: Array, close: Array, dtype: DType) -> None:
    sums.errors += int(np.count_nonzero(bad))
    sums.off_by_one += int(np.count_nonzero(close))
    sums.zeros += got.size - int(np.count_nonzero(got))
    if not isfinite(diff.sum()):
        diff = np.where(np.isfinite(diff), diff, 0.0)
    sums.max_abs = max(sums.max_abs, float(diff.max()))
    if not sums.max_abs:
        return  # all of the below is 0
    sums.max_ulp = max(sums.max_ulp, float((diff / _steps(want, dtype)).max()))
    sums.square_error += _square(diff)
    with np.errstate(divide="ignore", invalid="ignore"):
        relative = np.divide(diff, np.abs(want))
    largest = float(relative.max())
    sums.max_rel = max(sums.max_rel, largest if isfinite(largest) else float(relative[np.isfinite(relative)].max(initial=0.0)))


def _steps(want: NDArray[np.float64], dtype: DType) -> NDArray[np.float64] | float:
    """The distance between neighbouring values of the dtype at these numbers."""
    if not dtype.is_float:
        return 1.0
    mantissas, exponents = np.frexp(np.where(np.isfinite(want), want, 1.0))  # |want| is in [2^(e-1), 2^e)
    return np.asarray(np.maximum(np.ldexp(dtype.eps * (mantissas != 0), exponents - 1), dtype.least_subnormal))


def _keep(points: list[Point], start: int, shape: tuple[int, ...], got: Array, want: NDArray[np.float64], bad: Array) -> None:
    for i in np.flatnonzero(bad)[: SHOWN - len(points)] if len(points) < SHOWN else ():
        index = tuple(int(n) for n in np.unravel_index(start + int(i), shape))
        points.append(Point(index, float(want[i]), float(got[i])))
