"""Schedules of windows in tests: every one of a space, given ones, and those that are chosen."""

from __future__ import annotations

from collections.abc import Iterator
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


def candidates(g: Graph, node: FusedOp, target: Target) -> Iterator[tuple[Schedule, ...]]:
    """Schedules for the windows of a nest: each of the space of each window is in one of them, of those that differ in parallel loops the
    last, with the most."""
    every = (space(windows.nest(g, node.ops[0]), target.isa.registers) for windows in windows_of(g, node))
    spaces = [tuple({schedule.with_parallel(()): schedule for schedule in schedules}.values()) for schedules in every]
    for i in range(max(map(len, spaces))):
        yield tuple(schedules[min(i, len(schedules) - 1)] for schedules in spaces)


def lowered_as(graph: ApiGraph, schedule: str, pipeline: tuple[Pass[Func], ...] = PIPELINE, target: Target = TARGET) -> Func:
    """The main function after the passes of a pipeline, of a graph whose only nest of windows has this schedule for its last window."""
    g = scheduled(graph, target)
    (node,) = (n for n in g.nodes if isinstance(n, FusedOp) and n.ops[0].lowering.is_window)
    schedules = (*node.schedules[:-1], parse(schedule))
    return run(lower(with_schedules(g, node.name, schedules)).main, target, observe=lambda *_: None, pipeline=pipeline)


def windows(graph: ApiGraph) -> Windows:
    """The last window of a graph's only nest of windows."""
    g = scheduled(graph)
    (node,) = (n for n in g.nodes if isinstance(n, FusedOp) and n.ops[0].lowering.is_window)
    return windows_of(g, node)[-1]


def chosen(graph: ApiGraph, target: Target = TARGET) -> Schedule:
    """Its schedule."""
    (node,) = (n for n in scheduled(graph, target).nodes if isinstance(n, FusedOp) and n.ops[0].lowering.is_window)
    return node.schedules[-1]


def with_schedules(g: Graph, name: str, schedules: tuple[Schedule, ...]) -> Graph:
    """The graph with these in the nest of this name."""
    nodes = (replace(n, schedules=schedules) if isinstance(n, FusedOp) and n.name == name else n for n in g.nodes)
    return replace(g, nodes=tuple(nodes))
