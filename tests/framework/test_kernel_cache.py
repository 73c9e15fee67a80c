"""The cache of kernels: bounded, least recently used out first, per thread, and found by everything that matters."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest

from benchgraph.core.attrs import Attrs
from benchgraph.core.dtypes import DType
from benchgraph.core.errors import InvalidArguments
from benchgraph.core.layout import Layout
from benchgraph.framework.counters import counted
from benchgraph.framework.dispatch import invoke
from benchgraph.framework.executor import Executor
from benchgraph.framework.kernel_cache import Signature, get_kernel_cache_capacity, kernel_cache, set_kernel_cache_capacity
from benchgraph.framework.memory_desc import describe
from benchgraph.framework.ndarray import NDArray
from benchgraph.graph.ir import Op
from benchgraph.library.engine import Engine
from benchgraph.machine.target import current
from benchgraph.partition.ir import Policy
from tests.framework.models import arrays, mlp


def relu(rows: int) -> np.ndarray:
    x = NDArray.of(np.arange(rows * 4, dtype=np.float32).reshape(rows, 4) - 5)
    y = NDArray.empty(x.shape)
    invoke(Op(0, "ReLU"), [x], [y])
    return y.numpy()


def test_a_hit_and_the_eviction_of_the_oldest() -> None:
    """I13: two are kept; what was evicted is compiled again, with the same result."""
    set_kernel_cache_capacity(2)

    def misses(*rows: int) -> list[int]:
        found = []
        for n in rows:
            with counted() as c:
                relu(n)
            assert c.hits + c.misses == 1
            found.append(c.misses)
        return found

    first = relu(1)
    assert misses(1, 2, 1, 3) == [0, 1, 0, 1], "2 is older than 1, for 1 was used again"
    assert misses(1, 2) == [0, 1]
    assert len(kernel_cache()) == 2
    np.testing.assert_array_equal(relu(1), first)


@pytest.mark.parametrize("capacity", [0, 1])
def test_a_cache_of_nearly_nothing(capacity: int) -> None:
    set_kernel_cache_capacity(capacity)
    g = mlp()
    _, inputs, params = arrays(g)
    executor = Executor(g, params, policy=Policy.one_op_each)
    want = executor.forward(inputs)[8].numpy()
    for _ in range(2):
        np.testing.assert_array_equal(executor.forward(inputs)[8].numpy(), want)
        assert executor.last.counters.misses == 5
    assert len(kernel_cache()) == capacity


@pytest.mark.parametrize("bad", [-1, None, 1.5])
def test_capacities_that_are_none(bad: object) -> None:
    with pytest.raises(InvalidArguments, match=f"a kernel cache of capacity {bad!r}; use 0 to switch it off"):
        set_kernel_cache_capacity(bad)  # type: ignore[arg-type]
    assert get_kernel_cache_capacity() == 1024


def test_every_thread_has_its_own() -> None:
    relu(2)
    counts: list[tuple[int, int]] = []

    def other() -> None:
        for _ in range(2):
            with counted() as c:
                relu(2)
            counts.append((c.hits, c.misses))

    thread = threading.Thread(target=other)
    thread.start()
    thread.join()
    assert counts == [(0, 1), (1, 0)]


def variants() -> Iterator[tuple[object, ...]]:
    """Parts that differ in one thing each from the first."""
    flat, blocked = describe(DType.f32, (2, 8)), describe(DType.f32, (2, 8), Layout((1, 0)))
    yield ("op", "ReLU", Attrs(), (flat,), False)
    yield ("op", "Abs", Attrs(), (flat,), False)
    yield ("op", "ReLU", Attrs(alpha=1.0), (flat,), False)
    yield ("op", "ReLU", Attrs(alpha=np.nextafter(1.0, 2)), (flat,), False)
    yield ("op", "ReLU", Attrs(alpha=1), (flat,), False)
    yield ("op", "ReLU", Attrs(), (blocked,), False)
    yield ("op", "ReLU", Attrs(), (describe(DType.f32, (8, 2)),), False)
    yield ("op", "ReLU", Attrs(), (describe(DType.bf16, (2, 8)),), False)
    yield ("op", "ReLU", Attrs(), (flat, flat), False)
    yield ("op", "ReLU", Attrs(), (flat,), True)


def test_a_signature_differs_when_any_part_does() -> None:
    """I13: floats to the last bit, types of attributes, layouts, how many operands."""
    found = [Signature(parts) for parts in variants()]
    assert len(set(found)) == len(found)
    assert [Signature(parts) for parts in variants()] == found


def test_lists_of_shapes_do_not_run_into_each_other() -> None:
    """B12: (2,) and (3, 5) are not (2, 3) and (5,), whatever dtype codes and dims there are between them."""

    def of(*shapes: tuple[int, ...]) -> Signature:
        return Signature(tuple(describe(DType.u8, s) for s in shapes))

    assert of((2,), (3, 5)) != of((2, 3), (5,))
    assert of((2, 3), (4,)) != of((2,), (3, 4))
    assert of((6,)) != of((2, 3))


def test_layouts_that_are_the_same_bytes_have_one_form() -> None:
    assert describe(DType.f32, (4, 1, 8), Layout((0, 2, 1))) == describe(DType.f32, (4, 1, 8))
    assert describe(DType.f32, (4, 8), Layout((0, 1), ((1, 8),))) == describe(DType.f32, (4, 8))
    assert describe(DType.f32, (4, 8), Layout((1, 0), ((1, 4),))) != describe(DType.f32, (4, 8))


def test_training_and_inference_are_compiled_apart() -> None:
    """A weight that may change is no constant: what is kept of it for inference must not be used for training."""
    g = mlp()
    _, inputs, params = arrays(g)
    executor = Executor(g, params)
    executor.forward(inputs)
    executor.forward(inputs, is_train=True)
    assert executor.last.counters.misses == 1
    executor.forward(inputs, is_train=True)
    assert executor.last.counters.misses == 0


def test_engines_of_other_targets_are_compiled_apart() -> None:
    """I13: code for one thread, or for another instruction set, is other code."""
    x, y = NDArray.of(np.ones((2, 4), np.float32)), NDArray.empty((2, 4))
    one = Engine(target=replace(current(), cores=1))
    two = Engine(target=replace(current(), cores=2))
    for engine, misses in ((one, 1), (two, 1), (one, 0), (Engine(target=one.target), 0)):
        with counted() as c:
            invoke(Op(0, "ReLU"), [x], [y], engine=engine)
        assert c.misses == misses


def test_executors_share_kernels_only_for_the_same_graph_and_engine() -> None:
    g = mlp()
    _, inputs, params = arrays(g)
    for engine, fresh in ((Engine(), True), (Engine(), False), (Engine(target=replace(current(), cores=1 + current().cores)), True)):
        executor = Executor(g, params, engine=engine)
        executor.forward(inputs)
        assert (executor.last.counters.misses > 0) is fresh
