"""Libraries under test. protocol.py is what the harness asks of one; ours.py is the compiler of this package behind it."""

from __future__ import annotations

from benchgraph.library.protocol import Library


def benchgraph_library() -> Library:
    """Our library, for the current target (BENCHGRAPH_ISA, BENCHGRAPH_THREADS)."""
    from benchgraph.library.ours import Benchgraph  # llvmlite is slow to import, and mode L never compiles

    return Benchgraph()
