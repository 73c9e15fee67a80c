"""Errors within a run: of the median of one series of samples, which are correlated and full of outliers.

The error of a median is estimated from its quantiles at 1/2 +- Z/2 sqrt(d/n) (Woodruff 1952): no distribution is assumed, an outlier counts
as one sample. d, the design effect, is how many correlated samples are worth one independent one: from the lag-1 correlation of the signs
around the median, over all cases (a case's own, where that is clearly higher), since a single series is too short to estimate it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import stdtrit

from benchgraph.analysis.inference.verdicts import ALPHA, Array

LEAST_ROUNDS = 5  # mode P takes no fewer; the error of the median of fewer cannot be estimated
Z = 2.0  # standard errors to either side of the quantiles; closer ones span too few samples
MOST_CORRELATED = 0.95  # short series cannot show more


@dataclass(frozen=True)
class Signs:
    """The lag-1 correlation of signs around the median. count: the number of pairs of rounds that it is the mean of."""

    correlation: float
    count: int

    @classmethod
    def of(cls, series: Sequence[Array]) -> Signs:
        """Of all series together. For n samples it is biased, by about -(1 + 3 times itself) / n (Kendall 1954)."""
        total, count = 0.0, 0
        for x in series:
            n, signs = len(x), np.sign(x - np.median(x))
            correlation = float((signs[1:] * signs[:-1]).mean())
            total, count = total + (n - 1) * (n * correlation + 1) / (n - 3), count + n - 1
        return cls(total / max(count, 1), count)

    def or_clearly(self, own: Signs) -> float:
        """This correlation, or the series' own if that is higher by more than its error."""
        return max(self.correlation, own.correlation - 1 / math.sqrt(own.count))


def first_correlation(signs: float) -> float:
    """The lag-1 correlation of normal values with this correlation of signs."""
    return min(max(float(np.sin(np.pi / 2 * min(signs, 1.0))), 0.0), MOST_CORRELATED)


def median_error(x: Array, first: float) -> tuple[float, float, float]:
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


def interleaved_intervals(pairs: Sequence[tuple[Sequence[float], Sequence[float]]]) -> list[tuple[float, float] | None]:
    """The 95 % intervals of median(b) / median(a), of times that one run took interleaved; None for too few rounds.

    What the samples of a round share, as the clock and the neighbours, cancels in their ratio, so the error is that of the median of the
    rounds' ratios. It is valid within this run: in another one, memory placement differs. pairs: all of the run, which share the
    correlation from round to round.
    """
    series = [np.log(b) - np.log(a) if len(a) == len(b) >= LEAST_ROUNDS else None for a, b in pairs]
    whole = Signs.of([x for x in series if x is not None])
    return [None if x is None else _around(np.median(b) / np.median(a), x, whole) for x, (a, b) in zip(series, pairs, strict=True)]


def _around(ratio: np.floating, ratios: Array, whole: Signs) -> tuple[float, float]:
    """ratios: logarithms, one per round. whole: of all pairs."""
    variance, _, df = median_error(ratios, first_correlation(whole.or_clearly(Signs.of([ratios]))))
    half = float(stdtrit(df, 1 - ALPHA / 2)) * math.sqrt(variance)
    return float(ratio) * math.exp(-half), float(ratio) * math.exp(half)
