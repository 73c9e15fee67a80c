"""oneDNN's verbose log: switched on for a block, captured, and read.

onednn_verbose,v1,primitive,create:cache_miss,cpu,matmul,brg_matmul:avx512_core,undef,src:f32::blocked:ab::f0 ...      3.5 and newer
onednn_verbose,create:cache_miss,cpu,matmul,brg:avx512_core,undef,src_f32::blocked:ab:f0 ...                           older
onednn_verbose,v1,primitive,create:dispatch,reduction,cpu,reduction,jit:avx2,...,dimensionality reduction not possible,x.cpp:143
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from tempfile import TemporaryFile
from typing import IO, Any

DISPATCH = "dispatch,profile_create"  # the value of ONEDNN_VERBOSE that logs rejected implementations, too
CREATION = 2  # the level at which creations are logged
QUIET = 0


class VerboseLog:
    """Captures what oneDNN writes to stdout. value: that of ONEDNN_VERBOSE; '' if it is not set, and the log is off but where it is read.

    Another log than that of DISPATCH is the user's own, and goes on to stdout.
    """

    def __init__(self, library: Any, value: str) -> None:
        self._set_level, self._is_set, self._is_users = library.dnnl_set_verbose, bool(value), value not in ("", DISPATCH)
        self._flush = ctypes.CDLL(None).fflush
        self._file: IO[bytes] = TemporaryFile(buffering=0)  # noqa: SIM115 - it lives as long as the process

    @contextmanager
    def creations(self) -> Iterator[list[str]]:
        """Inside the block creations are logged; after it the list has the lines."""
        lines = list[str]()
        self._file.seek(0)
        self._file.truncate(0)
        self._flush(None)
        stdout = os.dup(1)
        os.dup2(self._file.fileno(), 1)
        if not self._is_set:
            self._set_level(CREATION)
        try:
            yield lines
        finally:
            if not self._is_set:
                self._set_level(QUIET)
            self._flush(None)
            os.dup2(stdout, 1)
            self._file.seek(0)
            text = self._file.read()
            if self._is_users:
                os.write(stdout, text)
            os.close(stdout)
            lines += text.decode("utf-8", "replace").splitlines()


def created(lines: Iterable[str]) -> Iterator[tuple[str, str]]:
    """(primitive, implementation) of every line on the creation of a primitive."""
    for event, *fields in _primitive_events(lines):
        if event.startswith("create:") and event != "create:dispatch" and len(fields) > 2:
            yield fields[1], fields[2]


def rejected(lines: Iterable[str]) -> Iterator[tuple[str, str, str]]:
    """(primitive, implementation, reason) of every line on an implementation that a primitive could not have."""
    for event, *fields in _primitive_events(lines):
        if event == "create:dispatch" and len(fields) > 5:
            yield fields[2], fields[3], fields[-2]


def _primitive_events(lines: Iterable[str]) -> Iterator[list[str]]:
    """The fields of lines on primitives, from the event on."""
    for line in lines:
        mark, _, rest = line.partition(",")
        if mark == "onednn_verbose" and not rest.startswith("v1,graph,"):
            yield rest.removeprefix("v1,").removeprefix("primitive,").split(",")
