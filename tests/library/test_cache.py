"""The bounded cache."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from benchgraph.core.errors import InvalidArguments
from benchgraph.library.cache import Cache


def fill(cache: Cache[int], *keys: int) -> None:
    for key in keys:
        assert cache.get(key, lambda key=key: key * 10) == key * 10


def test_the_least_recently_used_goes_first() -> None:
    cache: Cache[int] = Cache(2)
    fill(cache, 1, 2, 1, 3, 1, 2)
    assert (cache.hits, cache.misses, len(cache)) == (2, 4, 2)


def test_capacity_zero_keeps_nothing() -> None:
    cache: Cache[int] = Cache(0)
    fill(cache, 1, 1)
    assert (cache.hits, len(cache)) == (0, 0)


def test_shrinking_drops_the_oldest() -> None:
    cache: Cache[int] = Cache(3)
    fill(cache, 1, 2, 3)
    cache.capacity = 1
    fill(cache, 3)
    assert (cache.hits, len(cache), cache.capacity) == (1, 1, 1)


def test_a_negative_capacity_is_refused() -> None:
    with pytest.raises(InvalidArguments, match="a cache of capacity -1; use 0"):
        Cache(1).capacity = -1


def test_the_capacity_may_be_found_out_later() -> None:
    asked: list[int] = []
    cache: Cache[int] = Cache(lambda: asked.append(1) or 2)
    assert not asked
    fill(cache, 1, 2, 3)
    assert (cache.capacity, len(cache), len(asked)) == (2, 2, 1)


def all_at_once(cache: Cache[int], threads: int, make: Callable[[int], int]) -> list[int | str]:
    """Every thread asks for key 0; makers start once every thread has asked. What each got: a value, or the error's text."""
    asked = threading.Barrier(threads)
    everybody = threading.Event()

    def slowly(thread: int) -> int:
        everybody.wait(1)
        return make(thread)

    def ask(thread: int) -> int | str:
        if asked.wait() == 0:
            threading.Timer(0.05, everybody.set).start()
        try:
            return cache.get(0, lambda: slowly(thread))
        except OSError as bad:
            return str(bad)

    with ThreadPoolExecutor(threads) as pool:
        return list(pool.map(ask, range(threads)))


def test_eight_threads_that_miss_together_make_one_value() -> None:
    cache: Cache[int] = Cache(4)
    makers: list[int] = []
    got = all_at_once(cache, 8, lambda thread: makers.append(thread) or 7)
    assert got == [7] * 8
    assert len(makers) == 1
    assert (cache.hits, cache.misses) == (7, 1)


def test_a_value_trimmed_at_once_still_reaches_those_who_wait() -> None:
    cache: Cache[int] = Cache(1)

    def make(thread: int) -> int:
        cache.capacity = 0
        return 7

    assert all_at_once(cache, 4, make) == [7] * 4
    assert len(cache) == 0


def test_an_exception_of_make_is_raised_in_its_caller_only() -> None:
    cache: Cache[int] = Cache(4)
    makers: list[int] = []

    def make(thread: int) -> int:
        makers.append(thread)
        time.sleep(0.01)
        if len(makers) == 1:
            raise OSError("broken")
        return 7

    got = all_at_once(cache, 4, make)
    assert sorted(map(str, got)) == ["7", "7", "7", "broken"]
    assert len(makers) == 2


def test_with_capacity_zero_every_thread_makes_its_own() -> None:
    cache: Cache[int] = Cache(0)
    makers: list[int] = []
    all_at_once(cache, 4, lambda thread: makers.append(thread) or 7)
    assert (len(makers), cache.hits, cache.misses, len(cache)) == (4, 0, 4, 0)
