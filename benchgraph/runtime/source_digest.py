"""A digest of the compiler's source files, so that results of another version are not used."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from functools import cache
from hashlib import sha256
from pathlib import Path

from benchgraph.core.remarks import remark
from benchgraph.core.version import LOADED_NS, ROOT
from benchgraph.runtime.disk_cache import Store

# What code generation does not depend on. A new folder counts unless it is added here.
_NOT_COMPILER = frozenset(
    {"_data", "__pycache__", "analysis", "commands", "framework", "fuzz", "harness", "library", "measure", "onednn", "options", "present"}
    | {"reference", "results", "torch", "tune", "cli.py", "__main__.py"}
)
_TICK_NS = 20_000_000  # times of files are those of the last clock tick, up to 10 ms ago, with a margin of two

Status = tuple[str, int, int, int, int]  # path in the package, size, times of modification and change in ns, inode


def compiler_digest(store: Store) -> str | None:
    """A digest of the names and contents of the compiler's files, as this process has loaded them; None if they have changed since.

    The disk cache keeps it under the files' stat data: reading all takes 5 ms, and equal ctimes, which users cannot set, mean equal
    contents.
    """
    return _digest(store, ROOT, LOADED_NS)


@cache
def _digest(store: Store, root: Path, loaded_ns: int) -> str | None:
    try:
        files = sorted(_files(root))
        if _changed_ns(files) >= loaded_ns - _TICK_NS:
            remark("no disk cache: the compiler's source files have changed since this process began")
            return None
        key = sha256(repr((str(root), files)).encode()).hexdigest()
        known = store.get("sources", key)
        if known is not None:
            return known.decode()
        digest = _contents(root, [path for path, *_ in files])
    except (OSError, ValueError) as bad:
        remark(f"no disk cache: the compiler's source files cannot be read ({bad})")
        return None
    store.put("sources", key, digest.encode())
    return digest


def unchanged_since(loaded_ns: int) -> bool:
    """Whether the compiler's files have not changed since a time, by time.time_ns()."""
    try:
        return _changed_ns(_files(ROOT)) < loaded_ns - _TICK_NS
    except OSError:
        return False


def _changed_ns(files: Iterable[Status]) -> int:
    return max(changed for _, _, _, changed, _ in files)


def _files(root: Path, prefix: str = "") -> Iterator[Status]:
    with os.scandir(root) as entries:
        for entry in entries:
            if entry.name in _NOT_COMPILER:
                continue
            if entry.is_dir():
                yield from _files(Path(entry.path), f"{prefix}{entry.name}/")
            else:
                s = entry.stat()
                yield f"{prefix}{entry.name}", s.st_size, s.st_mtime_ns, s.st_ctime_ns, s.st_ino


def _contents(root: Path, paths: list[str]) -> str:
    digest = sha256()
    for path in paths:
        with open(f"{root}/{path}", "rb", buffering=0) as file:  # a third faster than pathlib
            data = file.read()
        digest.update(f"{path} {len(data)}\n".encode() + data)
    return digest.hexdigest()
