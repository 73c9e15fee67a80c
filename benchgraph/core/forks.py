"""Safe forks of processes with threads: the child copies memory that other threads may be changing, but not these threads.

`lock` is for data that is consistent whenever Python switches threads: the child's copy of the lock is free. `Gate` is for other data: a
fork waits until no thread is inside, and no thread enters until it is done. Both work for os.fork only.
"""

from __future__ import annotations

import os
import threading
from typing import Any
from weakref import WeakSet

_locks: WeakSet[Any] = WeakSet()


def lock() -> threading.Lock:
    """A lock that is free in the child of a fork, even if another thread held it."""
    new = threading.Lock()
    _locks.add(new)
    return new


def _free_locks() -> None:
    for each in list(_locks):
        each._at_fork_reinit()  # as Python's own modules do


class Gate:
    """Any number of threads may be inside; a fork waits until there is none."""

    def __init__(self) -> None:
        self._inside, self._changed = 0, threading.Condition()

    def __enter__(self) -> None:
        with self._changed:
            self._inside += 1

    def __exit__(self, *error: object) -> None:
        with self._changed:
            self._inside -= 1
            self._changed.notify_all()

    def close(self) -> None:
        """Wait until no thread is inside, and keep others out until this thread opens it."""
        self._changed.acquire()
        self._changed.wait_for(lambda: not self._inside)

    def open(self) -> None:
        self._changed.release()


os.register_at_fork(after_in_child=_free_locks)
