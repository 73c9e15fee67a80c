"""Results stored column by column, as with channels first: all stores are vectors."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest

from benchgraph.core.dtypes import DType
from benchgraph.core.tensor import LogicalTensor
from benchgraph.graph.build import GraphBuilder
from benchgraph.tir import passes
from benchgraph.tir.ir import Func, Pack, Ramp, Stmt, Store
from benchgraph.tir.vector_loops import MOST_STRIDE
from benchgraph.tir.visit import walk
from tests.support.reference_check import matches_reference
from tests.support.targets import TARGET
from tests.support.tensor_ir import lowered, tir

CONVOLUTION = {
    "strides": (1, 1),
    "pads_begin": (0, 0),
    "pads_end": (0, 0),
    "dilations": (1, 1),
    "data_format": "NCX",
    "weights_format": "OIX",
}


def convolution(b: GraphBuilder, size: int = 16, channels: int = 48) -> LogicalTensor:
    return b.op("Convolution", b.input((2, 20, size, size)), b.constant((channels, 20, 1, 1)), **CONVOLUTION)


def chain(b: GraphBuilder) -> None:
    """With an operand with the result's strides, and one number per channel."""
    x = b.op("BiasAdd", convolution(b), b.constant((48,)), data_format="NCX")
    b.op("Add", b.op("GELU", x), b.input((2, 48, 16, 16)))


def long_rows(b: GraphBuilder) -> None:
    """Tasks of two heights, blocks of columns of two widths."""
    b.op("ReLU", convolution(b, size=70, channels=70))


def bytes_per_channel(b: GraphBuilder) -> None:
    """The sums are integers, and u8 is stored."""
    src = b.op("Dequantize", b.input((2, 20, 16, 16), DType.u8), qtype="per_tensor", scales=[0.02], zps=[3])
    wei = b.op("Dequantize", b.constant((48, 20, 1, 1), DType.s8), qtype="per_channel", axis=0, scales=[0.01] * 48, zps=[0] * 48)
    x = b.op("ReLU", b.op("Convolution", src, wei, **CONVOLUTION))
    b.op("Quantize", x, dtype=DType.u8, qtype="per_tensor", scales=[0.05], zps=[0])


GRAPHS: dict[str, Callable[[GraphBuilder], None]] = {f.__name__: f for f in (chain, long_rows, bytes_per_channel)}


def written_apart(f: Func) -> Iterator[Stmt]:
    """Stores of single elements to the result, or of vectors with large strides."""
    (result,) = (t for t in f.params if t.name in {s.tensor.name for s in walk(f.body) if isinstance(s, Store)})
    for s in walk(f.body):
        if (
            isinstance(s, Store)
            and s.tensor.name == result.name
            and not (isinstance(s.index[0], Ramp) and s.index[0].stride <= MOST_STRIDE)
        ):
            yield s


@pytest.mark.parametrize("name", GRAPHS)
def test_results_are_right(name: str) -> None:
    assert matches_reference(GRAPHS[name])


@pytest.mark.parametrize("name", GRAPHS)
def test_all_stores_are_vectors(name: str) -> None:
    assert [*written_apart(tir(GRAPHS[name]))] == []


def test_a_product_without_post_ops_is_transposed_into_its_result() -> None:
    b = GraphBuilder()
    dst = b.op("MatMul", b.input((33, 40)), b.constant((40, 70)))
    (op,) = b.graph().ops
    graph = replace(b.graph(), ops=(replace(op, outputs=(replace(dst, strides=(1, 33)),)),))
    low = lowered(graph)
    turns = [s for s in walk(passes.run(low.main, TARGET).body) if isinstance(s, Pack)]
    assert {turn.dst.tensor.name for turn in turns} == {low.outputs[0].name}
