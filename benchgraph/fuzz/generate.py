"""Graph i of seed S. It depends on these two, on the largest number of ops, on what a release of oneDNN has if one is named, and on the op
table alone.
"""

from __future__ import annotations

from random import Random

from benchgraph.core.errors import InvalidArguments
from benchgraph.core.formats import counted
from benchgraph.fuzz.draw import Tally
from benchgraph.fuzz.fair import unfair
from benchgraph.fuzz.grow import Growth
from benchgraph.graph.ir import Graph
from benchgraph.graph.json import FPMATH_MODES
from benchgraph.onednn.table import FPMATH_OF_INTEGERS, Version
from benchgraph.reference import domain

MAX_OPS = 30
ATTEMPTS = 100
ROUNDS = 4  # how often what was not fair is replaced
RELAXED = 0.25  # share of graphs under a math mode other than strict
OF_INTEGERS = 0.3  # and of these, of those whose mode goes for integers too
DATA_SEED = 0  # the harness's default --seed: the data, reals, on which a graph is fair


def generate(seed: int, index: int, max_ops: int = MAX_OPS, tally: Tally | None = None, release: Version | None = None) -> Graph:
    """A legal graph of 1 to max_ops ops, shapes inferred; on its data of seed 0 the reference can be held against it.

    release: of oneDNN, which has all that is drawn. Raises InvalidArguments where no attempt comes to a graph.
    """
    for attempt in range(ATTEMPTS):
        name = f"{seed}:{index}:{max_ops}:{attempt}"
        growth = Growth(Random(name), max_ops, tally or Tally(), _fpmath(Random(f"fpmath {name}"), release), release)
        wanted = max(1, round(max_ops * growth.rng.random() ** 1.5))  # more small graphs than large ones
        for _ in range(ROUNDS):
            growth.grow(wanted)
            _prune(growth, name)
            if len(growth.ops) >= wanted:
                break
        growth.finish()
        _prune(growth, name)  # what leaves the graph is looked at more closely
        if growth.ops:
            return growth.graph()
    what = f"none of {ATTEMPTS} attempts with at most {counted(max_ops, 'op')} came to a graph"
    raise InvalidArguments(what, fix="take another place, allow more ops, or a newer release")


def _fpmath(rng: Random, release: Version | None) -> tuple[str, bool]:
    """A math mode, and whether it goes for integers too. A draw of its own: graphs are what they are without it."""
    if rng.random() >= RELAXED:
        return "strict", False
    mode = rng.choice([m for m in FPMATH_MODES if m != "strict"])
    return mode, rng.random() < OF_INTEGERS and (release is None or release >= FPMATH_OF_INTEGERS)


def _prune(growth: Growth, name: str) -> None:
    """Take out what is not fair, until everything is: what is left may get other data, and other results may leave the graph."""
    while growth.ops:
        graph = growth.graph()
        bad = unfair(graph, domain(graph, DATA_SEED), name)
        if not bad:
            return
        growth.drop(bad)
