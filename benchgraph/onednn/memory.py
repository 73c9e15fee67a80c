"""Memory in oneDNN's process: its own buffers, the window it shares with ours, and a page of machine code."""

from __future__ import annotations

import ctypes
import mmap
import os

from benchgraph.core.pages import address, anonymous, pages

_READ_EXECUTE = mmap.PROT_READ | mmap.PROT_EXEC


class Buffer:
    """Memory as benchgraph's tensors have it (core.pages). Not the window: pages that processes share are never huge ones by default."""

    def __init__(self, nbytes: int) -> None:
        self.nbytes = nbytes
        self._map, start = pages(nbytes)
        self.address = address(self._map) + start

    def close(self) -> None:
        """The mapping goes with the object."""


class Window:
    """Memory that both processes see, through which tensors pass."""

    def __init__(self, file: int, nbytes: int) -> None:
        self._map = mmap.mmap(file, nbytes)
        os.close(file)
        self.address = address(self._map)


class Code:
    """Machine code that needs no relocation, made executable."""

    def __init__(self, code: bytes) -> None:
        self._map = anonymous(len(code))
        self._map[: len(code)] = code
        self.address = address(self._map)
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.mprotect(ctypes.c_void_p(self.address), ctypes.c_size_t(len(code)), _READ_EXECUTE):  # never writable and executable at once
            raise OSError(ctypes.get_errno(), "mprotect")
