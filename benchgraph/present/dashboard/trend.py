"""A case over its runs on one machine: a line for each policy, and a mark where one changes for good.

The drawing stretches to any width: strokes keep theirs, and a point is a stroke without length, which a round cap makes a dot. What is text
stands around it in HTML.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from statistics import median

from benchgraph.analysis.history.changes import Change
from benchgraph.analysis.history.series import History, Key

WIDTH, HEIGHT = 1000.0, 200.0  # of the drawing, in units of its own
LEAST_RANGE = 0.05  # of the largest time: noise does not fill a chart


@dataclass(frozen=True)
class Line:
    """One policy. at: positions of runs in the history; ms: milliseconds there. changes: of its series."""

    policy: str
    at: tuple[int, ...]
    ms: tuple[float, ...]
    changes: tuple[Change, ...]


@dataclass(frozen=True)
class Mark:
    """A change point, numbered within its trend. percent: from the left."""

    number: int
    percent: float
    policy: str
    change: Change

    @property
    def kind(self) -> str:
        """What it is for those who read the page: a class of its style, too."""
        if self.change.ratio < 1:
            return "faster"
        return "slower" if self.change.mended is None else "mended"


@dataclass(frozen=True)
class Trend:
    """machine: its number. at: the positions of all runs in it, ascending. low, high: the range of the drawing in milliseconds."""

    case: str
    machine: int
    lines: tuple[Line, ...]
    at: tuple[int, ...]
    low: float
    high: float

    @property
    def marks(self) -> tuple[Mark, ...]:
        """From left to right."""
        found = sorted(((c.after, line.policy, c) for line in self.lines for c in line.changes), key=lambda mark: mark[:2])
        return tuple(Mark(n, self._percent(c), policy, c) for n, (_, policy, c) in enumerate(found, 1))

    @property
    def worst(self) -> float:
        """The largest ratio of a change for the worse that is not mended; 1 without one."""
        return max((m.change.ratio for m in self.marks if m.kind == "slower"), default=1.0)

    @cached_property
    def _places(self) -> dict[int, int]:
        return {run: place for place, run in enumerate(self.at)}

    def _x(self, run: int) -> float:
        return WIDTH * (self._places[run] + 0.5) / len(self.at)

    def _percent(self, change: Change) -> float:
        """Between the runs around it, of which the first may be before those shown."""
        before = change.before if change.before in self._places else self.at[0]
        return 100 * (self._x(before) + self._x(change.after)) / 2 / WIDTH

    def _y(self, ms: float) -> float:
        return HEIGHT * (self.high - ms) / (self.high - self.low)

    def svg(self) -> str:
        """Shapes with the classes of the dashboard's style; a policy's have s0, s1 and so on."""
        marks = "".join(f'<path class="at {m.kind}" d="M{m.percent * WIDTH / 100:.1f} 0V{HEIGHT:g}"/>' for m in self.marks)
        lines = "".join(f'<g class="s{n % 6}">{"".join(self._drawn(line))}</g>' for n, line in enumerate(self.lines))
        box = f'viewBox="0 0 {WIDTH:g} {HEIGHT:g}" preserveAspectRatio="none"'
        return f'<svg {box} aria-hidden="true" focusable="false">{marks}{lines}</svg>'

    def _drawn(self, line: Line) -> Iterator[str]:
        points = [(self._x(run), self._y(ms)) for run, ms in zip(line.at, line.ms, strict=True)]
        yield f'<path class="line" d="M{" ".join(f"{x:.1f} {y:.1f}" for x, y in points)}"/>'
        yield f'<path class="dots" d="{"".join(f"M{x:.1f} {y:.1f}h0" for x, y in points)}"/>'
        if line.changes:
            yield f'<path class="levels" d="{"".join(self._levels(line))}"/>'

    def _levels(self, line: Line) -> Iterator[str]:
        """The median of the runs between two changes."""
        starts = [line.at[0], *(c.after for c in line.changes), line.at[-1] + 1]
        for start, end in pairwise(starts):
            part = [(run, ms) for run, ms in zip(line.at, line.ms, strict=True) if start <= run < end]
            if part:
                y = self._y(median(ms for _, ms in part))
                yield f"M{self._x(part[0][0]):.1f} {y:.1f}H{self._x(part[-1][0]):.1f}"


def trends(h: History, changes: Mapping[Key, Sequence[Change]]) -> list[Trend]:
    """A trend for each case and machine that has times since --since; of each machine the worst first, then in the order of cases."""
    by_case = dict[tuple[int, str], list[Key]]()
    for key in sorted(h.series):
        by_case.setdefault((key.machine, key.case), []).append(key)
    found = [_trend(h, case, machine, keys, changes) for (machine, case), keys in by_case.items()]
    return sorted((t for t in found if t is not None), key=lambda t: (t.machine, -t.worst, not t.marks, t.case))


def _trend(h: History, case: str, machine: int, keys: Sequence[Key], changes: Mapping[Key, Sequence[Change]]) -> Trend | None:
    lines = []
    for key in keys:
        s = h.series[key]
        points = [(run, t * 1e3) for run, t in zip(s.runs, s.times, strict=True) if run >= h.start - 1]
        if points:
            runs, ms = zip(*points, strict=True)
            lines.append(Line(key.policy, runs, ms, tuple(changes.get(key, ()))))
    if not lines:
        return None
    low, high = (limit(ms for line in lines for ms in line.ms) for limit in (min, max))
    room = 0.08 * max(high - low, LEAST_RANGE * high)
    middle = (high + low) / 2
    half = max(high - low, LEAST_RANGE * high) / 2 + room
    return Trend(case, machine, tuple(lines), tuple(sorted({run for line in lines for run in line.at})), middle - half, middle + half)
