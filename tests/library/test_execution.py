"""Compiling and executing: memory of the right size, lifetimes of objects, formats."""

from __future__ import annotations

import copy
import gc
import weakref
from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray

from benchgraph import Allocator, DType, Engine, Graph, LayoutType, LogicalTensor, Op, Partition, Policy, PropertyType, Stream, Tensor
from benchgraph.library import partition as partition_module
from benchgraph.library.cache import compiled_partitions
from tests.library.run import Arrays, built, execute

f32 = DType.f32
SRC, WEI = LogicalTensor(0, f32, (5, 16)), LogicalTensor(1, f32, (16, 9))
ACC, DST = LogicalTensor(2, f32), LogicalTensor(3, f32)
GUARD = 4096  # bytes on both sides
MATMUL, RELU = Op(10, "MatMul", inputs=[SRC, WEI], outputs=[ACC]), Op(11, "ReLU", inputs=[ACC], outputs=[DST])


def ones(shape: tuple[int, ...]) -> NDArray[np.float32]:
    return np.ones(shape, np.float32)


@pytest.mark.parametrize("strides", [None, (9, 1), (13, 1), (1, 5), (1, 8)])
def test_the_queried_size_suffices_and_nothing_beyond_it_is_touched(strides: tuple[int, ...] | None) -> None:
    """Memory of exactly get_mem_size bytes between guards; row-major, padded and transposed outputs."""
    engine = Engine()
    (partition,) = built([MATMUL.described, RELU.described]).get_partitions()
    dst = LogicalTensor(3, f32, None if strides is None else (5, 9), strides)
    compiled = partition.compile([SRC, WEI], [dst], engine)
    out = compiled.query_logical_tensor(3)
    assert out.shape == (5, 9)
    assert out.strides == (strides or (9, 1))
    raw = np.full(GUARD + out.get_mem_size() + GUARD, 0xA5, np.uint8)
    array = np.ndarray((5, 9), np.float32, buffer=raw, offset=GUARD, strides=[s * 4 for s in out.get_strides()])
    compiled.execute(Stream(engine), [Tensor(SRC, engine, ones((5, 16))), Tensor(WEI, engine, ones((16, 9)))], [Tensor(out, engine, array)])
    assert (array == 16).all()
    assert (raw[:GUARD] == 0xA5).all()
    assert (raw[GUARD + out.get_mem_size() :] == 0xA5).all()


def test_results_are_written_only_to_the_users_memory() -> None:
    """The tensor's array is the user's, before and after, and it holds the result."""
    engine = Engine()
    (partition,) = built([MATMUL.described, RELU.described]).get_partitions()
    compiled = partition.compile([SRC, WEI], [DST], engine)
    mine = np.full((5, 9), np.nan, np.float32)
    at = mine.ctypes.data
    out = Tensor(compiled.query_logical_tensor(3), engine, mine)
    compiled.execute(Stream(engine), [Tensor(SRC, engine, ones((5, 16))), Tensor(WEI, engine, ones((16, 9)))], [out])
    assert out.array is mine
    assert out.array.ctypes.data == at
    assert (mine == 16).all()


def test_a_second_compilation_compiles_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """The compiler is not even asked, and so the second time costs what a look-up costs; the code serves any iteration."""
    ops = [Op(501, "MatMul", inputs=[SRC, WEI], outputs=[ACC]), Op(502, "ReLU", inputs=[ACC], outputs=[DST])]
    engine = Engine()
    first, second = (built([op.described for op in ops]).get_partitions()[0] for _ in range(2))
    compiled = first.compile([SRC, WEI], [DST], engine)
    monkeypatch.setattr(partition_module, "compile_partition", None)
    hits = compiled_partitions.hits
    again = second.compile([SRC, WEI], [DST], engine)
    assert (compiled_partitions.hits, again.from_cache, again.executable is compiled.executable) == (hits + 1, True, True)
    out = Tensor(again.query_logical_tensor(3), engine)
    for value in range(5):
        src = Tensor(SRC, engine, ones((5, 16)) * np.float32(value))
        again.execute(Stream(engine), [src, Tensor(WEI, engine, ones((16, 9)))], [out])
        assert (out.array == 16 * value).all()


def test_objects_are_shared_and_live_as_long_as_they_are_needed() -> None:
    """Names may go; an engine stays while a tensor or a compiled partition needs it, and goes with the last."""

    class Counting(Engine):
        """An engine that can be watched."""

    engine = Counting(allocator=Allocator())
    watch = weakref.ref(engine)
    (partition,) = built([MATMUL.described, RELU.described]).get_partitions()
    compiled, stream, tensor = partition.compile([SRC, WEI], [DST], engine), Stream(engine), Tensor(SRC, engine)
    assert stream.engine is tensor.engine is engine
    del engine
    for name in ("stream", "tensor", "compiled"):
        gc.collect()
        assert watch() is not None, name
        if name == "stream":
            del stream
        elif name == "tensor":
            del tensor
        else:
            del compiled
    gc.collect()
    assert watch() is None


def test_logical_tensors_are_copied_like_numbers_and_ops_shared() -> None:
    op = Op(1, "ReLU", inputs=[SRC])
    assert copy.copy(SRC) == copy.deepcopy(SRC) == SRC
    same = op
    same.add_output(DST)
    assert op.outputs == [DST]


@pytest.mark.usefixtures("in_blocks")
@pytest.mark.parametrize("kind", ["SoftMax", "ReLU", "MatMul"])
def test_an_opaque_activation_needs_no_reorder_by_the_user(kind: str) -> None:
    """A product leaves its result in prescribed blocks; whatever op comes next, its partition takes them, or row-major memory."""
    src, wei, mid = LogicalTensor(0, f32, (24, 96)), LogicalTensor(1, f32, (96, 128)), LogicalTensor(2, f32, (24, 128))
    w2, dst = LogicalTensor(4, f32, (128, 8)), LogicalTensor(3, f32)
    products = Op(0, "MatMul", inputs=[src, wei], outputs=[mid]), Op(1, "MatMul", inputs=[mid, w2], outputs=[dst])
    producer, _ = built([op.described for op in products]).get_partitions(Policy.debug)
    attrs = {"axis": -1} if kind == "SoftMax" else {}
    consumer = Partition(Op(2, kind, inputs=[mid, w2] if kind == "MatMul" else [mid], outputs=[dst], **attrs))
    engine, rng = Engine(), np.random.default_rng(3)
    first = producer.compile([src, wei], [replace(mid, layout_type=LayoutType.any, strides=None)], engine)
    between = first.query_logical_tensor(2)
    assert between.layout_type is LayoutType.opaque
    assert not between.is_equal(mid)
    held = {t.id: Tensor(t, engine, rng.random(t.get_dims(), np.float32) - np.float32(0.5)) for t in (src, wei, w2)}
    held[2] = Tensor(between, engine)
    first.execute(Stream(engine), [held[0], held[1]], [held[2]])
    results = []
    for taken in (between, mid):
        if taken is mid:
            held[2] = Tensor(mid, engine)
            producer.compile([src, wei], [mid], engine).execute(Stream(engine), [held[0], held[1]], [held[2]])
        ins = [taken, w2] if kind == "MatMul" else [taken]
        second = consumer.compile(ins, [dst], engine)
        out = Tensor(second.query_logical_tensor(3), engine)
        second.execute(Stream(engine), [held[t.id] for t in ins], [out])
        results.append(out.array)
    np.testing.assert_allclose(results[0], results[1], rtol=1e-6)


# ---- convolution: the RFC's example, and data formats ----------------------------------------------------------------

CONV = {"strides": [1, 1], "pads_begin": [1, 1], "pads_end": [1, 1], "dilations": [1, 1]}


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0), (1, 2, 0)])
def test_conv_relu_conv_end_to_end_in_any_order_of_adding(order: tuple[int, ...]) -> None:
    """Two convolutions with a ReLU between them."""
    x, w0, w1 = LogicalTensor(0, f32, (2, 3, 8, 8)), LogicalTensor(1, f32, (4, 3, 3, 3)), LogicalTensor(2, f32, (4, 4, 3, 3))
    a, b, y = (LogicalTensor(i, f32) for i in (3, 4, 5))
    formats = {"data_format": "NCX", "weights_format": "OIX"}
    ops = [
        Op(0, "Convolution", inputs=[x, w0], outputs=[a], **CONV, **formats),
        Op(1, "ReLU", inputs=[a], outputs=[b]),
        Op(2, "Convolution", inputs=[b, w1], outputs=[y], **CONV, **formats),
    ]
    rng = np.random.default_rng(0)
    data: Arrays = {t.id: rng.random(t.get_dims(), np.float32) - np.float32(0.5) for t in (x, w0, w1)}
    got = execute(built([ops[i].described for i in order]).get_partitions(), data)[5]
    np.testing.assert_allclose(got, conv(np.maximum(conv(data[0], data[1]), 0), data[2]), rtol=1e-4, atol=1e-5)


def conv(x: NDArray, w: NDArray) -> NDArray:
    """3x3, stride 1, one pixel of padding; channels in front."""
    padded = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), axis=(2, 3))
    return np.einsum("nchwij,ocij->nohw", windows, w)


@pytest.mark.parametrize("data_format", ["NCX", "NXC"])
@pytest.mark.parametrize("weights_format", ["OIX", "XIO"])
def test_attributes_define_the_meaning_of_dims(data_format: str, weights_format: str) -> None:
    """A logical tensor has no format tag; the same convolution in four pairs of formats."""
    rng = np.random.default_rng(1)
    x, w = rng.random((2, 3, 7, 6), np.float32), rng.random((5, 3, 3, 3), np.float32) - np.float32(0.5)
    want = conv(x, w)
    if data_format == "NXC":
        x = np.ascontiguousarray(np.moveaxis(x, 1, -1))
    if weights_format == "XIO":
        w = np.ascontiguousarray(w.transpose(2, 3, 1, 0))
    src, wei, dst = LogicalTensor(0, f32, x.shape), LogicalTensor(1, f32, w.shape), LogicalTensor(2, f32)
    op = Op(0, "Convolution", inputs=[src, wei], outputs=[dst], data_format=data_format, weights_format=weights_format, **CONV)
    got = execute(built([op.described]).get_partitions(), {0: x, 1: w})[2]
    np.testing.assert_allclose(np.moveaxis(got, -1, 1) if data_format == "NXC" else got, want, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(("auto_pad", "begin", "end"), [("SAME_UPPER", 0, 1), ("SAME_LOWER", 1, 0), ("VALID", 0, 0)])
def test_auto_pad_is_computed_by_the_library(auto_pad: str, begin: int, end: int) -> None:
    """What a primitive would want as numbers; the pads given are then ignored."""
    rng = np.random.default_rng(2)
    x, w = rng.random((1, 2, 6, 6), np.float32), rng.random((3, 2, 2, 2), np.float32)
    src, wei = LogicalTensor(0, f32, x.shape), LogicalTensor(1, f32, w.shape, property_type=PropertyType.constant)
    more = {"data_format": "NCX", "weights_format": "OIX"}
    auto = Op(0, "Convolution", inputs=[src, wei], outputs=[LogicalTensor(2, f32)], **{**CONV, **more, "auto_pad": auto_pad})
    pads = {"pads_begin": [begin] * 2, "pads_end": [end] * 2}
    by_hand = Op(0, "Convolution", inputs=[src, wei], outputs=[LogicalTensor(2, f32)], **{**CONV, **more, **pads})
    got, want = (execute(built([op.described]).get_partitions(), {0: x, 1: w})[2] for op in (auto, by_hand))
    assert got.shape == (1, 3, 5 + begin + end, 5 + begin + end)
    np.testing.assert_array_equal(got, want)


def test_a_graph_is_thrown_away_after_partitioning() -> None:
    """Nothing of the library needs it any more."""
    g = Graph()
    g.add_op(MATMUL)
    g.finalize()
    (partition,) = g.get_partitions()
    watch = weakref.ref(g)
    del g
    gc.collect()
    assert watch() is None
    assert partition.compile([SRC, WEI], [ACC], Engine()).query_logical_tensor(2).shape == (5, 9)
