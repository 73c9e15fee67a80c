"""The text of a frozen value: equal for equal values in every process, different for different ones; what digests are made of.

Dataclasses show every field, so a field that is added is part of the text at once. Rows of numbers are taken as a whole: a scale for each
column of a few products are thousands, whose digits took most of a warm start.
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
    """The text. Raises TypeError for a value of a type that has none: objects without fields, arrays."""
    return _text(value, {})


def _text(value: Any, known: dict[int, str]) -> str:
    """known: by id, what has fields or a name and was met already; the outermost value keeps it alive."""
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
    found = known.get(id(value))
    if found is not None:
        return found
    if isinstance(value, Enum):
        found = known[id(value)] = f"{kind.__name__}.{value.name}"
        return found
    names = _field_names(kind)
    if names is not None:
        parts = [f"{name}={_text(getattr(value, name), known)}" for name in names]
        found = known[id(value)] = f"{kind.__name__}({','.join(parts)})"
        return found
    if isinstance(value, Mapping):
        return f"{{{','.join(sorted(f'{_text(k, known)}:{_text(v, known)}' for k, v in value.items()))}}}"
    if isinstance(value, frozenset | set):
        return f"{{{','.join(sorted(_text(v, known) for v in value))}}}"
    raise TypeError(f"a {kind.__name__} has no canonical text")


def _field_names(kind: type) -> tuple[str, ...] | None:
    """Of a dataclass; None for any other type."""
    if kind not in _FIELDS:
        _FIELDS[kind] = tuple(f.name for f in fields(kind)) if is_dataclass(kind) else None
    return _FIELDS[kind]
