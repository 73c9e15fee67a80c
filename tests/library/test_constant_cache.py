"""The cache of constant tensors: partitions that compute the same from the same weight buffers share the result."""

from __future__ import annotations

import ctypes
import gc
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray

from benchgraph import (
    Allocator,
    Engine,
    Graph,
    LogicalTensor,
    Op,
    Partition,
    Stream,
    Tensor,
    get_constant_tensor_cache,
    get_constant_tensor_cache_capacity,
    set_constant_tensor_cache,
    set_constant_tensor_cache_capacity,
)
from benchgraph.core.dtypes import DType
from benchgraph.core.errors import InvalidArguments
from benchgraph.core.tensor import UNKNOWN_DIM, PropertyType
from benchgraph.library.compiled_partition import CompiledPartition
from benchgraph.runtime.constants import ConstantCache, Constants, constant_tensors
from benchgraph.tir.ir import Func

N = 512  # a packed weight is 1 MB
WEI = LogicalTensor(1, DType.f32, (N, N), property_type=PropertyType.constant)
SRC, DST = LogicalTensor(0, DType.f32, (UNKNOWN_DIM, N)), LogicalTensor(2, DType.f32)
ENGINE = Engine()


@pytest.fixture(autouse=True)
def cache() -> Iterator[ConstantCache]:
    before = constant_tensors.capacity
    constant_tensors.capacity = 64
    yield constant_tensors
    constant_tensors.capacity = before


def partition(kind: str = "ReLU") -> Partition:
    g = Graph()
    g.add_op(Op(10, "MatMul", inputs=(SRC, WEI), outputs=(replace(DST, id=3),)))
    g.add_op(Op(11, kind, inputs=(replace(DST, id=3),), outputs=(DST,)))
    g.finalize()
    return g.get_partitions()[0]


def compiled(m: int, engine: Engine = ENGINE, kind: str = "ReLU") -> CompiledPartition:
    return partition(kind).compile([replace(SRC, shape=(m, N)), WEI], [DST], engine)


def weight(seed: int = 0) -> NDArray[np.float32]:
    return np.random.default_rng(seed).random((N, N), np.float32) - 0.5


def execute(c: CompiledPartition, w: NDArray[np.float32]) -> bool:
    """Whether the result is right."""
    src, dst = c.query_logical_tensor(0), Tensor(DST, c.engine, None)
    data = np.random.default_rng(9).random(src.known_shape, np.float32) - 0.5
    c.execute(Stream(c.engine), [Tensor(src, c.engine, data), Tensor(WEI, c.engine, w)], [dst])
    return bool(np.allclose(dst.array, np.maximum(data @ w, 0), rtol=1e-3, atol=1e-3))


def counts(cache: ConstantCache, before: tuple[int, int]) -> tuple[int, int]:
    """(hits, misses) since."""
    return cache.hits - before[0], cache.misses - before[1]


# ---- sharing ---------------------------------------------------------------------------------------------------------


def test_batches_of_other_sizes_share_packed_weights(cache: ConstantCache, inits: list[Func]) -> None:
    """Where their schedules have panels of the same width."""
    w, before = weight(), (cache.hits, cache.misses)
    for m in (40, 48):
        assert execute(compiled(m), w)
    assert counts(cache, before) == (1, 1)
    assert len(inits) == 1
    assert (len(cache), cache.nbytes) == (1, N * N * 4)


def test_they_outlive_the_compiled_partition(cache: ConstantCache, inits: list[Func]) -> None:
    w = weight()
    for _ in range(2):
        assert execute(compiled(6), w)
        gc.collect()
    assert len(inits) == 1


def test_a_new_weight_buffer_is_packed_again(cache: ConstantCache, inits: list[Func]) -> None:
    c, weights = compiled(7), [weight(1), weight(2)]
    assert all(execute(c, w) for w in (*weights, *weights))
    assert len(inits) == 2
    assert len(cache) == 2


def test_different_computations_do_not_share_code(cache: ConstantCache) -> None:
    """The same weight, packed for the product and transposed for it."""
    g, w = Graph(), weight()
    g.add_op(Op(12, "MatMul", inputs=(SRC, WEI), outputs=(DST,), transpose_b=True))
    g.finalize()
    other = g.get_partitions()[0].compile([replace(SRC, shape=(5, N)), WEI], [DST], ENGINE)
    assert execute(compiled(5), w)
    data, dst = np.ones((5, N), np.float32), Tensor(DST, ENGINE, None)
    other.execute(Stream(ENGINE), [Tensor(other.query_logical_tensor(0), ENGINE, data), Tensor(WEI, ENGINE, w)], [dst])
    np.testing.assert_allclose(dst.array, data @ w.T, rtol=1e-3, atol=1e-3)
    assert len(cache) == 2


def test_allocators_do_not_share(cache: ConstantCache) -> None:
    def malloc(size: int, alignment: int) -> int:
        blocks.append((ctypes.c_uint8 * (size + alignment))())
        return -(-ctypes.addressof(blocks[-1]) // alignment) * alignment

    blocks: list[ctypes.Array[ctypes.c_uint8]] = []
    w = weight()
    for engine in (ENGINE, Engine(allocator=Allocator(malloc, lambda address: None))):
        assert execute(compiled(5, engine), w)
    assert len(cache) == 2


def test_eight_threads_of_two_partitions_pack_once(cache: ConstantCache, inits: list[Func]) -> None:
    w, both, together = weight(3), (compiled(8), compiled(9)), threading.Barrier(8)

    def run(k: int) -> bool:
        together.wait()
        return execute(both[k % 2], w)

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(run, range(8)))
    assert len(cache) == 1
    assert len({id(c.constants) for c in cache._entries.values()}) == 1


# ---- limits ----------------------------------------------------------------------------------------------------------


def test_off_means_each_keeps_its_own(cache: ConstantCache, inits: list[Func]) -> None:
    set_constant_tensor_cache_capacity("cpu", 0)
    before, w = (cache.hits, cache.misses), weight()
    assert execute(compiled(5), w)
    assert execute(compiled(40), w)
    assert len(inits) == 2
    assert (len(cache), counts(cache, before)) == (0, (0, 0))


def test_a_full_cache_takes_nothing_in_and_drops_nothing(cache: ConstantCache, inits: list[Func]) -> None:
    set_constant_tensor_cache_capacity("cpu", 1)
    kept, refused = weight(1), weight(2)
    assert all(execute(compiled(m), w) for w in (kept, refused) for m in (40, 48))
    assert len(inits) == 3
    assert (len(cache), cache.nbytes) == (1, 1 << 20)


def test_setting_the_capacity_empties_the_cache(cache: ConstantCache, inits: list[Func]) -> None:
    w = weight()
    assert execute(compiled(5), w)
    set_constant_tensor_cache_capacity("cpu", 64)
    assert len(cache) == 0
    assert execute(compiled(40), w)
    assert len(inits) == 2


# ---- memory that comes and goes --------------------------------------------------------------------------------------


def test_constants_go_when_the_weight_goes(cache: ConstantCache) -> None:
    w = weight()
    assert execute(compiled(5), w)
    view = w[:]
    del w
    gc.collect()
    assert len(cache) == 1, "a view keeps the memory"
    del view
    gc.collect()
    assert len(cache) == 0


def test_other_weights_at_the_same_address_are_packed_again(cache: ConstantCache) -> None:
    """An allocator that hands the same block out again: oneDNN would take the new weights for the old ones."""
    block = (ctypes.c_uint8 * (N * N * 4 + 64))()
    address = -(-ctypes.addressof(block) // 64) * 64
    engine = Engine(allocator=Allocator(lambda size, alignment: address, lambda _: None))
    c, seen = compiled(5), []
    for seed in (1, 2):
        tensor = Tensor(WEI, engine)
        tensor.array[...] = weight(seed)
        seen.append(tensor.array.ctypes.data)
        assert execute(c, tensor.array)
        del tensor
        c._per_thread.bounds.clear()
        c._latest.clear()
        gc.collect()
    assert seen[0] == seen[1]


def test_memory_without_weak_references_is_kept_alive(cache: ConstantCache) -> None:
    made = Constants((), (), None, ready=True)
    array = np.frombuffer(b"0123456789", np.uint8)
    assert cache.get("key", 0, [array], lambda: made) is made
    del array
    gc.collect()
    assert cache.get("key", 0, [], lambda: Constants((), (), None, ready=True)) is made


# ---- the settings ----------------------------------------------------------------------------------------------------


def test_capacity_by_kind() -> None:
    set_constant_tensor_cache_capacity("cpu", 3)
    assert get_constant_tensor_cache_capacity("cpu") == 3
    with pytest.raises(InvalidArguments, match="a constant-tensor cache of -1 MB; use 0"):
        set_constant_tensor_cache_capacity("cpu", -1)
    for ask in (lambda: get_constant_tensor_cache_capacity("gpu"), lambda: set_constant_tensor_cache_capacity("gpu", 1)):
        with pytest.raises(InvalidArguments, match="there is no engine 'gpu'; use 'cpu'"):
            ask()


def test_the_flag_is_all_or_nothing(cache: ConstantCache) -> None:
    set_constant_tensor_cache(0)
    assert get_constant_tensor_cache() == cache.capacity == 0
    set_constant_tensor_cache(1)
    assert get_constant_tensor_cache() == 1
    w = weight()
    assert execute(compiled(5), w)
    assert len(cache) == 1
    with pytest.raises(InvalidArguments, match="the flag is -1; use 1 for on"):
        set_constant_tensor_cache(-1)


def test_the_environment_says_how_large_the_caches_are() -> None:
    program = "import benchgraph as b; print(b.get_constant_tensor_cache_capacity(), b.get_compiled_partition_cache_capacity())"
    environ = {"ONEDNN_GRAPH_CONSTANT_TENSOR_CACHE_CAPACITY": "cpu:5;gpu:7", "BENCHGRAPH_COMPILED_PARTITION_CACHE_CAPACITY": "9"}
    found = subprocess.run([sys.executable, "-c", program], env=os.environ | environ, capture_output=True, text=True, check=True)
    assert found.stdout.split() == ["5", "9"]


@pytest.mark.parametrize("megabytes", [0, 64])
def test_constants_outlive_the_thread_that_computed_them(cache: ConstantCache, inits: list[Func], megabytes: int) -> None:
    cache.capacity = megabytes
    c, w = compiled(2), weight()
    right = []
    for _ in range(3):  # as a server does that starts a thread for every request
        thread = threading.Thread(target=lambda: right.append(execute(c, w)))
        thread.start()
        thread.join()
    assert right == [True] * 3
    assert len(inits) == 1


@pytest.mark.parametrize("megabytes", [0, 64])
def test_a_constant_written_in_place_counts_once_it_is_renewed(cache: ConstantCache, megabytes: int) -> None:
    cache.capacity = megabytes
    rng = np.random.default_rng(0)
    x, w, y = rng.random((2, N), np.float32), rng.random((N, N), np.float32), np.empty((2, N), np.float32)
    src, dst = replace(SRC, shape=(2, N)), replace(DST, shape=(2, N))
    compiled = partition().compile([src, WEI], [dst], ENGINE)
    wei, out = Tensor(WEI, ENGINE, w), Tensor(dst, ENGINE, y)

    def ran(weights: Tensor) -> NDArray[np.float32]:
        compiled.execute(Stream(ENGINE), [Tensor(src, ENGINE, x), weights], [out])
        return y.copy()

    before = ran(wei)
    w *= 2
    assert np.array_equal(ran(wei), before)  # read once
    wei.renew()
    np.testing.assert_allclose(ran(wei), 2 * before, rtol=1e-5)
    w *= 2
    other = Tensor(WEI, ENGINE, w)  # on the same memory, and nothing says that it changed
    assert np.array_equal(ran(other), before)
    other.renew()
    np.testing.assert_allclose(ran(other), 4 * before, rtol=1e-5)
