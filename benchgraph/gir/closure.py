"""Everything that is reached from a start along a relation, such as from an op to the makers of its operands."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator
from typing import TypeVar

T = TypeVar("T", bound=Hashable)


def closure(start: T, near: Callable[[T], Iterable[T]]) -> Iterator[T]:
    """The start and everything reached from it, each once."""
    seen, work = {start}, [start]
    while work:
        yield (at := work.pop())
        fresh = dict.fromkeys(near(at)).keys() - seen
        seen |= fresh
        work += fresh
