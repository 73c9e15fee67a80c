"""Where rounding errors grow from op to op so much that a result in f32 proves nothing.

The square of a tensor doubles its relative error, and an exponential turns an absolute error into a relative one: after a dozen of them
right code may give anything, whatever the data. The graph is evaluated with noise (rounding_noise.py) of either sign; results that it moves
much farther than the tolerance depend on rounding errors. In a well-conditioned graph noise of either sign moves results by about the
tolerance or less, since the tolerance grows with the number of ops and such noise with its square root.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from benchgraph.core.tensor import LogicalTensor
from benchgraph.graph.ir import Graph
from benchgraph.ops.spec import Array
from benchgraph.reference.accepted_results import runs_of
from benchgraph.reference.compare import failing
from benchgraph.reference.deep_graphs import sums_products
from benchgraph.reference.evaluate import evaluate, narrow_between
from benchgraph.reference.rounding_noise import RoundingNoise

RUNS = 8  # with noise, at most
FIRST = 2  # the first run with noise of either sign
# In tolerances: results that noise moves farther on average depend on it. In f32 the tolerance is all that rows allow; with narrow
# tensors it is ten times the effect of one rounding of each.
FAR, FAR_NARROW = 4.0, 0.5
STEPS = 1.0  # of integers: a tie moves by less
# Larger errors than so many times the noise have another cause, unless noise moves the number by so large a share
# that it is arbitrary.
TIMES, ANYWHERE = 16.0, 1 / 8
SURELY_CALM = 1 / 2  # of the threshold: if the first run moves nothing farther, the others are skipped
MOST = 1 / 4  # share of an output from which on all of it counts as dependent on rounding errors
REMEDY = "try a shallower graph"


def depends_on_rounding(
    graph: Graph, given: Mapping[int, Array], t: LogicalTensor, got: Array, want: Array, rtol: float, stored: frozenset[int] = frozenset()
) -> NDArray[np.bool_]:
    """The points of output t that may be wrong because of rounding errors. given: the elements of the graph's inputs; want: the reference;
    rtol: the tolerance; stored: as for `compare_output`.
    """
    narrow = narrow_between(graph)
    far = rtol * (FAR_NARROW if narrow else FAR)
    exact, squares, count = want.astype(np.float64), np.zeros(want.shape), 0

    def is_far(moved: NDArray[np.float64], times: float = 1.0) -> NDArray[np.bool_]:
        return failing(exact + moved, exact, t.dtype, far * times) if t.dtype.is_float else np.asarray(moved > STEPS * times)

    with np.errstate(over="ignore", invalid="ignore"):
        for run in range(FIRST, FIRST + min(RUNS, runs_of(graph))):
            noise = RoundingNoise(run, perturbs_operands=sums_products)
            for rounded in (None, noise.random_half(narrow) | stored) if narrow else (None,):
                noisy = evaluate(graph, given, stored=rounded, noise=noise)[t.id].astype(np.float64)
                squares += (noisy - exact) ** 2
                count += 1
            if run == FIRST and not is_far(np.sqrt(squares / count), SURELY_CALM).any():
                return np.zeros(want.shape, np.bool_)
        moved = np.sqrt(squares / count)
        off = np.abs(got.astype(np.float64) - exact)
        is_alike = (off <= TIMES * moved) | ~(moved < ANYWHERE * np.abs(exact))
    depends = np.asarray(is_far(moved) & is_alike)
    return np.ones_like(depends) if depends.size and np.mean(depends) > MOST else depends
