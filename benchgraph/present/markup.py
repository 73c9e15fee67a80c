"""GitHub's Markdown, written so that nothing a repro line or a reason holds can be taken for markup."""

from __future__ import annotations

from collections.abc import Sequence
from string import punctuation

from benchgraph.core.formats import counted, unit
from benchgraph.results.result import Machine

MOST = 100  # rows or lines of one list: GitHub takes no comment longer than 65536 characters
MARKS = frozenset(punctuation) - set("-=.,:/()")  # what could mean something within a line
OPEN = 20  # a longer list is folded


def code(text: str) -> str:
    """As code, on one line, also within a table.

    There a | ends the cell even between backticks, and a backslash in front of it is not always one: such text goes into <code>, with
    every sign that could mean something as a number.
    """
    line = " ".join(text.split())
    if not line or not set(line) & set("|`\\"):
        return f"`{line}`" if line else ""
    return "<code>" + "".join(f"&#{ord(c)};" if c in MARKS else c for c in line) + "</code>"


def table(header: Sequence[str], rows: Sequence[Sequence[str]], *, left: int = 1, foot: Sequence[Sequence[str]] = ()) -> str:
    """Cells are Markdown already. The first `left` columns stand left, the others right. Of more than MOST rows the first are shown."""
    aligned = [":---" if i < left else "---:" for i in range(len(header))]
    lines = [_row(cells) for cells in (header, aligned, *rows[:MOST], *foot)]
    return "\n".join([*lines, *_more(rows)])


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def bullets(items: Sequence[str]) -> str:
    """A list of Markdown; of more than MOST items the first are shown."""
    return "\n".join([*(f"- {item}" for item in items[:MOST]), *_more(items)])


def _more(items: Sequence[object]) -> list[str]:
    return ["", f"… and {len(items) - MOST} more, in the JSON report"] if len(items) > MOST else []


def section(title: str, body: str, size: int) -> str:
    """Under a heading of its own; folded away when it has more than OPEN rows."""
    if size > OPEN:
        return folded(f"{title} ({size})", body)
    return f"#### {title} ({size})\n\n{body}"


def folded(title: str, body: str) -> str:
    """Shown at a click. The empty lines make GitHub read the body as Markdown."""
    return f"<details><summary>{title}</summary>\n\n{body}\n\n</details>"


def machine(m: Machine) -> str:
    peaks = [f", {dtype} peak {peak / 1e9:.0f} {unit(dtype)}" for dtype, peak in m.peak_flops.items()]
    versions = ", ".join(f"{name} {version}" for name, version in m.versions.items())
    return code(f"{m.cpu}, {counted(m.cores, 'core')}, {counted(m.threads, 'thread')}, {m.isa}{''.join(peaks)}; {versions}")
