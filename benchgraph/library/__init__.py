"""The oneDNN Graph programming model, and libraries under test.

engine.py tensor.py            what users program: Engine, Stream, Tensor, and
graph.py partition.py          Graph -> Partition
compiled_partition.py          -> CompiledPartition
cache.py                       compiled partitions and bound buffers, bounded
protocol.py ours.py            what the harness asks of a library, and the compiler of this package behind it
"""

from __future__ import annotations

from benchgraph.library.protocol import Library


def benchgraph_library() -> Library:
    """Our library, for the current target (BENCHGRAPH_ISA, BENCHGRAPH_THREADS)."""
    from benchgraph.library.ours import Benchgraph  # llvmlite is slow to import, and mode L never compiles

    return Benchgraph()
