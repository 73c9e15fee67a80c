"""A file's text, and the JSON values in it, before anything is known of graphs.

Python's reader stumbles where numbers or brackets go beyond all measure, and keeps one of two equal keys without a word. Here the first
become errors or values that say so, and the second an object that says so, for whoever knows what they mean to name the place.
"""

from __future__ import annotations

import json
import re
from codecs import BOM_UTF8
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from benchgraph.core.errors import InvalidArguments, ParseError

MOST_DIGITS = 1000  # of an integer that is read as one; 64 bits have 20
MOST_BYTES = 64 << 20  # of a file: a dump of 10,000 ops takes a tenth of it
_BARE = re.compile(r'("[^"\\]*+(?:\\.[^"\\]*+)*+"?)|(?<![\w.])(?:inf|nan)(?!\w)', re.DOTALL)  # a string that is left open is read once
_SPELLING = {"inf": "Infinity", "nan": "NaN"}


def text_of(path: Path) -> str:
    """What a file holds. Raises InvalidArguments for what is no file of text, and for one that is too large for a graph."""
    fix = "give the path of a oneDNN Graph JSON file"
    try:
        if path.exists() and not path.is_file():
            kind = "a directory" if path.is_dir() else "a device or a pipe"
            raise InvalidArguments(f"cannot read the file: it is {kind}", fix=fix)
        with path.open("rb") as file:
            held = file.read(MOST_BYTES + 1)
    except FileNotFoundError as missing:
        raise InvalidArguments("no such file", fix=fix) from missing
    except (OSError, ValueError) as bad:  # ValueError: a path with a NUL
        reason = bad.strerror if isinstance(bad, OSError) else str(bad)
        raise InvalidArguments(f"cannot read the file: {reason}", fix=fix) from bad
    if len(held) > MOST_BYTES:
        raise InvalidArguments(f"the file is larger than {MOST_BYTES >> 20} MiB", fix="dump fewer ops into one graph")
    if held.startswith(BOM_UTF8):
        raise ParseError("the file begins with a byte order mark", fix="save it as UTF-8 without one")
    try:
        return held.decode("utf-8")
    except UnicodeDecodeError as bad:
        raise InvalidArguments(f"cannot read the file: not UTF-8 text: byte {bad.start}", fix="save it as UTF-8") from bad


@dataclass(frozen=True)
class Long:
    """A number of more digits than Python reads as an integer."""

    digits: str


class Doubled(dict[str, object]):
    """An object in which a key stands more than once."""

    key: str


def _pairs(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found = dict(pairs)
    if len(found) == len(pairs):
        return found
    doubled = Doubled(found)
    doubled.key = Counter(key for key, _ in pairs).most_common(1)[0][0]
    return doubled


def _whole(digits: str) -> int | Long:
    return int(digits) if len(digits) < MOST_DIGITS else Long(digits)


def _values(text: str) -> object:
    """JSON as Python values. Raises JSONDecodeError, and ParseError for brackets that nest too deep."""
    try:
        try:
            return json.loads(text, strict=False, object_pairs_hook=_pairs)
        except json.JSONDecodeError:
            raise
        except ValueError:  # an integer of thousands of digits
            return json.loads(text, strict=False, object_pairs_hook=_pairs, parse_int=_whole)
    except RecursionError:
        raise ParseError("brackets nest too deep in it", fix="those of a graph nest at most seven deep") from None


def parse(text: str) -> object:
    """The values, with `inf` and `nan` as the library prints them. Raises ParseError, naming line and column."""
    if not text.strip():
        raise ParseError("the file is empty", fix="a graph has at least one op")
    try:
        return _values(text)
    except json.JSONDecodeError as bad:
        return _parse_with_bare_numbers(text, bad)


def _parse_with_bare_numbers(text: str, first: json.JSONDecodeError) -> object:
    """Parse again with `inf` and `nan` spelled as the json module knows them; errors point into the text as it was."""
    grown: list[tuple[int, int]] = []  # (position after a replacement in the new text, characters added up to there)
    added = 0

    def respell(found: re.Match[str]) -> str:
        nonlocal added
        if found[1] is not None:
            return found[1]
        word = _SPELLING[found[0]]
        added += len(word) - len(found[0])
        grown.append((found.end() + added, added))
        return word

    respelled = _BARE.sub(respell, text)
    bad = first
    if grown:
        try:
            return _values(respelled)
        except json.JSONDecodeError as second:
            at = second.pos - next((n for end, n in reversed(grown) if end <= second.pos), 0)
            bad = json.JSONDecodeError(second.msg, text, at)
    what = f"not JSON: line {bad.lineno}, column {bad.colno}: {bad.msg.removesuffix(' at')}"
    raise ParseError(what, fix="mend the text there, or dump the graph again")
