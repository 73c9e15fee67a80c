"""Traffic by footprints, against a cache of lines of one element that is simulated access by access."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from itertools import product
from math import ceil, prod

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchgraph.schedule.nest import Loop, Operand
from benchgraph.schedule.traffic import GONE, HELD, Traffic

SRC, WEI = Operand.dense("src", 8, "mk"), Operand.dense("wei", 8, "kn")
DST = Operand.dense("dst", 8, "mn", is_written=True)
GEMM = (SRC, WEI, DST)


def fetched(loops: list[Loop], operands: tuple[Operand, ...], capacity: float) -> float:
    """Of a second execution. capacity: what a cache holds."""
    traffic, cache_bytes = Traffic.of(loops, operands, dict.fromkeys("mnk", 1 << 30)), ceil(capacity / HELD)
    return traffic.dropped(cache_bytes) * sum(traffic.beyond(cache_bytes))


def elements(loops: list[Loop]) -> Iterator[tuple[str, tuple[int, ...]]]:
    """All that the loops access, in order: the operand's name, and where."""
    steps = [prod(inner.trips for inner in loops[depth + 1 :] if inner.axis == loop.axis) for depth, loop in enumerate(loops)]
    for at in product(*(range(int(loop.trips)) for loop in loops)):
        where = dict.fromkeys("mnk", 0)
        for loop, i, step in zip(loops, at, steps, strict=True):
            where[loop.axis] += i * int(step)
        for operand in GEMM:
            yield operand.name, tuple(where[axis] for ((axis, _),) in operand.dims)


def simulated(loops: list[Loop], capacity: int) -> int:
    """Misses of a second execution, in a cache that forgets what was used least recently."""
    cache, misses = OrderedDict[tuple[str, tuple[int, ...]], None](), 0
    for run in range(2):
        for element in elements(loops):
            misses += run * (element not in cache)
            cache[element] = None
            cache.move_to_end(element)
            if len(cache) > capacity:
                cache.popitem(last=False)
    return misses


def test_a_box_is_what_the_loops_inside_cover() -> None:
    loops = [Loop("m", 2), Loop("n", 3), Loop("m", 4)]
    assert Traffic.of(loops, (), dict.fromkeys("mn", 6)).box == {"m": 8, "n": 3}


def test_loops_around_are_like_loops_from_the_start() -> None:
    loops, extents = [Loop("m", 2), Loop("k", 5), Loop("n", 3), Loop("m", 4)], {"m": 7, "n": 3, "k": 5}
    for depth in range(len(loops)):
        assert Traffic.of(loops[depth:], GEMM, extents).inside(loops[:depth]) == Traffic.of(loops, GEMM, extents)


def test_what_fits_is_not_fetched_again() -> None:
    loops = [Loop("m", 4), Loop("n", 4), Loop("k", 4)]
    assert fetched(loops, GEMM, capacity=3 * 16) == 0 == simulated(loops, capacity=3 * 16)


def test_an_operand_stays_while_a_loop_runs_along_which_it_does_not_move() -> None:
    loops = [Loop("m", 8), Loop("n", 4), Loop("m", 4), Loop("n", 4), Loop("k", 16)]
    capacity = 4 * 16 + 16 * 4 + 4 * 4
    src, wei, dst = 8 * (4 * 16), 8 * 4 * (16 * 4), 8 * 4 * (4 * 4)
    assert fetched(loops, GEMM, capacity) == src + wei + 2 * dst
    assert fetched(loops, (SRC,), 4 * 16) == src


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.sampled_from("mnk"), st.integers(2, 4)), min_size=2, max_size=5), st.integers(4, 80))
def test_the_estimate_is_near_the_simulated_cache(given_loops: list[tuple[str, int]], capacity: int) -> None:
    loops = [Loop(axis, trips) for axis, trips in given_loops]
    written = Operand("dst", 8, DST.dims)
    traffic, cache_bytes = Traffic.of(loops, (SRC, WEI, written), dict.fromkeys("mnk", 1 << 30)), max(int(capacity / GONE), 1)
    estimate, real = traffic.dropped(cache_bytes) * sum(traffic.beyond(cache_bytes)), simulated(loops, capacity)
    assert real <= 3 * estimate  # elements are forgotten one by one, not a box at a time
    assert estimate > 0 or real == 0


@pytest.mark.parametrize("capacity", [3, 10, 40, 100, 1000])
def test_larger_caches_fetch_no_more(capacity: int) -> None:
    loops = [Loop("n", 3), Loop("m", 4), Loop("n", 5), Loop("k", 6)]
    assert fetched(loops, GEMM, capacity) >= fetched(loops, GEMM, 2 * capacity)
