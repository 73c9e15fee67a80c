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
