"""The text of a frozen value: equal for equal values in every process, different for different ones; what digests are made of.

Dataclasses show every field, so a field that is added is part of the text at once. Rows of numbers are taken as a whole: a scale for each
column of a few products are thousands, whose digits took most of a warm start.
"""

from __future__ import annotations

from array import array
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from enum import Enum


def canonical(value: object) -> str:
    """The text. Raises TypeError for a value of a type that has none: objects without fields, arrays."""
    return _text(value, {})


def _text(value: object, known: dict[int, str]) -> str:
    """known: by id, dataclasses that were met already; the outermost value keeps them alive."""
    kind = type(value)
    if value is None or kind in (bool, int, float, str, bytes):
        return repr(value)
    if isinstance(value, tuple | list) and kind in (tuple, list):
        kinds = set(map(type, value))
        if kinds == {float}:
            return f"({array('d', value).tobytes().hex()}f64)"
        if kinds == {int}:
            return f"({','.join(map(repr, value))})"
        return f"({','.join([_text(v, known) for v in value])})"
    if isinstance(value, Enum):
        return f"{kind.__name__}.{value.name}"
    if is_dataclass(value):
        found = known.get(id(value))
        if found is None:
            parts = [f"{f.name}={_text(getattr(value, f.name), known)}" for f in fields(value)]
            found = known[id(value)] = f"{kind.__name__}({','.join(parts)})"
        return found
    if isinstance(value, Mapping):
        return f"{{{','.join(sorted(f'{_text(k, known)}:{_text(v, known)}' for k, v in value.items()))}}}"
    if isinstance(value, frozenset | set):
        return f"{{{','.join(sorted(_text(v, known) for v in value))}}}"
    raise TypeError(f"a {kind.__name__} has no canonical text")
