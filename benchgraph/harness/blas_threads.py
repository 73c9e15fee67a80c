"""Limits numpy's products in the reference to one thread each.

They take little time compared with compilation, and BLAS threads that wait for each other are slow beside other programs
(docs/measurements/blas-threads.md). The user's environment variables take precedence.
"""

from __future__ import annotations

from benchgraph.core.config import provide

SINGLE = {"OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}


def use_one_thread() -> None:
    """For this process, before it imports numpy, and for its child processes."""
    provide(SINGLE)
