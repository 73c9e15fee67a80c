"""The progress line, where stderr is a terminal: how many cases are done, which one runs, and its current step.

It stays the last line of the terminal, output goes above it, and it disappears at the end. It is drawn by rich when steps are reported
(core/progress.py), and four times a second by a thread that updates the time; but while times are measured, which the thread would disturb,
only between two samples and at most twice a second.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, TextIO

from benchgraph.core.errors import NO_THREAD
from benchgraph.core.printable import printable
from benchgraph.core.progress import Step, progress_sent_to

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress

DELAY_S = 0.5  # delay of a line without a count
PATIENCE_S = 0.5  # between two updates for steps of one kind
MOST_COLUMNS = 1000  # limits COLUMNS, since the line is padded with spaces
PER_SECOND = 4  # updates by the thread
ERASE = b"\r\x1b[2K"  # clears the terminal's current line

_shown: Line | None = None


def erasing() -> bytes:
    """What a direct write to the terminal must begin with: empty if no line is shown."""
    return ERASE if _shown is not None and _shown.is_drawn else b""


class Line:
    """The progress line. total: the number of items; 0: they are not counted."""

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
        """Draw it from now on, unless it has ended."""
        with self._lock:
            if not self._is_over and not self.is_drawn:
                try:
                    self._bar.start()
                except NO_THREAD:
                    self._is_over = True
                    self._bar.stop()
                    return
                self._bar.console.show_cursor(True)  # so that a killed process does not leave it hidden
                self._streams = sys.stdout, sys.stderr
                sys.stdout, sys.stderr = (_above(self._bar.console, stream) for stream in self._streams)

    def advance(self) -> None:
        self._bar.advance(self._task)

    def show(self, step: Step) -> None:
        """Show a step, at once if it is of another kind than the last one."""
        self._bar.update(self._task, description=printable(str(step)))
        now, kind = time.monotonic(), (step.item, step.doing)
        if self.is_drawn and not self._bar.live.auto_refresh and (kind != self._kind or now - self._last >= PATIENCE_S):
            self._bar.refresh()
            self._last, self._kind = now, kind

    def end(self) -> None:
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
    """Show the line while the block runs, if stderr is a terminal; yields the function to call when an item is done.

    noun: the items, as `cases`. If there are several they are counted, and the line is shown at once. Inside another line it is not shown.
    """
    global _shown
    if not sys.stderr.isatty() or _shown is not None:
        yield lambda: None
        return
    _shown = line = Line(noun, total if total > 1 else 0, is_measuring=is_measuring)
    try:
        with progress_sent_to(line.show):
            line.begin(at_once=total > 1)
            yield line.advance
    finally:
        line.end()
        _shown = None


def _bar(noun: str, total: int, *, is_measuring: bool) -> Progress:
    """Output above the line is not wrapped, so that it can be copied."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
    from rich.table import Column

    console = Console(stderr=True, soft_wrap=True)
    console.width = min(console.width, MOST_COLUMNS)
    counted = (BarColumn(16), MofNCompleteColumn(), TextColumn(noun)) if total else ()
    description = TextColumn("{task.description}", markup=False, table_column=Column(no_wrap=True, overflow="ellipsis", ratio=1))
    return Progress(
        *counted,
        TimeElapsedColumn(),
        description,
        console=console,
        auto_refresh=not is_measuring,
        refresh_per_second=PER_SECOND,
        transient=True,
        expand=True,
        redirect_stdout=False,
        redirect_stderr=False,
    )


def _above(console: Console, stream: TextIO) -> TextIO:
    """The stream with output above the progress line, if it is the terminal too; other streams are unchanged.

    rich's own proxy has no encoding, which makes click bypass it.
    """
    from rich.file_proxy import FileProxy

    class Above(FileProxy):
        encoding = property(lambda _: getattr(stream, "encoding", None) or "utf-8")
        errors = property(lambda _: getattr(stream, "errors", None) or "strict")

    return Above(console, stream) if stream.isatty() else stream  # type: ignore[return-value]
