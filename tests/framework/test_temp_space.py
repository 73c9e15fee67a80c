"""Temporary space: one buffer per thread once every op has run, ops inside ops, nothing that outlives its op."""

from __future__ import annotations

import threading
from itertools import pairwise

import numpy as np
import pytest

from benchgraph.core.dtypes import DType
from benchgraph.core.errors import InvalidArguments
from benchgraph.framework.counters import counted
from benchgraph.framework.memory_desc import describe
from benchgraph.framework.temp_space import TempSpace, temp_space, whole_lines
from benchgraph.machine.target import LINE_BYTES


def f32(n: int) -> object:
    return describe(DType.f32, (n,))


def test_the_first_run_spills_and_the_next_does_not() -> None:
    """I14: one buffer, as large as the op that needs most."""
    space = TempSpace()
    for turn in range(3):
        with counted() as c:
            for sizes in ((100, 300), (50,)):
                with space.op("op") as scope:
                    for n in sizes:
                        scope.alloc(f32(n))
        assert c.spills == (2 if turn == 0 else 0), "the second op finds what the first one needed"
        assert c.temp_bytes == whole_lines(400) + whole_lines(1200)
    assert space.size == whole_lines(400) + whole_lines(1200)


@pytest.mark.parametrize("seed", range(20))
def test_temporaries_are_on_cache_lines_and_apart(seed: int) -> None:
    """I14, by brute force over random sizes, twice: spilled and carved."""
    rng, space = np.random.default_rng(seed), TempSpace()
    sizes = rng.integers(0, 700, 12)
    for _ in range(2):
        with space.op("op") as scope:
            taken = [scope.bytes(int(n)) for n in sizes]
            ranges = sorted((m.ctypes.data, m.ctypes.data + max(m.size, 1)) for m in taken)
            assert all(begin % LINE_BYTES == 0 for begin, _ in ranges)
            assert all(end <= begin for (_, end), (begin, _) in pairwise(ranges))
            assert [m.size for m in taken] == sizes.tolist()


def test_the_same_place_is_the_same_array() -> None:
    """By which a kernel finds its binding again."""
    space = TempSpace()
    found = []
    for _ in range(3):
        with space.op("op") as scope:
            found.append((scope.bytes(10), scope.bytes(20)))
    assert found[1][0] is found[2][0]
    assert found[1][1] is found[2][1]


@pytest.mark.parametrize("rounds", [1, 3])
def test_an_op_inside_an_op_leaves_the_outer_ones_temporaries_alone(rounds: int) -> None:
    """I14: the first time, when all is spilled, and later."""
    space = TempSpace(poisoned=True)
    for _ in range(rounds):
        with space.op("outer") as outer:
            mine = outer.alloc(f32(16))
            mine.array[...] = 1
            with space.op("inner") as inner:
                inner.alloc(f32(64)).array[...] = 2
            later = outer.alloc(f32(16))
            later.array[...] = 3
            assert (mine.array == 1).all()


def test_poison_shows_what_outlives_its_op() -> None:
    space = TempSpace(poisoned=True)
    kept = []
    for _ in range(2):
        with space.op("op") as scope:
            memory = scope.alloc(f32(8))
            memory.array[...] = 1
            kept.append(memory.array)
    assert all(np.isnan(a).all() for a in kept)


def test_a_handle_ends_with_its_op() -> None:
    space = TempSpace()
    with space.op("op 3: ReLU") as scope:
        memory = scope.alloc(f32(8))
    with (
        space.op("op 4: Add"),
        pytest.raises(InvalidArguments, match="op 3: ReLU: the handle of a temporary is used after the op has ended"),
    ):
        _ = memory.data
    with pytest.raises(InvalidArguments, match="op 3: ReLU: temporary memory is asked for after the op has ended"):
        scope.alloc(f32(8))


def test_a_handle_is_for_one_thread() -> None:
    problems: list[str] = []

    def use() -> None:
        try:
            _ = memory.data
        except InvalidArguments as bad:
            problems.append(str(bad))

    with TempSpace().op("op 3: ReLU") as scope:
        memory = scope.alloc(f32(8))
        thread = threading.Thread(target=use)
        thread.start()
        thread.join()
    assert problems == ["op 3: ReLU: the handle of a temporary is used on another thread; let every thread run ops of its own"]


def test_every_thread_has_its_own() -> None:
    spaces = [temp_space()]
    thread = threading.Thread(target=lambda: spaces.append(temp_space()))
    thread.start()
    thread.join()
    assert spaces[0] is not spaces[1]
    assert spaces[0] is temp_space()


def test_an_op_that_fails_gives_its_temporaries_back() -> None:
    space = TempSpace()
    for _ in range(3):
        with pytest.raises(MemoryError), space.op("op") as scope:
            raise MemoryError(scope.bytes(1000))
    assert space.size == whole_lines(1000)
    with space.op("op") as scope, counted() as c:
        scope.bytes(1000)
    assert c.spills == 0
