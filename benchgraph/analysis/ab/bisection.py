"""The first bad of a row of commits, some of which cannot be tested."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum


class Answer(Enum):
    good = "good"
    bad = "bad"
    skipped = "skipped"


def first_bad(count: int, test: Callable[[int], Answer]) -> range:
    """Positions of which the first bad one is one: a single one, or more where what lies between was skipped.

    count: of the commits, oldest first; the last is known to be bad, and what lies before the first to be good. test: of a position.
    """
    low, high, skipped = -1, count - 1, set[int]()  # known to be good, and bad
    while left := [i for i in range(low + 1, high) if i not in skipped]:
        middle = (low + high) / 2
        at = min(left, key=lambda i: abs(i - middle))
        answer = test(at)
        if answer is Answer.skipped:
            skipped.add(at)
        elif answer is Answer.good:
            low = at
        else:
            high = at
    return range(low + 1, high + 1)
