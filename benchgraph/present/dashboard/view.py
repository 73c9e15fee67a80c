"""The content of a dashboard: every text, and where it links to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import quote

from benchgraph.analysis.history.changes import Change
from benchgraph.analysis.history.run_order import date, name, short
from benchgraph.analysis.history.series import History, Key
from benchgraph.analysis.history.store import RunRow
from benchgraph.core.formats import counted, milliseconds
from benchgraph.present.dashboard.trend import Mark, Trend, trends
from benchgraph.present.history import notes

COMMIT = "{commit}"  # in the template of a URL


@dataclass(frozen=True)
class Link:
    """url: '' for a text alone."""

    text: str
    url: str = ""


@dataclass(frozen=True)
class Found:
    """A change point. key: the id of its trend in the page. size, interval: how much slower, or faster if negative."""

    key: str
    mark: Mark
    case: str
    machine: str
    size: str
    interval: str
    good: Link
    bad: Link
    when: str
    mended: Link | None


@dataclass(frozen=True)
class Row:
    """A run of a trend. times: by policy, '' where it was not measured. number: of the mark before it, 0 for none."""

    run: int
    when: str
    commit: Link
    times: tuple[str, ...]
    number: int


@dataclass(frozen=True)
class Chart:
    """description: what the drawing shows, for those who do not see it. first, last: below its ends. rows: () on a page of many cases."""

    key: str
    trend: Trend
    svg: str
    description: str
    high: str
    low: str
    first: str
    last: str
    found: tuple[Found, ...]
    rows: tuple[Row, ...]


@dataclass(frozen=True)
class Machine:
    key: str
    name: str
    charts: tuple[Chart, ...]


@dataclass(frozen=True)
class View:
    """sums: name and number. found: changes for the worse, the worst first and mended ones last, then those for the better."""

    title: str
    sums: tuple[tuple[str, int], ...]
    span: str
    threshold: str
    notes: tuple[str, ...]
    found: tuple[Found, ...]
    machines: tuple[Machine, ...]


def check_url(template: str) -> str:
    """A template for --commit-url. Raises ValueError, whose text is the remedy."""
    if COMMIT not in template or not template.startswith(("https://", "http://")):
        raise ValueError(f"write https://… with {COMMIT} in the place of the hash")
    return template


def view(h: History, changes: Mapping[Key, Sequence[Change]], threshold: float, *, title: str, commit_url: str, many: int) -> View:
    """threshold: beyond which a change is one. commit_url: a template, '' for no links. many: trends beyond which rows are left out."""
    all_trends = trends(h, changes)
    charts = [_chart(h, t, f"t{n}", commit_url, has_rows=len(all_trends) <= many) for n, t in enumerate(all_trends)]
    numbers = list(dict.fromkeys(c.trend.machine for c in charts))
    machines = [Machine(f"m{n}", h.machines[n], tuple(c for c in charts if c.trend.machine == n)) for n in numbers]
    found = sorted((f for c in charts for f in c.found), key=_order)
    kinds = [f.mark.kind for f in found]
    shown = h.shown
    return View(
        title,
        (
            ("runs", len(shown)),
            ("cases", len({c.trend.case for c in charts})),
            *((("machines", len(machines)),) if len(machines) > 1 else ()),
            *((name, kinds.count(name)) for name in ("slower", "mended", "faster") if name == "slower" or name in kinds),
        ),
        f"{date(shown[0])} to {date(shown[-1])}" if shown else "no runs",
        f"{100 * threshold:.3g} %",
        tuple(notes(h)),
        tuple(found),
        tuple(machines),
    )


def _order(f: Found) -> tuple[int, float, str]:
    return ("slower", "mended", "faster").index(f.mark.kind), -f.mark.change.ratio, f.case


def _chart(h: History, t: Trend, key: str, url: str, *, has_rows: bool) -> Chart:
    first, last = h.runs[t.at[0]], h.runs[t.at[-1]]
    found = tuple(_found(h, t, mark, key, url) for mark in t.marks)
    policies = ", ".join(line.policy for line in t.lines)
    seen = f"{policies} in {counted(len(t.at), 'run')} from {date(first)} to {date(last)}: {_ms(t.low)} to {_ms(t.high)} milliseconds; "
    description = seen + (counted(len(found), "change") if found else "no change") + "."
    begin, end = (f"{date(r)[:10]} {name(r)}" for r in (first, last))
    rows = tuple(_rows(h, t, url)) if has_rows else ()
    return Chart(key, t, t.svg(), description, _ms(t.high), _ms(t.low), begin, end, found, rows)


def _rows(h: History, t: Trend, url: str) -> list[Row]:
    """The latest run first."""
    times = [dict(zip(line.at, line.ms, strict=True)) for line in t.lines]
    numbers = {mark.change.after: mark.number for mark in t.marks}
    return [
        Row(r.id, date(r), _link(r, url), tuple(_ms(of[i]) if i in of else "" for of in times), numbers.get(i, 0))
        for i, r in ((i, h.runs[i]) for i in reversed(t.at))
    ]


def _found(h: History, t: Trend, mark: Mark, key: str, url: str) -> Found:
    c = mark.change
    good, bad = (_link(h.runs[i], url) for i in (c.before, c.after))
    mended = None if c.mended is None else _link(h.runs[c.mended], url)
    interval = f"{_percent(c.low)} to {_percent(c.high)}"
    return Found(key, mark, t.case, h.machines[t.machine], _percent(c.ratio), interval, good, bad, date(h.runs[c.after]), mended)


def _link(run: RunRow, url: str) -> Link:
    if not run.commit:
        return Link(name(run))
    return Link(short(run), url.replace(COMMIT, quote(run.commit, safe="")) if url else "")


def _ms(ms: float) -> str:
    return milliseconds(ms * 1e-3)


def _percent(ratio: float) -> str:
    return f"{100 * (ratio - 1):+.1f} %"
