"""The oneDNN Graph programming model, and libraries under test.

engine.py              Engine, Stream
tensor.py              Tensor
fpmath.py              FpmathMode
op.py                  Op
graph.py               Graph: add ops, finalize, get partitions
partition.py           Partition
compiled_partition.py  CompiledPartition
cache.py               a bounded cache: of compiled partitions, and of bound buffers
verbose.py             the log of compilations and executions
dump.py                graphs and partitions as JSON files
protocol.py            what the harness asks of a library
ours.py                the compiler of this package behind it
compile_jobs.py        several partitions compiled at once
compile_worker.py      a process that compiles partitions for another one
"""

from __future__ import annotations

from benchgraph.library.protocol import Library


def benchgraph_library() -> Library:
    """Our library, for the current target (BENCHGRAPH_ISA, BENCHGRAPH_THREADS)."""
    from benchgraph.library.ours import Benchgraph  # llvmlite is slow to import, and mode L never compiles

    return Benchgraph()
