"""What is laid out by rich and kept as text. Plain ASCII, and without colours, unless the output is a terminal."""

from __future__ import annotations

from collections.abc import Sequence
from io import StringIO

from rich import box
from rich.console import Console
from rich.table import Table

WIDE = 10_000  # columns where there is no terminal: nothing is cut off, nor wrapped
BETWEEN = 3  # columns between two of a grid: a space, a line, a space


def columns(*, stderr: bool = False) -> int:
    """Of the terminal, or WIDE."""
    screen = Console(stderr=stderr)
    return min(screen.width, WIDE) if screen.is_terminal else WIDE


def paper(width: int = WIDE, *, is_plain: bool = False) -> Console:
    """To print on, for `printed` to read. is_plain: without colours on a terminal too."""
    coloured = not is_plain and Console().is_terminal
    return Console(file=StringIO(), width=width, force_terminal=coloured, no_color=not coloured, highlight=False, emoji=False, markup=False)


def printed(out: Console) -> str:
    """What was printed on a paper, without spaces at the ends of lines."""
    assert isinstance(out.file, StringIO)
    return "\n".join(line.rstrip() for line in out.file.getvalue().splitlines())


def alone(table: Table, width: int = WIDE) -> str:
    """A table by itself, without colours."""
    out = paper(width, is_plain=True)
    out.print(table)
    return printed(out)


def grid(style: box.Box = box.ASCII2) -> Table:
    """A table without a frame."""
    return Table(box=style, show_edge=False, pad_edge=False)


def fitting(rows: Sequence[Sequence[str]], width: int, spare: Sequence[int], least: int) -> list[int]:
    """The columns of a grid, by number, that fit into so many columns of the terminal, where the first may be folded to `least` of them.

    rows: all cells, the heads among them. spare: columns that may be left out, the first of them first.
    """
    natural = [max(map(len, column)) for column in zip(*rows, strict=True)]
    kept = list(range(len(natural)))
    for column in spare:
        if min(natural[0], least) + sum(natural[i] for i in kept[1:]) + BETWEEN * (len(kept) - 1) <= width:
            break
        kept.remove(column)
    return kept
