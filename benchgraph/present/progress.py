"""One line that says what is going on, where stderr is a terminal: how many cases are done, which one runs, and what is done with it.

It is the last line of the terminal while something lasts, what is printed meanwhile goes above it, and it is gone at the end. It is
drawn by rich, when steps are told (core/steps.py), and by a thread four times a second so that the time passes: but not where times
are measured, since whoever draws takes them from it. There it is drawn between two samples, and twice a second at most.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, TextIO

from benchgraph.core.errors import NO_THREAD
from benchgraph.core.lines import printable
from benchgraph.core.steps import Step, watched

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress

DELAY_S = 0.5  # before which a line that counts nothing is not worth it
PATIENCE_S = 0.5  # between two drawings of steps of one kind
MOST_COLUMNS = 1000  # whatever COLUMNS says: the line is filled with spaces
PER_SECOND = 4  # drawings by the thread
ERASE = b"\r\x1b[2K"  # a terminal's code to begin a line anew

_shown: Line | None = None


def erasing() -> bytes:
    """What to write first by whoever writes to the terminal past Python: nothing where no line is shown."""
    return ERASE if _shown is not None and _shown.is_drawn else b""


class Line:
    """The line while it may be shown. total: how many items there are; 0: they are not counted."""

    def __init__(self, noun: str, total: int, *, is_measuring: bool) -> None:
        self._bar = _bar(noun, total, is_measuring=is_measuring)
        self._task = self._bar.add_task("", total=total or None)
        self._lock = threading.Lock()
        self._timer = threading.Timer(DELAY_S, self.draw)
        self._timer.daemon = True
        self._last, self._kind, self._is_over = 0.0, ("", ""), False
        self._streams: tuple[TextIO, TextIO] | None = None

    @property
    def is_drawn(self) -> bool:
        return self._streams is not None

    def begin(self, *, at_once: bool) -> None:
        if at_once:
            self.draw()
        else:
            with suppress(*NO_THREAD):
                self._timer.start()

    def draw(self) -> None:
        """From now on it is there, unless it is over already."""
        with self._lock:
            if not self._is_over and not self.is_drawn:
                try:
                    self._bar.start()
                except NO_THREAD:  # to draw it
                    self._is_over = True
                    self._bar.stop()
                    return
                self._bar.console.show_cursor(True)  # a process that ends at once leaves the terminal as it was
                self._streams = sys.stdout, sys.stderr
                sys.stdout, sys.stderr = (_above(self._bar.console, stream) for stream in self._streams)

    def advance(self) -> None:
        """One more item is done."""
        self._bar.advance(self._task)

    def show(self, step: Step) -> None:
        """Say it, at once if it is of another kind than before."""
        self._bar.update(self._task, description=printable(str(step)))
        now, kind = time.monotonic(), (step.item, step.doing)
        if self.is_drawn and not self._bar.live.auto_refresh and (kind != self._kind or now - self._last >= PATIENCE_S):
            self._bar.refresh()
            self._last, self._kind = now, kind

    def end(self) -> None:
        """Clear it."""
        self._timer.cancel()
        with self._lock:
            self._is_over = True
            if self._streams is not None:
                for stream in {sys.stdout, sys.stderr} - set(self._streams):
                    stream.flush()
                sys.stdout, sys.stderr = self._streams
                self._streams = None
                self._bar.stop()


@contextmanager
def progress_line(noun: str = "", total: int = 0, *, is_measuring: bool = False) -> Iterator[Callable[[], None]]:
    """Show the line while the block runs, where stderr is a terminal; yields what to call when an item is done.

    noun: of items, as `cases`. Several of them are counted, and the line is there at once. A line inside another one is not shown.
    """
    global _shown
    if not sys.stderr.isatty() or _shown is not None:
        yield lambda: None
        return
    _shown = line = Line(noun, total if total > 1 else 0, is_measuring=is_measuring)
    try:
        with watched(line.show):
            line.begin(at_once=total > 1)
            yield line.advance
    finally:
        line.end()
        _shown = None


def _bar(noun: str, total: int, *, is_measuring: bool) -> Progress:
    """Whole lines only: those printed above are not wrapped, so that they can be copied."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
    from rich.table import Column

    console = Console(stderr=True, soft_wrap=True)
    console.width = min(console.width, MOST_COLUMNS)
    counted = (BarColumn(16), MofNCompleteColumn(), TextColumn(noun)) if total else ()
    said = TextColumn("{task.description}", markup=False, table_column=Column(no_wrap=True, overflow="ellipsis", ratio=1))
    return Progress(
        *counted,
        TimeElapsedColumn(),
        said,
        console=console,
        auto_refresh=not is_measuring,
        refresh_per_second=PER_SECOND,
        transient=True,
        expand=True,
        redirect_stdout=False,
        redirect_stderr=False,
    )


def _above(console: Console, stream: TextIO) -> TextIO:
    """The stream with whole lines printed above the line, if it is the terminal too; a file gets what it gets without a line.

    rich's own proxy has no encoding, so that click takes it for broken and writes past it.
    """
    from rich.file_proxy import FileProxy

    class Above(FileProxy):
        encoding = property(lambda _: getattr(stream, "encoding", None) or "utf-8")
        errors = property(lambda _: getattr(stream, "errors", None) or "strict")

    return Above(console, stream) if stream.isatty() else stream  # type: ignore[return-value]
