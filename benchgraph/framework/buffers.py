"""Buffers of the library's engine."""

from __future__ import annotations

from functools import cache

from benchgraph.framework.memory_desc import Bytes
from benchgraph.library.engine import Engine


@cache
def _engine() -> Engine:
    return Engine()


def allocate(nbytes: int) -> Bytes:
    """Memory of the library's engine, aligned to cache lines, uninitialised. Raises OutOfMemory."""
    return _engine().allocate(nbytes)[:nbytes]
