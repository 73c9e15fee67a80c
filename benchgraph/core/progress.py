"""Progress of the current work, reported to a watcher, if there is one.

with progress_sent_to(show):
    ...              # somewhere below: begin_item("mlp.json"), and then report_progress("compile", 3, 15)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from typing import TypeAlias


@dataclass(frozen=True)
class Step:
    """item: what is worked on. doing: what is done with it, `done` of `total` in a unit; total is 0 if unknown, or if there is no limit."""

    item: str = ""
    doing: str = ""
    done: float = 0
    total: float = 0
    unit: str = ""

    def __str__(self) -> str:
        done, total = (f"{number:.{1 if self.unit else 0}f}" for number in (self.done, self.total))
        share = f"{done}/{total}" if float(total) else done if self.unit else ""
        doing = " ".join(word for word in (self.doing, share, self.unit) if word)
        return ": ".join(part for part in (doing, self.item) if part)


Watcher: TypeAlias = Callable[[Step], None]


@dataclass
class _Watch:
    watcher: Watcher
    step: Step = Step()


_watch: ContextVar[_Watch | None] = ContextVar("_watch", default=None)


def begin_item(item: str) -> None:
    """Report that work on an item begins."""
    _report(lambda _: Step(item))


def report_progress(doing: str, done: float = 0, total: float = 0, unit: str = "") -> None:
    """Report what is done with the current item."""
    _report(lambda step: replace(step, doing=doing, done=done, total=total, unit=unit))


def _report(change: Callable[[Step], Step]) -> None:
    watch = _watch.get()
    if watch is not None:
        watch.step = change(watch.step)
        watch.watcher(watch.step)


@contextmanager
def progress_sent_to(watcher: Watcher) -> Iterator[None]:
    """Send progress of this thread within the block to a watcher."""
    token = _watch.set(_Watch(watcher))
    try:
        yield
    finally:
        _watch.reset(token)
