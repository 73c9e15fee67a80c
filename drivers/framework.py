"""framework: runs oneDNN Graph JSON dumps through a small framework on top of the library. `benchgraph --framework --case=mlp.json`"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from benchgraph.core.errors import did_you_mean
from benchgraph.options.knobs import knob
from benchgraph.options.parsers import boolean, natural, positive
from benchgraph.options.problem import CannotOverride, Driver

from ._overrides import expected, expected_partitions
from .graph import LOOPS
from .graph import Knobs as GraphKnobs
from .graph import build as build_graph

if TYPE_CHECKING:
    from pathlib import Path

    from benchgraph.graph import Graph
    from benchgraph.options.problem import Problem
    from benchgraph.results.result import Result


@dataclass(frozen=True)
class Some:
    """Ops by id or kind, as in MatMul+7."""

    ops: tuple[int | str, ...] = ()

    def __str__(self) -> str:
        return "+".join(map(str, self.ops))


def some(word: str) -> Some:
    """ID|KIND[+...]"""
    return Some(tuple(natural(part) if part.isascii() and part.isdecimal() else _kind(part) for part in word.split("+")))


def _kind(word: str) -> str:
    from benchgraph.ops import OPS  # and with it numpy, so only when a kind is named

    if word not in OPS:
        raise ValueError(did_you_mean(word, OPS) or "give ids of ops, or kinds that 'benchgraph ops' lists")
    return word


@dataclass(frozen=True)
class _Own:
    """How the framework runs a graph; what graph it is, the graph driver's knobs say."""

    train: bool = knob(False, boolean, "[BOOL]", "weights stay in the default layout, and may change", flag=True)
    iters: int = knob(3, positive, "N[,N...]", "runs; all must agree to the bit, and from the second on nothing is made anew", product=True)
    callers: int = knob(1, positive, "N[,N...]", "threads that run the one model at once", product=True)
    cache_capacity: int = knob(1024, natural, "N[,N...]", "compiled kernels kept per thread; 0 keeps none", product=True)
    fallback: Some = knob(Some(), some, "ID|KIND[+...][,...]", "ops that numpy runs instead of the library", product=True)
    no_prepack: bool = knob(False, boolean, "[BOOL]", "weights are left as they are", flag=True)
    no_opaque: bool = knob(False, boolean, "[BOOL]", "values between partitions are row-major", flag=True)


@dataclass(frozen=True)
class Knobs(GraphKnobs, _Own):
    """_Own's first: the case is what ends an option list."""

    expected_n_partitions: int = expected_partitions(0)  # which fallbacks change


def build(knobs: Knobs, file: Path) -> Graph:
    """The graph driver's. Raises CannotOverride for a fallback whose id no op has; a kind may be one of other cases."""
    from benchgraph.core.errors import InvalidArguments
    from benchgraph.graph.override.attrs import find_op

    graph = build_graph(knobs, file)
    try:
        for id in knobs.fallback.ops:
            if isinstance(id, int):
                find_op({op.id: op for op in graph.ops}, id)
    except InvalidArguments as bad:
        raise CannotOverride(bad.what, where=f"{file}: --fallback: {bad.where}", fix=bad.fix) from bad
    return graph


def run(problem: Problem, graph: Graph) -> Result:
    from benchgraph.harness.framework_check import run

    return run(problem, graph)


EXAMPLES = ("--framework --case=mlp.json", "-v1 --framework --fallback=SoftMax --case=attention.json")
DRIVER = Driver(
    "framework", "graphs through the framework layer", Knobs, build, expected, LOOPS, inputs="graph", run=run, examples=EXAMPLES
)
