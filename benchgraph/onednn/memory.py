"""Memory in oneDNN's process: its buffers, the window shared with ours, and a page of machine code."""

from __future__ import annotations

import ctypes
import mmap
import os

from benchgraph.core.pages import address, anonymous, pages

_READ_EXECUTE = mmap.PROT_READ | mmap.PROT_EXEC


class Buffer:
    """Memory as for benchgraph's tensors (core.pages). Not in the window: shared pages are not huge ones by default."""

    def __init__(self, nbytes: int) -> None:
        self.nbytes = nbytes
        self._map, start = pages(nbytes)
        self.address = address(self._map) + start

    def close(self) -> None:
        """The mapping is freed with the object."""


class Window:
    """Memory shared by both processes, to pass tensors."""

    def __init__(self, file: int, nbytes: int) -> None:
        self._map = mmap.mmap(file, nbytes)
        os.close(file)
        self.address = address(self._map)


class Code:
    """Executable machine code that needs no relocation."""

    def __init__(self, code: bytes) -> None:
        self._map = anonymous(len(code))
        self._map[: len(code)] = code
        self.address = address(self._map)
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.mprotect(ctypes.c_void_p(self.address), ctypes.c_size_t(len(code)), _READ_EXECUTE):  # never writable and executable at once
            raise OSError(ctypes.get_errno(), "mprotect")
