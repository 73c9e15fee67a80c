"""The variance between runs, moderated over all cases, and the standard errors of log ratios that follow from it.

The variance over a case's own runs is moderated by that of all cases (Smyth 2004), since two or three runs say little. With a single run
it is estimated over the cases: most have not changed, so the spread of their ratios is noise (Efron 2004, the empirical null), estimated by
medians, which changed cases do not move. It is at least ALLOWANCE: what all cases of one run share, only more runs can show. That the level
of runs matters most is Kalibera and Jones 2013. Degrees of freedom are by Welch and Satterthwaite.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import chdtri, polygamma

from benchgraph.analysis.inference.verdicts import Array
from benchgraph.analysis.inference.within_run import median_error

ALLOWANCE = 0.005  # of the median of a run, as a standard deviation: between runs of one program on a quiet machine
PRIOR_DF = 4.0  # prior degrees of freedom, where there are too few cases to estimate them
MEDIAN_EFFICIENCY = 0.37  # of a spread by medians, for normal data (Rousseeuw and Croux 1993): degrees of freedom that a case adds


@dataclass(frozen=True)
class Medians:
    """Per run: the logarithm of its median, the variance of that and its degrees of freedom. cores: the variance from the middle half of
    the samples alone, without outliers.
    """

    values: Array
    variances: Array
    cores: Array
    df: Array

    @classmethod
    def of(cls, runs: Sequence[Array], first: float) -> Medians:
        """runs: logarithms of samples. first: the lag-1 correlation within them."""
        variances, cores, df = np.array([median_error(x, first) for x in runs]).T
        return cls(np.array([np.median(x) for x in runs]), variances, cores, df)

    @property
    def squares(self) -> float:
        """Sum of the squares of the differences between runs."""
        return float(((self.values - self.values.mean()) ** 2).sum())


@dataclass(frozen=True)
class Estimate:
    """Of one log ratio. groups: runs with one mean each: those of A and those of B, or runs of a ratio. drift: further variance."""

    log_ratio: float
    groups: tuple[Medians, ...]
    drift: float = 0.0

    @property
    def df(self) -> int:
        """Degrees of freedom of the variance between its own runs."""
        return sum(len(g.values) - 1 for g in self.groups)

    @property
    def observed(self) -> float:
        """That variance. Only for df > 0."""
        return sum(g.squares for g in self.groups) / self.df

    @property
    def variances(self) -> Array:
        return np.concatenate([g.variances for g in self.groups])

    @property
    def within(self) -> float:
        """The variance of one run's median, mean over runs."""
        return float(self.variances.mean())

    @property
    def core(self) -> float:
        """The same, but robust to outliers, to be subtracted from other variances."""
        return float(np.concatenate([g.cores for g in self.groups]).mean())

    @property
    def weight(self) -> float:
        """The factor of a median's variance in that of the log ratio."""
        return sum(1 / len(g.values) for g in self.groups)


def standard_errors(estimates: list[Estimate], n_cases: int) -> list[tuple[float, float]]:
    """The standard error of each log ratio, and its degrees of freedom. n_cases: how many of the estimates are independent."""
    between = _between(estimates)
    between_df = max(1.0, MEDIAN_EFFICIENCY * n_cases)
    prior_df = min(between_df, _prior_df(estimates, between))
    return [_error(e, between, between_df, prior_df) for e in estimates]


def _between(estimates: list[Estimate]) -> float:
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
    if not high:  # nothing varies
        return ALLOWANCE**2
    for _ in range(60):  # halvings: as exact as the numbers are
        middle = (low + high) / 2
        low, high = (middle, high) if np.median(squares / (within + count * middle)) > 1 else (low, middle)
    return max(low, ALLOWANCE**2)


def _prior_df(estimates: list[Estimate], between: float) -> float:
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


def _error(e: Estimate, between: float, between_df: float, prior_df: float) -> tuple[float, float]:
    """The standard error of the log ratio, and its degrees of freedom."""
    expected = between + e.within  # estimated over the cases as a sum, so neither is known better than it
    known = np.concatenate([g.df for g in e.groups])
    shares = e.variances / len(known)
    df = min(between_df, expected**2 / (between**2 / between_df + float((shares**2 / known).sum())))
    if e.df:  # the pair's own runs
        df = min(df, prior_df)
        expected, df = (df * expected + e.df * e.observed) / (df + e.df), df + e.df
    return float(np.sqrt(expected * e.weight + e.drift)), df
