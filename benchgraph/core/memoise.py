"""Memoised functions of frozen values: results are stored in the value."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar

N = TypeVar("N")
R = TypeVar("R")
_UNKNOWN: Any = object()


def memoised(function: Callable[[N], R]) -> Callable[[N], R]:
    """A function of one frozen value that stores its result in an attribute of the value that is not a field.

    The function must depend on nothing else, and the shared result must not be changed. The attribute is not set by way of __dict__:
    reading __dict__ creates it, and then every field takes three times as long to read.
    """
    key = f"_{function.__module__}.{function.__qualname__}"

    @wraps(function)
    def memoised_function(node: N) -> R:
        result: R = getattr(node, key, _UNKNOWN)
        if result is _UNKNOWN:
            result = function(node)
            object.__setattr__(node, key, result)
        return result

    return memoised_function


W = TypeVar("W")


def memoised_within(function: Callable[[W, N], R]) -> Callable[[W, N], R]:
    """A function of a frozen value and one of its parts that stores its results in the value, by the identity of the part.

    As with `memoised`, results are shared and must not be changed.
    """
    key = f"_{function.__module__}.{function.__qualname__}"

    @wraps(function)
    def memoised_function(owner: W, part: N) -> R:
        results: dict[int, tuple[N, R]] | None = getattr(owner, key, None)
        if results is None:
            results = {}
            object.__setattr__(owner, key, results)
        if id(part) not in results:
            results[id(part)] = part, function(owner, part)  # keeps the part alive, so that its id stays unique
        return results[id(part)][1]

    return memoised_function
