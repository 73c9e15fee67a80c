"""The lock of a host: timed cases hold it alone, other cases share it, whichever worker, cluster or user they belong to.

It is a file that processes lock (flock), so the kernel releases it when a process dies. A second file is the gate: whoever wants the lock
passes it one at a time, so that a timed case waiting for the others to end is not overtaken by further ones.

    gate:  timed case waits here with the gate closed      lock:  held by one timed case, or by any number of others
"""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

RETRY_S = 0.01  # between two tries; flock itself cannot wait for a limited time


@dataclass(frozen=True)
class HostLock:
    """path: the same for all processes of the host."""

    path: Path

    @contextmanager
    def held(self, *, is_alone: bool, within_s: float) -> Iterator[bool]:
        """Hold the lock during the block. Yields False if it cannot be had within so many seconds; then it is not held."""
        until, lock = time.monotonic() + within_s, _open(self.path)
        try:
            gate = _open(self.path.with_name(f"{self.path.name}.gate"))
            try:
                is_held = _locked(gate, fcntl.LOCK_EX, until) and _locked(lock, fcntl.LOCK_EX if is_alone else fcntl.LOCK_SH, until)
            finally:
                os.close(gate)
            yield is_held
        finally:
            os.close(lock)


def _open(path: Path) -> int:
    """Open a file, which another user may own: locking needs no right to write."""
    with suppress(FileNotFoundError):
        return os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    before = os.umask(0)
    try:
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    finally:
        os.umask(before)


def _locked(file: int, how: int, until: float) -> bool:
    """Lock an open file. False if others hold it until then."""
    while True:
        try:
            fcntl.flock(file, how | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() >= until:
                return False
            time.sleep(RETRY_S)
        else:
            return True
