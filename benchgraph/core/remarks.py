"""Remarks: warnings about input that is accepted although it is not quite right.

with collected() as remarks:
    ...                          # somewhere below: remark("tensor 7 is not there; ignored")

Uncollected remarks, and those that are announced, go to the process's listener: the command line prints them; without a listener they are
Python warnings.
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
    except RuntimeWarning as warning:  # the program turns warnings into errors, which callers of `remark` do not handle
        sys.stderr.write(f"{warning}\n")


_listener: Callable[[str], None] = _warn


def remark(text: str) -> None:
    """Add a remark to the innermost collector, once; without one, pass it to the listener."""
    collector = _collector.get()
    if collector is None:
        _listener(text)
    elif text not in collector:
        collector.append(text)


def announce(text: str) -> None:
    """Pass a remark to the listener, whether there is a collector or not: it is the same for many cases."""
    _listener(text)


@contextmanager
def collected() -> Iterator[list[str]]:
    """Collect remarks within the block in a list."""
    remarks: list[str] = []
    token = _collector.set(remarks)
    try:
        yield remarks
    finally:
        _collector.reset(token)


@contextmanager
def remarks_sent_to(listener: Callable[[str], None]) -> Iterator[None]:
    """Send uncollected remarks of all threads to a listener within the block, each text once."""
    global _listener
    seen, before = set[str](), _listener

    def send(text: str) -> None:
        if text not in seen:
            seen.add(text)
            listener(text)

    _listener = send
    try:
        yield
    finally:
        _listener = before
