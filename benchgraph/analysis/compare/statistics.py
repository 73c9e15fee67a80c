"""Is it faster, slower or the same? Inference on samples that are correlated and full of outliers, from a machine that drifts.

The data: runs of A and of B (files); in a run a case is sampled in rounds, each with one sample of every policy and one of the machine's
arithmetic peak. Samples of a run share its conditions: memory placement, frequency, neighbours. So they are not independent, and a t-test
over them finds a difference between any two runs of one program. Here each run is *one* observation, the median of its samples, and:

1. Drift. A sample is multiplied by (peak of its round)^b, as a control variate. b is between the case's share of the peak (that part of
   its time certainly scales with the clock) and 1; its middle is used, and the width of that range, times the change of the peak between
   A and B, is part of the error. Memory-bound cases thus get wide rather than wrong intervals when the clock has changed. A peak that
   differs by more than CLOCKS is due to other programs, whose effect is not modelled: no verdict.
2. Error within a run: inference/within_run.py.
3. Error between runs, and the log ratio's standard error: inference/between_runs.py.
4. The log ratio B / A then has a t interval, and a verdict: inference/verdicts.py.

Exchanging A and B inverts every ratio, the unit of time does not matter, and nothing is random.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from benchgraph.analysis.inference.between_runs import Estimate, Medians, standard_errors
from benchgraph.analysis.inference.verdicts import Array, Judgement, Verdict, verdicts
from benchgraph.analysis.inference.within_run import LEAST_ROUNDS, Signs, first_correlation
from benchgraph.results.machine import CLOCKS


@dataclass(frozen=True)
class Run:
    """One run of one case under one policy. times: seconds, one per round. peaks: FLOP/s of the same rounds, or empty when unknown."""

    times: tuple[float, ...]
    peaks: tuple[float, ...] = ()


@dataclass(frozen=True)
class Pair:
    """The same case and policy on both sides. flops: of the case, 0 when not known. case: pairs of one case share their rounds."""

    case: str
    a: tuple[Run, ...]
    b: tuple[Run, ...]
    flops: float = 0.0


def judge(pairs: Sequence[Pair], threshold: float) -> list[Judgement]:
    """A judgement per pair, in their order. threshold: the relative change that is ignored, >= 0."""
    series = [None if p.a == p.b else _series(p) for p in pairs]
    all_signs = Signs.of([x for s in series if s is not None for x in (*s.a, *s.b)])
    estimates = [None if s is None else _estimate(s, all_signs) for s in series]
    known = [e for e in estimates if e is not None]
    if not known:
        return [_unjudged(p) for p in pairs]
    n_cases = len({p.case for p, e in zip(pairs, estimates, strict=True) if e is not None})
    errors = standard_errors(known, n_cases)
    ratios, scale, df = np.array([(e.log_ratio, *error) for e, error in zip(known, errors, strict=True)]).T
    judged = iter(verdicts(ratios, scale, df, float(np.log1p(threshold))))
    return [
        _unjudged(p) if s is None or e is None else replace(next(judged), is_corrected=s.is_corrected)
        for p, s, e in zip(pairs, series, estimates, strict=True)
    ]


def _unjudged(pair: Pair) -> Judgement:
    """The ratio of the medians without an interval. Identical samples are the same, however they scatter."""
    if pair.a == pair.b and pair.a:
        return Judgement(1.0, 1.0, 1.0, Verdict.same)
    a, b = (float(np.mean([np.log(np.median(r.times)) for r in runs])) if runs else np.nan for runs in (pair.a, pair.b))
    return Judgement(float(np.exp(b - a)), np.nan, np.nan, Verdict.unknown)


def drift(pairs: Sequence[Pair]) -> float:
    """The ratio of the machine's peaks of B to A: of medians, mean over the pairs; nan if unknown."""
    sides = [(p.a, p.b) for p in pairs if all(r.peaks for r in (*p.a, *p.b))]
    logs = [
        float(np.mean([np.log(np.median(r.peaks)) for r in side])) * sign
        for pair in sides
        for side, sign in zip(pair, (-1, 1), strict=True)
    ]
    return math.exp(2 * float(np.mean(logs))) if logs else math.nan


def moved(pair: Pair) -> bool:
    """Whether the peaks of the runs differ by more than a clock does."""
    peaks = [np.median(r.peaks) for r in (*pair.a, *pair.b) if r.peaks]
    return bool(peaks) and bool(max(peaks) > CLOCKS * min(peaks))


# ---- one pair --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Series:
    """Logarithms of the times of a pair's runs, corrected for drift as far as it is known. drift: variance of the unknown rest.

    is_corrected: whether there was a correction.
    """

    a: tuple[Array, ...]
    b: tuple[Array, ...]
    drift: float
    is_corrected: bool


def _series(pair: Pair) -> _Series | None:
    """None if a side has no runs, one of them has too few rounds, or the machine was disturbed."""
    runs = (*pair.a, *pair.b)
    if not pair.a or not pair.b or min(len(r.times) for r in runs) < LEAST_ROUNDS or moved(pair):
        return None
    if any(len(r.peaks) != len(r.times) for r in runs):
        return _Series(tuple(np.log(r.times) for r in pair.a), tuple(np.log(r.times) for r in pair.b), 0.0, is_corrected=False)
    peak_a, peak_b = (float(np.mean([np.log(np.median(r.peaks)) for r in side])) for side in (pair.a, pair.b))
    least = float(np.mean([min(1.0, pair.flops / (np.median(r.times) * np.median(r.peaks))) for r in runs]))
    slope, width = (1 + least) / 2, (1 - least) / 12**0.5  # of a uniform distribution between least and 1
    a, b = (tuple(np.log(r.times) + slope * np.log(r.peaks) for r in side) for side in (pair.a, pair.b))
    return _Series(a, b, (width * (peak_b - peak_a)) ** 2, is_corrected=len({peak for r in runs for peak in r.peaks}) > 1)


def _estimate(s: _Series, whole: Signs) -> Estimate:
    """whole: of all series."""
    first = first_correlation(whole.or_clearly(Signs.of((*s.a, *s.b))))
    a, b = (Medians.of(side, first) for side in (s.a, s.b))
    return Estimate(float(b.values.mean() - a.values.mean()), (a, b), s.drift)
