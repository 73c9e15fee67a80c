"""The bounded cache."""

from __future__ import annotations

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
