"""Reads a file's text and parses it to JSON values, before they are interpreted as a graph.

Python's parser fails for huge numbers and deep nesting, and silently keeps one of two equal keys. Here huge numbers become `Long`, deep
nesting is an error, and objects with a duplicate key become `Doubled`, so that the interpreter can report where they are.
"""

from __future__ import annotations

import json
import re
from codecs import BOM_UTF8
from dataclasses import dataclass
from pathlib import Path

from benchgraph.core.errors import InvalidArguments, ParseError
from benchgraph.core.json_objects import pairs

MOST_DIGITS = 1000  # of an integer that is parsed; 64 bits have 20
MOST_BYTES = 64 << 20  # of a file: ten times a dump of 10,000 ops
_BARE = re.compile(
    r'("[^"\\]*+(?:\\.[^"\\]*+)*+"?)|(?<![\w.])(?:inf|nan)(?!\w)', re.DOTALL
)  # possessive, so that an unterminated string is scanned once
_OPTIONS = re.compile(r"\s*(?:#|--|-v)")  # how a batch file begins
_SPELLING = {"inf": "Infinity", "nan": "NaN"}


def text_of(path: Path) -> str:
    """The text of a file. Raises InvalidArguments for anything but a text file, and for a file too large for a graph."""
    fix = "give the path of a oneDNN Graph JSON file"
    try:
        if path.exists() and not path.is_file():
            kind = "a directory" if path.is_dir() else "a device or a pipe"
            raise InvalidArguments(f"cannot read the file: it is {kind}", fix=fix)
        with path.open("rb") as file:
            data = file.read(MOST_BYTES + 1)
    except FileNotFoundError as missing:
        raise InvalidArguments("no such file", fix=fix) from missing
    except (OSError, ValueError) as bad:  # ValueError: a path with a NUL
        reason = bad.strerror if isinstance(bad, OSError) else str(bad)
        raise InvalidArguments(f"cannot read the file: {reason}", fix=fix) from bad
    if len(data) > MOST_BYTES:
        raise InvalidArguments(f"the file is larger than {MOST_BYTES >> 20} MiB", fix="dump fewer ops into one graph")
    if data.startswith(BOM_UTF8):
        raise ParseError("the file begins with a byte order mark", fix="save it as UTF-8 without one")
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as bad:
        fix = "save it as UTF-8; if it is a model, name it .onnx or .pt2 and run it with --model"
        raise InvalidArguments(f"cannot read the file: not UTF-8 text: byte {bad.start}", fix=fix) from bad


@dataclass(frozen=True)
class Long:
    """An integer with too many digits to parse."""

    digits: str


def _whole(digits: str) -> int | Long:
    return int(digits) if len(digits) < MOST_DIGITS else Long(digits)


def _values(text: str) -> object:
    """JSON as Python values. Raises JSONDecodeError, and ParseError for too deep nesting."""
    try:
        try:
            return json.loads(text, strict=False, object_pairs_hook=pairs)
        except json.JSONDecodeError:
            raise
        except ValueError:  # an integer of thousands of digits
            return json.loads(text, strict=False, object_pairs_hook=pairs, parse_int=_whole)
    except RecursionError:
        raise ParseError("brackets nest too deep in it", fix="those of a graph nest at most seven deep") from None


def parse(text: str) -> object:
    """The values; the bare words `inf` and `nan`, which the library prints, are numbers. Raises ParseError, with line and column."""
    if not text.strip():
        raise ParseError("the file is empty", fix="a graph has at least one op")
    if _OPTIONS.match(text):
        raise ParseError("not JSON: it looks like a batch file", fix="run it as --batch=FILE instead of as a case")
    try:
        return _values(text)
    except json.JSONDecodeError as bad:
        return _parse_with_bare_numbers(text, bad)


def _parse_with_bare_numbers(text: str, first: json.JSONDecodeError) -> object:
    """Parse again with `inf` and `nan` in the json module's spelling; errors have positions in the original text."""
    replacements: list[tuple[int, int]] = []  # (position after a replacement in the new text, characters added so far)
    added = 0

    def respell(match: re.Match[str]) -> str:
        nonlocal added
        if match[1] is not None:
            return match[1]
        word = _SPELLING[match[0]]
        added += len(word) - len(match[0])
        replacements.append((match.end() + added, added))
        return word

    respelled = _BARE.sub(respell, text)
    bad = first
    if replacements:
        try:
            return _values(respelled)
        except json.JSONDecodeError as second:
            at = second.pos - next((n for end, n in reversed(replacements) if end <= second.pos), 0)
            bad = json.JSONDecodeError(second.msg, text, at)
    what = f"not JSON: line {bad.lineno}, column {bad.colno}: {bad.msg.removesuffix(' at')}"
    raise ParseError(what, fix="mend the text there, or dump or import the graph again")
