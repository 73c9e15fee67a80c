"""numpy's products, in the reference, run on one thread each.

They are small beside compilation, and BLAS threads that wait for each other cost much on a machine where anything else runs: the two
products of one attention case (GQA-f32-v2, 2 x 10 GFLOP in f64) took 19 s with four threads and less than 1.4 s with one while two other
processes were busy. Whoever sets these variables keeps what they say.
"""

from __future__ import annotations

from benchgraph.core.config import provide

SINGLE = {"OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}


def use_one_thread() -> None:
    """For this process, before it imports numpy, and for its child processes."""
    provide(SINGLE)
