"""What tuning came to: a line per case as it ends, and what they come to together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import geometric_mean, median

from benchgraph.core.formats import counted
from benchgraph.core.options import Forced
from benchgraph.present.prose import folded
from benchgraph.present.terminal import BETWEEN, fitting
from benchgraph.tune.search import Found

GOAL = 1.10  # what the schedule's choice may cost beside the best

_FORMS = {
    "chosen": "{:<15}",
    "best": "{:<15}",
    "ratio": "{:>5}",
    "median": "{:>6}",
    "GFLOP/s": "{:>7}",
    "% peak": "{:>6}",
    "tried": "{:>9}",
}  # head -> how its cells stand; the case comes last, as long as it is
_SPARE = ("median", "GFLOP/s", "tried", "% peak")  # what a narrow terminal goes without, the first of these first
_CASE = 24  # columns that are left for the case


@dataclass(frozen=True)
class Outcome:
    """legal: how many choices there are. flops: of one execution."""

    repro: str
    machine: str
    found: Found
    legal: int
    flops: int


def heading(machine: str, width: int) -> str:
    """What the columns are: parameters of the choice of the schedule and of the best one, the first one's time over the second one's."""
    heads = _row(dict(zip(_FORMS, _FORMS, strict=True)), "case", width)
    said = f"{machine}\nratio: minimum time of the schedule's choice over that of the best one"
    return f"{folded(said, width)}\n\n{heads}"


def line(o: Outcome, width: int) -> str:
    """width: of the terminal; a case that is longer than what is left goes on in its next line."""
    found, tried = o.found, f"{o.found.tried}" if o.found.tried >= o.legal else f"{o.found.tried}/{o.legal}"
    rate = o.flops / found.chosen.min_s
    share = f"{rate / median(found.peaks):.0%}" if found.peaks else ""
    times = f"{found.ratio:.3f}", f"{found.median_ratio:.3f}"
    choices = _parameters(found.chosen.choice), _parameters(found.best.choice)
    return _row(dict(zip(_FORMS, (*choices, *times, f"{rate / 1e9:.1f}", share, tried), strict=True)), o.repro, width)


def _row(cells: dict[str, str], case: str, width: int) -> str:
    """cells: by head."""
    said = {head: form.format(cells[head]) for head, form in _FORMS.items()}
    heads = list(said)
    kept = fitting([list(said.values())], width - _CASE - BETWEEN, [heads.index(head) for head in _SPARE], len(said["chosen"]))
    return " | ".join([*(said[heads[i]] for i in kept), case])


def _parameters(c: Forced) -> str:
    return f"{c.mb} x {c.nb}{' split' if c.split_n else ''}"


def stored(file: str, count: int, outcomes: Sequence[Outcome], width: int) -> str:
    """What became of --store: where findings are, how many, and of which cases none was stored."""
    unsure = [o.repro for o in outcomes if not o.found.is_sure]
    said = [f"not stored, as by the median the best is no faster than the schedule's choice: {repro}; raise --rounds" for repro in unsure]
    return "\n".join(folded(text, width) for text in (f"\ntuning: {file}: {counted(count, 'finding')} stored", *said))


def summary(outcomes: Sequence[Outcome], width: int) -> str:
    ratios = [o.found.ratio for o in outcomes]
    within = sum(r <= GOAL for r in ratios)
    said = (
        f"\n{counted(len(ratios), 'case')}: geometric mean of ratios {geometric_mean(ratios):.3f}, largest {max(ratios):.3f}; "
        f"{within} of {len(ratios)} within {GOAL - 1:.0%} of the best"
    )
    return folded(said, width)
