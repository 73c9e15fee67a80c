"""Graphs and compiled partitions as oneDNN Graph JSON files.

    graph-<id>.json                   a graph, when its partitions are requested
    graph-<id>-partitioning.json      the same after partitioning, with partition and backend of each op
    graph-<partition id>-<hash>.json  a compiled partition with its shapes and layouts; the hash is of these and its ops

They are written to the current directory, as oneDNN's are, and are cases for `benchgraph --driver graph --case`. Requested by
set_dump_mode, else by BENCHGRAPH_DUMP. On the command line the id of a graph is the index of its case, and with several policies each has a
file graph-<id>-<policy>-partitioning.json.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from enum import Flag
from hashlib import blake2b
from pathlib import Path

from benchgraph.core.config import config
from benchgraph.core.errors import BenchgraphError, InvalidArguments, Status
from benchgraph.core.version import __version__
from benchgraph.graph import Graph, Op, save
from benchgraph.partition.ir import Partition


class GraphDumpMode(Flag):
    """What is written (dnnl_graph_dump_mode_t); modes combine with |."""

    none = 0
    subgraph = 1
    graph = 2


_chosen: GraphDumpMode | None = None  # None: as the environment variable says


def set_dump_mode(modes: GraphDumpMode, *, allow_exception: bool = True) -> Status:
    """Set what is written from now on, overriding the environment variable.

    InvalidArguments for anything but the modes' bits; with allow_exception False returns the status instead of raising.
    """
    global _chosen
    try:
        _chosen = _checked(modes)
    except BenchgraphError as bad:
        if allow_exception:
            raise
        return bad.status
    return Status.success


def _checked(modes: object) -> GraphDumpMode:
    known = GraphDumpMode.subgraph | GraphDumpMode.graph
    bits = modes.value if isinstance(modes, GraphDumpMode) else modes
    if not isinstance(bits, int) or bits & ~known.value:
        fix = f"use {', '.join(map(str, GraphDumpMode.__members__.values()))}, or two of them with |"
        raise InvalidArguments(f"the dump mode is {modes!r}", where="set_dump_mode", fix=fix)
    return GraphDumpMode(bits)


def dump_mode() -> GraphDumpMode:
    """The mode in force."""
    if _chosen is not None:
        return _chosen
    mode = GraphDumpMode.none
    for name in config().dump:
        mode |= GraphDumpMode[name]
    return mode


def dump_graph(id: int, graph: Graph) -> None:
    """id: part of the file name; of the library's graphs their own number, on the command line the index of the case."""
    if GraphDumpMode.graph in dump_mode():
        _write(f"graph-{id}", graph)


def dump_partitioning(id: int | str, graph: Graph, partitions: Iterable[Partition]) -> None:
    if GraphDumpMode.graph in dump_mode():
        home = {op.id: p for p in partitions for op in p.ops}
        _write(f"graph-{id}-partitioning", replace(graph, ops=tuple(_assigned(op, home[op.id]) for op in graph.ops)))


def dump_partition(partition: Partition) -> None:
    if GraphDumpMode.subgraph in dump_mode():
        _write(f"graph-{partition.id}-{_hash(partition)}", partition.graph)


def _assigned(op: Op, partition: Partition) -> Op:
    """The op with oneDNN's attributes for its partition; readers drop them."""
    backend = "benchgraph" if partition.is_supported else "fake_backend"
    return replace(op, attrs=op.attrs.updated(partition_id=partition.id, backend=backend))


def _hash(partition: Partition) -> int:
    """A number for the ops and the logical tensors at the border that is the same in every process, unlike partition ids."""
    text = repr((partition.ops, partition.inputs, partition.outputs))
    return int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "big")


def _write(stem: str, graph: Graph) -> None:
    made, unread = graph.producers, [t.id for t in graph.outputs]
    inputs = tuple(t.id for op in graph.order for t in op.inputs if t.id not in made)
    full = replace(graph, version=__version__, input_ports=inputs, output_ports=tuple(unread))
    path = Path(f"{stem}.json")
    try:
        save(full, path)
    except OSError as bad:
        fix = "run in a directory you may write to, or switch the dump off"
        raise InvalidArguments(f"cannot write the file: {bad.strerror}", where=str(path), fix=fix) from bad
