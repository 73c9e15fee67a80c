"""Memory in oneDNN's process: its own buffers, the window it shares with ours, and a page of machine code."""

from __future__ import annotations

import ctypes
import mmap
import os
from contextlib import suppress

HUGE_FROM = 4 << 20  # bytes from which the kernel is asked for huge pages, as numpy does: both libraries then see the same TLB
_READ_EXECUTE = mmap.PROT_READ | mmap.PROT_EXEC


class Buffer:
    """Private memory from a page's start on. Not the window: pages shared between processes are never huge ones by default."""

    def __init__(self, nbytes: int) -> None:
        self.nbytes = nbytes
        self._map = mmap.mmap(-1, max(nbytes, 1), flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        if nbytes >= HUGE_FROM and hasattr(mmap, "MADV_HUGEPAGE"):
            with suppress(OSError):  # a kernel without them
                self._map.madvise(mmap.MADV_HUGEPAGE)
        self.address = _address(self._map)

    def close(self) -> None:
        """The mapping goes with the object."""


class Window:
    """Memory that both processes see, through which tensors pass."""

    def __init__(self, file: int, nbytes: int) -> None:
        self._map = mmap.mmap(file, nbytes)
        os.close(file)
        self.address = _address(self._map)


class Code:
    """Machine code that needs no relocation, made executable."""

    def __init__(self, code: bytes) -> None:
        self._map = mmap.mmap(-1, len(code), flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        self._map[: len(code)] = code
        self.address = _address(self._map)
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.mprotect(ctypes.c_void_p(self.address), ctypes.c_size_t(len(code)), _READ_EXECUTE):  # never writable and executable at once
            raise OSError(ctypes.get_errno(), "mprotect")


def _address(memory: mmap.mmap) -> int:
    return ctypes.addressof(ctypes.c_char.from_buffer(memory))
