"""The schedule of least cost, with what it costs and what the runner-up does."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from heapq import heapify, heappop, heappush
from itertools import groupby
from math import ceil, inf, prod
from typing import TypeAlias, TypeVar

from benchgraph.machine.target import Target
from benchgraph.schedule.cost import Breakdown, Cost, Costs
from benchgraph.schedule.primitives import Schedule
from benchgraph.schedule.space import Tiling, around, calls, in_blocks, row_tilings, tiled
from benchgraph.schedule.steps import Nest, follow_each_other, share

ALIKE = 0.005  # share of a cost
C = TypeVar("C", bound=Breakdown)


@dataclass(frozen=True)
class Choice:
    """other: of least cost besides; None where there is only one schedule."""

    schedule: Schedule
    cost: Breakdown
    other: tuple[Schedule, Breakdown] | None

    @classmethod
    def of(cls, best: tuple[Schedule, C], costed: Iterable[tuple[Schedule, C]]) -> Choice:
        """best: of those costed; the cheapest of the others is the runner-up."""
        return cls(*best, min((each for each in costed if each is not best), key=lambda each: each[1].total, default=None))

    @cached_property
    def why(self) -> str:
        """In words."""
        if self.other is None:
            return f"{self.schedule}: least cost, {self.cost}"
        schedule, cost = self.other
        least = "least cost" if self.cost.total <= cost.total else "about the least cost"
        return f"{self.schedule}: {least}, {self.cost}; next {schedule}: {cost}"


@lru_cache(maxsize=4096)
def choose(nest: Nest, widths: tuple[int, ...], target: Target, *, may_spread: bool, rows: tuple[int, ...] = ()) -> Choice:
    """The schedule of least cost. widths: columns of a call of the only product; rows: of such a call, any where none are given.

    Where costs differ by less than estimates can tell (ALIKE), nests of several products have the least work, what is hidden included. With
    one product these decide, in this order (`_preference`): two tasks or more for each core; the most rows in a call (but for 512 x 512 x
    256 on tile registers one call of 512 rows took 1.4 times as long as two of 256); tasks of all columns, as the next nest reads them; the
    fewest tasks, then the largest blocks of weights that are read in place; of blocks that are packed the fewest columns, whose sums a
    cache still holds when the next block is added, then the fewest rows.
    """
    ranked = sorted(_costed(nest, widths, target, may_spread=may_spread, rows=rows), key=lambda each: each[1].total)
    return Choice.of(_best(nest, ranked, target), ranked)


def cheaper(nest: Nest, width: int, target: Target, *, than: float, may_spread: bool, rows: tuple[int, ...]) -> float | None:
    """The cost of the only product with calls of so many columns, and of so many rows where any are given, if it is less."""
    costed = _costed(nest, (width,), target, may_spread=may_spread, rows=rows, below=than)
    ranked = sorted(costed, key=lambda each: each[1].total)
    cost = _best(nest, ranked, target)[1].total if ranked else inf
    return cost if cost < than else None


def whole_entries(nest: Nest, nb: int, target: Target) -> Cost:
    """Of the only product, if the weights of each batch entry are made as a whole: by one task, or by one for each core that it has. Where
    there are entries enough, those of the next are fetched."""
    gemm, entries = nest.first, prod(nest.first.batch)
    ns = ceil(gemm.n / (ceil(target.cores / entries) * nb)) * nb
    fetches, costs = (False, True) if follow_each_other(entries, target) else (False,), Costs(nest, target)
    tilings = (Tiling(gemm.m, nb, ns < gemm.n, ns, gemm.k, makes=True, fetches=each) for each in fetches)
    return min((costs(tiled(gemm, tiling)) for tiling in tilings), key=lambda cost: cost.total)


_Costed: TypeAlias = "tuple[Schedule, Cost]"


def _best(nest: Nest, ranked: Sequence[_Costed], target: Target) -> _Costed:
    """Of schedules by cost, the first that is preferred to those which cost the same."""
    close = [each for each in ranked if each[1].total <= (1 + ALIKE) * ranked[0][1].total]
    return min(close, key=lambda each: each[1].work if len(nest.steps) > 1 else _preference(nest, each[0], target.cores))


def _costed(
    nest: Nest, widths: tuple[int, ...], target: Target, *, may_spread: bool, rows: tuple[int, ...] = (), below: float = inf
) -> Iterator[_Costed]:
    """Those that can be the first by cost, or cost about as much; and the second, where the first need not cost less than `below`."""
    costs = Costs(nest, target)
    if len(nest.steps) > 1:
        yield from until_worse(row_tilings(nest), _without_rows, costs)
        return
    for nb in widths:
        if costs.least_in_blocks(nb) < below:
            yield from until_worse(in_blocks(nest, (nb,), target.cores, may_spread=may_spread, rows=rows), _without_rows, costs)
    first = second = below
    bounds = [(costs.least(*call, is_in_l1=True), call, False) for call in calls(nest, widths, rows)]
    heapify(bounds)
    while bounds:
        least, (mb, nb), is_full = heappop(bounds)
        if least > max(second if below == inf else first, (1 + ALIKE) * first):
            return
        if not is_full:
            heappush(bounds, (costs.least(mb, nb), (mb, nb), True))
            continue
        for schedule in around(nest, mb, nb, target.cores, may_spread=may_spread):
            cost = costs(schedule)
            first, second = sorted((first, second, cost.total))[:2]
            yield schedule, cost


def until_worse(
    schedules: Iterator[Schedule], kind: Callable[[Schedule], object], costs: Callable[[Schedule], C]
) -> Iterator[tuple[Schedule, C]]:
    """With their costs; further ones of a kind, which have fewer rows in a task or more tasks, are left out where they have begun to cost
    more."""
    best = inf
    for _, alike in groupby(schedules, kind):
        before = inf
        for schedule in alike:
            cost = costs(schedule)
            yield schedule, cost
            if cost.total > max(before, (1 + ALIKE) * best):
                break
            before, best = cost.total, min(best, cost.total)


def _without_rows(schedule: Schedule) -> tuple[object, ...]:
    """What schedules share that differ in rows of a task."""
    return schedule.sizes("n"), schedule.sizes("k"), schedule.parallel, schedule.prefetches


def _preference(nest: Nest, schedule: Schedule, cores: int) -> tuple[bool, int, bool, int, int]:
    """Of schedules that cost the same, the least is best."""
    tasks, ks, ns = share(nest.extents, schedule, 1).tasks, sum(schedule.sizes("k")), schedule.sizes("n")[0]
    of_blocks = (ns, ks) if schedule.packed else (tasks, -ks * ns)
    return tasks < 2 * cores, -schedule.sizes("m")[0], "n.0" in schedule.parallel, *of_blocks
