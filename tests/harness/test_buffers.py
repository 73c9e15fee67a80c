"""Buffers fit their logical tensors; values between partitions share memory only when they may."""

import numpy as np
import pytest

from benchgraph.core.arrays import elements
from benchgraph.core.dtypes import DType
from benchgraph.core.tensor import LogicalTensor
from benchgraph.graph import Graph, GraphBuilder
from benchgraph.harness.buffers import allocate, load_inputs, plan
from benchgraph.machine.target import LINE_BYTES
from benchgraph.partition.ir import Partition, Policy
from tests.support.fake_library import cut, partition


@pytest.mark.parametrize(
    ("shape", "strides", "dtype"),
    [
        ((3, 5), (5, 1), DType.f32),
        ((3, 5), (1, 3), DType.bf16),
        ((3, 5), (16, 2), DType.s8),
        ((3, 5), (5, 1), DType.f8_e4m3),
        ((3, 5), (16, 2), DType.f8_e5m2),
        ((), (), DType.f32),
        ((0, 4), (4, 1), DType.f32),
    ],
)
def test_an_array_has_the_tensors_layout(shape: tuple[int, ...], strides: tuple[int, ...], dtype: DType) -> None:
    a = allocate(LogicalTensor(0, dtype, shape, strides))
    assert (a.shape, a.dtype) == (shape, dtype.numpy)
    assert a.size == 0 or a.ctypes.data % LINE_BYTES == 0
    assert tuple(s // a.itemsize for s in a.strides) == strides
    a[...] = 1
    assert np.all(a == 1)


@pytest.mark.parametrize(("dtype", "numbers"), [(DType.s4, (-8, 7, -1)), (DType.u4, (0, 15, 8))])
def test_inputs_of_half_a_byte_are_packed(dtype: DType, numbers: tuple[int, ...]) -> None:
    b = GraphBuilder()
    src = b.input((3,), dtype)
    b.op("DynamicDequantize", src, b.input((1,)))
    graph = b.graph()
    values = np.array(numbers, dtype.numpy)
    held = load_inputs(graph, {src.id: values, src.id + 1: np.ones(1)})[src.id]
    assert (held.dtype, held.shape) == (np.uint8, (2,))
    assert held.ctypes.data % LINE_BYTES == 0
    np.testing.assert_array_equal(elements(held, src), values)


def one_each(graph: Graph) -> list[Partition]:
    return [partition(graph, i, ops, "") for i, ops in enumerate(cut(graph, Policy.one_op_each))]


def test_a_chain_needs_two_pieces() -> None:
    b = GraphBuilder()
    x = b.input((16,))
    for _ in range(5):
        x = b.op("ReLU", x)
    layout = plan(b.graph(), one_each(b.graph()))
    assert (layout.slots, layout.slot) == ((64, 64), {1: 0, 2: 1, 3: 0, 4: 1})


def test_a_value_used_later_keeps_its_memory() -> None:
    b = GraphBuilder()
    early = b.op("ReLU", b.input((16,)))
    x = early
    for _ in range(3):
        x = b.op("ReLU", x)
    b.op("Add", x, early)
    slot = plan(b.graph(), one_each(b.graph())).slot
    assert slot[early.id] not in [slot[id] for id in slot if id != early.id]


def test_a_piece_grows_when_no_free_one_is_large_enough() -> None:
    b = GraphBuilder()
    x = b.op("ReLU", b.op("ReLU", b.input((1, 4))))
    x = b.op("ReLU", b.op("Add", x, b.input((8, 4))))
    b.op("ReLU", x)
    layout = plan(b.graph(), one_each(b.graph()))
    assert sorted(layout.slots) == [128, 128]


def test_graph_outputs_have_memory_of_their_own() -> None:
    b = GraphBuilder()
    inner = b.op("ReLU", b.input((16,)))
    b.op("Exp", inner)
    b.end(inner)
    assert plan(b.graph(), one_each(b.graph())).slot == {}
