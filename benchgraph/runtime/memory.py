"""Aligned buffers, from the system or from a user's allocator."""

from __future__ import annotations

import ctypes
import mmap
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchgraph.core.errors import OutOfMemory
from benchgraph.core.pages import HUGE_BYTES, HUGE_FROM, pages
from benchgraph.machine.target import LINE_BYTES


@cache
def _madvise() -> Any:
    """libc's madvise, None where there are no huge pages to ask for."""
    if not hasattr(mmap, "MADV_HUGEPAGE"):
        return None
    function = ctypes.CDLL(None).madvise
    function.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
    return function


def aligned(nbytes: int) -> NDArray[np.uint8]:
    """nbytes of memory with undefined contents, aligned to a cache line; on huge pages if large and the system agrees.

    At least 1 byte, so that every buffer has a unique address. Raises OutOfMemory.
    """
    size = max(nbytes, 1)
    alignment = HUGE_BYTES if size >= 2 * HUGE_BYTES else LINE_BYTES
    try:
        raw = np.empty(size + alignment, np.uint8)
    except MemoryError as full:
        raise _out_of_memory(size) from full
    skip = -raw.ctypes.data % alignment
    buffer = raw[skip : skip + size]
    madvise = _madvise()
    if alignment == HUGE_BYTES and madvise is not None:
        madvise(buffer.ctypes.data, size // HUGE_BYTES * HUGE_BYTES, mmap.MADV_HUGEPAGE)  # advice: failure changes nothing
    return buffer


def mapped(nbytes: int) -> NDArray[np.uint8]:
    """`aligned`, on fresh pages if large (core/pages.py), for memory that is measured or long-lived. Raises OutOfMemory."""
    if nbytes < HUGE_FROM:
        return aligned(nbytes)
    try:
        mapping, start = pages(nbytes)
    except OSError as full:
        raise _out_of_memory(nbytes) from full
    return np.frombuffer(mapping, np.uint8, nbytes, start)


def _out_of_memory(nbytes: int) -> OutOfMemory:
    return OutOfMemory(f"cannot allocate {nbytes} bytes", fix="use a smaller batch")


class Use(Enum):
    """oneDNN's mem_type, as messages describe it."""

    persistent = "constants that are kept"
    output = "a tensor"
    temp = "temporaries"


@dataclass(frozen=True)
class Allocator:
    """A user's memory functions: malloc(size, alignment) -> address (0: none left), free(address). Used if both are given."""

    malloc: Callable[[int, int], int] | None = None
    free: Callable[[int], None] | None = None


def allocate(nbytes: int, use: Use, allocator: Allocator | None = None) -> NDArray[np.uint8]:
    """Memory aligned to a cache line, freed with the last view of the array. Raises OutOfMemory, which says what it was for."""
    malloc, free = (allocator.malloc, allocator.free) if allocator is not None else (None, None)
    if malloc is None or free is None:
        try:
            return mapped(nbytes) if use is Use.persistent else aligned(nbytes)
        except OutOfMemory as full:
            raise full.inside(use.value) from full
    address = malloc(max(nbytes, 1), LINE_BYTES)
    if not address:
        raise OutOfMemory(f"the engine's allocator has no {nbytes} bytes for {use.value}", where="Engine", fix="use a smaller batch")
    buffer = (ctypes.c_uint8 * max(nbytes, 1)).from_address(address)
    weakref.finalize(buffer, free, address)
    return np.frombuffer(memoryview(buffer), np.uint8)[:nbytes]
