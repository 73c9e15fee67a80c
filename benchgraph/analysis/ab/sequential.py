"""As many launches as it takes: whether a candidate is on GOOD's side or on BAD's, with a bounded error over a whole search.

The observations are those of judge.py: the median over a launch's rounds of log(candidate / good). A test compares their mean with a
boundary, after FEWEST launches and then after each further one, until a one-sided t interval lies on one side of it. The variance between
launches is that of the case on this machine, so all tests of a search share it: the squares around each candidate's own mean, pooled.

Test number j of a search may err with probability ALPHA / (j (j + 1)), and its look number k with that over k (k + 1). These sum to at most
ALPHA over any number of tests and looks, so the chance that any answer of the search is wrong is below ALPHA (Boole's inequality), however
long it takes. What is assumed: every commit is as fast as GOOD or as slow as BAD, or at least clearly on one side of the boundary.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np
from scipy.special import stdtrit

from benchgraph.analysis.inference.between_runs import ALLOWANCE
from benchgraph.analysis.inference.verdicts import ALPHA

FEWEST = 3  # launches before the first look


@dataclass(frozen=True)
class Look:
    """What a test says so far. ratio: candidate over GOOD, in [low, high] at this look's level. is_above: of the boundary; None: open."""

    ratio: float
    low: float
    high: float
    launches: int
    is_above: bool | None

    def __str__(self) -> str:
        return f"{self.ratio:.3f} times as long [{self.low:.3f} .. {self.high:.3f}]"


@dataclass
class Search:
    """tests: the observations of each test so far, in order: logarithms of ratios."""

    tests: list[list[float]] = field(default_factory=list)

    def begin(self) -> None:
        self.tests.append([])

    def observe(self, ratio: float) -> None:
        """One launch of the present test. ratio: candidate over GOOD."""
        self.tests[-1].append(math.log(ratio))

    @property
    def launches(self) -> int:
        return sum(map(len, self.tests))

    def look(self, boundary: float) -> Look | None:
        """The present test against a ratio; None before there are FEWEST launches."""
        mine, j = self.tests[-1], len(self.tests)
        k = len(mine) - FEWEST + 1
        if k < 1:
            return None
        df = sum(len(x) - 1 for x in self.tests if x)
        squares = sum(float(np.var(x)) * len(x) for x in self.tests if x)
        error = math.sqrt(max(squares / df, ALLOWANCE**2) / len(mine))
        half = float(stdtrit(df, 1 - ALPHA / (j * (j + 1)) / (k * (k + 1)))) * error
        middle, limit = float(np.mean(mine)), math.log(boundary)
        is_above = None if abs(middle - limit) <= half else middle > limit
        return Look(math.exp(middle), math.exp(middle - half), math.exp(middle + half), len(mine), is_above)
