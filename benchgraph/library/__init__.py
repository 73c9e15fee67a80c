"""The oneDNN Graph programming model, and libraries under test.

op.py graph.py                 what users program: Op, Graph
partition.py                   -> Partition
compiled_partition.py          -> CompiledPartition
engine.py tensor.py fpmath.py  and what goes with them: Engine, Stream, Tensor, FpmathMode
cache.py                       compiled partitions and bound buffers, bounded
verbose.py dump.py             the log of compilations and executions; graphs and partitions as JSON files
protocol.py ours.py            what the harness asks of a library, and the compiler of this package behind it
compile_jobs.py                several partitions compiled at once, by this process and by
compile_worker.py              others
"""

from __future__ import annotations

from benchgraph.library.protocol import Library


def benchgraph_library() -> Library:
    """Our library, for the current target (BENCHGRAPH_ISA, BENCHGRAPH_THREADS)."""
    from benchgraph.library.ours import Benchgraph  # llvmlite is slow to import, and mode L never compiles

    return Benchgraph()
