"""Products of a batch of small matrices with shared weights, and the nest that they become."""

from __future__ import annotations

from dataclasses import replace

from benchgraph.core.options import Options
from benchgraph.core.tensor import PropertyType
from benchgraph.gir import ir as gir
from benchgraph.graph.build import GraphBuilder
from benchgraph.graph.ir import Graph
from benchgraph.partition.ir import Partition
from tests.support.partitions import partition_of


def matmul(entries: int, rows: int, *, one: bool = True, columns: int = 72) -> Graph:
    b = GraphBuilder()
    wei = b.input((216, columns) if one else (entries, 216, columns), property_type=PropertyType.constant)
    b.op("ReLU", b.op("MatMul", b.input((entries, rows, 216)), wei))
    return b.graph()


def nest(g: gir.Graph) -> gir.FusedOp:
    """That of the only product."""
    (found,) = (n for n in g.nodes if isinstance(n, gir.FusedOp) and n.parameters is not None)
    return found


def partition(graph: Graph) -> Partition:
    """Entries stay entries, as many rows would."""
    p = partition_of(graph)
    return replace(p, options=Options(off=("fold-batch",)))
