"""Schedules that the options, the tuning file or the machine table prescribe, in place of those of least cost."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from benchgraph.gir.ir import Graph
from benchgraph.schedule.choose import Choice
from benchgraph.schedule.primitives import Schedule, parse
from benchgraph.schedule.tuning import not_legal


def forced_or_chosen(g: Graph, nest: str, space: Iterable[Schedule], choose: Callable[[], Choice]) -> tuple[Schedule, str]:
    """The schedule of a nest, and why: that prescribed for its text, else that of least cost.

    space: all schedules that it can have. Raises ParseError for a prescribed one that is not among them.
    """
    schedule = forced_schedule(g, nest, space)
    if schedule is None:
        choice = choose()
        return choice.schedule, choice.why
    return schedule, f"{schedule}: {g.forced_by_nest[nest].why}"


def forced_schedule(g: Graph, nest: str, space: Iterable[Schedule]) -> Schedule | None:
    """The schedule that is prescribed for a nest, by its text. Raises ParseError for one that is not in its space."""
    if (forced := g.forced_by_nest.get(nest)) is None:
        return None
    schedule = parse(forced.schedule)
    if schedule not in space:
        raise not_legal(forced)
    return schedule
