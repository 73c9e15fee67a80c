"""What -v adds to a case's status line, at benchdnn's levels where benchdnn prints the same."""

from __future__ import annotations

from collections.abc import Iterator

from benchgraph.graph.ir import Graph
from benchgraph.graph.text import print_graph
from benchgraph.options.problem import Problem
from benchgraph.present import fallback
from benchgraph.reference import plan
from benchgraph.results.result import Result

ACCURACY_LEVEL, WARNINGS_LEVEL, PARTITIONS_LEVEL, DATA_LEVEL, GRAPH_LEVEL = 1, 2, 3, 6, 7


def before(problem: Problem, graph: Graph) -> Iterator[str]:
    """The graph; which of its inputs a rule displaces, and what all of them hold."""
    g = problem.globals
    if g.verbose >= GRAPH_LEVEL:
        yield print_graph(graph).rstrip()
    if g.verbose < PARTITIONS_LEVEL or g.has_no_reference or g.mode.is_timed or problem.fill != "integers":
        return
    for planned in plan(graph):
        if planned.rule:
            yield f"[DISPLACE]: {planned}"
        elif g.verbose >= DATA_LEVEL:
            yield f"[FILL]: {planned}"


def after(result: Result, verbose: int) -> Iterator[str]:
    """Partitions, accuracy, notes and warnings."""
    if verbose >= PARTITIONS_LEVEL:
        for policy, partitions in result.partitions.items():
            ops = " ".join("{" + " ".join(map(str, p)) + "}" for p in partitions)
            yield f"[INFO]: {policy}: n_partitions:{len(partitions)}; ops_in_partitions: {ops}"
    if verbose >= DATA_LEVEL:
        yield from (f"[COMPARE_CONFIG]: {a.configuration}" for a in result.accuracy)
    if verbose >= ACCURACY_LEVEL:
        yield from (f"[COMPARE]: {a}" for a in result.accuracy)
        yield from fallback.lines(result)
        yield from result.notes
    if verbose >= WARNINGS_LEVEL:
        yield from (f"[WARNING]: {w}" for w in result.warnings)
