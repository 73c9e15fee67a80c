"""Parsers of option values. A parser raises ValueError, whose text is the remedy.

Free of numpy; parsers that need the graph package import it when they are called.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import Enum
from typing import Any, TypeAlias

from benchgraph.core.errors import did_you_mean
from benchgraph.core.printable import is_hidden, printable

Parse: TypeAlias = Callable[[str], object]


def text(value: object) -> str:
    """A value as the command line spells it."""
    if isinstance(value, tuple):
        return ",".join(text(v) for v in value)
    if isinstance(value, Enum):
        return str(value.value)
    if isinstance(value, bool):
        return str(value).lower()
    return repr(value).removesuffix(".0") if isinstance(value, float) else str(value)


# Words that need no quoting in a shell. A name in quotation marks, as at the end of descriptors, loses only these.
PLAIN = re.compile(r'[\w@%+=:,./-]*("[\w@%+=:,./*&()<>; -]*")?', re.ASCII)


def shell_word(word: str) -> str:
    """A word quoted for a shell or a batch file.

    Control characters and bytes that are not UTF-8 are written as escapes in $'...', which bash, zsh and ksh read.
    """
    if any(map(is_hidden, word)):
        return "$'" + "".join(map(_escaped, word)) + "'"
    return word if word and PLAIN.fullmatch(word) else shlex.quote(word)


_SHORT = {"n": "\n", "t": "\t", "r": "\r"}


def _escaped(character: str) -> str:
    if not is_hidden(character):
        return f"\\{character}" if character in "\\'" else character
    if character in _SHORT.values():
        return printable(character)
    is_byte = "\udc80" <= character <= "\udcff"  # a byte of a file name that is not UTF-8, as Python represents it
    return "".join(f"\\x{byte:02x}" for byte in character.encode("utf-8", "surrogateescape" if is_byte else "surrogatepass"))


def unescaped(inside: str) -> str:
    """The text inside of $'...', as `shell_word` writes it."""
    data = re.sub(rb"\\(?:x([0-9a-fA-F]{1,2})|(.))", _byte, inside.encode("utf-8", "surrogateescape"), flags=re.DOTALL)
    return data.decode("utf-8", "surrogateescape")


def _byte(match: re.Match[bytes]) -> bytes:
    return bytes([int(match[1], 16)]) if match[1] else _SHORT.get(match[2].decode("latin-1"), "").encode() or match[2]


MOST_DIGITS = 4000  # Python does not read 5,000


# ---- single values ---------------------------------------------------------------------------------------------------


def natural(word: str) -> int:
    if not (word.isascii() and word.isdecimal()):
        raise ValueError("give a non-negative integer")
    if len(word) > MOST_DIGITS:
        raise ValueError(f"give an integer of at most {MOST_DIGITS} digits")
    return int(word)


def positive(word: str) -> int:
    if not (word.isascii() and word.isdecimal() and word.strip("0")):
        raise ValueError("give an integer from 1 on")
    return natural(word)


def boolean(word: str) -> bool:
    known = {"true": True, "1": True, "false": False, "0": False}
    if word.lower() not in known:
        raise ValueError("give true or false")
    return known[word.lower()]


def real_between(least: float, most: float, *, clamps: bool = False) -> Parse:
    """A number of the range. clamps: one of 0 or more is taken for the nearest in the range, as benchdnn does."""

    def parse(word: str) -> float:
        try:
            number = float(word)
        except ValueError:
            raise ValueError("give a number") from None
        if not (number >= 0 if clamps else least <= number <= most):
            raise ValueError(f"give a number from {least:.9g} to {most:.9g}")
        return min(max(number, least), most)

    return parse


def share(word: str) -> float:
    fix = "give a share of at least 0, as in 5% or 0.05"
    try:
        value = float(word.removesuffix("%")) / (100 if word.endswith("%") else 1)
    except ValueError:
        raise ValueError(fix) from None
    if not 0 <= value < 1:
        raise ValueError(f"{fix}, and below 1" if value >= 1 else fix)
    return value


def one_of(*choices: str) -> Callable[[str], str]:
    def parse(word: str) -> str:
        if word not in choices:
            raise ValueError(did_you_mean(word, choices) or f"choose one of {', '.join(choices)}")
        return word

    return parse


def some_of(*choices: str) -> Callable[[str], tuple[str, ...]]:
    """Words joined by commas, in the order of the choices."""

    def parse(word: str) -> tuple[str, ...]:
        given = {one_of(*choices)(part) for part in word.split(",")}
        return tuple(choice for choice in choices if choice in given)

    return parse


def letters(*known: str) -> Parse:
    """Some of these letters, in any order and case; sorted."""

    def parse(word: str) -> str:
        if set(word.upper()) - set(known):
            raise ValueError(f"combine letters of {', '.join(known)}")
        return "".join(sorted(set(word.upper())))

    return parse


def pattern(word: str) -> str:
    try:
        re.compile(word)
    except (re.error, RecursionError, OverflowError) as bad:
        raise ValueError(f"not a regular expression: {bad}") from None
    return word


def shard(word: str) -> tuple[int, int]:
    """i/n: the i-th of n parts, counted from 1."""
    match = re.fullmatch(r"(\d+)/(\d+)", word, re.ASCII)
    if match is None or not 1 <= int(match[1]) <= int(match[2]):
        raise ValueError("give I/N with I from 1 to N, as in 2/3")
    return int(match[1]), int(match[2])


def engine(word: str) -> str:
    """cpu or gpu, with an index. Only the CPU engine exists here, so others are refused in benchdnn's words."""
    match = re.fullmatch(r"(cpu|gpu)(?::(\d+))?", word)
    if match is None:
        raise ValueError("give cpu or gpu, with an index if need be, as in cpu:0")
    kind, index = match[1], int(match[2] or 0)
    if kind == "gpu" or index:
        count = int(kind == "cpu")
        raise ValueError(f"engine {kind} with index {index} is not registered in the system, which has {count} of that kind; use cpu")
    return "cpu"


def fpmath(word: str) -> str:
    """MODE or MODE:BOOL (whether the mode applies to integers too), in one spelling."""
    mode, colon, flag = word.partition(":")
    one_of("strict", "bf16", "f16", "tf32", "any")(mode)
    return f"{mode}:{text(boolean(flag))}" if colon else mode


# ---- ID:VALUE+ID:VALUE -----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Entries:
    """Values by key; empty if none is set."""

    entries: tuple[tuple[Any, Any], ...] = ()

    def __bool__(self) -> bool:
        return bool(self.entries)

    def __str__(self) -> str:
        return "+".join(f"{key}:{text(value)}" for key, value in self.entries)


class PerId(_Entries):
    """By id of a tensor or op, in order of ids."""

    @property
    def by_id(self) -> dict[int, Any]:
        return dict(self.entries)


class PerName(_Entries):
    """By name, in the order given."""


def per_id(value: Parse, example: str) -> Parse:
    """Entries joined by +, each ID:VALUE. As in benchdnn, whose inputs rely on it, only the leading digits of the ID count."""

    def split(entry: str) -> tuple[int | None, str]:
        key, _, rest = entry.partition(":")
        digits = re.match(r"\d+", key, re.ASCII)
        return int(digits[0]) if digits else None, rest

    def parse(word: str) -> PerId:
        return PerId(tuple(sorted(_entries(word, split, value, f"write ID:VALUE, several joined by +, as in {example}", "id "))))

    return parse


def per_name(value: Parse, example: str) -> Parse:
    """Entries joined by +, each NAME:VALUE. Names may have colons."""

    def split(entry: str) -> tuple[str | None, str]:
        name, _, rest = entry.rpartition(":")
        return name or None, rest

    def parse(word: str) -> PerName:
        return PerName(tuple(_entries(word, split, value, f"write NAME:VALUE, several joined by +, as in {example}")))

    return parse


def _entries(word: str, split: Callable[[str], tuple[Any, str]], value: Parse, fix: str, noun: str = "") -> Iterable[tuple[Any, Any]]:
    """Keys and values of entries joined by +. split: the key, None if there is none, and the text of the value. Raises ValueError."""
    values: dict[Any, Any] = {}
    for entry in word.split("+"):
        key, rest = split(entry)
        if key is None or not rest:
            raise ValueError(fix)
        if key in values:
            raise ValueError(f"{noun}{key} is there twice; give it one value")
        values[key] = value(rest)
    return values.items()


def new_shape(word: str) -> object:
    """SHAPE, *LAYOUT or SHAPE*LAYOUT as a NewShape. SHAPE: 2x3, or - for rank 0. LAYOUT: a tag such as acdb, or strides such as 12x4x1."""
    from benchgraph.graph.override import NewShape

    dims, star, layout = word.partition("*")
    if star and not layout:
        raise ValueError("give a tag or strides after *, or leave it out")
    if not re.fullmatch(r"|-|scalar|\d+(x\d+)*", dims, re.ASCII) or not re.fullmatch(r"|[a-z]+|\d+(x\d+)*", layout, re.ASCII):
        raise ValueError("write SHAPE, *TAG, *STRIDES or both, as in 2x3x4*acb; - is the shape of a scalar")
    shape = None if not dims else () if dims in ("-", "scalar") else tuple(map(int, dims.split("x")))
    return NewShape(shape, tuple(map(int, layout.split("x"))) if layout[:1].isdigit() else layout)


@dataclass(frozen=True)
class AttrTexts:
    """Attributes of one op as text, in order of names."""

    entries: tuple[tuple[str, str], ...]

    def __str__(self) -> str:
        return "*".join(f"{name}:{value}" for name, value in self.entries)


def attr_texts(word: str) -> AttrTexts:
    """NAME:VALUE joined by *; the last of two values for one name counts, as in benchdnn."""
    values = {}
    for entry in word.split("*"):
        name, _, value = entry.partition(":")
        if not name or not value or ":" in value:
            raise ValueError("write ID:NAME:VALUE, several of one op joined by *, as in 0:strides:2x2*groups:1")
        values[name] = value
    return AttrTexts(tuple(sorted(values.items())))


def dtype_name(word: str) -> str:
    from benchgraph.core.dtypes import GRAPH_DTYPES, DType  # numpy, so only when one is named

    return one_of(*(d.value for d in GRAPH_DTYPES if d is not DType.undef))(word)


def dtype(word: str) -> object:
    from benchgraph.core.dtypes import DType

    return DType(dtype_name(word))


def dtypes(word: str) -> object:
    """One float DType for the whole graph (undef: none), or a PerId of them."""
    from benchgraph.core.dtypes import DType

    if ":" in word:
        return per_id(dtype, "0:bf16+3:f32")(word)
    if word not in ("undef", "f32", "bf16", "f16"):
        raise ValueError("give undef, f32, bf16 or f16 for the whole graph, or ID:DTYPE joined by + for some tensors")
    return NOTHING if word == "undef" else DType(word)


def property_type(word: str) -> object:
    from benchgraph.core.tensor import PropertyType

    return PropertyType(one_of(*(p.value for p in PropertyType))(word))


NOTHING = PerId()
