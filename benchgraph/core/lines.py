"""Text from outside, such as a name in a file, made fit to stand in a line of output."""

from __future__ import annotations

import io
import sys
from collections.abc import Iterable
from itertools import islice
from unicodedata import category

LINE = 120  # characters that a message quotes of one value
MESSAGE = 1000  # characters of one part of an error: what, or its remedy
# Categories of Unicode that readers cannot see: controls, marks that turn the direction of text, halves of surrogate pairs, separators.
HIDDEN = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})
NO_CHARACTERS = "\ufffe\uffff"  # and what HTML and XML cannot hold besides


def printable(text: str) -> str:
    """The text with an escape, as \\x1b or \\n, for each character of HIDDEN and NO_CHARACTERS.

    What comes out has one line, which moves no cursor, says what it seems to say and can be written to any file.
    """
    if text.isprintable():
        return text
    return "".join(c.encode("unicode_escape").decode("ascii") if is_hidden(c) else c for c in text)


def is_hidden(character: str) -> bool:
    return category(character) in HIDDEN or character in NO_CHARACTERS


def print_any(encoding: str | None = None) -> None:
    """From now on what the encoding of stdout and stderr lacks is printed as an escape, rather than an error. encoding: another one."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(encoding=encoding, errors="backslashreplace")


def printable_lines(text: str) -> str:
    """`printable` for a text of several lines, which stay lines."""
    return "\n".join(map(printable, text.split("\n")))


def shortened(text: str, most: int = LINE) -> str:
    """At most so many characters of the text, and dots for the rest."""
    return text if len(text) <= most else f"{text[:most]}..."


def listed(items: Iterable[object], most: int = 20) -> str:
    """The first few of many, between commas; "none" of none."""
    texts = [str(item) for item in islice(items, most + 1)]
    return ", ".join([*texts[:most], *["..."] * (len(texts) > most)]) or "none"


def quoted(value: object) -> str:
    """A value as messages quote it, strings between quotes: printable, and hardly longer than LINE."""
    return printable(repr(shortened(value)) if isinstance(value, str) else shortened(_written(value)))


def _written(value: object) -> str:
    if isinstance(value, tuple):
        return f"({', '.join(map(_written, value[:LINE]))}{',' if len(value) == 1 else ''})"
    if isinstance(value, int) and not isinstance(value, bool) and value.bit_length() > 4 * LINE:  # Python does not write 5,000 digits
        return f"an integer of {value.bit_length()} bits"
    return repr(value)
