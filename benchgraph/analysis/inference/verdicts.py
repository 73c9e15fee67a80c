"""Verdicts from log ratios and their standard errors, with few false alarms among many cases.

t being the threshold: regressed or improved when the interval is outside of [1 / (1 + t), 1 + t], same when it is inside, and otherwise
there is not enough data. Among many cases some are outside by chance, and one false alarm stops a merge. So the family-wise error rate, the
chance of *any* regressed or improved in a comparison in which nothing changed, is kept below alpha: by Holm's correction (1979), which,
unlike that of Benjamini and Hochberg (a share of the alarms), holds under any dependence, as among policies of one case. An interval that
is outside at its plain level is widened to its level in Holm's procedure and tested again. "same" needs no correction.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import Enum
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtr, stdtrit

Array: TypeAlias = NDArray[np.float64]

ALPHA = 0.05
# A change of code layout alone changes run times by about this (Mytkowicz et al. 2009 see more)
THRESHOLD = 0.05
POWER = 0.8  # power at the detectable change (Cohen's convention)


class Verdict(Enum):
    regressed = "regressed"
    improved = "improved"
    same = "same"
    unknown = "not enough data"


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


def verdicts(ratios: Array, errors: Array, df: Array, margin: float, alpha: float = ALPHA, *, idle: int = 0) -> list[Judgement]:
    """ratios: logarithms. margin: their largest distance from 0 that is ignored. idle: members of the family without a test here.

    Intervals are those of level 1 - alpha.
    """
    beyond = (np.abs(ratios) - margin) / errors
    p = np.minimum(1.0, 2 * stdtr(df, -beyond))
    family = len(p) + idle
    levels, level = np.empty_like(p), 0.0
    stopped = False
    for rank, i in enumerate(np.argsort(p, kind="stable")):
        level = level if stopped else alpha / (family - rank)
        stopped = stopped or bool(p[i] > level)
        levels[i] = level
    judgements = []
    for ratio, error, d, corrected in zip(ratios, errors, df, levels, strict=True):
        plain = float(stdtrit(d, 1 - alpha / 2) * error)
        half = plain if abs(ratio) - plain <= margin else float(stdtrit(d, 1 - corrected / 2) * error)
        low, high = float(ratio - half), float(ratio + half)
        least = margin + float(stdtrit(d, 1 - alpha / family / 2) + stdtrit(d, POWER)) * error
        with np.errstate(over="ignore"):  # hardly any degrees of freedom
            middle, bottom, top, detectable = (float(np.exp(x)) for x in (ratio, low, high, least))
        judgements.append(Judgement(middle, bottom, top, verdict(low, high, margin), detectable))
    return judgements


def verdict(low: float, high: float, margin: float) -> Verdict:
    if low > margin:
        return Verdict.regressed
    if high < -margin:
        return Verdict.improved
    return Verdict.same if -margin <= low and high <= margin else Verdict.unknown
