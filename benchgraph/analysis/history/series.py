"""Builds time series from runs: one for each case, policy and machine."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from statistics import median

from benchgraph.analysis.history import store
from benchgraph.analysis.history.changes import Change, Series, changes
from benchgraph.analysis.history.database import Database
from benchgraph.analysis.history.run_order import Repository, ordered, repository, since
from benchgraph.analysis.history.store import Point, RunRow
from benchgraph.options.matching import matches
from benchgraph.options.repro import normalise_quoting

HORIZON = 100  # runs of a series before --since that are used: enough to estimate the noise


@dataclass(frozen=True, order=True)
class Key:
    """Identifies a series. case: a repro line."""

    case: str
    policy: str
    machine: int


@dataclass(frozen=True)
class SeriesFilter:
    """Selects series. case: a regex on the repro line; policies: () for all; since: '' for everything."""

    case: str = ""
    policies: tuple[str, ...] = ()
    since: str = ""


@dataclass(frozen=True)
class History:
    """runs: in order. start: the number of runs up to --since. left_out: the number of runs of other branches."""

    runs: tuple[RunRow, ...]
    start: int
    left_out: int
    machines: dict[int, str]
    series: dict[Key, Series]
    git: Repository

    @property
    def shown(self) -> tuple[RunRow, ...]:
        """The runs since `start`, and the one before them."""
        return self.runs[max(0, self.start - 1) :]

    def changes(self, threshold: float) -> dict[Key, list[Change]]:
        """Changes after `start`, by series. Older runs are used to estimate the noise."""
        keys = sorted(self.series)
        by_key = defaultdict[Key, list[Change]](list)
        for change in changes([self._recent(self.series[k]) for k in keys], threshold):
            if change.after >= self.start:
                by_key[keys[change.series]].append(change)
        return by_key

    def _recent(self, s: Series) -> Series:
        first = max(0, sum(run < self.start for run in s.runs) - HORIZON)
        return Series(s.runs[first:], s.times[first:], s.peaks[first:], s.share)


def load(database: Database, filter_: SeriesFilter) -> History:
    """The series of a database that the filter selects. Raises BenchgraphError."""
    try:
        return _load(database, filter_)
    except (ValueError, TypeError, AttributeError, RecursionError) as bad:  # columns may hold values that benchgraph did not write
        raise database.damaged() from bad


def _load(database: Database, filter_: SeriesFilter) -> History:
    all_runs = store.runs(database)
    git = repository(all_runs)
    runs = ordered(all_runs, git)
    start = since(filter_.since, runs, git) if filter_.since else 0
    place = {r.id: i for i, r in enumerate(runs)}
    by_series = defaultdict[Key, dict[int, list[Point]]](lambda: defaultdict(list))
    for p in store.points(database):
        is_chosen = (not filter_.case or matches(filter_.case, p.repro)) and (not filter_.policies or p.policy in filter_.policies)
        if p.run in place and is_chosen:
            by_series[Key(normalise_quoting(p.repro), p.policy, p.machine)][place[p.run]].append(p)
    series = {key: _series(points) for key, points in by_series.items()}
    return History(tuple(runs), start, len(all_runs) - len(runs), store.machines(database), series, git)


def _series(points: dict[int, list[Point]]) -> Series:
    """points: by position in the history. Repeated measurements of a case in one run become one, their median."""
    at = sorted(points)
    times = [median(p.median_s for p in points[i]) for i in at]
    peaks = [median(p.peak_flops for p in points[i]) for i in at]
    shares = [_share(p) for i in at for p in points[i]]
    return Series(tuple(at), tuple(times), tuple(peaks), median(shares))


def _share(p: Point) -> float:
    """The case's share of the peak; 1 if the peak was not measured."""
    return min(1.0, p.flops / (p.median_s * p.peak_flops)) if p.peak_flops else 1.0
