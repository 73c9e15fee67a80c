"""compile_partition: what it refuses, and what its stages are."""

from __future__ import annotations

import pytest

from benchgraph.compile import compile_partition
from benchgraph.core.dtypes import DType
from benchgraph.core.errors import Unimplemented
from benchgraph.graph.build import GraphBuilder
from benchgraph.graph.ir import Graph
from benchgraph.graph.text import parse_graph
from benchgraph.partition.ir import Policy
from benchgraph.partition.partitioner import partitions


def first_partition(graph: Graph) -> object:
    return partitions(graph, Policy.fused)[0]


def test_an_op_that_nothing_computes_is_refused_by_name() -> None:
    graph = parse_graph("graph engine=cpu fpmath=strict {\n  %1: f32[4] = Wildcard#7(%0: f32[4])\n}")
    with pytest.raises(Unimplemented, match=r"op 7: Wildcard\): "):
        compile_partition(first_partition(graph))


@pytest.mark.parametrize(
    ("dtype", "message"),
    [
        ("undef", "op 3: Reorder: tensor 0: code generation for dtype undef; use one of f32"),
        ("s4", "op 3: Reorder: tensor 1: writing dtype s4; write s8 or u8"),
        ("u4", "op 3: Reorder: tensor 1: writing dtype u4; write s8 or u8"),
    ],
)
def test_a_dtype_without_code_generation_is_refused_with_op_and_remedy(dtype: str, message: str) -> None:
    graph = parse_graph(f"graph engine=cpu fpmath=strict {{\n  %1: {dtype}[4] = Reorder#3(%0: {dtype}[4])\n}}")
    with pytest.raises(Unimplemented, match=f"^{message}"):
        compile_partition(first_partition(graph))


def test_compile_time_is_reported() -> None:
    b = GraphBuilder()
    b.op("ReLU", b.input((4,), DType.f32))
    assert compile_partition(first_partition(b.graph())).compile_s > 0
