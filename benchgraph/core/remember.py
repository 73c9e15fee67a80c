"""Facts about frozen values, worked out once: passes ask the same of the same node again and again."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar

N = TypeVar("N")
R = TypeVar("R")
_UNKNOWN: Any = object()


def remembered(fact: Callable[[N], R]) -> Callable[[N], R]:
    """The function of one frozen value, which keeps its result with the value (beside the fields: nothing compares, prints or copies it).

    Only for what depends on nothing else. The result is shared, so it must not be changed. It is set and got as an attribute is: whoever
    asks for __dict__ makes Python turn the object's fields into one, and every field takes three times as long to read from then on.
    """
    key = f"_{fact.__module__}.{fact.__qualname__}"

    @wraps(fact)
    def ask(node: N) -> R:
        result: R = getattr(node, key, _UNKNOWN)
        if result is _UNKNOWN:
            result = fact(node)
            object.__setattr__(node, key, result)
        return result

    return ask


W = TypeVar("W")


def remembered_within(fact: Callable[[W, N], R]) -> Callable[[W, N], R]:
    """The function of a frozen value and one of its parts, which keeps its results with the value, for each part that is the same object.

    As with `remembered`, results are shared and must not be changed.
    """
    key = f"_{fact.__module__}.{fact.__qualname__}"

    @wraps(fact)
    def ask(whole: W, part: N) -> R:
        known: dict[int, tuple[N, R]] | None = getattr(whole, key, None)
        if known is None:
            known = {}
            object.__setattr__(whole, key, known)
        if id(part) not in known:
            known[id(part)] = part, fact(whole, part)  # the part is kept, so that no other gets its id
        return known[id(part)][1]

    return ask
