"""The nests of a partition whose schedule is chosen: the compiler's choice, and all that each can have."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import TypeAlias

from benchgraph.compile import scheduled
from benchgraph.core.options import Forced
from benchgraph.gir.build import from_partition
from benchgraph.gir.elements import element_nest
from benchgraph.gir.elements import nest_text as elements_text
from benchgraph.gir.ir import FusedOp, Graph
from benchgraph.gir.nest_schedule import product_schedule
from benchgraph.gir.product_space import product_space
from benchgraph.gir.windows import window_nest
from benchgraph.machine.target import Target, current
from benchgraph.partition.ir import Partition
from benchgraph.schedule.cost import Breakdown, Costs
from benchgraph.schedule.elements import space as element_space
from benchgraph.schedule.elements_cost import ElementCosts
from benchgraph.schedule.primitives import Schedule
from benchgraph.schedule.tuning import of_table
from benchgraph.schedule.window import space as window_space
from benchgraph.schedule.window_cost import WindowCosts


@dataclass(frozen=True)
class Candidates:
    """nest: its text. chosen: by the compiler without a tuning file (by a row of the machine's table, or of least cost). space: all
    schedules that it can have, that one first. cost: of one of them."""

    nest: str
    chosen: Forced
    space: tuple[Schedule, ...]
    cost: Callable[[Schedule], Breakdown] = field(repr=False, compare=False)

    @cached_property
    def legal(self) -> tuple[Forced, ...]:
        """As a tuning file says them."""
        return tuple(self._forced(schedule) for schedule in self.space)

    @cached_property
    def cheapest(self) -> Forced:
        """That of least cost (with panels of any width)."""
        return self._forced(min(self.space, key=lambda schedule: self.cost(schedule).total))

    def _forced(self, schedule: Schedule) -> Forced:
        return Forced(self.nest, str(schedule))


def candidates(partition: Partition, target: Target | None = None) -> tuple[Candidates, ...]:
    """Those of its nests that every execution computes and that have a choice, in order, each text once. Raises what compile_partition
    raises."""
    target = target or current()
    free = replace(partition, options=replace(partition.options, forced=of_table(target)))
    g = scheduled(from_partition(free), free, target)
    nodes = (nest for nest in g.nests if not g.is_init(nest))
    found = {each.nest: each for node in nodes for kind in KINDS for each in kind(g, node, target)}
    return tuple(each for each in found.values() if len(each.space) > 1)


def _candidates(nest: str, chosen: Schedule, schedules: Iterator[Schedule], cost: Callable[[Schedule], Breakdown]) -> Candidates:
    return Candidates(nest, Forced(nest, str(chosen)), tuple(dict.fromkeys((chosen, *schedules))), cost)


def _products(g: Graph, node: FusedOp, target: Target) -> Iterator[Candidates]:
    """That of a nest of products."""
    if not node.row_products or node.parameters is None:
        return
    space = product_space(g, node, target)
    yield _candidates(space.text, product_schedule(g, node, target), space.schedules(target), Costs(space.nest, target))


def _windows(g: Graph, node: FusedOp, target: Target) -> Iterator[Candidates]:
    """That of a window."""
    if node.ops[0].lowering.is_window and node.schedule is not None:
        nest, text = window_nest(g, node)
        yield _candidates(text, node.schedule, window_space(nest, target.isa.registers), WindowCosts(nest, target))


def _elements(g: Graph, node: FusedOp, target: Target) -> Iterator[Candidates]:
    """That of a nest without a product and without a window."""
    if node.schedule is not None and not node.ops[0].lowering.is_window and (nest := element_nest(g, node)) is not None:
        costs = partial(ElementCosts(nest, target), most_cores=target.cores)
        yield _candidates(elements_text(g, node), node.schedule, element_space(nest, target), costs)


Kind: TypeAlias = Callable[[Graph, FusedOp, Target], Iterator[Candidates]]
# For each kind of nest, those of a fused op after all passes. Where a schedule is chosen, one of them that is prescribed for the nest's
# text takes its place: `schedule.tuning.forced_or_chosen`.
KINDS: tuple[Kind, ...] = (_products, _windows, _elements)
