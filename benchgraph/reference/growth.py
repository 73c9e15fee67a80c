"""Where rounding errors grow from op to op, so that an answer in f32 says nothing of who computes it.

A product of a tensor with itself doubles the relative error of what it reads, and an exponential makes of an absolute error a relative
one: after a dozen of them right code is anywhere. No data mend that. The graph is evaluated with noise (noise.py) of either sign; results
that it moves much farther than the tolerance allows hang on rounding errors. Where a graph is well conditioned, noise of either sign moves
them by about the tolerance or less, for the tolerance grows with the number of ops and such noise with its root.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from benchgraph.core.tensor import LogicalTensor
from benchgraph.graph.ir import Graph
from benchgraph.ops.spec import Array
from benchgraph.reference.answers import runs_of
from benchgraph.reference.compare import failing
from benchgraph.reference.depth import sums_products
from benchgraph.reference.evaluate import evaluate, narrow_between
from benchgraph.reference.noise import Noise

RUNS = 8  # with noise, at most
FIRST = 2  # of the runs whose noise has either sign
# Tolerances: what noise moves farther, on the average, hangs on it. That of f32 is all that rows allow. Where tensors are narrow, the
# tolerance is ten times what one rounding of each does.
FAR, FAR_NARROW = 4.0, 0.5
STEPS = 1.0  # of integers: a tie moves by less
# What is wrong by more than so many times what noise does is wrong for another reason, but where noise moves so large a share of a number
# that nothing is left of it.
TIMES, ANYWHERE = 16.0, 1 / 8
SURELY_CALM = 1 / 2  # of what counts as far: where the first run moves nothing by more, the others will not either, and are saved
MOST = 1 / 4  # of an output: where so much hangs on rounding errors all of it does, though not every number in a few runs
REMEDY = "try a shallower graph"


def hang_on_rounding(
    graph: Graph,
    given: Mapping[int, Array],
    t: LogicalTensor,
    got: Array,
    want: Array,
    rtol: float,
    stored: frozenset[int] = frozenset(),
) -> NDArray[np.bool_]:
    """Which points of output t may be wrong because of rounding errors. given: the elements of the graph's inputs; want: the reference's
    answer; rtol: what it may be off by; stored: as `compare_output` takes it."""
    between = narrow_between(graph)
    far = rtol * (FAR_NARROW if between else FAR)
    exact, squares, count = want.astype(np.float64), np.zeros(want.shape), 0

    def is_far(moved: NDArray[np.float64], times: float = 1.0) -> NDArray[np.bool_]:
        return failing(exact + moved, exact, t.dtype, far * times) if t.dtype.is_float else np.asarray(moved > STEPS * times)

    with np.errstate(over="ignore", invalid="ignore"):
        for run in range(FIRST, FIRST + min(RUNS, runs_of(graph))):
            noise = Noise(run, moves_operands=sums_products)
            for rounded in (None, noise.some(between) | stored) if between else (None,):
                noisy = evaluate(graph, given, stored=rounded, noise=noise)[t.id].astype(np.float64)
                squares += (noisy - exact) ** 2
                count += 1
            if run == FIRST and not is_far(np.sqrt(squares / count), SURELY_CALM).any():
                return np.zeros(want.shape, np.bool_)
        moved = np.sqrt(squares / count)
        off = np.abs(got.astype(np.float64) - exact)
        is_alike = (off <= TIMES * moved) | ~(moved < ANYWHERE * np.abs(exact))
    hangs = np.asarray(is_far(moved) & is_alike)
    return np.ones_like(hangs) if hangs.size and np.mean(hangs) > MOST else hangs
