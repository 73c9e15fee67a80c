"""Executables from disk: compiled once, by any process, and found again by everything that compiling them depends on.

The key is the text of compile's own inputs with all their fields, of the settings that may change code, of LLVM and the machine, of the
packages that constants are folded with, and a digest of the compiler's source files. What shows or checks the stages of a compilation
(BENCHGRAPH_PRINT_AFTER, _DUMP_DIR, _DEBUG, _VERIFY=2) needs one, and goes past the disk.
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
from benchgraph.core.target import Target
from benchgraph.runtime.code import compiler
from benchgraph.runtime.disk import Store, store
from benchgraph.runtime.executable import Executable
from benchgraph.runtime.sources import compiler_digest
from benchgraph.runtime.stored import from_bytes

EXECUTABLE = "executable"  # kind of file
FORMAT = 2  # of what stored.py writes: the digest of the sources covers it, the number says so


@dataclass(frozen=True)
class Slot:
    """The place of one executable on disk."""

    store: Store
    key: str
    target: Target

    def load(self, begin: float) -> Executable | None:
        """The executable, None if it is not there. begin: when its compilation was asked for, by time.perf_counter()."""
        data = self.store.get(EXECUTABLE, self.key)
        return None if data is None else from_bytes(data, self.target, begin)

    def save(self, executable: bytes) -> None:
        """executable: by stored.to_bytes."""
        self.store.put(EXECUTABLE, self.key, executable)


def slot(inputs: object, target: Target) -> Slot | None:
    """Where what is compiled from these inputs is kept. None without a disk cache, and for inputs without a canonical text."""
    flags = config()
    if flags.shows_stages or flags.verify >= 2:
        return None
    kept = store()
    sources = None if kept is None else compiler_digest(kept)
    if kept is None or sources is None:
        return None
    try:
        text = canonical((_versions(), compiler(target.isa), sources, compiling(flags), target, inputs))
    except TypeError:
        return None
    return Slot(kept, sha256(text.encode()).hexdigest(), target)


@cache
def _versions() -> tuple[object, ...]:
    """Of what else has a part in the result: constants are folded in Python. scipy, which takes 0.2 s to import, is known by a file."""
    scipy = find_spec("scipy")
    about = Path(scipy.origin).with_name("version.py").read_text() if scipy is not None and scipy.origin else ""
    return FORMAT, sys.version_info[:3], np.__version__, ml_dtypes.__version__, about
