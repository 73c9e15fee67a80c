"""The results of tuning: a line per case, or per nest of a case that has several, and a summary."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import geometric_mean, median

from benchgraph.core.formats import counted
from benchgraph.present.terminal import BETWEEN, fitting
from benchgraph.present.word_wrap import folded
from benchgraph.schedule.primitives import Schedule, parse
from benchgraph.schedule.space import Tiling
from benchgraph.tune.search import SearchResult

GOAL = 1.10  # goal for the schedule's choice over the best
BELOW = "below"  # stands for what is too long for a column

# head -> format of its cells; the case follows in full
_FORMS = {
    "chosen": "<15", "best": "<15", "ratio": ">5", "median": ">6", "by cost": ">7", "GFLOP/s": ">7", "% peak": ">6", "tried": ">9",
}  # fmt: skip
_SPARE = ("median", "GFLOP/s", "tried", "% peak", "by cost")  # columns left out on a narrow terminal, in this order
_CASE = 24  # columns reserved for the case


@dataclass(frozen=True)
class Outcome:
    """Of one nest. legal: how many schedules it can have. flops: of one execution of what was measured. nest: its text, '' where the case
    has no other."""

    repro: str
    found: SearchResult
    legal: int
    flops: int
    nest: str = ""

    @property
    def label(self) -> str:
        return f"{self.repro}: {self.nest}" if self.nest else self.repro


def heading(machine: str, width: int) -> str:
    """A legend and the column heads: parameters of the compiler's and of the best choice, and the ratio of their times."""
    heads = _row(dict(zip(_FORMS, _FORMS, strict=True)), "case", width)
    legend = f"{machine}\nratio: minimum time of the schedule's choice over that of the best one; by cost: of the choice of least cost"
    legend += "; split: columns are tasks; 64/256: all rows by 256 columns in calls of 64, then by the next 256"
    return f"{folded(legend, width)}\n\n{heads}"


def line(o: Outcome, width: int) -> str:
    """width: of the terminal; a longer case is wrapped by it. Schedules that are no product's are lines of their own."""
    result, tried = o.found, f"{o.found.tried}" if o.found.tried >= o.legal else f"{o.found.tried}/{o.legal}"
    rate = o.flops / result.chosen.min_s
    share = f"{rate / median(result.peaks):.0%}" if result.peaks else ""
    times = f"{result.ratio:.3f}", f"{result.median_ratio:.3f}", f"{result.cheapest_ratio:.3f}"
    schedules = [parse(measured.choice.schedule) for measured in (result.chosen, result.best)]
    choices = [_parameters(schedule) for schedule in schedules]
    row = _row(dict(zip(_FORMS, (*choices, *times, f"{rate / 1e9:.1f}", share, tried), strict=True)), o.nest or o.repro, width)
    if BELOW not in choices:
        return row
    chosen, best = schedules
    said = [f"chosen, best: {best}"] if chosen == best else [f"chosen: {chosen}", f"best: {best}"]
    return "\n".join([row, *(folded(f"  {text}", width, 4) for text in said)])


def case_line(repro: str, spaces: Sequence[int], choices: int, width: int) -> str:
    """A case of several nests, whose lines follow. spaces: how many schedules each can have. choices: so many are tried, 0: all."""
    tried = f", of which {choices} of each are tried" if 0 < choices < max(spaces) else ""
    return folded(f"{repro}: {counted(len(spaces), 'nest')}, {counted(sum(spaces), 'schedule')}{tried}", width)


def _row(cells: dict[str, str], case: str, width: int) -> str:
    """cells: by head."""
    texts = {head: f"{cells[head]:{form}}" for head, form in _FORMS.items()}
    heads = list(texts)
    kept = fitting([list(texts.values())], width - _CASE - BETWEEN, [heads.index(head) for head in _SPARE], len(texts["chosen"]))
    return " | ".join([*(texts[heads[i]] for i in kept), case])


def _parameters(schedule: Schedule) -> str:
    t = Tiling.read(schedule)
    if t is None:  # of several products, or of a window
        return " x ".join(map(str, (*schedule.sizes("m"), *schedule.sizes("n")))) or BELOW
    columns = f"/{t.ns}" if t.ns else " split" if t.spreads else ""
    return f"{t.mb} x {t.nb}{columns}"


def stored(file: str, outcomes: Sequence[Outcome], width: int) -> str:
    """A line about --store: the file, the number of findings, of how many nests the choice is the best, and those of which this is not
    sure."""
    unsure = [o.label for o in outcomes if not o.found.is_sure]
    kept = sum(o.found.best == o.found.chosen for o in outcomes)
    count = len(outcomes) - len(unsure) - kept
    best = f", and none of {counted(kept, 'nest')} whose choice is the best" if kept else ""
    notes = [f"not stored, as by the median the best is no faster than the schedule's choice: {label}; raise --rounds" for label in unsure]
    return "\n".join(folded(text, width) for text in (f"\ntuning: {file}: {counted(count, 'finding')} stored{best}", *notes))


def summary(outcomes: Sequence[Outcome], width: int) -> str:
    schedule = _within([o.found.ratio for o in outcomes])
    by_cost = _within([o.found.cheapest_ratio for o in outcomes])
    cases = counted(len({o.repro if o.nest else o for o in outcomes}), "case")
    of = f"{counted(len(outcomes), 'nest')} of {cases}" if any(o.nest for o in outcomes) else cases
    texts = f"\n{of}: {schedule}", f"choices of least cost: {by_cost}"
    return "\n".join(folded(text, width) for text in texts)


def _within(ratios: Sequence[float]) -> str:
    within = sum(r <= GOAL for r in ratios)
    return (
        f"geometric mean of ratios {geometric_mean(ratios):.3f}, largest {max(ratios):.3f}; "
        f"{within} of {len(ratios)} within {GOAL - 1:.0%} of the best"
    )
