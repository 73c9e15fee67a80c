"""Is it faster, slower or the same? Inference on samples that are correlated and full of outliers, from a machine that drifts.

The data: runs of A and of B (files); in a run a case is sampled in rounds, each with one sample of every policy and one of the machine's
arithmetic peak. Samples of a run share its conditions: memory placement, frequency, neighbours. So they are not independent, and a t-test
over them finds a difference between any two runs of one program. Here each run is *one* observation, the median of its samples, and:

1. Drift. A sample is multiplied by (peak of its round)^b, as a control variate. b is between the case's share of the peak (that part of
   its time certainly scales with the clock) and 1; its middle is used, and the width of that range, times the change of the peak between
   A and B, is part of the error. Memory-bound cases thus get wide rather than wrong intervals when the clock has changed. A peak that
   differs by more than CLOCKS is due to other programs, whose effect is not modelled: no verdict.
2. Error within a run. The error of a median is estimated from its quantiles at 1/2 +- Z/2 sqrt(d/n) (Woodruff 1952): no distribution is
   assumed, an outlier counts as one sample. d, the design effect, is how many correlated samples are worth one independent one: from the
   lag-1 correlation of the signs around the median, over all cases (a case's own, where that is clearly higher), since a single series
   is too short to estimate it.
3. Error between runs. The variance over the runs of one side per case, moderated by that of all cases (Smyth 2004), since two or three
   runs say little. With a single run on each side it is estimated over the cases: most have not changed, so the spread of their ratios is
   noise (Efron 2004, the empirical null), estimated by medians, which changed cases do not move. It is at least ALLOWANCE: what all cases
   of one run share, only more runs can show. That the level of runs matters most is Kalibera and Jones 2013.
4. The log ratio B / A then has a t interval, degrees of freedom by Welch and Satterthwaite.

Verdicts, t being the threshold: regressed or improved when the interval is outside of [1 / (1 + t), 1 + t], same when it is inside, and
otherwise there is not enough data. Among many cases some are outside by chance, and one false alarm stops a merge. So the family-wise error
rate, the chance of *any* regressed or improved in a comparison in which nothing changed, is kept below ALPHA: by Holm's correction (1979),
which, unlike that of Benjamini and Hochberg (a share of the alarms), holds under any dependence, as among policies of one case. An interval
that is outside at 95 % is widened to its level in Holm's procedure and tested again. "same" needs no correction.

Exchanging A and B inverts every ratio, the unit of time does not matter, and nothing is random.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.special import chdtri, polygamma, stdtr, stdtrit

Array: TypeAlias = NDArray[np.float64]

ALPHA = 0.05
# A change of code layout alone changes run times by about this (Mytkowicz et al. 2009 see more)
THRESHOLD = 0.05
POWER = 0.8  # power at the detectable change (Cohen's convention)
LEAST_ROUNDS = 5  # mode P takes no fewer; the error of the median of fewer cannot be estimated
CLOCKS = 1.5  # largest ratio of a server's clocks, between wide vectors on all cores and the highest
Z = 2.0  # standard errors to either side of the quantiles; closer ones span too few samples
MOST_CORRELATED = 0.95  # short series cannot show more
ALLOWANCE = 0.005  # of the median of a run, as a standard deviation: between runs of one program on a quiet machine
PRIOR_DF = 4.0  # prior degrees of freedom, where there are too few cases to estimate them
MEDIAN_EFFICIENCY = 0.37  # of a spread by medians, for normal data (Rousseeuw and Croux 1993): degrees of freedom that a case adds


class Verdict(Enum):
    regressed = "regressed"
    improved = "improved"
    same = "same"
    unknown = "not enough data"


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


@dataclass(frozen=True)
class Judgement:
    """ratio: time of B over that of A, corrected for drift. low, high: its interval; nan if it has none.

    is_corrected: whether the peaks of the rounds are known and differ, so that the ratio is not that of the measured times. found: the
    least ratio that is detected with probability POWER if only this case changed; inf without an interval.
    """

    ratio: float
    low: float
    high: float
    verdict: Verdict
    found: float = math.inf
    is_corrected: bool = False


@dataclass(frozen=True)
class _Side:
    """Per run: the logarithm of its median, the variance of that and its degrees of freedom. cores: the variance from the middle half of
    the samples alone, without outliers.
    """

    medians: Array
    variances: Array
    cores: Array
    df: Array

    @property
    def between(self) -> float:
        """Sum of the squares of the differences between runs."""
        return float(((self.medians - self.medians.mean()) ** 2).sum())


@dataclass(frozen=True)
class _Estimate:
    """Of one pair. drift: variance due to the unknown dependence of the case on the clock."""

    a: _Side
    b: _Side
    drift: float

    @property
    def log_ratio(self) -> float:
        return float(self.b.medians.mean() - self.a.medians.mean())

    @property
    def df(self) -> int:
        """Degrees of freedom of the variance between runs of this pair."""
        return len(self.a.medians) + len(self.b.medians) - 2

    @property
    def observed(self) -> float:
        """That variance. Only for df > 0."""
        return (self.a.between + self.b.between) / self.df

    @property
    def within(self) -> float:
        """The variance of one run's median, mean over runs."""
        return float(np.concatenate([self.a.variances, self.b.variances]).mean())

    @property
    def core(self) -> float:
        """The same, but robust to outliers, to be subtracted from other variances."""
        return float(np.concatenate([self.a.cores, self.b.cores]).mean())

    @property
    def weight(self) -> float:
        """The factor of a median's variance in that of the log ratio."""
        return 1 / len(self.a.medians) + 1 / len(self.b.medians)


def judge(pairs: Sequence[Pair], threshold: float) -> list[Judgement]:
    """A judgement per pair, in their order. threshold: the relative change that is ignored, >= 0."""
    series = [None if p.a == p.b else _series(p) for p in pairs]
    all_signs = _Signs.of([x for s in series if s is not None for x in (*s.a, *s.b)])
    estimates = [None if s is None else _estimate(s, all_signs) for s in series]
    known = [e for e in estimates if e is not None]
    if not known:
        return [_unjudged(p) for p in pairs]
    n_cases = len({p.case for p, e in zip(pairs, estimates, strict=True) if e is not None})
    between = _between(known)
    between_df = max(1.0, MEDIAN_EFFICIENCY * n_cases)
    prior_df = min(between_df, _prior_df(known, between))
    errors = [_error(e, between, between_df, prior_df) for e in known]
    ratios, scale, df = np.array([(e.log_ratio, *error) for e, error in zip(known, errors, strict=True)]).T
    judged = iter(_verdicts(ratios, scale, df, float(np.log1p(threshold))))
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


@dataclass(frozen=True)
class _Signs:
    """The lag-1 correlation of signs around the median. count: the number of pairs of rounds that it is the mean of."""

    correlation: float
    count: int

    @classmethod
    def of(cls, series: Sequence[Array]) -> _Signs:
        """Of all series together. For n samples it is biased, by about -(1 + 3 times itself) / n (Kendall 1954)."""
        total, count = 0.0, 0
        for x in series:
            n, signs = len(x), np.sign(x - np.median(x))
            correlation = float((signs[1:] * signs[:-1]).mean())
            total, count = total + (n - 1) * (n * correlation + 1) / (n - 3), count + n - 1
        return cls(total / max(count, 1), count)

    def or_clearly(self, own: _Signs) -> float:
        """This correlation, or the series' own if that is higher by more than its error."""
        return max(self.correlation, own.correlation - 1 / math.sqrt(own.count))


def _estimate(s: _Series, whole: _Signs) -> _Estimate:
    """whole: of all series."""
    signs = whole.or_clearly(_Signs.of((*s.a, *s.b)))
    first = _first(signs)
    return _Estimate(_side(s.a, first), _side(s.b, first), s.drift)


def _first(signs: float) -> float:
    """The lag-1 correlation of normal values with this correlation of signs."""
    return min(max(float(np.sin(np.pi / 2 * min(signs, 1.0))), 0.0), MOST_CORRELATED)


def _side(series: Sequence[Array], first: float) -> _Side:
    variances, cores, df = np.array([_median_error(x, first) for x in series]).T
    return _Side(np.array([np.median(x) for x in series]), variances, cores, df)


def _median_error(x: Array, first: float) -> tuple[float, float, float]:
    """The variance of the median of a correlated series, that of one with a normal middle half, and the first one's degrees of freedom.

    first: the lag-1 correlation. Correlations of values fall as powers of it, those of their signs are 2/pi arcsin of them. The quantiles
    span m independent samples; the square of a span of m has m/2 degrees of freedom, and at most those of the variance of all samples.
    """
    n = len(x)
    lags = np.arange(1, n)
    effect = 1 + 2 * float(((1 - lags / n) * 2 / np.pi * np.arcsin(first**lags)).sum())
    reach, independent = Z / 2 * (effect / n) ** 0.5, n / effect
    read = min(reach, 0.5)
    low, high, lower, upper = np.quantile(x, (0.5 - read, 0.5 + read, 0.25, 0.75))
    core = np.pi / 2 * ((upper - lower) / 1.349) ** 2 / independent
    spanned = Z * independent**0.5 / 2
    return (
        float(((high - low) / (2 * Z) * reach / read) ** 2),
        float(core),
        max(1.0, min(spanned / max(1 - 2 * read, 1e-9), independent - 1)),
    )


# ---- all pairs -------------------------------------------------------------------------------------------------------


def _between(estimates: list[_Estimate]) -> float:
    """The variance between runs over all pairs, beyond what their samples explain; at least ALLOWANCE squared.

    It is that for which the median of the standardised squares equals the median of chi square.
    """
    repeated = [e for e in estimates if e.df]
    if repeated:
        squares = np.array([e.observed * e.df / float(chdtri(e.df, 0.5)) for e in repeated])
        within, count = np.array([e.core for e in repeated]), 1.0
    else:
        ratios = np.array([e.log_ratio for e in estimates])
        few = len(estimates) / max(len(estimates) - 1, 1)  # one of them was spent on the middle
        squares = (ratios - np.median(ratios)) ** 2 / float(chdtri(1, 0.5)) * few
        within, count = np.array([e.core * e.weight + e.drift for e in estimates]), 2.0
    low, high = 0.0, float(squares.max()) / count
    for _ in range(60):  # halvings: as exact as the numbers are
        middle = (low + high) / 2
        low, high = (middle, high) if np.median(squares / (within + count * middle)) > 1 else (low, middle)
    return max(low, ALLOWANCE**2)


def _prior_df(estimates: list[_Estimate], between: float) -> float:
    """Prior degrees of freedom of the variance of all pairs: large if the variances of single pairs hardly differ.

    Smyth's moments: log(s^2) of equal variances has variance trigamma(df / 2), of others trigamma(prior / 2) more.
    """
    logs = [np.log(e.observed / (between + e.within)) for e in estimates if e.df and e.observed > 0]
    if len(logs) < 3:
        return PRIOR_DF
    excess = float(np.var(logs, ddof=1)) - float(np.mean([polygamma(1, e.df / 2) for e in estimates if e.df]))
    few, many = 1e-3, 1e6
    for _ in range(60):
        middle = (few * many) ** 0.5
        few, many = (middle, many) if polygamma(1, middle / 2) > excess else (few, middle)
    return few


def _error(e: _Estimate, between: float, between_df: float, prior_df: float) -> tuple[float, float]:
    """The standard error of the log ratio, and its degrees of freedom."""
    expected = between + e.within  # estimated over the cases as a sum, so neither is known better than it
    known = np.array([*e.a.df, *e.b.df])
    shares = np.array([*e.a.variances, *e.b.variances]) / len(known)
    df = min(between_df, expected**2 / (between**2 / between_df + float((shares**2 / known).sum())))
    if e.df:  # the pair's own runs
        df = min(df, prior_df)
        expected, df = (df * expected + e.df * e.observed) / (df + e.df), df + e.df
    return float(np.sqrt(expected * e.weight + e.drift)), df


def _verdicts(ratios: Array, errors: Array, df: Array, margin: float) -> list[Judgement]:
    """ratios: logarithms. margin: their largest distance from 0 that is ignored."""
    beyond = (np.abs(ratios) - margin) / errors
    p = np.minimum(1.0, 2 * stdtr(df, -beyond))
    levels, level = np.empty_like(p), 0.0
    stopped = False
    for rank, i in enumerate(np.argsort(p, kind="stable")):
        level = level if stopped else ALPHA / (len(p) - rank)
        stopped = stopped or bool(p[i] > level)
        levels[i] = level
    judgements = []
    for ratio, error, d, corrected in zip(ratios, errors, df, levels, strict=True):
        plain = float(stdtrit(d, 1 - ALPHA / 2) * error)
        half = plain if abs(ratio) - plain <= margin else float(stdtrit(d, 1 - corrected / 2) * error)
        low, high = float(ratio - half), float(ratio + half)
        least = margin + float(stdtrit(d, 1 - ALPHA / len(p) / 2) + stdtrit(d, POWER)) * error
        middle, bottom, top, detectable = (float(np.exp(x)) for x in (ratio, low, high, least))
        judgements.append(Judgement(middle, bottom, top, _verdict(low, high, margin), detectable))
    return judgements


def _verdict(low: float, high: float, margin: float) -> Verdict:
    if low > margin:
        return Verdict.regressed
    if high < -margin:
        return Verdict.improved
    return Verdict.same if -margin <= low and high <= margin else Verdict.unknown


# ---- within one run --------------------------------------------------------------------------------------------------


def interleaved_intervals(pairs: Sequence[tuple[Sequence[float], Sequence[float]]]) -> list[tuple[float, float] | None]:
    """The 95 % intervals of median(b) / median(a), of times that one run took interleaved; None for too few rounds.

    What the samples of a round share, as the clock and the neighbours, cancels in their ratio, so the error is that of the median of the
    rounds' ratios. It is valid within this run: in another one, memory placement differs. pairs: all of the run, which share the
    correlation from round to round.
    """
    series = [np.log(b) - np.log(a) if len(a) == len(b) >= LEAST_ROUNDS else None for a, b in pairs]
    whole = _Signs.of([x for x in series if x is not None])
    return [None if x is None else _around(np.median(b) / np.median(a), x, whole) for x, (a, b) in zip(series, pairs, strict=True)]


def _around(ratio: np.floating, ratios: Array, whole: _Signs) -> tuple[float, float]:
    """ratios: logarithms, one per round. whole: of all pairs."""
    variance, _, df = _median_error(ratios, _first(whole.or_clearly(_Signs.of([ratios]))))
    half = float(stdtrit(df, 1 - ALPHA / 2)) * math.sqrt(variance)
    return float(ratio) * math.exp(-half), float(ratio) * math.exp(half)
