"""oneDNN's verbose log: switched on for a block, captured, and read.

onednn_verbose,v1,primitive,create:cache_miss,cpu,matmul,brg_matmul:avx512_core,undef,src:f32::blocked:ab::f0 ...      3.5 and newer
onednn_verbose,create:cache_miss,cpu,matmul,brg:avx512_core,undef,src_f32::blocked:ab:f0 ...                           older
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from tempfile import TemporaryFile
from typing import IO, Any

CREATION = 2  # the level at which creations are logged
QUIET = 0


class VerboseLog:
    """Captures what oneDNN writes to stdout. is_users: the user's own log, at the level of their ONEDNN_VERBOSE, goes on to stdout."""

    def __init__(self, library: Any, *, is_users: bool) -> None:
        self._set_level, self._is_users = library.dnnl_set_verbose, is_users
        self._flush = ctypes.CDLL(None).fflush
        self._file: IO[bytes] = TemporaryFile(buffering=0)  # noqa: SIM115 - it lives as long as the process

    @contextmanager
    def creations(self) -> Iterator[list[tuple[str, str]]]:
        """Inside the block creations are logged; after it the list has (primitive, implementation) of each."""
        found = list[tuple[str, str]]()
        self._file.seek(0)
        self._file.truncate(0)
        self._flush(None)
        stdout = os.dup(1)
        os.dup2(self._file.fileno(), 1)
        if not self._is_users:
            self._set_level(CREATION)
        try:
            yield found
        finally:
            if not self._is_users:
                self._set_level(QUIET)
            self._flush(None)
            os.dup2(stdout, 1)
            self._file.seek(0)
            text = self._file.read()
            if self._is_users:
                os.write(stdout, text)
            os.close(stdout)
            found += created(text.decode("utf-8", "replace").splitlines())


def created(lines: Iterable[str]) -> Iterator[tuple[str, str]]:
    """(primitive, implementation) of every line on the creation of a primitive."""
    for line in lines:
        mark, _, rest = line.partition(",")
        fields = rest.removeprefix("v1,").removeprefix("primitive,").split(",")
        if mark == "onednn_verbose" and len(fields) > 3 and fields[0].startswith("create:") and "dispatch" not in fields[0]:
            yield fields[2], fields[3]
