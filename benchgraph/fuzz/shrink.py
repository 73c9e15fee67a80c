"""The smallest graph that still fails, found by trying smaller ones in a fixed order (delta debugging).

A candidate is accepted if it is legal, simpler, and fails as the first one did. The simplifications then begin anew, until none of them
helps or the tries are used up.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass

from benchgraph.core.dtypes import DType
from benchgraph.core.errors import BenchgraphError
from benchgraph.core.tensor import PropertyType, dense_strides
from benchgraph.fuzz.simplifications import SIMPLIFICATIONS, Simplification
from benchgraph.graph.check import validate
from benchgraph.graph.ir import Graph

TRIES = 400  # executions of a candidate


@dataclass(frozen=True)
class Shrunk:
    """graph: the smallest that failed. tries: how many candidates were executed."""

    graph: Graph
    tries: int


def shrink(graph: Graph, fails: Callable[[Graph], bool], tries: int = TRIES) -> Shrunk:
    """graph: legal, with inferred shapes, and failing. fails(candidate): whether a candidate fails in the same way."""
    seen, spent = {graph}, 0
    accepted: Graph | None = graph
    while accepted is not None:
        graph, accepted = accepted, None
        for candidate in (c for simplification in SIMPLIFICATIONS for c in _legal(graph, simplification)):
            if candidate in seen:
                continue
            if spent == tries:
                return Shrunk(graph, spent)
            seen.add(candidate)
            spent += 1
            if fails(candidate):
                accepted = candidate
                break
    return Shrunk(graph, spent)


def _legal(graph: Graph, simplification: Simplification) -> Iterator[Graph]:
    """A simplification's candidates that are legal and simpler."""
    size = complexity(graph)
    for proposed in simplification(graph):
        with suppress(BenchgraphError):
            candidate = validate(proposed)
            if complexity(candidate) < size:
                yield candidate


def complexity(graph: Graph) -> tuple[int, ...]:
    """What shrinking reduces, the most important first."""
    tensors = graph.tensors.values()
    return (
        len(graph.ops),
        sum(len(op.inputs) + len(op.outputs) for op in graph.ops),
        sum(t.type.elements for t in tensors),
        sum(t.strides != dense_strides(t.known_shape) for t in tensors),
        sum(t.property_type is not PropertyType.undef for t in tensors),
        sum(t.dtype is not DType.f32 for t in tensors),
        sum(len(op.attrs) for op in graph.ops),
        sum(_oddness(v) for op in graph.ops for v in op.attrs.values()),
        len(tensors),
        sum(len(t.known_shape) for t in tensors),
    )


def _oddness(value: object) -> int:
    """How many numbers of an attribute are not 1."""
    values = value if isinstance(value, tuple) else (value,)
    return sum(isinstance(v, float) and v != 1.0 for v in values)
