"""Whose memory is used: the engine's allocator provides outputs, constants and temporaries; a scratchpad the temporaries."""

from __future__ import annotations

import ctypes
import gc
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray

from benchgraph import Allocator, Engine, Graph, LogicalTensor, Op, Stream, Tensor
from benchgraph.core.dtypes import DType
from benchgraph.core.errors import InvalidArguments, OutOfMemory, Status
from benchgraph.core.tensor import UNKNOWN_DIM, LayoutType, PropertyType
from benchgraph.library.compiled_partition import CompiledPartition

SRC = LogicalTensor(0, DType.f32, (16, 48))
WEI = [LogicalTensor(1 + i, DType.f32, (48, 48), property_type=PropertyType.constant) for i in (0, 1)]
ACC, MID, DST = (LogicalTensor(i, DType.f32) for i in (3, 4, 5))
OPS = (
    Op(10, "MatMul", inputs=(SRC, WEI[0]), outputs=(ACC,)),
    Op(11, "SoftMax", inputs=(ACC,), outputs=(MID,)),
    Op(12, "MatMul", inputs=(MID, WEI[1]), outputs=(DST,)),
)
TENSOR_BYTES, CONSTANT_BYTES = 16 * 48 * 4, 2 * 48 * 48 * 4


class Counting:
    """An allocator that knows what is out, and may be told to have nothing left for blocks from a size on."""

    def __init__(self) -> None:
        self.live: dict[int, int] = {}
        self.given: list[int] = []
        self.refuses: Callable[[int], bool] = lambda size: False
        self._blocks: dict[int, ctypes.Array[ctypes.c_uint8]] = {}
        self.allocator = Allocator(self.malloc, self.free)

    def malloc(self, size: int, alignment: int) -> int:
        if self.refuses(size):
            return 0
        block = (ctypes.c_uint8 * (size + alignment))()
        address = -(-ctypes.addressof(block) // alignment) * alignment
        self._blocks[address], self.live[address] = block, size
        self.given.append(size)
        return address

    def free(self, address: int) -> None:
        del self._blocks[address], self.live[address]

    @property
    def sizes(self) -> list[int]:
        return sorted(self.live.values())


def compiled(engine: Engine) -> CompiledPartition:
    g = Graph()
    for op in OPS:
        g.add_op(op)
    g.finalize()
    (partition,) = g.get_partitions()
    return partition.compile([SRC, *WEI], [DST], engine)


def data(*shape: int, seed: int = 0) -> NDArray[np.float32]:
    return np.random.default_rng(seed).random(shape, np.float32) - 0.5


WEIGHTS = [data(48, 48, seed=s) for s in (1, 2)]


def inputs(engine: Engine, src: NDArray[np.float32]) -> list[Tensor]:
    return [Tensor(SRC, engine, src), *(Tensor(t, engine, w) for t, w in zip(WEI, WEIGHTS, strict=True))]


def expected(src: NDArray[np.float32]) -> NDArray[np.float32]:
    e = np.exp(src @ WEIGHTS[0])
    return e / e.sum(axis=1, keepdims=True) @ WEIGHTS[1]


# ---- outputs ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "open_dst",
    [DST, replace(DST, shape=(16, UNKNOWN_DIM)), replace(DST, layout_type=LayoutType.any), replace(DST, shape=(16, 48))],
    ids=["rank unknown", "dim unknown", "layout any", "all known"],
)
def test_an_output_without_memory_is_given_some_at_execution(open_dst: LogicalTensor) -> None:
    """Its size need not be known before."""
    counting = Counting()
    engine = Engine(allocator=counting.allocator)
    dst, src = Tensor(open_dst, engine, None), data(16, 48)
    assert not counting.live
    with pytest.raises(InvalidArguments, match="Tensor 5: it has no memory"):
        _ = dst.array
    c = compiled(engine)
    c.execute(Stream(engine), inputs(engine, src), [dst])
    assert dst.logical == c.query_logical_tensor(5) or open_dst.has_known_shape
    np.testing.assert_allclose(dst.array, expected(src), rtol=1e-4, atol=1e-5)
    assert TENSOR_BYTES in counting.sizes
    memory = dst.array
    c.execute(Stream(engine), inputs(engine, src + 1), [dst])
    assert dst.array is memory
    np.testing.assert_allclose(dst.array, expected(src + 1), rtol=1e-4, atol=1e-5)


def test_an_open_tensor_takes_no_array_and_an_input_needs_one() -> None:
    engine = Engine()
    with pytest.raises(InvalidArguments, match="Tensor 5: its dtype and dims must be known"):
        Tensor(DST, engine, None).set_data_handle(data(16, 48))
    with pytest.raises(InvalidArguments, match="Tensor 5: its dtype and dims must be known"):
        Tensor(DST, engine)
    ins = [Tensor(SRC, engine, None), *inputs(engine, data(16, 48))[1:]]
    with pytest.raises(InvalidArguments, match="Tensor 0: it has no memory"):
        compiled(engine).execute(Stream(engine), ins, [Tensor(DST, engine, None)])


# ---- constants and temporaries ---------------------------------------------------------------------------------------


def test_everything_comes_from_the_allocator_and_goes_back() -> None:
    """oneDNN's mem_types: outputs live as long as their tensors, temporaries and constants as long as the compiled partition."""
    counting = Counting()
    engine = Engine(allocator=counting.allocator)
    c, ins, dst = compiled(engine), inputs(engine, data(16, 48)), Tensor(DST, engine, None)
    assert not counting.live
    c.execute(Stream(engine), ins, [dst])
    temporaries = c.executable.scratchpad_bytes - 63
    assert temporaries > 0
    kept = sorted([CONSTANT_BYTES, TENSOR_BYTES, temporaries])
    assert counting.sizes == kept
    c.execute(Stream(engine), ins, [dst])
    assert counting.sizes == kept
    del dst
    del c
    gc.collect()
    assert not counting.live


def test_engines_with_allocators_of_their_own_share_code_and_no_memory() -> None:
    first, second = Counting(), Counting()
    engines = [Engine(allocator=counting.allocator) for counting in (first, second)]
    both, src = [compiled(e) for e in engines], data(16, 48)
    assert both[0].executable is both[1].executable
    for c, engine in zip(both, engines, strict=True):
        c.execute(Stream(engine), inputs(engine, src), [Tensor(replace(DST, shape=(16, 48)), Engine(), data(16, 48))])
    assert first.sizes == second.sizes != []


@pytest.mark.parametrize(
    ("refused", "says"),
    [
        (TENSOR_BYTES, f"{TENSOR_BYTES} bytes for a tensor"),
        (CONSTANT_BYTES, f"{CONSTANT_BYTES} bytes for constants that are kept"),
        (0, "for temporaries"),
    ],
)
def test_out_of_memory_names_the_purpose(refused: int, says: str) -> None:
    """And the next execution, with memory again, is right."""
    counting, src = Counting(), data(16, 48)
    engine = Engine(allocator=counting.allocator)
    c = compiled(engine)
    counting.refuses = lambda asked: asked == refused or (not refused and len(counting.sizes) == 2)  # dst and the weights came first
    with pytest.raises(OutOfMemory, match=says) as raised:
        c.execute(Stream(engine), inputs(engine, src), [Tensor(DST, engine, None)])
    assert raised.value.status is Status.out_of_memory
    counting.refuses = lambda asked: False
    dst = Tensor(DST, engine, None)
    c.execute(Stream(engine), inputs(engine, src), [dst])
    np.testing.assert_allclose(dst.array, expected(src), rtol=1e-4, atol=1e-5)


# ---- scratchpads -----------------------------------------------------------------------------------------------------


def test_a_scratchpad_is_described_as_bytes() -> None:
    c = compiled(Engine())
    pad = c.get_scratchpad_logical_tensor()
    assert (pad.id, pad.dtype, pad.layout_type, pad.ndims) == (2**64 - 1, DType.u8, LayoutType.strided, 1)
    assert pad.get_mem_size() == c.executable.scratchpad_bytes > 0


@pytest.mark.parametrize("shift", [0, 1, 63])
def test_temporaries_are_in_the_scratchpad_at_any_address(shift: int) -> None:
    """Guard bytes around it stay, and the allocator is not asked."""
    counting, src = Counting(), data(16, 48)
    engine = Engine(allocator=counting.allocator)
    c = compiled(engine)
    described = c.get_scratchpad_logical_tensor()
    memory = np.full(64 + shift + described.get_mem_size() + 64, 0xA5, np.uint8)
    inside = memory[64 + shift : -64]
    pad, dst = Tensor(described, engine, inside), Tensor(DST, engine, None)
    for again in range(2):
        c.execute(Stream(engine), inputs(engine, src + again), [dst], pad)
        np.testing.assert_allclose(dst.array, expected(src + again), rtol=1e-4, atol=1e-5)
    assert (inside != 0xA5).any()
    assert (memory[: 64 + shift] == 0xA5).all()
    assert (memory[-64:] == 0xA5).all()
    assert sorted(counting.given) == sorted([CONSTANT_BYTES, TENSOR_BYTES])


def test_bad_scratchpads_are_refused() -> None:
    engine, src = Engine(), data(16, 48)
    c = compiled(engine)
    size = c.get_scratchpad_logical_tensor().get_mem_size()
    fixed = np.zeros(size, np.uint8)
    fixed.flags.writeable = False
    bad = {
        f"{size - 1} contiguous bytes; give {size} contiguous bytes": np.zeros(size - 1, np.uint8),
        "scattered bytes; give": np.zeros(2 * size, np.uint8)[::2],
        "read-only bytes; give": fixed,
        "it overlaps tensor 0; give it memory of its own": np.concatenate([src.reshape(-1)] * (size // src.nbytes + 1)).view(np.uint8),
    }
    for says, memory in bad.items():
        described = LogicalTensor(9, DType.u8, memory.shape, memory.strides)
        ins = inputs(engine, memory[:TENSOR_BYTES].view(np.float32).reshape(16, 48) if "overlaps" in says else src)
        with pytest.raises(InvalidArguments, match=f"bind: scratchpad: .*{says}"):
            c.execute(Stream(engine), ins, [Tensor(DST, engine, None)], Tensor(described, engine, memory))
    with pytest.raises(InvalidArguments, match="cannot execute on a ndarray"):
        c.execute(Stream(engine), inputs(engine, src), [Tensor(DST, engine, None)], fixed)  # type: ignore[arg-type]


def test_threads_with_a_scratchpad_each_share_a_compiled_partition() -> None:
    engine = Engine()
    c = compiled(engine)

    def run(k: int) -> bool:
        pad, dst, src = Tensor(c.get_scratchpad_logical_tensor(), engine), Tensor(DST, engine, None), data(16, 48, seed=k)
        for _ in range(30):
            c.execute(Stream(engine), inputs(engine, src), [dst], pad)
        return bool(np.allclose(dst.array, expected(src), rtol=1e-4, atol=1e-5))

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(run, range(4)))


def test_a_partition_without_temporaries_needs_no_scratchpad() -> None:
    g, engine = Graph(), Engine()
    g.add_op(Op(1, "ReLU", inputs=(SRC,), outputs=(DST,)))
    g.finalize()
    (partition,) = g.get_partitions()
    c = partition.compile([SRC], [DST], engine)
    assert c.get_scratchpad_logical_tensor().get_mem_size() == 0
    dst, src = Tensor(DST, engine, None), data(16, 48)
    c.execute(Stream(engine), [Tensor(SRC, engine, src)], [dst], Tensor(c.get_scratchpad_logical_tensor(), engine))
    np.testing.assert_array_equal(dst.array, np.maximum(src, 0))


# ---- the hot path ----------------------------------------------------------------------------------------------------


def test_only_so_many_bindings_are_kept() -> None:
    engine = Engine()
    c, ins = compiled(engine), inputs(engine, data(16, 48))
    dsts = [Tensor(DST, engine, None) for _ in range(20)]
    for dst in (*dsts, dsts[-1]):
        c.execute(Stream(engine), ins, [dst])
    assert len(c._per_thread.bounds) == 16
    assert all(np.array_equal(dst.array, dsts[0].array) for dst in dsts)
