"""What was done on the way: counters of the current thread, collected per run."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field


@dataclass
class Counters:
    """Of one run, on one thread.

    reorders, reorder_bytes: changes of layout of any kind, and the bytes they wrote. weight_reorders: those of parameters for good, by
    whoever was first. lazy_reorders: opaque arrays that reached a kernel which knows row-major alone. hits, misses: of the cache of
    kernels. offloaded: ops that the library ran; fallbacks: op -> why numpy ran it. temp_bytes: temporary space used at once, at most;
    spills: temporaries that did not fit the one buffer and were allocated. copies_back, adds_back: results that went through temporary
    memory.
    """

    reorders: int = 0
    reorder_bytes: int = 0
    weight_reorders: int = 0
    lazy_reorders: int = 0
    hits: int = 0
    misses: int = 0
    offloaded: int = 0
    fallbacks: dict[str, str] = field(default_factory=dict)
    temp_bytes: int = 0
    spills: int = 0
    copies_back: int = 0
    adds_back: int = 0


class _Current(threading.local):
    def __init__(self) -> None:
        self.counters = Counters()


_current = _Current()


def counters() -> Counters:
    """What this thread counts into now."""
    return _current.counters


@contextmanager
def counted() -> Iterator[Counters]:
    """Counters of what this thread does inside; whoever counts outside does not see it."""
    before, mine = _current.counters, Counters()
    _current.counters = mine
    try:
        yield mine
    finally:
        _current.counters = before
