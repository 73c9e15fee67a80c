"""Change-point detection in many short, noisy series: did a case get slower for good, and between which runs?

A series is one case under one policy on one machine. A run is one observation: log(median of its samples) + b log(peak), where peak is the
machine's arithmetic peak meanwhile (compare/statistics.py explains this, and why b is the middle between the case's share of the peak and
1). All series are analysed together:

1. Outliers. Values further than FENCE standard deviations from the median are clipped to there, so that one disturbed run cannot dominate
   a mean. The deviation is estimated by the shortest interval that holds CORE of the values (after the shortest half of Rousseeuw and
   Leroy 1988), which lies on one side of a change and so does not hide it.
2. The statistic of a series is its largest two-sample t over all cuts with at least LEAST_SIDE runs on either side, the variance
   moderated by that of all series (Smyth 2004), since a few runs say little about it.
3. The critical value comes from permuting the runs, of all series alike, and taking the maximum over all series (Westfall and Young
   1993). Without a change the order of runs is exchangeable, so with probability 1 - ALPHA no series exceeds it, for any distribution of
   the noise, any number of series, and although a bad run slows all cases together. Per-case p values corrected for hundreds of cases
   would need a hundred runs for that.
4. A series above the critical value is cut there, and its parts join the others for the next round (binary segmentation: Vostrikova
   1981) with a new critical value, until none exceeds it: rejected series no longer raise the value (step-down, ibid.).
5. A cut is a *change* if the medians on both sides differ by more than the threshold whichever single run is left out, so that one bad
   run beside an unlucky one is not enough. For a case not bound by arithmetic b is uncertain; if the peak moved too, the change must
   exceed the threshold for every b. Cuts that are no changes are removed, the smallest first.

Limits: with fewer than LEAST_RUNS runs no order is rare enough at ALPHA (`compare` tests single runs, from their samples). ALPHA is per
invocation. Runs must be exchangeable while nothing changes; a machine that slowly gets slower has changed, and is reported. The position of
a cut is the most likely one; in noise as large as the change it may be a run or two off.

E-divisive (Matteson and James 2014), known from MongoDB's performance tests (Daly et al. 2020), is the same scheme per series with another
statistic; PELT (Killick et al. 2012) finds all cuts at once, but has a penalty in place of a false alarm rate.

Results do not depend on the unit of time. The seed is fixed.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit

from benchgraph.analysis.inference.between_runs import ALLOWANCE, PRIOR_DF
from benchgraph.analysis.inference.verdicts import ALPHA, Array

PERMUTATIONS = 999  # a level of 5 % is then known to 0.7 %
LEAST_SIDE = 3  # the middle of three is not an outlier
LEAST_RUNS = 8  # of 8 runs in two halves, 1 order in 35 separates high from low: rarer than ALPHA; 7 are too few
FENCE = 6.0  # of a deviation that is estimated rather too small, see _spread
CORE = 0.4  # less than half: a change in the middle, and outliers besides, leave so many together
CORE_WIDTH = 1.0488  # standard deviations: the shortest interval that holds CORE of a normal distribution


@dataclass(frozen=True)
class Series:
    """runs: positions in the history, ascending. times: seconds. peaks: FLOP/s, 0 when unknown. share: the case's share of the peak."""

    runs: tuple[int, ...]
    times: tuple[float, ...]
    peaks: tuple[float, ...]
    share: float = 1.0


@dataclass(frozen=True)
class Change:
    """series: its index. before, after: positions of the last run before the change and of the first one after it.

    ratio: time after over time before, corrected for the clock; low, high: its 95 % interval. mended: the position of the first run from
    which on the times are as before again, if any.
    """

    series: int
    before: int
    after: int
    ratio: float
    low: float
    high: float
    mended: int | None = None


def changes(series: Sequence[Series], threshold: float) -> list[Change]:
    """All changes of every series in order. threshold: relative size below which a change is ignored, >= 0."""
    values, margin = [_values(s) for s in series], float(np.log1p(threshold))
    cuts, noise = _segment(series, values), _noise(values)
    result = []
    for i, (s, x) in enumerate(zip(series, values, strict=True)):
        result += list(_changes(i, s, x, _parts(s, x, sorted(cuts[i]), margin), noise, margin))
    return result


def _values(s: Series) -> Array:
    """Logarithms of the times, corrected for the clock."""
    times, peaks = np.log(s.times), np.array(s.peaks)
    return times + (1 + s.share) / 2 * np.log(peaks) if len(peaks) and peaks.min() > 0 else times


def _fenced(x: Array) -> Array:
    middle, reach = np.median(x), FENCE * max(_spread(x), ALLOWANCE)
    return np.clip(x, middle - reach, middle + reach)


def _spread(x: Array) -> float:
    """Standard deviation of the values that are closest together; rather too small for few values."""
    ranked, core = np.sort(x), max(2, int(np.ceil(CORE * len(x))))
    return float((ranked[core - 1 :] - ranked[: len(x) - core + 1]).min()) / CORE_WIDTH


def _noise(values: Iterable[Array]) -> float:
    """The typical variance of the series: their median."""
    spreads = [_spread(x) for x in values if len(x) >= LEAST_RUNS]
    return max(float(np.median(spreads)) if spreads else 0.0, ALLOWANCE) ** 2


# ---- where to cut ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Segment:
    """Part of a series, from its position `start`. runs: positions in the history."""

    series: int
    start: int
    runs: NDArray[np.int64]
    x: Array


def _segment(series: Sequence[Series], values: Sequence[Array]) -> list[list[int]]:
    """Per series the positions at which it is cut."""
    noise = _noise(values)
    long = [(i, x) for i, x in enumerate(values) if len(x) >= LEAST_RUNS]
    left = [_Segment(i, 0, np.array(series[i].runs), _fenced(x)) for i, x in long]
    cuts: list[list[int]] = [[] for _ in series]
    while left:
        level = _level(left, noise)
        candidates = [(s, *_largest(s.x, noise)) for s in left]
        if not any(t > level for _, t, _ in candidates):
            break
        left = []
        for s, t, k in candidates:
            if t <= level:
                left.append(s)
                continue
            cuts[s.series].append(s.start + k)
            parts = (_Segment(s.series, s.start, s.runs[:k], s.x[:k]), _Segment(s.series, s.start + k, s.runs[k:], s.x[k:]))
            left += [p for p in parts if len(p.x) >= LEAST_RUNS]
    return cuts


def _level(segments: Sequence[_Segment], noise: float) -> float:
    """The critical value: under random order, the largest statistic exceeds it with probability ALPHA at most."""
    count = 1 + max(int(s.runs[-1]) for s in segments)
    keys = np.random.default_rng(count).random((PERMUTATIONS, count))  # the same for all segments: runs are permuted as wholes
    orders = dict[bytes, NDArray[np.int64]]()
    largest = np.zeros(PERMUTATIONS)
    for s in segments:
        runs = s.runs.tobytes()
        if runs not in orders:
            orders[runs] = np.argsort(keys[:, s.runs], axis=1)
        largest = np.maximum(largest, _statistic(s.x, _explained(s.x[orders[runs]]).max(axis=1), noise))
    rank = int(np.floor(ALPHA * (PERMUTATIONS + 1)))  # so many of all orders, including the observed one, may be as extreme
    return float(np.sort(largest)[-rank])


def _largest(x: Array, noise: float) -> tuple[float, int]:
    """The largest t over all cuts, and the number of values before that cut."""
    explained = _explained(x[None])[0]
    best = int(explained.argmax())
    return float(_statistic(x, explained[best : best + 1], noise)[0]), LEAST_SIDE + best


def _explained(x: Array) -> Array:
    """For series in rows: the sum of squares explained by each cut."""
    n = x.shape[1]
    k = np.arange(LEAST_SIDE, n - LEAST_SIDE + 1)
    sums = np.cumsum(x - x[:1].mean(), axis=1)[:, k - 1]  # rows hold the same values
    return np.asarray(sums * sums * (n / (k * (n - k))))


def _statistic(x: Array, explained: Array, noise: float) -> Array:
    """The moderated t of cuts that explain so much of x; increases with it."""
    left = np.maximum(((x - x.mean()) ** 2).sum() - explained, 0.0)
    return np.asarray(np.sqrt(explained / ((left + PRIOR_DF * noise) / (len(x) - 2 + PRIOR_DF))))


# ---- what a cut means ------------------------------------------------------------------------------------------------


def _parts(s: Series, x: Array, cuts: list[int], margin: float) -> list[slice]:
    """The parts between cuts that are changes. Of the others the smallest is removed first, since two small steps may add up to a large
    one.
    """
    while True:
        parts = [slice(a, b) for a, b in pairwise([0, *cuts, len(x)])]
        sizes = [_size(x[a], x[b]) - _doubt(s, a, b) for a, b in pairwise(parts)]
        if not sizes or min(sizes) > margin:
            return parts
        del cuts[int(np.argmin(sizes))]


def _size(before: Array, after: Array) -> float:
    """The difference of the medians, whichever single run is left out."""
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
    """The error of the step between two parts due to the unknown dependence of the case on the clock."""
    if min(s.peaks) <= 0:  # not measured in every run
        return 0.0
    before, after = (float(np.median(np.log(s.peaks[p]))) for p in (a, b))
    return (1 - s.share) / 2 * abs(after - before)
