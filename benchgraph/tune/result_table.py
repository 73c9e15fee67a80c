"""The results of tuning: a line per case, and a summary."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import geometric_mean, median

from benchgraph.core.formats import counted
from benchgraph.core.options import Forced
from benchgraph.present.terminal import BETWEEN, fitting
from benchgraph.present.word_wrap import folded
from benchgraph.schedule.primitives import parse
from benchgraph.schedule.space import Tiling
from benchgraph.tune.search import SearchResult

GOAL = 1.10  # goal for the schedule's choice over the best

# head -> format of its cells; the case follows in full
_FORMS = {
    "chosen": "<15", "best": "<15", "ratio": ">5", "median": ">6", "by cost": ">7", "GFLOP/s": ">7", "% peak": ">6", "tried": ">9",
}  # fmt: skip
_SPARE = ("median", "GFLOP/s", "tried", "% peak", "by cost")  # columns left out on a narrow terminal, in this order
_CASE = 24  # columns reserved for the case


@dataclass(frozen=True)
class Outcome:
    """legal: the number of legal choices. flops: of one execution."""

    repro: str
    machine: str
    found: SearchResult
    legal: int
    flops: int


def heading(machine: str, width: int) -> str:
    """A legend and the column heads: parameters of the schedule's and of the best choice, and the ratio of their times."""
    heads = _row(dict(zip(_FORMS, _FORMS, strict=True)), "case", width)
    legend = f"{machine}\nratio: minimum time of the schedule's choice over that of the best one; by cost: of the choice of least cost"
    legend += "; split: columns are tasks; 64/256: all rows by 256 columns in calls of 64, then by the next 256"
    return f"{folded(legend, width)}\n\n{heads}"


def line(o: Outcome, width: int) -> str:
    """width: of the terminal; a longer case is wrapped by it."""
    result, tried = o.found, f"{o.found.tried}" if o.found.tried >= o.legal else f"{o.found.tried}/{o.legal}"
    rate = o.flops / result.chosen.min_s
    share = f"{rate / median(result.peaks):.0%}" if result.peaks else ""
    times = f"{result.ratio:.3f}", f"{result.median_ratio:.3f}", f"{result.cheapest_ratio:.3f}"
    choices = _parameters(result.chosen.choice), _parameters(result.best.choice)
    return _row(dict(zip(_FORMS, (*choices, *times, f"{rate / 1e9:.1f}", share, tried), strict=True)), o.repro, width)


def _row(cells: dict[str, str], case: str, width: int) -> str:
    """cells: by head."""
    texts = {head: f"{cells[head]:{form}}" for head, form in _FORMS.items()}
    heads = list(texts)
    kept = fitting([list(texts.values())], width - _CASE - BETWEEN, [heads.index(head) for head in _SPARE], len(texts["chosen"]))
    return " | ".join([*(texts[heads[i]] for i in kept), case])


def _parameters(c: Forced) -> str:
    schedule = parse(c.schedule)
    if not schedule.tensorized:  # of several products
        return " x ".join(map(str, (*schedule.sizes("m"), *schedule.sizes("n"))))
    t = Tiling.of(schedule)
    columns = f"/{t.ns}" if t.ns else " split" if t.spreads else ""
    return f"{t.mb} x {t.nb}{columns}"


def stored(file: str, count: int, outcomes: Sequence[Outcome], width: int) -> str:
    """A line about --store: the file, the number of findings, and the cases for which none was stored."""
    unsure = [o.repro for o in outcomes if not o.found.is_sure]
    notes = [f"not stored, as by the median the best is no faster than the schedule's choice: {repro}; raise --rounds" for repro in unsure]
    return "\n".join(folded(text, width) for text in (f"\ntuning: {file}: {counted(count, 'finding')} stored", *notes))


def summary(outcomes: Sequence[Outcome], width: int) -> str:
    schedule = _within([o.found.ratio for o in outcomes])
    by_cost = _within([o.found.cheapest_ratio for o in outcomes])
    texts = f"\n{counted(len(outcomes), 'case')}: {schedule}", f"choices of least cost: {by_cost}"
    return "\n".join(folded(text, width) for text in texts)


def _within(ratios: Sequence[float]) -> str:
    within = sum(r <= GOAL for r in ratios)
    return (
        f"geometric mean of ratios {geometric_mean(ratios):.3f}, largest {max(ratios):.3f}; "
        f"{within} of {len(ratios)} within {GOAL - 1:.0%} of the best"
    )
