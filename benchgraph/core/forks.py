"""What a fork finds other threads at: the child has their memory as it was just then, and none of them to go on.

`lock` is for what one step of Python changes: in the child it is free. `Gate` is for what has to be whole: a fork waits until nobody is
inside, and nobody gets in before it is done. Programs that fork by other means than Python's os.fork are not known of.
"""

from __future__ import annotations

import os
import threading
from types import TracebackType
from typing import Any
from weakref import WeakSet

_locks: WeakSet[Any] = WeakSet()


def lock() -> threading.Lock:
    """A lock that is free in the child of a fork, whoever held it."""
    made = threading.Lock()
    _locks.add(made)
    return made


def _freed() -> None:
    for each in list(_locks):
        each._at_fork_reinit()  # as Python's own modules free theirs


class Gate:
    """Any number of threads may be inside; a fork begins when nobody is."""

    def __init__(self) -> None:
        self._inside, self._changed = 0, threading.Condition()

    def __enter__(self) -> None:
        with self._changed:
            self._inside += 1

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        with self._changed:
            self._inside -= 1
            self._changed.notify_all()

    def close(self) -> None:
        """Wait until nobody is inside, and keep others out until this thread opens it."""
        self._changed.acquire()
        self._changed.wait_for(lambda: not self._inside)

    def open(self) -> None:
        self._changed.release()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_freed)
