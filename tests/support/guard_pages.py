"""Memory beside pages that nobody may read: one byte too far, and the process stops."""

from __future__ import annotations

import ctypes
import mmap

import numpy as np
from numpy.typing import NDArray

PROT_NONE = 0
_mprotect = ctypes.CDLL(None, use_errno=True).mprotect
_mprotect.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)


def fenced(data: NDArray[np.generic], *, end: bool = True) -> NDArray[np.generic]:
    """A row-major copy whose last byte (first, unless end) is the last (first) before (after) an unreadable page."""
    pages = -(-max(data.nbytes, 1) // mmap.PAGESIZE)
    block = mmap.mmap(-1, (pages + 2) * mmap.PAGESIZE)
    whole = np.frombuffer(block, np.uint8)
    for page in (0, pages + 1):
        if _mprotect(whole.ctypes.data + page * mmap.PAGESIZE, mmap.PAGESIZE, PROT_NONE):
            raise OSError(ctypes.get_errno(), "mprotect")
    start = (pages + 1) * mmap.PAGESIZE - data.nbytes if end else mmap.PAGESIZE
    copy = whole[start : start + data.nbytes]
    copy[...] = np.ascontiguousarray(data).reshape(-1).view(np.uint8)
    return copy.view(data.dtype).reshape(data.shape)
