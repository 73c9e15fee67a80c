"""What is laid out by rich and kept as text. Plain ASCII, and without colours, unless the output is a terminal."""

from __future__ import annotations

from io import StringIO

from rich import box
from rich.console import Console
from rich.table import Table

WIDE = 400  # columns where there is no terminal: nothing is cut off


def columns() -> int:
    """Of the terminal, or WIDE."""
    screen = Console()
    return screen.width if screen.is_terminal else WIDE


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
