"""A process that compiles for this one, started and idle."""

from __future__ import annotations

from benchgraph.graph import GraphBuilder
from benchgraph.library.compile_jobs import compile_partitions, crew, settle
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
    if not crew().workers:
        list(compile_partitions(little()))
    settle()
    (found,) = crew().workers
    assert found.state is State.free
    return found.pid
