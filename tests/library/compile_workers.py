"""A process that compiles for this one, started and idle."""

from __future__ import annotations

from benchgraph.graph import GraphBuilder
from benchgraph.library.compile_jobs import compile_partitions, settle, worker_pool
from benchgraph.library.compile_worker import State
from benchgraph.partition.ir import Partition, Policy
from benchgraph.partition.partitioner import partitions


def little() -> tuple[Partition, ...]:
    """Three that are soon compiled."""
    b = GraphBuilder()
    for n in (3, 5, 7):
        b.op("ReLU", b.input((n,)))
    return partitions(b.graph(), Policy.fused)


def started() -> int:
    """The process of one that has started."""
    if not worker_pool().workers:
        list(compile_partitions(little()))
    settle()
    (found,) = worker_pool().workers
    assert found.state is State.free
    return found.pid
