"""What tuning came to: a line per case as it ends, and what they come to together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import geometric_mean, median

from benchgraph.core.options import Forced
from benchgraph.harness.cells import counted
from benchgraph.harness.tune.search import Found

GOAL = 1.10  # what the schedule's choice may cost beside the best

_COLUMNS = ("chosen", "best", "ratio", "median", "GFLOP/s", "% peak", "tried")
_FORM = "{:<15} | {:<15} | {:>5} | {:>6} | {:>7} | {:>6} | {:>9} | {}"


@dataclass(frozen=True)
class Outcome:
    """legal: how many choices there are. flops: of one execution."""

    repro: str
    machine: str
    found: Found
    legal: int
    flops: int


def heading(machine: str) -> str:
    """What the columns are: parameters of the choice of the schedule and of the best one, the first one's time over the second one's."""
    return f"{machine}\nratio: minimum time of the schedule's choice over that of the best one\n\n" + _FORM.format(*_COLUMNS, "case")


def line(o: Outcome) -> str:
    found, tried = o.found, f"{o.found.tried}" if o.found.tried >= o.legal else f"{o.found.tried}/{o.legal}"
    rate = o.flops / found.chosen.min_s
    share = f"{rate / median(found.peaks):.0%}" if found.peaks else ""
    times = f"{found.ratio:.3f}", f"{found.median_ratio:.3f}"
    return _FORM.format(
        _parameters(found.chosen.choice), _parameters(found.best.choice), *times, f"{rate / 1e9:.1f}", share, tried, o.repro
    )


def _parameters(c: Forced) -> str:
    return f"{c.mb} x {c.nb}{' split' if c.split_n else ''}"


def summary(outcomes: Sequence[Outcome]) -> str:
    ratios = [o.found.ratio for o in outcomes]
    within = sum(r <= GOAL for r in ratios)
    return (
        f"\n{counted(len(ratios), 'case')}: geometric mean of ratios {geometric_mean(ratios):.3f}, largest {max(ratios):.3f}; "
        f"{within} of {len(ratios)} within {GOAL - 1:.0%} of the best"
    )
