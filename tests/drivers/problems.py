"""Problems from command lines, and the modules that drivers share."""

from __future__ import annotations

import shlex
from importlib import import_module
from typing import Any

import numpy as np
import pytest

from benchgraph.core.errors import BenchgraphError
from benchgraph.graph.ir import Graph
from benchgraph.options.argv import parse
from benchgraph.options.plugins import load_driver
from benchgraph.options.problem import Problem
from benchgraph.reference import evaluate


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


def evaluated(words: list[str], *data: np.ndarray) -> list[np.ndarray]:
    """The outputs of a problem's graph for its inputs, in the order in which the driver made them; g.inputs is in order of first use."""
    g = graph(*words)
    inputs = sorted(g.inputs, key=lambda t: t.id)
    found = evaluate(g, {t.id: x.astype(t.dtype.numpy) for t, x in zip(inputs, data, strict=True)})
    return [found[t.id] for t in sorted(g.outputs, key=lambda t: t.id)]


def assert_round_trip(*words: str) -> None:
    """The repro line is these words, and makes the same problem again."""
    found = problem(*words)
    assert found.repro == " ".join(words)
    assert problem(*shlex.split(found.repro)).graph() == found.graph()


def assert_refused(reason: str, *words: str) -> None:
    """The graph is not made, for a reason that stands behind the descriptor."""
    with pytest.raises(BenchgraphError) as bad:
        graph(*words)
    assert str(bad.value) == f"{words[-1]}: {reason}"
