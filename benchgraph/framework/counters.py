"""Counters of the current thread, collected per run."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field


@dataclass
class Counters:
    """The counters of one run on one thread.

    reorders, reorder_bytes: changes of layout, and the bytes that they wrote. weight_reorders: permanent changes of parameters, counted by
    the first thread. lazy_reorders: opaque arrays read by a kernel that supports only row-major. hits, misses: of the kernel cache.
    offloaded: ops run by the library; fallbacks: op -> why numpy ran it. temp_bytes: the largest use of temporary space; spills:
    temporaries that did not fit the buffer. copies_back, adds_back: results written to temporary memory first.
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
    return _current.counters


@contextmanager
def counted() -> Iterator[Counters]:
    """Counters of what this thread does inside the block; the outer ones do not include it."""
    before, mine = _current.counters, Counters()
    _current.counters = mine
    try:
        yield mine
    finally:
        _current.counters = before
