"""From runs to series: each case under each policy on each machine, over the runs in their order."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from statistics import median

from benchgraph.analysis.history import store
from benchgraph.analysis.history.changes import Change, Series, changes
from benchgraph.analysis.history.database import Database
from benchgraph.analysis.history.order import Repository, ordered, repository, since
from benchgraph.analysis.history.store import Point, RunRow
from benchgraph.options.matching import matches
from benchgraph.options.repro import normalise_quoting

HORIZON = 100  # runs of a series before --since that count: enough to tell the noise; what was earlier says little of today


@dataclass(frozen=True, order=True)
class Key:
    """What one series is of. case: a repro line."""

    case: str
    policy: str
    machine: int


@dataclass(frozen=True)
class Chosen:
    """What is looked for. case: a regex that the repro line holds; policies: () for all; since: '' for everything."""

    case: str = ""
    policies: tuple[str, ...] = ()
    since: str = ""


@dataclass(frozen=True)
class History:
    """runs: in order. start: how many of them are before --since, or --since itself. left_out: runs of other branches."""

    runs: tuple[RunRow, ...]
    start: int
    left_out: int
    machines: dict[int, str]
    series: dict[Key, Series]
    git: Repository

    def changes(self, threshold: float) -> dict[Key, list[Change]]:
        """Those after `start`, by series. Older runs tell what was usual."""
        keys = sorted(self.series)
        found = defaultdict[Key, list[Change]](list)
        for change in changes([self._recent(self.series[k]) for k in keys], threshold):
            if change.after >= self.start:
                found[keys[change.series]].append(change)
        return found

    def _recent(self, s: Series) -> Series:
        first = max(0, sum(run < self.start for run in s.runs) - HORIZON)
        return Series(s.runs[first:], s.times[first:], s.peaks[first:], s.share)


def load(database: Database, chosen: Chosen) -> History:
    """What the database holds of it. Raises BenchgraphError."""
    try:
        return _load(database, chosen)
    except (ValueError, TypeError, AttributeError, RecursionError) as bad:  # a database takes any value in any column
        raise database.damaged() from bad


def _load(database: Database, chosen: Chosen) -> History:
    every = store.runs(database)
    git = repository(every)
    runs = ordered(every, git)
    start = since(chosen.since, runs, git) if chosen.since else 0
    place = {r.id: i for i, r in enumerate(runs)}
    found = defaultdict[Key, dict[int, list[Point]]](lambda: defaultdict(list))
    for p in store.points(database):
        if p.run in place and (not chosen.case or matches(chosen.case, p.repro)) and (not chosen.policies or p.policy in chosen.policies):
            found[Key(normalise_quoting(p.repro), p.policy, runs[place[p.run]].machine)][place[p.run]].append(p)
    series = {key: _series(points) for key, points in found.items()}
    return History(tuple(runs), start, len(every) - len(runs), store.machines(database), series, git)


def _series(points: dict[int, list[Point]]) -> Series:
    """points: by position. A run that measured a case twice has it once, with the middle of both."""
    at = sorted(points)
    times = [median(p.median_s for p in points[i]) for i in at]
    peaks = [median(p.peak_flops for p in points[i]) for i in at]
    shares = [_share(p) for i in at for p in points[i]]
    return Series(tuple(at), tuple(times), tuple(peaks), median(shares))


def _share(p: Point) -> float:
    """Of the peak; 1 when it was not measured."""
    return min(1.0, p.flops / (p.median_s * p.peak_flops)) if p.peak_flops else 1.0
