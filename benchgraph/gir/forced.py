"""Schedules that the options or the tuning file prescribe, in place of those of least cost."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from benchgraph.gir.ir import Graph
from benchgraph.schedule.choose import Choice
from benchgraph.schedule.primitives import Schedule
from benchgraph.schedule.tuning import not_legal

FORCED = "given by the options or the tuning file"


def forced_or_chosen(g: Graph, nest: str, space: Iterable[Schedule], choose: Callable[[], Choice]) -> tuple[Schedule, str]:
    """The schedule of a nest, and why: that prescribed for its text, else that of least cost.

    space: all schedules that it can have. Raises ParseError for a prescribed one that is not among them.
    """
    schedule = g.forced_schedule(nest)
    if schedule is None:
        choice = choose()
        return choice.schedule, choice.why
    if schedule not in space:
        raise not_legal(nest, schedule)
    return schedule, f"{schedule}: {FORCED}"
