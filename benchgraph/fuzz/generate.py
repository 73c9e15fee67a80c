"""Graph i of seed S. It depends only on these two, the largest number of ops, a release of oneDNN if given, and the op table."""

from __future__ import annotations

from random import Random

from benchgraph.core.errors import InvalidArguments
from benchgraph.core.formats import counted
from benchgraph.fuzz.draw import Tally
from benchgraph.fuzz.grow import Growth
from benchgraph.fuzz.sensitivity import too_sensitive
from benchgraph.graph.ir import Graph
from benchgraph.graph.json import FPMATH_MODES
from benchgraph.onednn.table import FPMATH_OF_INTEGERS, Version
from benchgraph.reference import domain

MAX_OPS = 30
ATTEMPTS = 100
ROUNDS = 4  # how often sensitive ops are replaced
RELAXED = 0.25  # share of graphs under a math mode other than strict
OF_INTEGERS = 0.3  # and of these, of those whose mode applies to integers too
DATA_SEED = 0  # the default --seed: the data, reals, for which sensitivity is checked


def generate(seed: int, index: int, max_ops: int = MAX_OPS, tally: Tally | None = None, release: Version | None = None) -> Graph:
    """A legal graph of 1 to max_ops ops, shapes inferred, which can be compared with the reference on data of seed 0.

    release: a version of oneDNN that supports the whole graph. Raises InvalidArguments if no attempt yields a graph.
    """
    for attempt in range(ATTEMPTS):
        name = f"{seed}:{index}:{max_ops}:{attempt}"
        growth = Growth(Random(name), max_ops, tally or Tally(), _fpmath(Random(f"fpmath {name}"), release), release)
        n_ops = max(1, round(max_ops * growth.rng.random() ** 1.5))  # more small graphs than large ones
        for _ in range(ROUNDS):
            growth.grow(n_ops)
            _prune(growth, name)
            if len(growth.ops) >= n_ops:
                break
        growth.finish()
        _prune(growth, name)  # outputs of the graph are checked more strictly
        if growth.ops:
            return growth.graph()
    what = f"none of {ATTEMPTS} attempts with at most {counted(max_ops, 'op')} came to a graph"
    raise InvalidArguments(what, fix="take another place, allow more ops, or a newer release")


def _fpmath(rng: Random, release: Version | None) -> tuple[str, bool]:
    """A math mode, and whether it applies to integers too. Has its own random numbers: graphs do not depend on it."""
    if rng.random() >= RELAXED:
        return "strict", False
    mode = rng.choice([m for m in FPMATH_MODES if m != "strict"])
    return mode, rng.random() < OF_INTEGERS and (release is None or release >= FPMATH_OF_INTEGERS)


def _prune(growth: Growth, name: str) -> None:
    """Remove ops until none is too sensitive; each removal changes data and outputs of the rest."""
    while growth.ops:
        graph = growth.graph()
        sensitive = too_sensitive(graph, domain(graph, DATA_SEED), name)
        if not sensitive:
            return
        growth.drop(sensitive)
