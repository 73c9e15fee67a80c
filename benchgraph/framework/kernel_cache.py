"""A bounded cache of compiled kernels per thread, by what they were compiled for.

A signature is a nested tuple compared by value, which contains everything that affects compilation, and nothing that can be reused for
something else, such as an address. On a miss the library's own cache, shared by threads, is used.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field

from benchgraph.core.config import config
from benchgraph.core.errors import InvalidArguments
from benchgraph.framework.counters import counters
from benchgraph.framework.kernel import Kernel
from benchgraph.library.cache import Cache
from benchgraph.library.engine import Engine

DEFAULT_CAPACITY = 1024  # kernels per thread, as many as the library keeps for all


@dataclass(frozen=True)
class Signature:
    """What a kernel was compiled for: parts is a nested tuple, hashed once."""

    parts: tuple[Hashable, ...]
    _hash: int = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_hash", hash(self.parts))

    def __hash__(self) -> int:
        return self._hash


def compiled_for(engine: Engine) -> tuple[Hashable, ...]:
    """The parts of an engine and of the configuration that affect compilation and memory."""
    return engine.kind, engine.target, engine.allocator, config().runtime


_capacity = DEFAULT_CAPACITY


class _PerThread(threading.local):
    def __init__(self) -> None:
        self.cache: Cache[Kernel] = Cache(_capacity)


_per_thread = _PerThread()


def kernel_cache() -> Cache[Kernel]:
    """This thread's cache. hits and misses count its look-ups so far."""
    cache = _per_thread.cache
    if cache.capacity != _capacity:
        cache.capacity = _capacity
    return cache


def set_kernel_cache_capacity(capacity: int) -> None:
    """The number of kernels per thread, least recently used out first; 0 stores none. InvalidArguments for a negative number."""
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
