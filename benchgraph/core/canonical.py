"""The canonical text of a frozen value, for digests: equal for equal values in every process, different for different ones.

A list counts as the tuple of its elements, a set as the frozenset; 0.0 and -0.0, which are equal, have different texts.

All fields of dataclasses are part of it, so new ones are too. Sequences of floats are written as bytes: the digits of thousands of scales
took most of a warm start.
"""

from __future__ import annotations

from array import array
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from typing import Any

_PLAIN = frozenset({type(None), bool, int, float, str, bytes})
_FIELDS: dict[type, tuple[str, ...] | None] = {}


def canonical(value: object) -> str:
    """The text. Raises TypeError for objects without fields, and arrays."""
    return _text(value, {})


def _text(value: Any, known: dict[int, str]) -> str:
    """known: texts of dataclasses and enum members so far, by id; the outermost value keeps them alive."""
    kind = type(value)
    if kind in _PLAIN:
        return repr(value)
    if kind is tuple or kind is list:
        kinds = set(map(type, value))
        if kinds == {float}:
            return f"({array('d', value).tobytes().hex()}f64)"
        if kinds == {int}:
            return f"({','.join(map(repr, value))})"
        return f"({','.join([_text(v, known) for v in value])})"
    text = known.get(id(value))
    if text is not None:
        return text
    if isinstance(value, Enum):
        text = known[id(value)] = f"{kind.__name__}.{value.name}"
        return text
    names = _field_names(kind)
    if names is not None:
        parts = [f"{name}={_text(getattr(value, name), known)}" for name in names]
        text = known[id(value)] = f"{kind.__name__}({','.join(parts)})"
        return text
    if isinstance(value, Mapping):
        return f"{{{','.join(sorted(f'{_text(k, known)}:{_text(v, known)}' for k, v in value.items()))}}}"
    if isinstance(value, frozenset | set):
        return f"{{{','.join(sorted(_text(v, known) for v in value))}}}"
    raise TypeError(f"a {kind.__name__} has no canonical text")


def _field_names(kind: type) -> tuple[str, ...] | None:
    """The fields of a dataclass; None for any other type."""
    if kind not in _FIELDS:
        _FIELDS[kind] = tuple(f.name for f in fields(kind)) if is_dataclass(kind) else None
    return _FIELDS[kind]
