"""Two versions compared, as one HTML page without scripts: every interval drawn on one scale, what is worse first."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from math import isfinite, log

from jinja2 import Environment, PackageLoader, StrictUndefined

from benchgraph.analysis.ab.comparison import Comparison, Row
from benchgraph.analysis.ab.findings import Kind, limits
from benchgraph.present.ab.table import HEADS, INTERVAL, cells, listed

WIDTH, HEIGHT = 160, 12  # of a drawn interval, in CSS pixels
REACH = log(1.5)  # the ratio at its right end; what lies beyond ends there


@dataclass(frozen=True)
class Bar:
    """An interval in pixels: its ends and its middle."""

    low: float
    middle: float
    high: float

    @property
    def width(self) -> float:
        return max(self.high - self.low, 1.0)


def render(c: Comparison) -> str:
    """The document."""
    kinds = (Kind.slower, Kind.faster, Kind.cannot_tell, Kind.same)
    margin = log(1 + c.threshold)
    return (
        _environment()
        .get_template("page.html")
        .render(
            c=c,
            heads=HEADS,
            interval=INTERVAL,
            limits=limits,
            sections=[(kind, [(row, cells(row), bar(row)) for row in c.timed if row.kind is kind]) for kind in kinds],
            lists=listed(c)[::-1],
            band=(_x(-margin), _x(margin) - _x(-margin)),
            size=(WIDTH, HEIGHT),
        )
    )


def bar(row: Row) -> Bar | None:
    """None without an interval."""
    j = row.judged
    ends = [log(x) if isfinite(x) and x > 0 else None for x in (j.low, j.ratio, j.high)]
    return None if None in ends else Bar(*(_x(x) for x in ends if x is not None))


def _x(ratio: float) -> float:
    """ratio: a logarithm."""
    return round((max(-REACH, min(REACH, ratio)) / REACH + 1) * WIDTH / 2, 1)


@cache
def _environment() -> Environment:
    loader = PackageLoader("benchgraph.present.ab", ".")
    return Environment(loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
