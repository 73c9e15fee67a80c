"""Which ops of a graph are insensitive enough to be compared with the reference, on given data.

The tolerance of a graph is the sum of its ops' tolerances. It does not cover errors that grow: a difference of nearly equal numbers, an
exponential of an exponential, a comparison of nearly equal computed numbers amplify the error of their input. Such a graph may fail on
correct code, so it proves nothing.

So errors are simulated: the references evaluate the graph several times, with noise of the size that compiled code makes added after every
op, and each result is compared with the exact one by the harness's comparison. An op whose result does not pass is too sensitive. At the
start of a partition the tolerance restarts and so do errors; therefore every run resets the error of some tensors.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from math import log

import numpy as np
from numpy.typing import NDArray

from benchgraph.core.dtypes import DType
from benchgraph.core.tensor import LogicalTensor
from benchgraph.graph.ir import END, Graph, Op
from benchgraph.ops import spec
from benchgraph.ops.spec import Array, Call, Reduction
from benchgraph.reference import FPMATH_EPS, compare, fpmath_tolerance, zero_limit

RUNS = 8
SCALE = 64.0  # factor on noise and tolerance, so that discontinuities that noise rarely reaches are seen
MARGIN = 4.0  # a row's threshold over its op's real error: a rounding is half an eps, and two are allowed
STORED = 1.0  # noise of storing in a narrower type, in its eps: twice a rounding
RESETS = 0.35  # share of tensors whose error a run resets; every second run resets all of narrow types, which have the largest tolerance
MODES = {"bf16": (DType.bf16,), "f16": (DType.f16,), "any": (DType.bf16, DType.f16)}  # math modes: dtypes that operands may be rounded to
# Largest share of zeros of a result inside the graph. For an output of the graph the op's row says it, as if the op were alone, since
# partitions of libraries are unknown here, and larger ones are only allowed more.
MOST_ZEROS = 0.9
LARGEST = 1e30  # beyond that, squares leave f32
SMALL = 2.0**-10  # of an input: smaller results may be due to cancellation


@dataclass(frozen=True)
class _Value:
    """A tensor in one run. since: the ops whose errors it contains, by id, with the tolerance of each."""

    array: Array
    since: Mapping[int, float] = field(default_factory=dict)


def too_sensitive(graph: Graph, inputs: Mapping[int, Array], seed: str) -> set[int]:
    """Ids of ops whose results are not finite, nearly all zero, or too sensitive to errors; ops that depend on them are not checked.

    graph: shape-inferred. inputs: an array per graph input, as `domain` makes them. seed: of the noise.
    """
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore", RuntimeWarning)  # means of nothing, overflow: their results are checked below
        return _too_sensitive(graph, inputs, np.random.default_rng(list(seed.encode())))


def _too_sensitive(graph: Graph, inputs: Mapping[int, Array], rng: np.random.Generator) -> set[int]:
    exact: dict[int, Array] = {t.id: _reals(inputs[t.id]) for t in graph.inputs}
    runs = [_Run(rng, number, graph.fpmath_mode, {id: _Value(a) for id, a in exact.items()}) for number in range(RUNS)]
    leave, bad = {t.id for t in graph.outputs}, set[int]()
    for op in graph.order:
        if op.kind == END or any(t.id not in exact for t in op.inputs):
            continue
        call = op.call
        wants = spec(op.kind).semantics.reference(call, tuple(exact[t.id] for t in op.inputs))
        limits = [zero_limit(Graph((op,)), t.id) if t.id in leave else MOST_ZEROS for t in op.outputs]
        largest = max((float(np.abs(_reals(exact[t.id])).max(initial=0.0)) for t in op.inputs), default=0.0)
        least = SMALL * largest if spec(op.kind).semantics.threshold(call) else 0.0
        usable = _stays_in_range(call, largest) and all(
            _is_usable(t, want, least) and not _is_mistrusted(t, want, spec(op.kind).semantics.threshold(call), limit)
            for t, want, limit in zip(op.outputs, wants, limits, strict=False)
        )
        if usable and all(r.passes(op, call, wants) for r in runs):
            exact |= {t.id: want for t, want in zip(op.outputs, wants, strict=False)}
        else:
            bad.add(op.id)
    return bad


def _reals(a: Array) -> Array:
    return a if a.dtype.kind in "biu" else a.astype(np.float64)


def _stays_in_range(call: Call, largest_input: float) -> bool:
    """Whether intermediate results of a product of many numbers fit into f32, in any order of multiplication."""
    form = spec(call.kind).lowering.form
    multiplies = isinstance(form, Reduction) and form.init == 1
    if not multiplies or not call.outs[0].elements:
        return True
    return call.ins[0].elements / call.outs[0].elements * log(max(largest_input, 1.0)) <= log(LARGEST)


def _is_usable(t: LogicalTensor, want: Array, least: float) -> bool:
    """Finite, storable, and at least `least`, to exclude cancellation."""
    if not want.size or not t.dtype.is_float:
        return True
    size = float(np.abs(want).max())
    return least <= size <= min(LARGEST, t.dtype.range[1])  # false for NaN


def _is_mistrusted(t: LogicalTensor, want: Array, threshold: float, most_zeros: float) -> bool:
    """Whether the right result may have more zeros than that. Numbers below the op's error may become zeros."""
    got = np.array(want, t.dtype.numpy)
    if want.size and t.dtype.is_float:
        got[...] = np.where(np.abs(want) <= threshold / MARGIN * DType.f32.eps * _rms(want), 0, got)
    return compare(got, got, t.dtype, 1.0).is_mistrusted(most_zeros)


def _rms(values: Array) -> float:
    return float(np.sqrt(np.mean(np.square(values))))


@dataclass
class _Run:
    """One evaluation with noise. Every other run has the noise of storing in narrow types; the first one really stores in them, which makes
    different numbers equal. The first two reset no errors.
    """

    rng: np.random.Generator
    number: int
    mode: str
    values: dict[int, _Value]

    def passes(self, op: Op, call: Call, wants: tuple[Array, ...]) -> bool:
        """Evaluate one op. False if a result does not pass."""
        ins = [self.values[t.id] for t in op.inputs]
        threshold = spec(op.kind).semantics.threshold(call)
        operands = (self._in_mode(op, t, v.array) for t, v in zip(op.inputs, ins, strict=True))
        gots = spec(op.kind).semantics.reference(call, tuple(self._near_ties(op, array, threshold) for array in operands))
        own = SCALE * threshold * DType.f32.eps + fpmath_tolerance(op, self.mode) + sum(_steps(op, t) for t in op.outputs)
        since = {id: rtol for v in ins for id, rtol in v.since.items()} | {op.id: own}
        for t, got, want in zip(op.outputs, gots, wants, strict=False):
            share = SCALE / MARGIN * threshold * DType.f32.eps if t.dtype.is_float else 0.0
            noisy = self._noisy(got, share, own_size=False) if share else got
            if not compare(noisy.astype(t.dtype.numpy), want, t.dtype, sum(since.values())).ok:
                return False
            is_narrow = t.dtype.is_float and t.dtype.bits < DType.f32.bits
            if self.number > 1 and (self.rng.random() < RESETS or (is_narrow and self.number % 2)):
                self.values[t.id] = _Value(want)
            elif self.number % 2 == 0 and is_narrow:
                off = self._noisy(noisy, STORED * t.dtype.eps, own_size=True) if self.number else noisy.astype(t.dtype.numpy)
                self.values[t.id] = _Value(off.astype(np.float64), since)
            else:
                self.values[t.id] = _Value(_in_f32(noisy), since)
        return True

    def _in_mode(self, op: Op, t: LogicalTensor, values: Array) -> Array:
        """An operand rounded as the math mode allows, in every run that stores in narrow types; f16 may overflow."""
        if t.dtype is not DType.f32 or not fpmath_tolerance(op, self.mode) or self.number % 2:
            return values
        if self.number // 2 < len(dtypes := MODES.get(self.mode, ())):
            return values.astype(dtypes[self.number // 2].numpy).astype(np.float64)
        return self._noisy(values, FPMATH_EPS[self.mode] / 2, own_size=True)

    def _near_ties(self, op: Op, values: Array, threshold: float) -> Array:
        """An operand with the op's error before it rounds to integers, since data on a grid may be at ties."""
        if values.dtype.kind != "f" or not any(t.dtype.is_integer for t in op.outputs):
            return values
        return self._noisy(values, threshold * DType.f32.eps, own_size=True)

    def _noisy(self, values: Array, share: float, *, own_size: bool) -> NDArray[np.float64]:
        """Values with relative noise up to this share: of the element, or, unless own_size, of the rms if that is larger, since the error
        of sums is relative to their terms. Zeros are taken as exact, which most are.
        """
        exact = values.astype(np.float64)
        sizes = np.abs(exact)
        if not own_size and exact.size:
            sizes = np.maximum(sizes, _rms(exact)) * (exact != 0)
        return np.asarray(exact + sizes * self.rng.uniform(-share, share, exact.shape))


def _in_f32(values: Array) -> Array:
    """Floats as f32 holds them, with overflow to infinity and underflow to zero."""
    return values.astype(np.float32).astype(np.float64) if values.dtype.kind == "f" else values


def _steps(op: Op, t: LogicalTensor) -> float:
    """The tolerance of a result stored in a narrower type (reference/compare.py: tolerance)."""
    if t.dtype.is_float:
        return 2.0 * t.dtype.eps if t.dtype.bits < DType.f32.bits else 0.0
    return 2.0 ** (1 - t.dtype.bits) if t.dtype.is_integer and any(s.dtype.is_float for s in op.inputs) else 0.0
