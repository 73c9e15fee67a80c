"""The disk cache: files by a digest of everything that their contents depend on.

    <directory>/<first digit of the key>/<kind>-<key>      magic, SHA-256 of kind, key and contents, contents

Many processes may share a directory. A file is written under another name and renamed, so a reader sees all of it or nothing. A file whose
checksum is wrong is deleted and counts as absent. Each of the 16 folders has a sixteenth of the capacity: every write deletes the least
recently used files beyond it. A reader keeps a file that it has opened.

The contents are executed. So the directory, its folders and files must belong to this user and be writable by nobody else. This is checked
on each open file, and the next one is opened relative to it, so that nothing can be exchanged in between. Folders above the directory may
belong to others: a directory that others put in its place belongs to them and is refused.

If the directory cannot be used or written, one remark says so, and nothing is cached. A folder or file in it that cannot be used counts as
absent, and one remark names the first of them.
"""

from __future__ import annotations

import errno
import os
import re
import secrets
import stat
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from hashlib import sha256
from pathlib import Path

from benchgraph.core import forks
from benchgraph.core.config import cache_home, config
from benchgraph.core.remarks import remark

MAGIC = b"bgcache1"
SHARDS = 16
MEGABYTE = 1 << 20
_DIGEST_BYTES = 32
_ABANDONED_S = 3600.0  # writing takes milliseconds: older unfinished files are of dead processes
_UNFINISHED = ".new-"
_NAME = re.compile(r"\w+-[0-9a-f]+")


class Store:
    """The files of one directory. capacity: bytes of all files together. hits, misses: look-ups so far, by kind; threads may share it."""

    def __init__(self, directory: Path, capacity: int) -> None:
        self.directory, self.capacity = directory, capacity
        self.hits, self.misses = Counter[str](), Counter[str]()
        self._may_write = self._is_trusted = True
        self._lock = forks.lock()

    def get(self, kind: str, key: str) -> bytes | None:
        """The stored contents, None if they are absent, damaged or unsafe. key: hexadecimal digits."""
        content = self._read(kind, key)
        with self._lock:
            (self.misses if content is None else self.hits)[kind] += 1
        return content

    def put(self, kind: str, key: str, content: bytes) -> None:
        """Store contents, unless they would fill a folder. After a failure this process writes nothing more."""
        room = self.capacity // SHARDS
        size = len(MAGIC) + _DIGEST_BYTES + len(content)
        if not self._may_write or size > room:
            return
        try:
            with self._folder(key, make=True) as folder:
                _write(folder, self._path(kind, key).name, MAGIC + _checksum(kind, key, content) + content)
                _trim(folder, room)
        except _Unusable as bad:
            self._distrust(bad)
        except IsADirectoryError:
            self._distrust(_Unusable(f"{self._path(kind, key)} is a folder"))
        except OSError as bad:
            self._give_up(bad)

    def _path(self, kind: str, key: str) -> Path:
        return self.directory / key[0] / f"{kind}-{key}"

    @contextmanager
    def _folder(self, key: str, *, make: bool = False) -> Iterator[int]:
        """The folder of a key, open. make: create it if absent. Raises OSError; _Unusable if it is not this user's alone."""
        with _own(self.directory, self.directory, is_folder=True, may_be_link=True) as (root, _):
            if make:
                with suppress(FileExistsError):
                    os.mkdir(key[0], 0o700, dir_fd=root)
            with _own(key[0], self.directory / key[0], root, is_folder=True) as (folder, _):
                yield folder

    def _read(self, kind: str, key: str) -> bytes | None:
        path = self._path(kind, key)
        try:
            with self._folder(key) as folder, _own(path.name, path, folder, is_folder=False) as (file, size):
                with open(file, "rb", closefd=False) as opened:  # one that is too large, or has grown, fails its checksum
                    data = opened.read(size + 1) if size <= self.capacity else b""
                start = len(MAGIC) + _DIGEST_BYTES
                if data[:start] == MAGIC + _checksum(kind, key, data[start:]):
                    with suppress(OSError):
                        os.utime(file)  # marks it as used
                    return data[start:]
                with suppress(OSError):
                    os.unlink(path.name, dir_fd=folder)
        except FileNotFoundError:
            pass
        except _Unusable as bad:
            self._distrust(bad)
        except OSError as bad:
            self._distrust(_Unusable(f"{path}: {bad.strerror or bad}"))
        return None

    def _distrust(self, bad: _Unusable) -> None:
        with self._lock:
            is_first, self._is_trusted = self._is_trusted, False
        if is_first:
            remark(f"part of the disk cache is not used: {bad}; delete it, or make it yours alone")

    def _give_up(self, bad: OSError) -> None:
        with self._lock:
            is_first, self._may_write = self._may_write, False
        if is_first:
            remark(f"the disk cache {self.directory} cannot be written ({bad.strerror or bad}): what is compiled now is not kept")


def _checksum(kind: str, key: str, content: bytes) -> bytes:
    """Of kind and key too, so that a renamed file is not taken for another one."""
    digest = sha256(f"{kind}-{key}:".encode())
    digest.update(content)
    return digest.digest()


class _Unusable(Exception):
    """A file or folder that must not be used; the text names it and says why."""


@contextmanager
def _own(name: str | Path, path: Path, at: int | None = None, *, is_folder: bool, may_be_link: bool = False) -> Iterator[tuple[int, int]]:
    """A file or folder of this user alone, open for reading, and its size.

    path: its name in messages. at: the open folder that it is in. Opening does not block at a pipe. may_be_link: the target of a link is
    checked; otherwise a link is refused. Raises OSError, _Unusable.
    """
    flags = os.O_RDONLY | os.O_CLOEXEC | (os.O_DIRECTORY if is_folder else 0) | (0 if may_be_link else os.O_NOFOLLOW | os.O_NONBLOCK)
    try:
        file = os.open(name, flags, dir_fd=at)
    except OSError as bad:
        if bad.errno in (errno.ELOOP, errno.ENOTDIR, errno.ENXIO) and not may_be_link:  # a link, a file in a folder's place, a socket
            raise _Unusable(f"{path} is no {'folder' if is_folder else 'regular file'}") from bad
        raise
    try:
        status = os.fstat(file)
        if problem := _problem(status, path, is_folder=is_folder):
            raise _Unusable(problem)
        yield file, status.st_size
    finally:
        os.close(file)


def _problem(status: os.stat_result, path: Path, *, is_folder: bool) -> str:
    """Why a file or folder must not be used; '' if it may. The group's bits include the rights of access-control lists."""
    if not (stat.S_ISDIR if is_folder else stat.S_ISREG)(status.st_mode):
        return f"{path} is no {'folder' if is_folder else 'regular file'}"
    if status.st_uid != os.geteuid():
        return f"{path} belongs to another user"
    if status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        return f"other users may write to {path} (chmod go-w it)"
    return ""


def _write(folder: int, name: str, data: bytes) -> None:
    """Write a file in an open folder atomically. Raises OSError."""
    unfinished = f"{_UNFINISHED}{secrets.token_hex(8)}"
    try:
        file = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600, dir_fd=folder)
        with open(file, "wb") as opened:
            opened.write(data)
        os.replace(unfinished, name, src_dir_fd=folder, dst_dir_fd=folder)
    except BaseException:
        with suppress(OSError):
            os.unlink(unfinished, dir_fd=folder)
        raise


def _trim(folder: int, room: int) -> None:
    """Delete the least recently used files until the rest takes at most `room` bytes, and unfinished files of dead processes."""
    files, now = [], time.time()
    with os.scandir(folder) as entries:
        for entry in entries:
            with suppress(FileNotFoundError):  # another process has deleted it
                status = entry.stat(follow_symlinks=False)
                if _NAME.fullmatch(entry.name) and not stat.S_ISDIR(status.st_mode):
                    files.append((status.st_mtime_ns, status.st_size, entry.name))
                elif entry.name.startswith(_UNFINISHED) and now - status.st_mtime > _ABANDONED_S:
                    os.unlink(entry.name, dir_fd=folder)
    total = sum(size for _, size, _ in files)
    for _, size, name in sorted(files):
        if total <= room:
            return
        with suppress(FileNotFoundError):
            os.unlink(name, dir_fd=folder)
        total -= size


def store() -> Store | None:
    """The configured store; None if it is off, or cannot be used; one remark per process reports that."""
    flags = config()
    if not flags.disk_cache_capacity or flags.cache_dir == "off":
        return None
    directory = Path(flags.cache_dir) if flags.cache_dir else cache_home()
    return _opened(directory, flags.disk_cache_capacity * MEGABYTE)


@cache
def _opened(directory: Path | None, capacity: int) -> Store | None:
    problem = "there is no home directory to put it in" if directory is None else _unusable(directory)
    if directory is None or problem:
        remark(f"no disk cache: {problem}; BENCHGRAPH_CACHE_DIR names another directory, BENCHGRAPH_DISK_CACHE_CAPACITY=0 does without")
        return None
    return Store(directory, capacity)


def _unusable(directory: Path) -> str:
    """Create a directory if absent. Why it must not be used; '' if it may."""
    try:
        for folder in (*reversed(directory.parents), directory):
            with suppress(FileExistsError):
                if not folder.exists():
                    folder.mkdir(mode=0o700)
        with _own(directory, directory, is_folder=True, may_be_link=True):
            return ""
    except _Unusable as bad:
        return str(bad)
    except OSError as bad:
        return f"{directory}: {bad.strerror or bad}"
