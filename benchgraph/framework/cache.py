"""Compiled kernels, kept per thread, bounded, and found by what they were compiled for.

A signature is a nested tuple compared by value: no two lists of shapes run into each other, attributes keep their types, and there is
nothing in it that could be given to something else later, such as an address. It is the whole question: what is not in it must not change
what is compiled. Behind a miss lies the library's own cache, which threads share.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field

from benchgraph.core.config import config
from benchgraph.core.errors import InvalidArguments
from benchgraph.framework.context import counters
from benchgraph.framework.kernel import Kernel
from benchgraph.library.cache import Cache
from benchgraph.library.engine import Engine

DEFAULT_CAPACITY = 1024  # kernels per thread, as many as the library keeps for all


@dataclass(frozen=True)
class Signature:
    """What a kernel is for: parts is a nested tuple, hashed once."""

    parts: tuple[Hashable, ...]
    _hash: int = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_hash", hash(self.parts))

    def __hash__(self) -> int:
        return self._hash


def compiled_for(engine: Engine) -> tuple[Hashable, ...]:
    """What of an engine, and of the configuration, decides what is compiled and where its memory is from."""
    return engine.kind, engine.target, engine.allocator, config().runtime


_capacity = DEFAULT_CAPACITY


class _PerThread(threading.local):
    def __init__(self) -> None:
        self.cache: Cache[Kernel] = Cache(_capacity)


_per_thread = _PerThread()


def kernel_cache() -> Cache[Kernel]:
    """This thread's. hits and misses count its look-ups so far."""
    cache = _per_thread.cache
    if cache.capacity != _capacity:
        cache.capacity = _capacity
    return cache


def set_kernel_cache_capacity(capacity: int) -> None:
    """How many kernels each thread keeps, the least recently used going first; 0 keeps none. InvalidArguments for a negative number."""
    global _capacity
    if not isinstance(capacity, int) or capacity < 0:
        raise InvalidArguments(f"a kernel cache of capacity {capacity!r}", fix="use 0 to switch it off")
    _capacity = capacity


def get_kernel_cache_capacity() -> int:
    return _capacity


def cached(signature: Signature, make: Callable[[], Kernel]) -> Kernel:
    """The kernel for a signature, compiled if this thread has none."""
    is_hit = True

    def compiled() -> Kernel:
        nonlocal is_hit
        is_hit = False
        counters().misses += 1
        return make()

    kernel = kernel_cache().get(signature, compiled)
    counters().hits += is_hit
    return kernel
