"""Prints fields of frozen dataclasses, `mb=32, split_n=true, why=[(parameter="mb", text="...")]`, and parses them by their annotations.

A field that equals its default is left out. Fields are booleans, integers, strings, enums, dataclasses, tuples and sets of them, or None.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection
from dataclasses import MISSING, fields, is_dataclass
from enum import Enum
from functools import cache
from types import NoneType, UnionType
from typing import Any, Union, cast, get_args, get_origin, get_type_hints

from benchgraph.core.errors import did_you_mean
from benchgraph.core.tokens import Tokens, print_value


class HasText(ABC):
    """A value that is written as a string."""

    @classmethod
    @abstractmethod
    def parse(cls, text: str) -> Any:
        """The value whose `str` this is. Raises ParseError."""


def print_fields(record: Any, without: Collection[str] = (), indent: str = "") -> list[str]:
    """`name=value` for every field but those in `without`. indent: of the line, for values that take several lines."""
    changed = [(f.name, getattr(record, f.name)) for f in fields(record) if f.name not in without and getattr(record, f.name) != f.default]
    return [f"{name}={_text(value, indent)}" for name, value in changed]


def _text(value: Any, indent: str) -> str:
    if value is None:
        return "none"
    if isinstance(value, Enum):
        return str(value.value)
    if isinstance(value, HasText):
        return print_value(str(value))
    if is_dataclass(value):
        return f"({', '.join(print_fields(value, indent=indent))})"
    if isinstance(value, frozenset):
        value = tuple(sorted(value, key=str))
    if not isinstance(value, tuple):
        return print_value(value)
    items = [_text(v, indent + "  ") for v in value]
    if any(isinstance(v, tuple) or (is_dataclass(v) and len(value) > 2) for v in value):
        return "[" + ",".join(f"\n{indent}  {item}" for item in items) + f"\n{indent}]"
    return f"[{', '.join(items)}]"


def read_fields(tokens: Tokens, record: type, end: str, without: Collection[str] = ()) -> dict[str, Any]:
    """The fields of a class, with commas between them or not, up to the mark that ends them, which is consumed."""
    kinds = {name: kind for name, kind in _kinds(record).items() if name not in without}
    values = dict[str, Any]()
    while not tokens.accept(end):
        tokens.accept(",")
        if tokens.kind != "word" or tokens.next not in kinds:
            tokens.syntax_error(f"'{end}' or a field of {record.__name__}: 'name=value'", hint=did_you_mean(tokens.next, kinds))
        name = tokens.take("word", "a field")
        tokens.expect("=")
        values[name] = _value(tokens, kinds[name])
    return values


@cache
def _kinds(record: type) -> dict[str, Any]:
    """The types of a dataclass's fields, by name."""
    hints = get_type_hints(record)
    return {f.name: hints[f.name] for f in fields(cast(Any, record))}


def read_record(tokens: Tokens, record: type, end: str) -> Any:
    """A dataclass from its fields; those without a default must be there."""
    start = tokens.offset
    values = read_fields(tokens, record, end)
    for f in fields(cast(Any, record)):
        if f.name not in values and f.default is MISSING and f.default_factory is MISSING:
            tokens.semantic_error(f"{record.__name__} has no field '{f.name}' here", start, f"write '{f.name}=...'")
    return record(**values)


def _value(tokens: Tokens, kind: Any) -> Any:
    options = get_args(kind)
    if get_origin(kind) in (Union, UnionType):
        return None if tokens.accept("none") else _value(tokens, next(o for o in options if o is not NoneType))
    if get_origin(kind) is frozenset:
        tokens.expect("[")
        return frozenset(tokens.listed(lambda: _value(tokens, options[0]), "]"))
    if get_origin(kind) is tuple:
        tokens.expect("[")
        same = options[1:] == (...,)
        kinds = iter(options)
        made = tokens.listed(lambda: _value(tokens, options[0] if same else next(kinds, options[-1])), "]")
        return made if same or len(made) == len(options) else tokens.syntax_error(f"{len(options)} values in the list, not {len(made)}")
    if issubclass(kind, Enum):
        return tokens.choose({str(member.value): member for member in kind}, f"one of {', '.join(str(m.value) for m in kind)}")
    if issubclass(kind, HasText):
        return kind.parse(tokens.string())
    if is_dataclass(kind):
        tokens.expect("(")
        return read_record(tokens, cast(type, kind), ")")
    readers: dict[Any, Callable[[], object]] = {bool: tokens.boolean, int: tokens.integer, str: tokens.string, float: tokens.number}
    return readers[kind]()
