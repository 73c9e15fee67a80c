"""The contents of the page for a run: every text, with the number that it is sorted by."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TypeAlias

from benchgraph.analysis import mean_ratios
from benchgraph.analysis.inference.within_run import interleaved_intervals
from benchgraph.analysis.mean_ratios import ratio_of
from benchgraph.core.formats import interval
from benchgraph.options.repro import split
from benchgraph.present.page.layers import Layers, layer_views
from benchgraph.present.time_table import RATES, Row, cells, conditions, machines, ratio, rows
from benchgraph.results.accuracy import Accuracy
from benchgraph.results.result import CaseResult, PolicyTiming, Result, ResultSet, Status, failed, passed

ERRORS = ("wrong", "max abs", "max rel", "max ulp", "L2")

Intervals: TypeAlias = dict[tuple[int, str], tuple[float, float] | None]  # of ratios, by the id() of the case and the policy


@dataclass(frozen=True)
class Cell:
    """value: the sort key; None sorts last. low, high: the interval of a ratio."""

    text: str
    value: float | None = None
    low: float | None = None
    high: float | None = None

    @property
    def interval(self) -> str:
        return "" if self.low is None or self.high is None else interval(self.low, self.high, ".2f", "–")


@dataclass(frozen=True)
class Group:
    """Columns under a common head, '' for none. means: a description of each head."""

    title: str
    heads: tuple[str, ...]
    means: tuple[str, ...]


@dataclass(frozen=True)
class PartTime:
    """A row of a case's timings. share: of the time of its policy's partitions; None for a policy, and for a single partition."""

    row: Row
    share: float | None


@dataclass(frozen=True)
class Cut:
    """A policy's partitions. kinds: of the rules that made them, '' if unknown."""

    policy: str
    ops: tuple[tuple[int, ...], ...]
    kinds: tuple[str, ...]


@dataclass(frozen=True)
class Case:
    """key: its id in the page. cells: one per head of the run's groups.

    words: describe the case, name: as one line; repro: the whole command line.
    """

    key: str
    index: int
    status: Status
    words: tuple[str, ...]
    repro: str
    result: Result
    elapsed_s: float
    phases: tuple[tuple[str, str], ...]
    cells: tuple[Cell, ...]
    conditions: str
    times: tuple[PartTime, ...]
    cuts: tuple[Cut, ...]
    layers: tuple[Layers, ...]

    @property
    def name(self) -> str:
        return " ".join(self.words)


@dataclass(frozen=True)
class Run:
    """title: '' for a page about a single run. series: policies (or libraries and policies); ratios are relative to the first.

    origin: host, commit and date. means: geometric means of ratios, a line for each group of cases.
    """

    key: str
    title: str
    results: ResultSet
    origin: tuple[str, ...]
    means: tuple[str, ...]
    machine: tuple[str, ...]
    counts: tuple[tuple[Status, int], ...]
    series: tuple[str, ...]
    groups: tuple[Group, ...]
    cases: tuple[Case, ...]

    @property
    def summary(self) -> tuple[tuple[str, int], ...]:
        n = self.results.counts
        others = [(s.value.lower(), n[s]) for s in (Status.MISTRUSTED, Status.SKIPPED, Status.LISTED)]
        counts_by_name = (("passed", passed(n)), ("failed", failed(n)), *others)
        return ("cases", len(self.cases)), *((name, count) for name, count in counts_by_name if count)


def view(results: ResultSet, *, key: str = "r0", title: str = "") -> Run:
    series = tuple(dict.fromkeys(t.policy for c in results.cases for t in c.result.timings))
    is_checked = any(c.result.accuracy or c.result.total for c in results.cases)
    counts = tuple((s, results.counts[s]) for s in Status if results.counts[s])
    lines = tuple(machines(results).splitlines())
    groups = tuple(_groups(series, is_checked=is_checked))
    intervals = _intervals(results, series)
    cases = tuple(_case(c, results, f"{key}c{n}", series, intervals, is_checked=is_checked) for n, c in enumerate(results.cases))
    return Run(key, title, results, tuple(_origin(results)), tuple(mean_ratios.lines(results.cases)), lines, counts, series, groups, cases)


def _origin(results: ResultSet) -> Iterator[str]:
    """Host, commit and date, as far as known."""
    hosts = list(dict.fromkeys(m.host for m in results.machines if m.host))
    if hosts:
        yield f"host {hosts[0]}" if len(hosts) == 1 else f"{len(hosts)} hosts"
    if (o := results.origin) is not None:
        if o.commit:
            yield f"commit {o.commit[:12]}{' with changes' if o.is_dirty else ''}"
        yield datetime.fromtimestamp(o.started, UTC).strftime("%Y-%m-%d %H:%M UTC")


def _intervals(results: ResultSet, series: Sequence[str]) -> Intervals:
    pairs = dict[tuple[int, str], tuple[PolicyTiming, PolicyTiming]]()
    for c in results.cases:
        timings = {t.policy: t for t in c.result.timings}
        pairs |= {(id(c), name): (timings[series[0]], t) for name, t in timings.items() if name != series[0] and series[0] in timings}
    intervals = interleaved_intervals([(first.timing.samples_s, other.timing.samples_s) for first, other in pairs.values()])
    return dict(zip(pairs, intervals, strict=True))


def _groups(series: Sequence[str], *, is_checked: bool) -> Iterator[Group]:
    if series:
        yield Group(series[0], RATES, RATE_MEANINGS)
    if others := tuple(series[1:]):
        meaning = tuple(f"median time of {name} over that of {series[0]}, with its 95 % interval within this run" for name in others)
        yield Group(f"time / {series[0]}", others, meaning)
    if is_checked:
        yield Group("worst output", ERRORS, ERROR_MEANINGS)
    yield Group("", ("s",), ("seconds that the case took in all",))


RATE_MEANINGS = (
    "fastest sample, milliseconds per execution",
    "median of the samples, milliseconds per execution",
    "operations by the op table over the median time",
    "share of the arithmetic peak measured between the samples",
    "bytes that must enter and leave the graph, over the median time",
    "share of the bandwidth measured for so much memory",
    "arithmetic intensity: operations per byte",
    "the nearer roof: peak, or bw for bandwidth",
)
ERROR_MEANINGS = (
    "points that were wrong, of those compared",
    "largest difference",
    "largest difference as a share of the right value",
    "largest difference in units in the last place",
    "norm of the differences over the norm of the right values",
)


def _case(c: CaseResult, results: ResultSet, key: str, series: Sequence[str], intervals: Intervals, *, is_checked: bool) -> Case:
    r = c.result
    cells = [*_timed(c, series, intervals), *(_checked(r) if is_checked else ()), Cell(f"{c.elapsed_s:.2f}", c.elapsed_s)]
    phases = tuple((name, f"{s:.3f}") for name, s in c.phases.items())
    words, repro = split(c.repro).identity_words, f"benchgraph {c.repro}"
    parts = tuple(cells), conditions(r, results.mode) if r.timings else "", tuple(_times(r)), tuple(_cuts(r)), tuple(layer_views(r))
    return Case(key, c.index, r.status, words, repro, r, c.elapsed_s, phases, *parts)


def _timed(c: CaseResult, series: Sequence[str], intervals: Intervals) -> Iterator[Cell]:
    """The first policy's times and rates, then the ratios of the others."""
    r = c.result
    if not series:
        return
    timings = {t.policy: t for t in r.timings}
    first = timings.get(series[0])
    if first is None:
        yield from (Cell("") for _ in RATES)
    else:
        work, t = r.roofline(first), first.timing
        values = (t.min_s, t.median_s, work.flops_per_s, work.peak_share, work.bytes_per_s, work.bandwidth_share, work.intensity, None)
        yield from map(Cell, cells(t, work), values)
    for name in series[1:]:
        if first is None or name not in timings:
            yield Cell("")
            continue
        other = timings[name]
        interval = intervals[id(c), name] or (None, None)
        yield Cell(ratio(other, first), ratio_of(other, first), *interval)


def _checked(r: Result) -> Iterator[Cell]:
    """Of all compared outputs, the worst of each."""
    total = max(r.total, sum(a.total for a in r.accuracy))
    yield Cell(f"{r.errors}{_in_kind(sum(a.nonfinite for a in r.accuracy))}" if total else "", r.errors if total else None)
    for name in ("max_abs", "max_rel", "max_ulp", "l2"):
        worst = max((getattr(a, name) for a in r.accuracy), default=None)
        yield Cell("" if worst is None else size(worst), worst)


def size(value: float) -> str:
    """An error metric, as with -v."""
    return f"{value:.3g}"


def _in_kind(nonfinite: int) -> str:
    """The number of wrong NaN and infinities, which the distances leave out."""
    return f" ({nonfinite} in NaN or infinity)" if nonfinite else ""


def accuracy(a: Accuracy) -> tuple[str, ...]:
    """The cells of one output's row, under wrong, max abs, max rel, max ulp, L2, zeros, abs allowed."""
    return (
        f"{a.errors} of {a.total}{_in_kind(a.nonfinite)}",
        *(size(v) for v in (a.max_abs, a.max_rel, a.max_ulp, a.l2)),
        f"{a.zero_share:.0%}",
        a.allowed,
    )


def _times(r: Result) -> Iterator[PartTime]:
    sums = {id(part): sum(p.timing.median_s for p in t.partitions) for t in r.timings for part in t.partitions}
    for row in rows(r):
        whole = sums.get(id(row.of))
        yield PartTime(row, row.of.timing.median_s / whole if row.of and whole else None)


def _cuts(r: Result) -> Iterator[Cut]:
    """Timed policies have the kinds of their partitions, others do not."""
    for t in r.timings:
        yield Cut(t.policy, tuple(p.ops for p in t.partitions), tuple(p.kind for p in t.partitions))
    for policy, ops in r.partitions.items():
        if all(policy != t.policy for t in r.timings):
            yield Cut(policy, ops, ("",) * len(ops))
