"""Memory that nobody has used before, on pages of its own: straight from the system, not what malloc was given back.

What is measured lies here, of every library alike, and what is kept for long. Where freed memory lies is left to chance: gradients of abs,
elu and gelu of 64x16x28x28 took 1.1 to 1.4 times as long in it on a Zen 4, softmax's of 8x384x1024 1.2 times, other ops 0.87 to 1.2, 55 in
the geometric mean 1.05 (`--threads=1 --max-ms-per-prb=10 --match='/(relu|abs_bwd|elu_bwd|softmax_bwd|lnorm_3d_bwd|lnorm).json'
--batch=op/harness_f32_all` of oneDNN, medians of three processes each, in turns). It costs 0.1 ms for every 2 MB, with pages of 4 KiB ten
times that: too much for what every execution allocates.
"""

from __future__ import annotations

import ctypes
import mmap
from contextlib import suppress

HUGE_BYTES = 2 << 20  # a huge page on x86-64
HUGE_FROM = 1 << 20  # bytes that are worth one


def pages(nbytes: int) -> tuple[mmap.mmap, int]:
    """(mapping, where in it nbytes begin): zeros, from the start of a page on, of a huge one if they are many and the system agrees.

    Raises OSError when the system has no memory left.
    """
    if nbytes < HUGE_FROM:
        return anonymous(max(nbytes, 1)), 0
    size = -(-nbytes // HUGE_BYTES) * HUGE_BYTES
    mapping = anonymous(size + HUGE_BYTES)
    start = -address(mapping) % HUGE_BYTES
    if hasattr(mmap, "MADV_HUGEPAGE"):
        with suppress(OSError):  # advice, which a kernel without them does not understand
            mapping.madvise(mmap.MADV_HUGEPAGE, start, size)
    return mapping, start


def address(mapping: mmap.mmap) -> int:
    """Where it lies in this process."""
    return ctypes.addressof(ctypes.c_char.from_buffer(mapping))


def anonymous(nbytes: int) -> mmap.mmap:
    """So many bytes, zeros, from the start of a page on, which no other process sees. Raises OSError when the system has none left."""
    try:
        return mmap.mmap(-1, nbytes, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    except OverflowError as bad:  # more bytes than addresses
        raise OSError(str(bad)) from bad
