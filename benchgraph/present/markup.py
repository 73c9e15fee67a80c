"""GitHub's Markdown, escaped so that no part of a repro line or a reason is read as markup."""

from __future__ import annotations

from collections.abc import Sequence
from string import punctuation

from benchgraph.core.formats import counted, unit
from benchgraph.results.machine import Machine

MOST = 100  # rows or lines of one list: GitHub's comments have at most 65536 characters
MARKS = frozenset(punctuation) - set("-=.,:/()")  # characters that may be markup within a line
OPEN = 20  # longer lists are collapsed


def code(text: str) -> str:
    """Text as code on one line, also within a table.

    In tables a | ends the cell even between backticks, and cannot always be escaped by a backslash: such text goes into <code>, with
    special characters as numeric references.
    """
    line = " ".join(text.split())
    if not line or not set(line) & set("|`\\"):
        return f"`{line}`" if line else ""
    return "<code>" + "".join(f"&#{ord(c)};" if c in MARKS else c for c in line) + "</code>"


def table(header: Sequence[str], rows: Sequence[Sequence[str]], *, left: int = 1, foot: Sequence[Sequence[str]] = ()) -> str:
    """Cells are Markdown. The first `left` columns are left-aligned, the others right. Of more than MOST rows the first are shown."""
    aligned = [":---" if i < left else "---:" for i in range(len(header))]
    lines = [_row(cells) for cells in (header, aligned, *rows[:MOST], *foot)]
    return "\n".join([*lines, *_more(rows)])


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def bullets(items: Sequence[str]) -> str:
    """A list of Markdown items; of more than MOST the first are shown."""
    return "\n".join([*(f"- {item}" for item in items[:MOST]), *_more(items)])


def _more(items: Sequence[object]) -> list[str]:
    return ["", f"… and {len(items) - MOST} more, in the JSON report"] if len(items) > MOST else []


def section(title: str, body: str, size: int) -> str:
    """A section with a heading; collapsed if it has more than OPEN rows."""
    if size > OPEN:
        return folded(f"{title} ({size})", body)
    return f"#### {title} ({size})\n\n{body}"


def folded(title: str, body: str) -> str:
    """Collapsed, shown at a click. The empty lines make GitHub read the body as Markdown."""
    return f"<details><summary>{title}</summary>\n\n{body}\n\n</details>"


def machine(m: Machine, *, is_one_of_several: bool = False) -> str:
    """A machine, or the machines of a kind; of several kinds with the names of their hosts."""
    peaks = [f", {dtype} peak {peak / 1e9:.0f} {unit(dtype)}" for dtype, peak in m.peak_flops.items()]
    versions = ", ".join(f"{name} {version}" for name, version in {**m.versions, **m.system}.items())
    hosts = f"{m.host}: " if is_one_of_several and m.host else ""
    return code(f"{hosts}{m.full_name}, {counted(m.cores, 'core')}, {counted(m.threads, 'thread')}, {m.isa}{''.join(peaks)}; {versions}")
