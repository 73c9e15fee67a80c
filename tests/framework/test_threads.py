"""Threads on one model: right results whatever is converted meanwhile, and every weight converted once."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from benchgraph.core.layout import Layout
from benchgraph.framework.counters import counted
from benchgraph.framework.executor import Executor
from benchgraph.framework.ndarray import NDArray
from benchgraph.partition.ir import Policy
from tests.framework.models import arrays, mlp, panelled, right

CALLERS, RUNS = 8, 20


@pytest.mark.parametrize("policy", list(Policy))
def test_eight_callers_and_one_who_converts(policy: Policy) -> None:
    """I10: cold caches, all begin together. Everybody gets the same bits; each weight is converted by one of the nine."""
    g = mlp()
    values, inputs, params = arrays(g)
    weights = panelled(params)
    executor = Executor(g, params, policy=policy)
    want = {id: a.numpy() for id, a in Executor(g, {i: NDArray.of(values[i]) for i in params}, policy=policy).forward(inputs).items()}
    together = threading.Barrier(CALLERS + 1)

    def call(_: int) -> int:
        together.wait()
        conversions = 0
        for _ in range(RUNS):
            outs = executor.forward(inputs)
            conversions += executor.last.counters.weight_reorders
            assert all(a.numpy().tobytes() == want[id].tobytes() for id, a in outs.items())
        return conversions

    def convert() -> int:
        together.wait()
        with counted() as c:
            executor.prepack()
        return c.weight_reorders

    with ThreadPoolExecutor(CALLERS + 1) as pool:
        converter, callers = pool.submit(convert), pool.map(call, range(CALLERS))
        assert sum(callers) + converter.result() == weights
    right(g, executor.forward(inputs), values)


def test_a_weight_that_goes_to_and_fro_under_its_readers() -> None:
    """No reader ever has a buffer with the layout of another; versions stay."""
    g = mlp()
    values, inputs, params = arrays(g)
    executor = Executor(g, params, policy=Policy.post_ops, prepacks=False)
    want = executor.forward(inputs)[8].numpy()
    stop = threading.Event()
    conversions = 0

    def convert() -> None:
        nonlocal conversions
        while not stop.is_set():
            conversions += executor.prepack() + executor.unpack()
            time.sleep(0)

    converter = threading.Thread(target=convert)
    converter.start()
    try:
        with ThreadPoolExecutor(4) as pool:
            for found in pool.map(lambda _: [executor.forward(inputs)[8].numpy() for _ in range(25)], range(4)):
                assert all(a.tobytes() == want.tobytes() for a in found)
        while conversions < 2 and converter.is_alive():
            time.sleep(0)
    finally:
        stop.set()
        converter.join()
    assert conversions > 1
    assert all(w.version == 1 for w in params.values())
    assert all(w.numpy().tobytes() == values[id].tobytes() for id, w in params.items())


def test_an_assignment_is_atomic_for_readers() -> None:
    """Readers see the old values or the new ones, in whatever layout; never some of each."""
    w = NDArray.of(np.zeros((64, 48), np.float32), name="w", layout=Layout((1, 0), ((1, 16),)))
    stop = threading.Event()

    def write() -> None:
        n = 0
        while not stop.is_set():
            n += 1
            w.copy_from(np.full((64, 48), n, np.float32))
            w.reorder_(Layout((1, 0), ((1, 8),))) if n % 2 else w.to_default_()

    writer = threading.Thread(target=write)
    writer.start()
    try:
        seen = set[float]()
        for _ in range(100_000):
            values = w.numpy()
            assert values.min() == values.max()
            seen.add(float(values.max()))
            if len(seen) >= 10:
                break
            time.sleep(0)
    finally:
        stop.set()
        writer.join()
    assert len(seen) >= 10


def test_a_published_store_never_changes() -> None:
    """What a reader has taken stays as it was, buffer and layout, through conversions and assignments."""
    w = NDArray.of(np.arange(48, dtype=np.float32).reshape(6, 8), name="w")
    taken = [w.chunk.store("")]
    bits = [taken[0].data.tobytes()]
    for n, change in enumerate(
        (
            lambda: w.reorder_(Layout((1, 0))),
            lambda: w.copy_from(np.ones((6, 8))),
            w.to_default_,
            lambda: w.slice(1, 3).copy_from(np.zeros((2, 8))),
        )
    ):
        change()
        assert [s.data.tobytes() for s in taken] == bits, n
        taken.append(w.chunk.store(""))
        bits.append(taken[-1].data.tobytes())
    assert len({id(s.buffer) for s in taken}) == 5
    assert [s.version for s in taken] == [1, 1, 2, 2, 3]
