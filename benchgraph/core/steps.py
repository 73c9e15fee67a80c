"""Steps: what is being done at this moment, told to whoever shows it. Nobody need, and nothing depends on it.

with watched(show):
    ...              # somewhere below: begin("mlp.json"), and then tell("compile", 3, 15)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from typing import TypeAlias


@dataclass(frozen=True)
class Step:
    """item: what is worked on. doing: what is done with it, `done` of `total` in that unit; total 0 where that is not known."""

    item: str = ""
    doing: str = ""
    done: float = 0
    total: float = 0
    unit: str = ""

    def __str__(self) -> str:
        share = f"{self.done:.{1 if self.unit else 0}f}/{self.total:.{1 if self.unit else 0}f}" if self.total else ""
        doing = " ".join(word for word in (self.doing, share, self.unit if share else "") if word)
        return ": ".join(part for part in (doing, self.item) if part)


Watcher: TypeAlias = Callable[[Step], None]


@dataclass
class _Watch:
    watcher: Watcher
    now: Step = Step()


_watch: ContextVar[_Watch | None] = ContextVar("_watch", default=None)


def begin(item: str) -> None:
    """From now on this is worked on."""
    _say(lambda _: Step(item))


def tell(doing: str, done: float = 0, total: float = 0, unit: str = "") -> None:
    """From now on this is done with it."""
    _say(lambda now: replace(now, doing=doing, done=done, total=total, unit=unit))


def _say(change: Callable[[Step], Step]) -> None:
    watch = _watch.get()
    if watch is not None:
        watch.now = change(watch.now)
        watch.watcher(watch.now)


@contextmanager
def watched(watcher: Watcher) -> Iterator[None]:
    """Steps told inside go to the watcher, by this thread."""
    token = _watch.set(_Watch(watcher))
    try:
        yield
    finally:
        _watch.reset(token)
