"""Executed partitions, and the dumps that hold their graphs.

A line of a log has the tensors at the border of a partition and the names of its ops, but neither their attributes nor which op reads
which. A dump beside the log has: with ONEDNN_GRAPH_DUMP=subgraph (or BENCHGRAPH_DUMP=subgraph) a program writes a JSON file for each
partition that it compiles. A dump belongs to a line if both have the same tensors at the border, by id, data type, shape and strides.
"""

from __future__ import annotations

from functools import cached_property
from pathlib import Path

from benchgraph.core.errors import BenchgraphError
from benchgraph.core.tensor import LayoutType, LogicalTensor
from benchgraph.graph import Graph, read
from benchgraph.importers.descriptors import Inexpressible
from benchgraph.importers.verbose_line import GraphFields

REMEDY = "run the program with ONEDNN_GRAPH_DUMP=subgraph (benchgraph: BENCHGRAPH_DUMP=subgraph) as well, and put its files beside the log"


class Dumps:
    """The dumps in a folder, read when the first line asks."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def of(self, line: GraphFields) -> Path:
        """The dump of a partition. Raises Inexpressible."""
        border = _border_of_line(line.tensors)
        fitting = [path for path, graph in self._graphs.items() if _border(graph) == border]
        if not fitting:
            raise Inexpressible("the log has no attributes of its ops, and no dump beside it has its tensors", fix=REMEDY)
        named = [path for path in fitting if path.name.startswith(f"graph-{line.partition_id}-")]
        return (named or fitting)[0]

    @cached_property
    def _graphs(self) -> dict[Path, Graph]:
        graphs = dict[Path, Graph]()
        for path in sorted(self._folder.glob("graph-*.json")):
            try:
                graphs[path] = read(path)
            except BenchgraphError:  # not a dump, or a torn one: a line that needs it says that none fits
                continue
        return graphs


def _border(graph: Graph) -> frozenset[str]:
    sides = (("in", graph.inputs), ("out", graph.outputs))
    return frozenset(f"{side}:{_tensor(t)}" for side, tensors in sides for t in tensors)


def _tensor(t: LogicalTensor) -> str:
    strides = "s".join(map(str, t.get_strides())) if t.layout_type is LayoutType.strided else "?"
    return f"{t.dtype.value}:{t.id}:{'x'.join(map(str, t.shape or ()))}:{strides}"


def _border_of_line(tensors: str) -> frozenset[str]:
    """in0_f32:0:strided:variable:128x13:13s1 -> in:f32:0:128x13:13s1. Raises Inexpressible."""
    border = set[str]()
    for word in tensors.split():
        port, _, rest = word.partition("_")
        parts = rest.split(":")
        if len(parts) != 6 or parts[2] != "strided":
            raise Inexpressible(f"the tensor '{word}' has no strides: its layout is the library's own", fix="import the whole graph's dump")
        dtype, id, _, _, shape, strides = parts
        border.add(f"{port.rstrip('0123456789')}:{dtype}:{id}:{shape}:{strides}")
    return frozenset(border)
