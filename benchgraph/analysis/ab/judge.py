"""Is NEW slower or faster than OLD? A paired analysis of samples that both took in the same rounds, in several launches.

The data: in a launch, both versions run in new processes on new memory, and every case is sampled in rounds, each with one sample of either
version, in random order. So:

1. What the samples of a round share, as the clock and the neighbours, cancels in their ratio. A launch is *one* observation of a case: the
   median over its rounds of log(new / old).
2. The error of that median within a launch (inference/within_run.py) says nothing about the next launch, where memory lies elsewhere. The
   variance between launches of each case does, moderated by that of all cases (inference/between_runs.py).
3. The mean over launches has a t interval, and a verdict under Holm's correction over all cases (inference/verdicts.py).

Where some cases cannot be told, further launches of these alone may be taken: the data are then looked at `Plan.looks` times, a number that
is fixed before. Each look spends an equal share of ALPHA, and its intervals are of that level (repeated confidence intervals: Jennison and
Turnbull 1989), so that the chance of any false alarm at any look is below ALPHA by Boole's inequality, whatever decides which cases go on.
Within a look Holm's family is all cases, decided or not, less those already found changed: until the first false alarm these are truly
changed, so that the first unchanged case meets a level of at most share / (number of unchanged cases). A verdict is final.

Exchanging OLD and NEW inverts every ratio, the unit of time does not matter, and nothing is random.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from benchgraph.analysis.inference.between_runs import Estimate, Medians, standard_errors
from benchgraph.analysis.inference.verdicts import ALPHA, Array, Judgement, Verdict, verdicts
from benchgraph.analysis.inference.within_run import LEAST_ROUNDS, Signs, first_correlation

LAUNCHES = 3  # the fewest whose variance has two degrees of freedom


@dataclass(frozen=True)
class Plan:
    """launches: of every case, and then of those that cannot be told, again and again while a case has no more than `most`."""

    launches: int = LAUNCHES
    most: int = LAUNCHES

    def cut(self, done: int) -> Plan:
        """The plan of which so many launches took place: where the first look lacks some, it is at those; the number of looks stays."""
        return Plan(done, done * self.looks) if done < self.launches else self

    @property
    def looks(self) -> int:
        return max(1, self.most // self.launches)

    @property
    def alpha(self) -> float:
        """The error that each look may make."""
        return ALPHA / self.looks


@dataclass(frozen=True)
class Launch:
    """The samples of one case under one policy, in seconds; those at one position are of one round. number: of the launch, from 0."""

    number: int
    old: tuple[float, ...]
    new: tuple[float, ...]

    @property
    def log_ratios(self) -> Array:
        return np.asarray(np.log(self.new) - np.log(self.old))

    @property
    def ratio(self) -> float:
        """New over old: the median over rounds."""
        return math.exp(float(np.median(self.log_ratios)))


@dataclass(frozen=True)
class Timed:
    """A case under a policy. case: those of one case share their rounds."""

    case: str
    launches: tuple[Launch, ...]

    def before(self, number: int) -> tuple[Launch, ...]:
        """The launches with a lower number that have rounds enough."""
        return tuple(x for x in self.launches if x.number < number and len(x.old) == len(x.new) >= LEAST_ROUNDS)


def judge(timed: Sequence[Timed], threshold: float, plan: Plan) -> list[Judgement]:
    """A judgement for each, new over old. threshold: the relative change that is ignored, >= 0."""
    found = [_unjudged(t) for t in timed]
    undecided, n_changed = set(range(len(timed))), 0
    for look in range(1, plan.looks + 1):
        until = look * plan.launches
        known = {i: t.before(until) for i, t in enumerate(timed)}
        known = {i: launches for i, launches in known.items() if launches}
        tested = [i for i in known if i in undecided and any(x.number >= until - plan.launches for x in known[i])]
        if not tested:
            break
        estimates = _estimates(known)
        errors = dict(zip(known, standard_errors(list(estimates.values()), len({timed[i].case for i in known})), strict=True))
        ratios, scale, df = np.array([(estimates[i].log_ratio, *errors[i]) for i in tested]).T
        idle = len(known) - n_changed - len(tested)
        for i, j in zip(tested, verdicts(ratios, scale, df, math.log1p(threshold), plan.alpha, idle=idle), strict=True):
            found[i] = j
            n_changed += j.verdict in (Verdict.regressed, Verdict.improved)
        undecided = {i for i in undecided if found[i].verdict is Verdict.unknown}
    return found


def _unjudged(t: Timed) -> Judgement:
    """The ratio without an interval."""
    ratios = [math.log(x.ratio) for x in t.launches if x.old and len(x.old) == len(x.new)]
    return Judgement(math.exp(sum(ratios) / len(ratios)) if ratios else math.nan, math.nan, math.nan, Verdict.unknown)


def _estimates(known: dict[int, tuple[Launch, ...]]) -> dict[int, Estimate]:
    series = {i: [x.log_ratios for x in launches] for i, launches in known.items()}
    whole = Signs.of([x for each in series.values() for x in each])
    found = dict[int, Estimate]()
    for i, each in series.items():
        medians = Medians.of(each, first_correlation(whole.or_clearly(Signs.of(each))))
        found[i] = Estimate(float(medians.values.mean()), (medians,))
    return found


def mean_ratio(timed: Sequence[Timed], launches: int) -> tuple[float, float, float]:
    """The geometric mean of the ratios of several cases, and its 95 % interval.

    It holds for these cases, whatever they share in a launch: its only observations are the means of the first `launches`, over the cases
    that all of them have. nan for less than two launches.
    """
    from scipy.special import stdtrit

    kept = [t for t in timed if len(t.before(launches)) == launches]
    if not kept:
        return math.nan, math.nan, math.nan
    means = np.mean([[math.log(x.ratio) for x in t.before(launches)] for t in kept], axis=0)
    middle = float(means.mean())
    if launches < 2:
        return math.exp(middle), math.nan, math.nan
    half = float(stdtrit(launches - 1, 1 - ALPHA / 2)) * float(means.std(ddof=1)) / math.sqrt(launches)
    return math.exp(middle), math.exp(middle - half), math.exp(middle + half)
