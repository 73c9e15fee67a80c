"""Text from outside, such as a name in a file, made safe for a line of output."""

from __future__ import annotations

import io
import sys
from collections.abc import Iterable
from itertools import islice
from unicodedata import category

LINE = 120  # characters that a message quotes of one value
MESSAGE = 1000  # characters of one part of an error message
# Categories of invisible characters: controls, directional marks, surrogates, line and paragraph separators.
HIDDEN = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})
NO_CHARACTERS = "\ufffe\uffff"  # not allowed in HTML and XML either


def printable(text: str) -> str:
    """The text with an escape, as \\x1b or \\n, for each character of HIDDEN and NO_CHARACTERS.

    The result is one line, moves no cursor, shows all of its characters, and can be written to any file.
    """
    if text.isprintable():
        return text
    return "".join(c.encode("unicode_escape").decode("ascii") if is_hidden(c) else c for c in text)


def is_hidden(character: str) -> bool:
    return category(character) in HIDDEN or character in NO_CHARACTERS


def print_any(encoding: str | None = None) -> None:
    """Print characters that the encoding of stdout and stderr lacks as escapes from now on. encoding: another encoding."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(encoding=encoding, errors="backslashreplace")


def printable_lines(text: str) -> str:
    """`printable` for each line of a text."""
    return "\n".join(map(printable, text.split("\n")))


def shortened(text: str, most: int = LINE) -> str:
    """At most `most` characters of the text, with dots for the rest."""
    return text if len(text) <= most else f"{text[:most]}..."


def listed(items: Iterable[object], most: int = 20) -> str:
    """The first few items, separated by commas; "none" if there are none."""
    texts = [str(item) for item in islice(items, most + 1)]
    return ", ".join([*texts[:most], *["..."] * (len(texts) > most)]) or "none"


def quoted(value: object) -> str:
    """A value as messages quote it: strings in quotes, printable, and little longer than LINE."""
    return printable(repr(shortened(value)) if isinstance(value, str) else shortened(_written(value)))


def _written(value: object) -> str:
    if isinstance(value, tuple):
        return f"({', '.join(map(_written, value[:LINE]))}{',' if len(value) == 1 else ''})"
    if isinstance(value, int) and not isinstance(value, bool) and value.bit_length() > 4 * LINE:  # Python refuses to print 5,000 digits
        return f"an integer of {value.bit_length()} bits"
    return repr(value)
