"""The schedule of least cost, with what it costs and what the runner-up does."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import groupby
from math import inf

from benchgraph.machine.target import Target
from benchgraph.schedule.cost import Breakdown, Cost, Costs
from benchgraph.schedule.primitives import Schedule
from benchgraph.schedule.space import space
from benchgraph.schedule.steps import Nest, share

ALIKE = 0.005  # share of a cost


@dataclass(frozen=True)
class Choice:
    """other: of least cost besides; None where there is only one schedule."""

    schedule: Schedule
    cost: Breakdown
    other: tuple[Schedule, Breakdown] | None

    @cached_property
    def why(self) -> str:
        """In words."""
        best = f"{self.schedule}: least cost, {self.cost}"
        if self.other is None:
            return best
        schedule, cost = self.other
        return f"{best}; next {schedule}: {cost}"


@lru_cache(maxsize=4096)
def choose(nest: Nest, widths: tuple[int, ...], target: Target, *, may_spread: bool) -> Choice:
    """Of all schedules, with calls of one of these widths where there is one product, one of least cost.

    Of those whose costs differ by less than estimates can tell: of one product one that has two tasks for each core, with the most rows in
    a call, and of these one that leaves columns together, as the next nest reads them, in the fewest tasks. (A single call of 512 rows took
    1.4 times as long as two of 256 for 512 x 512 x 256 on tile registers, whose cause is not known.) Of several products one of least work,
    what hides behind other work included.
    """
    ranked = sorted(_costed(nest, widths, target, may_spread=may_spread), key=lambda each: each[1].total)
    close = [each for each in ranked if each[1].total <= (1 + ALIKE) * ranked[0][1].total]
    best = min(close, key=lambda each: each[1].work if len(nest.steps) > 1 else _preference(nest, each[0], target.cores))
    others = [each for each in ranked if each is not best]
    return Choice(*best, others[0] if others else None)


def _costed(nest: Nest, widths: tuple[int, ...], target: Target, *, may_spread: bool) -> Iterator[tuple[Schedule, Cost]]:
    """Of several products, fewer rows of a task are left out where they have begun to cost more."""
    costs, best = Costs(nest, target), inf
    for _, alike in groupby(space(nest, widths, target.cores, may_spread=may_spread), lambda schedule: schedule.sizes("n")):
        before = inf
        for schedule in alike:
            cost = costs(schedule)
            yield schedule, cost
            if len(nest.steps) > 1 and cost.total > max(before, (1 + ALIKE) * best):
                break
            before, best = cost.total, min(best, cost.total)


def _preference(nest: Nest, schedule: Schedule, cores: int) -> tuple[bool, int, bool, int]:
    """Of schedules that cost the same, the least is best."""
    tasks = share(nest.extents, schedule, 1).tasks
    return tasks < 2 * cores, -schedule.sizes("m")[0], "n.0" in schedule.parallel, tasks
