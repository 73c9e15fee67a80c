"""The disk cache of executables, which any process may have compiled.

The key is the canonical text of all that compiling depends on: the inputs with all their fields, settings that may change code, LLVM and
the machine with its table, the packages that constants are folded with, and a digest of the compiler's source files. Settings that show or
check the stages of a compilation (BENCHGRAPH_PRINT_AFTER, _DUMP_DIR, _DEBUG, _VERIFY=2) bypass the cache.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path

import ml_dtypes
import numpy as np

from benchgraph.core.canonical import canonical
from benchgraph.core.config import compiling, config
from benchgraph.machine.table_file import is_file, read
from benchgraph.machine.target import Target
from benchgraph.runtime.code import compiler_identity
from benchgraph.runtime.disk_cache import Store, store
from benchgraph.runtime.executable import Executable
from benchgraph.runtime.serialise import from_bytes
from benchgraph.runtime.source_digest import compiler_digest

EXECUTABLE = "executable"  # kind of file
FORMAT = 4  # of serialise.py


@dataclass(frozen=True)
class CacheEntry:
    """The entry of one executable, which may not be stored yet."""

    store: Store
    key: str
    target: Target

    def load(self, begin: float) -> Executable | None:
        """The executable, None if it is not stored. begin: when its compilation began, by time.perf_counter()."""
        data = self.store.get(EXECUTABLE, self.key)
        return None if data is None else from_bytes(data, self.target, begin)

    def save(self, executable: bytes) -> None:
        """executable: from serialise.to_bytes."""
        self.store.put(EXECUTABLE, self.key, executable)


def cache_entry(inputs: object, target: Target) -> CacheEntry | None:
    """The entry for these inputs. None without a disk cache, and for inputs without a canonical text."""
    flags = config()
    if flags.shows_stages or flags.verify >= 2:
        return None
    disk = store()
    sources = None if disk is None else compiler_digest(disk)
    if disk is None or sources is None:
        return None
    try:
        known = (_versions(), compiler_identity(target.isa), sources, compiling(flags), target, _table_digest(target.machine), inputs)
        text = canonical(known)
    except TypeError:
        return None
    return CacheEntry(disk, sha256(text.encode()).hexdigest(), target)


def _table_digest(machine: str) -> str:
    """Of a table that is a file of the user's; built-in ones are among the compiler's files."""
    return read(machine).digest if is_file(machine) else ""


@cache
def _versions() -> tuple[object, ...]:
    """Of the packages that constants are folded with. scipy, which takes 0.2 s to import, is identified by a file."""
    scipy = find_spec("scipy")
    version = Path(scipy.origin).with_name("version.py").read_text() if scipy is not None and scipy.origin else ""
    return FORMAT, sys.version_info[:3], np.__version__, ml_dtypes.__version__, version
