"""The process's side of library/remote.py: it starts, answers requests, keeps objects by number, maps the shared memory.

Standard library alone: processes of other versions of this package and of other interpreters load this file by its path.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import signal
import sys
from collections.abc import Callable, Iterable
from contextlib import suppress
from itertools import count
from multiprocessing.connection import Connection
from typing import Any

_PR_SET_PDEATHSIG = 1  # linux/prctl.h


def attach(pipe: int, parent: int | None = None) -> Connection:
    """The process's end of the pipe. pipe: a file descriptor, which processes that it starts do not inherit.

    parent: this process is killed when the parent ends, even within compiled code. The kernel does that, on Linux only, when the thread of
    the parent that started this process ends.
    """
    os.set_inheritable(pipe, False)
    if parent is not None:
        if sys.platform == "linux":
            ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:  # the parent died before prctl
            os._exit(1)
    return Connection(pipe)


def ignore_signals() -> None:
    """Leave signals that are sent to the whole process group to the parent, which closes the pipe."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)


def serve(connection: Connection, answer: Callable[..., tuple[Any, ...]]) -> None:
    """Answer requests until the parent closes the pipe."""
    with suppress(EOFError, BrokenPipeError):
        while True:
            connection.send(answer(*connection.recv()))


def mapped_window(receive: Callable[[], int], nbytes: int) -> mmap.mmap:
    """The shared memory. receive: receives its descriptor from the pipe."""
    file = receive()
    try:
        return mmap.mmap(file, nbytes)
    finally:
        os.close(file)


class Objects:
    """Objects by number, until they are forgotten."""

    def __init__(self) -> None:
        self._by_number, self._numbers = dict[int, Any](), count(1)

    def __getitem__(self, number: int) -> Any:
        return self._by_number[number]

    def keep(self, value: object) -> int:
        number = next(self._numbers)
        self._by_number[number] = value
        return number

    def forget(self, numbers: Iterable[int]) -> None:
        for number in numbers:
            self._by_number.pop(number, None)
