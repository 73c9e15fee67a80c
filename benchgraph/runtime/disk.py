"""Files that outlive the process: what was computed once, found again by a digest of everything that determines it.

    <directory>/<first digit of the key>/<kind>-<key>      magic, SHA-256 of what follows with kind and key, the bytes

Many processes may share a directory. A file is written beside its place and renamed into it, so a reader sees all of it or none; what is
torn or changed all the same fails its checksum, is deleted and counts as absent. Each of the 16 folders holds a sixteenth of the capacity:
after every write the files that were not used for longest go. A reader that has opened a file keeps it.

The directory must belong to the user, and nobody else may write to it: what it holds is executed. Where it cannot be used, or not be
written, one remark says so and everything is computed as if there were none.
"""

from __future__ import annotations

import os
import secrets
import stat
import threading
import time
from collections import Counter
from contextlib import suppress
from functools import cache
from hashlib import sha256
from pathlib import Path

from benchgraph.core.config import cache_home, config
from benchgraph.core.remarks import remark

MAGIC = b"bgcache1"
SHARDS = 16
MEGABYTE = 1 << 20
_DIGEST_BYTES = 32
_ABANDONED_S = 3600.0  # a writer needs milliseconds: older unfinished files belong to processes that died
_UNFINISHED = ".new-"


class Store:
    """The files of one directory. capacity: bytes of all files together. hits, misses: look-ups so far, by kind; threads may share it."""

    def __init__(self, directory: Path, capacity: int) -> None:
        self.directory, self.capacity = directory, capacity
        self.hits, self.misses = Counter[str](), Counter[str]()
        self._may_write = True
        self._lock = threading.Lock()

    def get(self, kind: str, key: str) -> bytes | None:
        """What was stored, None if it is not there or not whole. key: hexadecimal digits."""
        path = self._path(kind, key)
        found = self._whole(path, kind, key)
        with self._lock:
            (self.misses if found is None else self.hits)[kind] += 1
        if found is not None:
            with suppress(OSError):
                os.utime(path)  # used now: it goes last
        return found

    def put(self, kind: str, key: str, content: bytes) -> None:
        """Store it, unless it alone would fill a folder. After a failure nothing more is written by this process."""
        room = self.capacity // SHARDS
        size = len(MAGIC) + _DIGEST_BYTES + len(content)
        if not self._may_write or size > room:
            return
        path = self._path(kind, key)
        unfinished = path.with_name(f"{_UNFINISHED}{secrets.token_hex(8)}")
        try:
            path.parent.mkdir(mode=0o700, exist_ok=True)
            try:
                with open(unfinished, "xb", opener=_private) as file:
                    file.write(MAGIC + _checksum(kind, key, content) + content)
                os.replace(unfinished, path)
            except BaseException:
                with suppress(OSError):
                    unfinished.unlink()
                raise
            _trim(path.parent, room)
        except OSError as bad:
            self._give_up(bad)

    def _path(self, kind: str, key: str) -> Path:
        return self.directory / key[0] / f"{kind}-{key}"

    def _whole(self, path: Path, kind: str, key: str) -> bytes | None:
        try:
            with open(path, "rb", opener=_not_a_link) as file:
                data = file.read()
        except OSError:
            return None
        start = len(MAGIC) + _DIGEST_BYTES
        if data[:start] == MAGIC + _checksum(kind, key, data[start:]):
            return data[start:]
        with suppress(OSError):
            path.unlink()
        return None

    def _give_up(self, bad: OSError) -> None:
        with self._lock:
            is_first, self._may_write = self._may_write, False
        if is_first:
            remark(f"the disk cache {self.directory} cannot be written ({bad.strerror or bad}): what is compiled now is not kept")


def _checksum(kind: str, key: str, content: bytes) -> bytes:
    """Kind and key too, so that a file under another one's name is not taken for it."""
    digest = sha256(f"{kind}-{key}:".encode())
    digest.update(content)
    return digest.digest()


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def _not_a_link(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NOFOLLOW)


def _trim(folder: Path, room: int) -> None:
    """Delete what was not used for longest until the rest takes at most `room` bytes, and what dead writers have left."""
    found, now = [], time.time()
    with os.scandir(folder) as entries:
        for entry in entries:
            with suppress(OSError):  # another process has deleted it
                status = entry.stat(follow_symlinks=False)
                if not entry.name.startswith(_UNFINISHED):
                    found.append((status.st_mtime_ns, status.st_size, entry.path))
                elif now - status.st_mtime > _ABANDONED_S:
                    os.unlink(entry.path)
    total = sum(size for _, size, _ in found)
    for _, size, path in sorted(found):
        if total <= room:
            return
        with suppress(FileNotFoundError):
            os.unlink(path)
        total -= size


def store() -> Store | None:
    """The configured store; None when it is switched off or cannot be used, which is remarked once in a process."""
    flags = config()
    if not flags.disk_cache_capacity or flags.cache_dir == "off":
        return None
    directory = Path(flags.cache_dir) if flags.cache_dir else cache_home()
    return _opened(directory, flags.disk_cache_capacity * MEGABYTE)


@cache
def _opened(directory: Path | None, capacity: int) -> Store | None:
    problem = "there is no home directory to put it in" if directory is None else _problem(directory)
    if directory is None or problem:
        remark(f"no disk cache: {problem}; BENCHGRAPH_CACHE_DIR names another directory, BENCHGRAPH_DISK_CACHE_CAPACITY=0 does without")
        return None
    return Store(directory, capacity)


def _problem(directory: Path) -> str:
    """Why a directory, made if it is not there, must not be used; '' if it may."""
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        status = directory.stat()
    except OSError as bad:
        return f"{directory}: {bad.strerror or bad}"
    if status.st_uid != os.geteuid():
        return f"{directory} belongs to another user"
    if status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        return f"other users may write to {directory} (chmod go-w it)"
    return ""
