"""Graph i of seed S. It depends on these two, on the largest number of ops, and on the op table alone."""

from __future__ import annotations

from random import Random

from benchgraph.graph.ir import Graph
from benchgraph.harness.fuzz.draw import Tally
from benchgraph.harness.fuzz.fair import unfair
from benchgraph.harness.fuzz.grow import Growth
from benchgraph.reference import domain

MAX_OPS = 30
ROUNDS = 4  # how often what was not fair is replaced
DATA_SEED = 0  # the harness's default --seed: the data, reals, on which a graph is fair


def generate(seed: int, index: int, max_ops: int = MAX_OPS, tally: Tally | None = None) -> Graph:
    """A legal graph of 1 to max_ops ops, shapes inferred; on its data of seed 0 the reference can be held against it."""
    for attempt in range(100):
        name = f"{seed}:{index}:{max_ops}:{attempt}"
        growth = Growth(Random(name), max_ops, tally or Tally())
        wanted = max(1, round(max_ops * growth.rng.random() ** 1.5))  # more small graphs than large ones
        for _ in range(ROUNDS):
            growth.grow(wanted)
            while growth.ops and (bad := _unfair(growth, name)):
                growth.drop(bad)
            if len(growth.ops) >= wanted:
                break
        if growth.ops:
            growth.finish()
            return growth.graph()
    raise AssertionError(f"no graph for seed {seed}, index {index}")


def _unfair(growth: Growth, name: str) -> set[int]:
    graph = growth.graph()
    return unfair(graph, domain(graph, DATA_SEED), name)
