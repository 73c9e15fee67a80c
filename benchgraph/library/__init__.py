"""The oneDNN Graph programming model, and the protocol of libraries under test.

engine.py              Engine, Stream
tensor.py              Tensor
op.py                  Op
graph.py               Graph: add ops, finalize, get partitions
partition.py           Partition, FpmathMode
compiled_partition.py  CompiledPartition
cache.py               a bounded cache: of compiled partitions, and of bound buffers
verbose.py             the log of compilations and executions
dump.py                graphs and partitions as JSON files
protocol.py            the interface between the harness and a library
remote.py              a library in a process of its own: requests, shared memory, errors when it ends
profile.py             partitions whose executions tell the times of their layers
own_library.py         this package's compiler behind the protocol
compile_jobs.py        compiles several partitions in parallel
compile_worker.py      a worker process of compile_jobs.py
"""

from __future__ import annotations

from benchgraph.library.protocol import Library


def benchgraph_library() -> Library:
    """Our library, for the current target (BENCHGRAPH_ISA, BENCHGRAPH_THREADS)."""
    from benchgraph.library.own_library import Benchgraph  # llvmlite is slow to import, and mode L never compiles

    return Benchgraph()
