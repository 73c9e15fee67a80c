"""Memoised functions of frozen values: results are stored in the value."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar, TypeVarTuple, Unpack

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
More = TypeVarTuple("More")


def memoised_by(function: Callable[[W, Unpack[More]], R]) -> Callable[[W, Unpack[More]], R]:
    """A function of a frozen value and hashable values that stores its results in the first one, by the others; as with `memoised`."""
    key = f"_{function.__module__}.{function.__qualname__}"

    @wraps(function)
    def memoised_function(owner: W, *more: *More) -> R:
        results: dict[tuple[Any, ...], R] | None = getattr(owner, key, None)
        if results is None:
            results = {}
            object.__setattr__(owner, key, results)
        if more not in results:
            results[more] = function(owner, *more)
        return results[more]

    return memoised_function


def memoised_within(function: Callable[[W, N, Unpack[More]], R]) -> Callable[[W, N, Unpack[More]], R]:
    """A function of a frozen value, one of its parts and hashable values that stores its results in the first one, by the identity of the
    part and by the others.

    As with `memoised`, results are shared and must not be changed.
    """
    key = f"_{function.__module__}.{function.__qualname__}"

    @wraps(function)
    def memoised_function(owner: W, part: N, *more: *More) -> R:
        results: dict[tuple[Any, ...], tuple[N, R]] | None = getattr(owner, key, None)
        if results is None:
            results = {}
            object.__setattr__(owner, key, results)
        at = id(part), *more
        if at not in results:
            results[at] = part, function(owner, part, *more)  # keeps the part alive, so that its id stays unique
        return results[at][1]

    return memoised_function
