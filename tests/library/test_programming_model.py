"""The oneDNN Graph programming model; the requirement that a test shows stands in its docstring (S0: the specification, S2: the RFC)."""

from __future__ import annotations

import ctypes
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest

from benchgraph import Engine, FpmathMode, Graph, LogicalTensor, Stream, Tensor
from benchgraph.compile import compile_partition
from benchgraph.core.attrs import Attrs
from benchgraph.core.dtypes import DType
from benchgraph.core.errors import BenchgraphError, InvalidArguments, InvalidGraph, InvalidGraphOp, InvalidShape, OutOfMemory, Status
from benchgraph.core.tensor import UNKNOWN_DIM, LayoutType, PropertyType
from benchgraph.graph import Op
from benchgraph.library.cache import (
    compiled_partitions,
    get_compiled_partition_cache_capacity,
    set_compiled_partition_cache_capacity,
)
from benchgraph.library.compiled_partition import CompiledPartition
from benchgraph.partition.ir import Policy
from benchgraph.runtime.executable import Executable
from benchgraph.runtime.memory import Allocator

SRC, WEI, ACC = LogicalTensor(0, DType.f32, (5, 16)), LogicalTensor(1, DType.f32, (16, 9)), LogicalTensor(2, DType.f32)
DST = LogicalTensor(3, DType.f32)
MATMUL = Op(10, "MatMul", inputs=(SRC, WEI), outputs=(ACC,))
RELU = Op(11, "ReLU", inputs=(ACC,), outputs=(DST,))


def finalized(*ops: Op) -> Graph:
    g = Graph()
    for op in ops:
        g.add_op(op)
    g.finalize()
    return g


@pytest.fixture
def data() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    return rng.random((5, 16), np.float32) - 0.5, rng.random((16, 9), np.float32) - 0.5


def test_build_cut_compile_execute(data: tuple[np.ndarray, np.ndarray]) -> None:
    """Ops in any order, output shape inferred and queried, results in the user's memory."""
    (partition,) = finalized(RELU, MATMUL).get_partitions()
    engine = Engine()
    compiled = partition.compile([SRC, WEI], [DST], engine)
    out = compiled.query_logical_tensor(3)
    assert (out.shape, out.strides) == ((5, 9), (9, 1))
    result = np.full((5, 9), np.nan, np.float32)
    tensors = [Tensor(SRC, engine, data[0]), Tensor(WEI, engine, data[1])]
    compiled.execute(Stream(engine), tensors, [Tensor(out, engine, result)])
    np.testing.assert_allclose(result, np.maximum(data[0] @ data[1], 0), rtol=1e-5, atol=1e-6)


def test_add_op_verifies_the_schema() -> None:
    """An error, or its status."""
    bad = replace(MATMUL, attrs=Attrs(transpose=True))
    with pytest.raises(InvalidGraphOp, match=r"op 10: MatMul: .*'transpose'"):
        Graph().add_op(bad)
    assert Graph().add_op(bad, allow_exception=False) is Status.invalid_graph_op
    assert Graph().add_op(MATMUL, allow_exception=False) is Status.success


def test_a_taken_op_id_is_refused() -> None:
    g = Graph()
    g.add_op(MATMUL)
    with pytest.raises(InvalidGraphOp, match="op id 10 is taken by MatMul"):
        g.add_op(replace(RELU, id=10))


def test_tensors_of_one_id_must_be_alike() -> None:
    other = replace(ACC, shape=(1, 2))
    with pytest.raises(InvalidGraph, match=r"op 11: ReLU: tensor 2 is described as f32\[1,2\] here and as f32\[\*\] elsewhere"):
        finalized(MATMUL, replace(RELU, inputs=(other,)))


def test_finalize_gates_both_ways() -> None:
    g = Graph()
    g.add_op(MATMUL)
    with pytest.raises(InvalidGraph, match="not finalized"):
        g.get_partitions()
    g.finalize()
    g.finalize()
    with pytest.raises(InvalidGraph, match="is finalized"):
        g.add_op(RELU)


def test_partitioning_again_gives_the_same_and_another_policy_another() -> None:
    g = finalized(MATMUL, RELU)
    assert [p.ops for p in g.get_partitions()] == [p.ops for p in g.get_partitions()] == [(10, 11)]
    assert [p.ops for p in g.get_partitions(Policy.one_op_each)] == [(10,), (11,)]


def test_an_unsupported_op_is_alone_and_cannot_be_compiled() -> None:
    (partition,) = finalized(Op(1, "Wildcard", inputs=(SRC,), outputs=(replace(DST, shape=(5, 16)),))).get_partitions()
    assert not partition.is_supported
    with pytest.raises(BenchgraphError) as raised:
        partition.compile([SRC], [replace(DST, shape=(5, 16))], Engine())
    assert raised.value.status is Status.invalid_arguments
    assert "a Wildcard stands for an unknown operation" in str(raised.value)


def test_shapes_may_come_at_compile() -> None:
    """A graph built with unknown dims serves any shape."""
    src, wei = LogicalTensor(0, DType.f32, (UNKNOWN_DIM, 16)), LogicalTensor(1, DType.f32)
    (partition,) = finalized(replace(MATMUL, inputs=(src, wei)), RELU).get_partitions()
    for m in (1, 7):
        compiled = partition.compile([replace(SRC, shape=(m, 16)), WEI], [DST], Engine())
        assert compiled.query_logical_tensor(3).shape == (m, 9)


@pytest.mark.parametrize(
    ("inputs", "outputs", "error", "says"),
    [
        ([SRC], [DST], InvalidArguments, "no logical tensor for input port 1, only 0"),
        ([SRC, replace(WEI, dtype=DType.bf16)], [DST], InvalidArguments, "input port 1 is f32, the tensor bf16"),
        ([SRC, LogicalTensor(1, DType.f32)], [DST], InvalidArguments, "tensor 1: dims or layout of an input are unknown"),
        ([SRC, replace(WEI, layout_type=LayoutType.any)], [DST], InvalidArguments, "tensor 1: dims or layout"),
        ([SRC, WEI], [replace(DST, layout_type=LayoutType.undef)], InvalidArguments, "tensor 3: its layout is undef"),
        ([SRC, WEI], [replace(DST, shape=(5, 8))], InvalidShape, "ReLU"),
        ([SRC, replace(WEI, shape=(15, 9))], [DST], InvalidShape, "inner dimensions differ"),
    ],
)
def test_compile_refuses(inputs: list, outputs: list, error: type[BenchgraphError], says: str) -> None:
    (partition,) = finalized(MATMUL, RELU).get_partitions()
    with pytest.raises(error, match=says):
        partition.compile(inputs, outputs, Engine())


def test_execute_wants_the_order_of_compile(data: tuple[np.ndarray, np.ndarray]) -> None:
    (partition,) = finalized(MATMUL, RELU).get_partitions()
    engine = Engine()
    compiled = partition.compile([WEI, SRC], [DST], engine)
    ins = [Tensor(SRC, engine, data[0]), Tensor(WEI, engine, data[1])]
    out = Tensor(compiled.query_logical_tensor(3), engine)
    with pytest.raises(InvalidArguments, match=r"input tensors \[0, 1\], compiled with \[1, 0\]"):
        compiled.execute(Stream(engine), ins, [out])
    compiled.execute(Stream(engine), ins[::-1], [out])
    np.testing.assert_allclose(out.array, np.maximum(data[0] @ data[1], 0), rtol=1e-5, atol=1e-6)


def test_memory_comes_from_the_engines_allocator_and_goes_back() -> None:
    live: dict[int, ctypes.Array] = {}

    def malloc(size: int, alignment: int) -> int:
        block = (ctypes.c_uint8 * (size + alignment))()
        address = -(-ctypes.addressof(block) // alignment) * alignment
        live[address] = block
        return address

    engine = Engine(allocator=Allocator(malloc, lambda address: live.pop(address) and None))
    tensor = Tensor(SRC, engine)
    tensor.array[...] = 1
    assert len(live) == 1
    assert tensor.array.ctypes.data % 64 == 0
    del tensor
    assert not live
    with pytest.raises(OutOfMemory, match="no 320 bytes"):
        Tensor(SRC, Engine(allocator=Allocator(lambda size, alignment: 0, lambda address: None)))


def test_a_host_scalar_is_copied() -> None:
    scale = LogicalTensor(5, DType.f32, (), property_type=PropertyType.host_scalar)
    value = np.array(3.0, np.float32)
    tensor = Tensor.make_scalar_tensor(scale, value)
    value[...] = 4
    assert tensor.array == 3
    with pytest.raises(InvalidArguments, match="it is a host scalar"):
        Tensor(scale, Engine())
    with pytest.raises(InvalidArguments, match="it is no host scalar"):
        Tensor.make_scalar_tensor(SRC, 1.0)


def test_eight_threads_share_a_compiled_partition(data: tuple[np.ndarray, np.ndarray]) -> None:
    (partition,) = finalized(MATMUL, RELU).get_partitions()
    engine = Engine()
    compiled = partition.compile([SRC, WEI], [DST], engine)
    out = compiled.query_logical_tensor(3)

    def run(k: int) -> bool:
        src = data[0] + np.float32(k)
        result = Tensor(out, engine)
        for _ in range(50):
            compiled.execute(Stream(engine), [Tensor(SRC, engine, src), Tensor(WEI, engine, data[1])], [result])
        return bool(np.allclose(result.array, np.maximum(src @ data[1], 0), rtol=1e-4, atol=1e-5))

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(run, range(8)))


def test_there_is_no_gpu() -> None:
    with pytest.raises(InvalidArguments, match="there is no engine gpu:0; use kind 'cpu'"):
        Engine("gpu")


@pytest.mark.parametrize("handle", [np.zeros((5, 16)), np.zeros((16, 5), np.float32), np.zeros((16, 5), np.float32).T])
def test_a_handle_must_fit(handle: np.ndarray) -> None:
    with pytest.raises(InvalidArguments, match=r"Tensor 0: an? .*array"):
        Tensor(SRC, Engine(), handle)


@pytest.fixture
def nothing_compiled() -> None:
    """The cache is empty."""
    capacity = get_compiled_partition_cache_capacity()
    set_compiled_partition_cache_capacity(0)
    set_compiled_partition_cache_capacity(capacity)


def test_compiling_the_same_again_is_a_hit(nothing_compiled: None) -> None:
    (first,), (second,) = finalized(MATMUL, RELU).get_partitions(), finalized(MATMUL, RELU).get_partitions()
    before = compiled_partitions.hits
    a = first.compile([SRC, WEI], [DST], Engine())
    assert compiled_partitions.hits == before
    b = second.compile([SRC, WEI], [DST], Engine())
    assert compiled_partitions.hits == before + 1
    assert a.executable is b.executable
    assert second.compile([replace(SRC, shape=(6, 16)), WEI], [DST], Engine()).executable is not a.executable


def test_layers_that_are_alike_share_code_and_nothing_else(nothing_compiled: None) -> None:
    """The second has other ids: it is not compiled again, computes with its own weights, and is called by its own name."""

    def moved(t: LogicalTensor) -> LogicalTensor:
        return replace(t, id=t.id + 40)

    def at(op: Op) -> Op:
        return replace(op, id=op.id + 40, inputs=tuple(map(moved, op.inputs)), outputs=tuple(map(moved, op.outputs)))

    engine, rng = Engine(), np.random.default_rng(3)
    layers = [(finalized(MATMUL, RELU), SRC, WEI, DST), (finalized(at(MATMUL), at(RELU)), moved(SRC), moved(WEI), moved(DST))]
    compiled = [g.get_partitions()[0].compile([src, wei], [dst], engine) for g, src, wei, dst in layers]
    assert [c.from_cache for c in compiled] == [False, True]
    assert compiled[0].executable.code is compiled[1].executable.code
    for (_, src, wei, dst), made in zip(layers, compiled, strict=True):
        x, w = (rng.standard_normal(t.shape).astype(np.float32) for t in (src, wei))
        out = Tensor(made.query_logical_tensor(dst.id), engine)
        made.execute(Stream(engine), [Tensor(src, engine, x), Tensor(wei, engine, w)], [out])
        np.testing.assert_allclose(out.array, np.maximum(x @ w, 0), rtol=1e-4, atol=1e-5)
        with pytest.raises(InvalidArguments, match=rf"\(tensor {src.id}\)"):
            made.executable.bind([np.zeros(3, np.float32), w], [out.array])


def test_eight_threads_that_compile_the_same_compile_once(nothing_compiled: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """2.3: a compilation of the same key under way in another thread is awaited."""
    compilations, together = [], threading.Barrier(8)

    def counted(*args: object) -> Executable:
        compilations.append(args)
        return compile_partition(*args)

    monkeypatch.setattr("benchgraph.library.partition.compile_partition", counted)
    (partition,) = finalized(MATMUL, RELU).get_partitions()

    def compile_it(_: int) -> CompiledPartition:
        together.wait()
        return partition.compile([SRC, WEI], [DST], Engine())

    with ThreadPoolExecutor(8) as pool:
        compiled = list(pool.map(compile_it, range(8)))
    assert len(compilations) == 1
    assert sorted(c.from_cache for c in compiled) == [False] + [True] * 7
    assert len({id(c.executable) for c in compiled}) == 1


def test_the_math_mode_is_part_of_what_is_compiled(nothing_compiled: None) -> None:
    ops, partitions = (MATMUL, RELU), []
    for mode in (FpmathMode.strict, FpmathMode.bf16, FpmathMode.strict):
        g = Graph(fpmath_mode=mode)
        for op in ops:
            g.add_op(op)
        g.finalize()
        partitions += g.get_partitions()
    compiled = [p.compile([SRC, WEI], [DST], Engine()) for p in partitions]
    assert [c.from_cache for c in compiled] == [False, False, True]


def test_the_capacity_of_compiled_partitions_can_be_asked_and_set() -> None:
    """Shrinking evicts; 0 clears and disables."""
    before = get_compiled_partition_cache_capacity()
    (partition,) = finalized(MATMUL, RELU).get_partitions()
    try:
        set_compiled_partition_cache_capacity(0)
        assert len(compiled_partitions) == 0
        assert not any(partition.compile([SRC, WEI], [DST], Engine()).from_cache for _ in range(2))
        set_compiled_partition_cache_capacity(1)
        assert [partition.compile([SRC, WEI], [DST], Engine()).from_cache for _ in range(2)] == [False, True]
        with pytest.raises(InvalidArguments, match="a cache of capacity -1"):
            set_compiled_partition_cache_capacity(-1)
    finally:
        set_compiled_partition_cache_capacity(before)


def test_executing_again_on_the_same_tensors_binds_nothing(data: tuple[np.ndarray, np.ndarray], monkeypatch: pytest.MonkeyPatch) -> None:
    (partition,) = finalized(MATMUL, RELU).get_partitions()
    engine = Engine()
    compiled = partition.compile([SRC, WEI], [DST], engine)
    ins, out = [Tensor(SRC, engine, data[0]), Tensor(WEI, engine, data[1])], Tensor(compiled.query_logical_tensor(3), engine)
    compiled.execute(Stream(engine), ins, [out])
    monkeypatch.setattr(type(compiled.executable), "bind", None)
    out.array[...] = np.nan
    compiled.execute(Stream(engine), ins, [out])
    assert np.isfinite(out.array).all()
