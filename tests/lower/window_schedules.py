"""Schedules of windows in tests: every one of a space, given ones, and those that are chosen."""

from __future__ import annotations

from dataclasses import replace

from benchgraph.core.passes import Pass
from benchgraph.gir.ir import FusedOp, Graph
from benchgraph.gir.windows import Windows, windows_of
from benchgraph.graph.ir import Graph as ApiGraph
from benchgraph.lower import lower
from benchgraph.machine.target import Target
from benchgraph.schedule.primitives import Schedule, parse
from benchgraph.schedule.window import space
from benchgraph.tir.ir import Func
from benchgraph.tir.passes import PIPELINE, run
from tests.support.graph_ir import scheduled
from tests.support.targets import TARGET


def window_nodes(g: Graph) -> list[FusedOp]:
    return [n for n in g.nodes if isinstance(n, FusedOp) and n.ops[0].lowering.is_window]


def candidates(g: Graph, node: FusedOp, target: Target) -> list[Schedule]:
    """Schedules for a nest of windows: of those that differ in parallel loops the last, with the most."""
    schedules = space(windows_of(g, node).nest(g, node.ops[0]), target.isa.registers)
    return [*{schedule.with_parallel(()): schedule for schedule in schedules}.values()]


def lowered_as(graph: ApiGraph, schedule: str, pipeline: tuple[Pass[Func], ...] = PIPELINE, target: Target = TARGET) -> Func:
    """The main function after the passes of a pipeline, of a graph whose last nest of windows has this schedule."""
    g = scheduled(graph, target)
    changed = with_schedule(g, window_nodes(g)[-1].name, parse(schedule))
    return run(lower(changed).main, target, observe=lambda *_: None, pipeline=pipeline)


def windows(graph: ApiGraph) -> Windows:
    """Those of a graph's last nest of windows."""
    g = scheduled(graph)
    return windows_of(g, window_nodes(g)[-1])


def chosen(graph: ApiGraph, target: Target = TARGET) -> Schedule:
    """The schedule of a graph's last nest of windows."""
    schedule = window_nodes(scheduled(graph, target))[-1].schedule
    assert schedule is not None
    return schedule


def with_schedule(g: Graph, name: str, schedule: Schedule) -> Graph:
    """The graph with this schedule in the nest of this name."""
    nodes = (replace(n, schedule=schedule) if isinstance(n, FusedOp) and n.name == name else n for n in g.nodes)
    return replace(g, nodes=tuple(nodes))
