"""Wraps messages for people between words. Quoted text is not broken, so that it can be copied."""

from __future__ import annotations

import re
import sys

WORD = re.compile(r"(?:(?<!\w)'[^'\n]*'(?!\w)|`[^`\n]*`|[^\s])+")


def folded(text: str, width: int, indent: int = 0) -> str:
    """Wrap lines to `width` letters, except for longer words. indent: of continuation lines."""
    return "\n".join(_line(line, width, " " * indent) for line in text.split("\n"))


def for_stderr(text: str) -> str:
    if not sys.stderr.isatty():
        return text
    from benchgraph.present.terminal import columns

    return folded(text, columns(stderr=True))


def _line(line: str, width: int, indent: str) -> str:
    if len(line) <= width or not line.strip():
        return line
    first, *words = WORD.findall(line)
    lines = [line[: line.index(first)] + first]
    for word in words:
        if len(lines[-1]) + 1 + len(word) > width:
            lines.append(indent + word)
        else:
            lines[-1] += f" {word}"
    return "\n".join(lines)
