"""Signals that stop a run: the first ends it with a report of the finished cases; the second ends the process at once.

Python handles a signal only in its own code, and compiled code may loop for ever. So a thread watches the signals. After SIGTERM or SIGHUP,
where nobody sends a second signal, the process has GRACE_S to react.
"""

from __future__ import annotations

import os
import select
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from benchgraph.core.errors import NO_THREAD
from benchgraph.present.progress import erasing

PATIENCE_S = 1.0  # delay of the message that a second signal ends the process at once
GRACE_S = 5.0  # for compiled code to return; SIGKILL usually follows SIGTERM after 10 s or more
TOGETHER_S = 0.2  # signals within this time are one: `timeout` and closing shells signal both the process and its group
_SHELL = 128  # plus a signal's number: the exit code, as shells say it

_awaited = "what is under way"  # what must end before a signal takes effect


class Stopped(KeyboardInterrupt):
    """Raised by a signal other than Ctrl-C."""

    def __init__(self, number: int) -> None:
        super().__init__(signal.Signals(number).name)
        self.number = number


def code_of(by: KeyboardInterrupt) -> int:
    """The exit code of a run ended by this exception."""
    return _SHELL + (by.number if isinstance(by, Stopped) else signal.SIGINT)


def interruption_text(by: KeyboardInterrupt) -> str:
    """ "interrupted", with the signal unless it was Ctrl-C."""
    return f"interrupted by {by}" if isinstance(by, Stopped) else "interrupted"


@contextmanager
def awaiting(what: str) -> Iterator[None]:
    """Inside the block, the message after Ctrl-C says that this must end first, such as `the case to return`."""
    global _awaited
    before, _awaited = _awaited, what
    try:
        yield
    finally:
        _awaited = before


@contextmanager
def interruptible() -> Iterator[None]:
    """Inside the block, the first Ctrl-C raises KeyboardInterrupt, SIGTERM and SIGHUP raise Stopped; the second signal exits.

    Has no effect in other threads than the main one, if Ctrl-C has another handler, and for signals that are ignored, as by nohup, or have
    another handler.
    """
    is_free = signal.getsignal(signal.SIGINT) in (signal.default_int_handler, signal.SIG_IGN)  # ignored in a shell's background
    if threading.current_thread() is not threading.main_thread() or not is_free:
        yield
        return
    came = threading.Event()

    def stop(number: int, frame: object) -> None:
        if not came.is_set():  # a second exception would disturb the handling of the first
            came.set()
            raise KeyboardInterrupt if number == signal.SIGINT else Stopped(number)

    signals, wake = os.pipe()
    os.set_blocking(wake, False)
    before = signal.set_wakeup_fd(wake)
    free = [
        n for n in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP) if signal.getsignal(n) in (signal.default_int_handler, signal.SIG_DFL)
    ]
    handlers = {number: signal.signal(number, stop) for number in free}
    watcher = threading.Thread(target=_watch, args=(signals, frozenset(free), came), daemon=True)
    is_watched = True
    try:
        watcher.start()
    except NO_THREAD:  # the first signal still works
        is_watched = False
    try:
        yield
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
        signal.set_wakeup_fd(before)
        os.close(wake)  # ends the watcher thread
        if is_watched:
            watcher.join()
        os.close(signals)


def _watch(signals: int, ours: frozenset[int], came: threading.Event) -> None:
    """came: whether Python has handled a signal."""
    first, at, patience = 0, 0.0, None
    while True:
        if not select.select([signals], [], [], patience)[0]:
            if first == signal.SIGINT:
                _tell(f"interrupted; waiting for {_awaited}. Ctrl-C again to stop at once\n")
            elif not came.is_set():
                _tell(f"interrupted by {signal.Signals(first).name}; compiled code does not return, so reports stay as they are\n")
                os._exit(_SHELL + first)
            patience = None
            continue
        number = os.read(signals, 1)
        if not number:
            return
        if number[0] not in ours:
            continue
        if not first:
            first, at = number[0], time.monotonic()
            patience = PATIENCE_S if first == signal.SIGINT else GRACE_S
        elif time.monotonic() > at + TOGETHER_S:
            _tell("")
            os._exit(_SHELL + number[0])


def _tell(text: str) -> None:
    """On stderr, bypassing Python's buffer, which another thread may hold."""
    with suppress(OSError):
        os.write(2, erasing() + text.encode())
