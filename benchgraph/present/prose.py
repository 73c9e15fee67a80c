"""Sentences for people, folded between words where the terminal would break them anywhere.

What stands between quotes is not folded: it is there to be copied.
"""

from __future__ import annotations

import re
import sys

WORD = re.compile(r"(?:(?<!\w)'[^'\n]*'(?!\w)|`[^`\n]*`|[^\s])+")


def folded(text: str, width: int, indent: int = 0) -> str:
    """The text with lines of at most so many letters, except for words that are longer themselves. indent: of what a line goes on with."""
    return "\n".join(_line(line, width, " " * indent) for line in text.split("\n"))


def for_stderr(text: str) -> str:
    """As it is, unless stderr is a terminal."""
    if not sys.stderr.isatty():
        return text
    from benchgraph.present.terminal import columns

    return folded(text, columns(stderr=True))


def _line(line: str, width: int, indent: str) -> str:
    if len(line) <= width or not line.strip():
        return line
    first, *words = WORD.findall(line)
    found = [line[: line.index(first)] + first]
    for word in words:
        if len(found[-1]) + 1 + len(word) > width:
            found.append(indent + word)
        else:
            found[-1] += f" {word}"
    return "\n".join(found)
