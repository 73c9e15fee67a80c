"""Remarks: what is taken though it is not quite right, to be told beside the result.

with collected() as remarks:
    ...                          # somewhere below: remark("tensor 7 is not there; ignored")

What nobody collects goes to the listener of the process: that of the command line prints it; without one it is a Python warning.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_collector: ContextVar[list[str] | None] = ContextVar("_collector", default=None)


def _warn(text: str) -> None:
    try:
        warnings.warn(f"benchgraph: {text}", RuntimeWarning, stacklevel=3)
    except RuntimeWarning as said:  # of a program that makes errors of warnings: a remark is none, and its place has no way to handle one
        sys.stderr.write(f"{said}\n")


_listener: Callable[[str], None] = _warn


def remark(text: str) -> None:
    """Tell the innermost collector, once; without one, the listener."""
    found = _collector.get()
    if found is None:
        _listener(text)
    elif text not in found:
        found.append(text)


@contextmanager
def collected() -> Iterator[list[str]]:
    """The list that remarks made inside go to."""
    found: list[str] = []
    token = _collector.set(found)
    try:
        yield found
    finally:
        _collector.reset(token)


@contextmanager
def heard_by(listener: Callable[[str], None]) -> Iterator[None]:
    """Inside the block, what nobody collects goes to this listener, each text once, whichever thread makes the remark."""
    global _listener
    told, before = set[str](), _listener

    def hear(text: str) -> None:
        if text not in told:
            told.add(text)
            listener(text)

    _listener = hear
    try:
        yield
    finally:
        _listener = before
