"""Did a case get slower for good, and between which runs? Change points in series of runs that are few, noisy and many at a time.

A series is one case under one policy on one machine. A run is one observation in it: log(median of its samples) + b log(peak), the peak
being what the arithmetic units offered meanwhile (compare/statistics.py: why, and why b is the middle between the case's share of the peak
and 1). All series are looked at together:

1. Outliers. Values further than FENCE standard deviations from the median are drawn back to there, so one run that had a bad neighbour
   cannot carry a mean. The deviation is told by the shortest interval that holds CORE of the values (after the shortest half of Rousseeuw
   and Leroy 1988): it lies on one side of a change, which thus stays visible.
2. The statistic of a series is its largest two-sample t over all places to cut it, with at least LEAST_SIDE runs on either side, the
   variance moderated by what all series show (Smyth 2004), since a few runs say little of their own.
3. The level comes from permuting the runs, of all series alike, and taking the largest statistic of all (Westfall and Young 1993). If
   nothing has changed, the order of runs means nothing, so with probability 1 - ALPHA no series at all exceeds the level: whatever the
   distribution of the noise, however many series there are, and although all cases of a bad run are slow together. Per-case p values with
   a correction for hundreds of cases would need a hundred runs to say as much.
4. A series that exceeds the level is cut there, and its parts join the others for the next round (binary segmentation: Vostrikova 1981),
   which holds them all to a level of their own, until none exceeds it: rejected ones no longer raise the level (step-down, ibid.).
5. A cut is a *change* when the medians on both sides lie further apart than the threshold, whichever single run is left out: one bad run
   beside one unlucky one is none, even if it was bad for all cases. For a case that is not bound by arithmetic b is uncertain; if the peak
   moved too, the change must exceed the threshold whichever b is true. Cuts that are no changes go, the least first.

What this cannot do: with fewer than LEAST_RUNS runs no order is rare enough to be told from chance at ALPHA (`compare` judges single runs,
from their samples). ALPHA is per invocation. Runs must be exchangeable while nothing changes; a machine that slowly gets slower has
changed, and is reported. The place of a cut is the likeliest, and in noise as large as the change may be a run or two off.

E-divisive (Matteson and James 2014), which MongoDB's performance tests made known (Daly et al. 2020), is the same scheme per series, with
another statistic; PELT (Killick et al. 2012) finds all cuts at once, but has a penalty where this has a false alarm rate.

Multiplying all times by a constant changes nothing. The seed is fixed.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit

from benchgraph.analysis.compare.statistics import ALLOWANCE, ALPHA, PRIOR_DF, Array

PERMUTATIONS = 999  # a level of 5 % is then known to 0.7 %
LEAST_SIDE = 3  # the middle of three is not an outlier
LEAST_RUNS = 8  # of 8 runs in two halves, 1 order in 35 separates high from low: rarer than ALPHA; of 7, none is
FENCE = 6.0  # of a deviation that is rather told too small, see _spread
CORE = 0.4  # less than half: a change in the middle, and outliers besides, leave so many together
CORE_WIDTH = 1.0488  # standard deviations: the shortest interval that holds CORE of a normal distribution


@dataclass(frozen=True)
class Series:
    """runs: positions in the history, ascending. times: seconds. peaks: FLOP/s, 0 when not known. share: of the peak that the case uses."""

    runs: tuple[int, ...]
    times: tuple[float, ...]
    peaks: tuple[float, ...]
    share: float = 1.0


@dataclass(frozen=True)
class Change:
    """series: its index. before, after: positions of the last run before it and of the first after it.

    ratio: time after over time before, without what the clock did; low, high: its 95 % interval. mended: the position of the first run from
    which on the times are as before again, if they are.
    """

    series: int
    before: int
    after: int
    ratio: float
    low: float
    high: float
    mended: int | None = None


def changes(series: Sequence[Series], threshold: float) -> list[Change]:
    """All changes for good, of every series in order. threshold: relative size below which a change does not count, >= 0."""
    values, margin = [_values(s) for s in series], float(np.log1p(threshold))
    cuts, noise = _segment(series, values), _noise(values)
    found = []
    for i, (s, x) in enumerate(zip(series, values, strict=True)):
        found += list(_changes(i, s, x, _parts(s, x, sorted(cuts[i]), margin), noise, margin))
    return found


def _values(s: Series) -> Array:
    """Logarithms of the times, without what the clock did to them."""
    times, peaks = np.log(s.times), np.array(s.peaks)
    return times + (1 + s.share) / 2 * np.log(peaks) if len(peaks) and peaks.min() > 0 else times


def _fenced(x: Array) -> Array:
    middle, reach = np.median(x), FENCE * max(_spread(x), ALLOWANCE)
    return np.clip(x, middle - reach, middle + reach)


def _spread(x: Array) -> float:
    """Standard deviation of the values that lie closest; of few values rather too small."""
    ranked, core = np.sort(x), max(2, int(np.ceil(CORE * len(x))))
    return float((ranked[core - 1 :] - ranked[: len(x) - core + 1]).min()) / CORE_WIDTH


def _noise(values: Iterable[Array]) -> float:
    """The variance that is usual among the series: of the middle one."""
    spreads = [_spread(x) for x in values if len(x) >= LEAST_RUNS]
    return max(float(np.median(spreads)) if spreads else 0.0, ALLOWANCE) ** 2


# ---- where to cut ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Segment:
    """A part of a series, from position `start` of it on. runs: positions in the history."""

    series: int
    start: int
    runs: NDArray[np.int64]
    x: Array


def _segment(series: Sequence[Series], values: Sequence[Array]) -> list[list[int]]:
    """Per series the positions in it at which another level begins."""
    noise = _noise(values)
    long = [(i, x) for i, x in enumerate(values) if len(x) >= LEAST_RUNS]
    left = [_Segment(i, 0, np.array(series[i].runs), _fenced(x)) for i, x in long]
    cuts: list[list[int]] = [[] for _ in series]
    while left:
        level = _level(left, noise)
        found = [(s, *_largest(s.x, noise)) for s in left]
        if not any(t > level for _, t, _ in found):
            break
        left = []
        for s, t, k in found:
            if t <= level:
                left.append(s)
                continue
            cuts[s.series].append(s.start + k)
            parts = (_Segment(s.series, s.start, s.runs[:k], s.x[:k]), _Segment(s.series, s.start + k, s.runs[k:], s.x[k:]))
            left += [p for p in parts if len(p.x) >= LEAST_RUNS]
    return cuts


def _level(segments: Sequence[_Segment], noise: float) -> float:
    """What the largest statistic of all exceeds with probability ALPHA at most when the order of runs means nothing."""
    count = 1 + max(int(s.runs[-1]) for s in segments)
    keys = np.random.default_rng(count).random((PERMUTATIONS, count))  # the same for all segments: a run stays whole
    orders = dict[bytes, NDArray[np.int64]]()
    largest = np.zeros(PERMUTATIONS)
    for s in segments:
        runs = s.runs.tobytes()
        if runs not in orders:
            orders[runs] = np.argsort(keys[:, s.runs], axis=1)
        largest = np.maximum(largest, _statistic(s.x, _explained(s.x[orders[runs]]).max(axis=1), noise))
    rank = int(np.floor(ALPHA * (PERMUTATIONS + 1)))  # so many of all orders, the observed one among them, may be as extreme
    return float(np.sort(largest)[-rank])


def _largest(x: Array, noise: float) -> tuple[float, int]:
    """The largest t over all cuts, and how many values lie before that cut."""
    explained = _explained(x[None])[0]
    best = int(explained.argmax())
    return float(_statistic(x, explained[best : best + 1], noise)[0]), LEAST_SIDE + best


def _explained(x: Array) -> Array:
    """Of series in rows: the sum of squares that each cut explains."""
    n = x.shape[1]
    k = np.arange(LEAST_SIDE, n - LEAST_SIDE + 1)
    sums = np.cumsum(x - x[:1].mean(), axis=1)[:, k - 1]  # rows hold the same values
    return np.asarray(sums * sums * (n / (k * (n - k))))


def _statistic(x: Array, explained: Array, noise: float) -> Array:
    """The moderated t of cuts that explain so much of x, which grows with it."""
    left = np.maximum(((x - x.mean()) ** 2).sum() - explained, 0.0)
    return np.asarray(np.sqrt(explained / ((left + PRIOR_DF * noise) / (len(x) - 2 + PRIOR_DF))))


# ---- what a cut means ------------------------------------------------------------------------------------------------


def _parts(s: Series, x: Array, cuts: list[int], margin: float) -> list[slice]:
    """What lies between the cuts that are changes. Of the others the least goes first: two small steps may make a large one."""
    while True:
        parts = [slice(a, b) for a, b in pairwise([0, *cuts, len(x)])]
        sizes = [_size(x[a], x[b]) - _doubt(s, a, b) for a, b in pairwise(parts)]
        if not sizes or min(sizes) > margin:
            return parts
        del cuts[int(np.argmin(sizes))]


def _size(before: Array, after: Array) -> float:
    """How far the medians lie apart, whichever single run is left out."""
    if np.median(after) < np.median(before):
        before, after = -before, -after
    without_first, without_last = np.sort(before)[1:], np.sort(after)[:-1]
    return float(min(np.median(after) - np.median(without_first), np.median(without_last) - np.median(before)))


def _changes(i: int, s: Series, x: Array, parts: list[slice], noise: float, margin: float) -> Iterable[Change]:
    if len(parts) < 2:
        return
    clipped = [_fenced(x[p]) for p in parts]
    df = len(x) - len(parts) + PRIOR_DF
    within = sum(float(((c - c.mean()) ** 2).sum()) for c in clipped)
    error = ((within + PRIOR_DF * noise) / df) ** 0.5
    middles = [float(np.median(x[p])) for p in parts]
    for j, (a, b) in enumerate(pairwise(parts)):
        step = middles[j + 1] - middles[j]
        half = float(stdtrit(df, 0.975)) * error * (1 / (a.stop - a.start) + 1 / (b.stop - b.start)) ** 0.5 + _doubt(s, a, b)
        back = next((q for q in range(j + 2, len(parts)) if all(m - middles[j] <= margin for m in middles[q:])), None)
        mended = None if step < 0 or back is None else s.runs[parts[back].start]
        low, ratio, high = (float(np.exp(v)) for v in (step - half, step, step + half))
        yield Change(i, s.runs[a.stop - 1], s.runs[b.start], ratio, low, high, mended)


def _doubt(s: Series, a: slice, b: slice) -> float:
    """How far the step between two parts can be off for not knowing how much of the case follows the clock."""
    if min(s.peaks) <= 0:  # not measured in every run
        return 0.0
    before, after = (float(np.median(np.log(s.peaks[p]))) for p in (a, b))
    return (1 - s.share) / 2 * abs(after - before)
