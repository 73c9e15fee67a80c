"""Remarks: what is taken though it is not quite right, to be told beside the result. Whoever collects them hears of them; nobody need.

with collected() as remarks:
    ...                          # somewhere below: remark("tensor 7 is not there; ignored")
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_collector: ContextVar[list[str] | None] = ContextVar("_collector", default=None)


def remark(text: str) -> None:
    """Tell the innermost collector, once."""
    found = _collector.get()
    if found is not None and text not in found:
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
