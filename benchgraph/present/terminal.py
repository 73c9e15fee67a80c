"""Layout by rich, returned as text: plain ASCII without colours, unless the output is a terminal."""

from __future__ import annotations

from collections.abc import Sequence
from io import StringIO

from rich import box
from rich.console import Console
from rich.table import Table

WIDE = 10_000  # columns without a terminal: nothing is cut off or wrapped
LABEL = 30  # columns that the first column of a grid keeps when others have to go
BETWEEN = 3  # characters between two columns of a grid: a space, a line, a space


def columns(*, stderr: bool = False) -> int:
    """The width of the terminal, or WIDE."""
    screen = Console(stderr=stderr)
    return min(screen.width, WIDE) if screen.is_terminal else WIDE


def text_console(width: int = WIDE, *, is_plain: bool = False) -> Console:
    """A console that `printed` reads. is_plain: without colours on a terminal too."""
    coloured = not is_plain and Console().is_terminal
    return Console(file=StringIO(), width=width, force_terminal=coloured, no_color=not coloured, highlight=False, emoji=False, markup=False)


def printed(out: Console) -> str:
    """The text printed on a text console, without trailing spaces."""
    assert isinstance(out.file, StringIO)
    return "\n".join(line.rstrip() for line in out.file.getvalue().splitlines())


def table_text(table: Table, width: int = WIDE) -> str:
    """A table as text, without colours."""
    out = text_console(width, is_plain=True)
    out.print(table)
    return printed(out)


def grid(style: box.Box = box.ASCII2) -> Table:
    return Table(box=style, show_edge=False, pad_edge=False)


def fitting(rows: Sequence[Sequence[str]], width: int, spare: Sequence[int], least: int) -> list[int]:
    """The columns of a grid, by number, that fit the width, if the first can be folded to `least` characters.

    rows: all cells, including the heads. spare: columns that may be left out, in this order.
    """
    natural = [max(map(len, column)) for column in zip(*rows, strict=True)]
    kept = list(range(len(natural)))
    for column in spare:
        if min(natural[0], least) + sum(natural[i] for i in kept[1:]) + BETWEEN * (len(kept) - 1) <= width:
            break
        kept.remove(column)
    return kept
