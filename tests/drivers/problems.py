"""Problems from command lines, and the modules that drivers share."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from benchgraph.graph.ir import Graph
from benchgraph.options.argv import parse
from benchgraph.options.plugins import load_driver
from benchgraph.options.problem import Problem


def shared(name: str) -> Any:
    """The module drivers/_<name>.py."""
    load_driver("matmul")
    return import_module(f"benchgraph_drivers._{name}")


def problem(*words: str) -> Problem:
    (found,) = parse(list(words)).problems
    return found


def graph(*words: str) -> Graph:
    return problem(*words).graph()


def kinds(*words: str) -> list[str]:
    """The ops of a problem's graph, in order."""
    return [op.kind for op in graph(*words).order]


def shapes(*words: str) -> tuple[list[tuple[int, ...]], list[tuple[int, ...]]]:
    """The shapes of a graph's inputs and outputs."""
    g = graph(*words)
    return [t.known_shape for t in g.inputs], [t.known_shape for t in g.outputs]
