"""Facts about frozen values, worked out once: passes ask the same of the same node again and again."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import TypeVar

N = TypeVar("N")
R = TypeVar("R")


def remembered(fact: Callable[[N], R]) -> Callable[[N], R]:
    """The function of one frozen value, which keeps its result with the value (beside the fields: nothing compares, prints or copies it).

    Only for what depends on nothing else. The result is shared, so it must not be changed.
    """
    key = f"_{fact.__module__}.{fact.__qualname__}"

    @wraps(fact)
    def ask(node: N) -> R:
        kept = node.__dict__
        try:
            result: R = kept[key]
        except KeyError:
            result = kept[key] = fact(node)
        return result

    return ask
