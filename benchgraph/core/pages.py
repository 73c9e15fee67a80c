"""Fresh pages of memory from the system, not recycled by malloc.

Tensors of measurements, of every library alike, and long-lived memory are allocated here: times depend on where recycled memory is
(docs/measurements/runtime.md). It takes 0.1 ms for every 2 MB, ten times that with pages of 4 KiB: too much for every execution.
"""

from __future__ import annotations

import ctypes
import mmap
from contextlib import suppress

HUGE_BYTES = 2 << 20  # a huge page on x86-64
HUGE_FROM = 1 << 20  # bytes from which on huge pages are used


def pages(nbytes: int) -> tuple[mmap.mmap, int]:
    """(mapping, offset of nbytes in it): zeros, from HUGE_FROM on aligned to huge pages. Raises OSError if no memory is left."""
    if nbytes < HUGE_FROM:
        return anonymous(max(nbytes, 1)), 0
    size = -(-nbytes // HUGE_BYTES) * HUGE_BYTES
    mapping = anonymous(size + HUGE_BYTES)
    start = -address(mapping) % HUGE_BYTES
    if hasattr(mmap, "MADV_HUGEPAGE"):
        with suppress(OSError):  # kernels without huge pages reject the advice
            mapping.madvise(mmap.MADV_HUGEPAGE, start, size)
    return mapping, start


def address(mapping: mmap.mmap) -> int:
    """The address of a mapping in this process."""
    return ctypes.addressof(ctypes.c_char.from_buffer(mapping))


def anonymous(nbytes: int) -> mmap.mmap:
    """A private mapping of nbytes zeros. Raises OSError if the system has no memory left."""
    try:
        return mmap.mmap(-1, nbytes, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    except OverflowError as bad:  # more bytes than addresses
        raise OSError(str(bad)) from bad
