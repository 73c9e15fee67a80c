"""Ctrl-C: the first ends the run, which keeps and reports what it has; the second ends the process at once.

Python acts on a signal only when it is back in its own code, and compiled code that loops for ever never comes back. So a thread watches
the signals themselves.
"""

from __future__ import annotations

import os
import select
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from benchgraph.harness.exit_codes import ExitCode
from benchgraph.harness.progress import erasing

PATIENCE_S = 1.0  # after which one who waits is told how to wait no longer


@contextmanager
def interruptible() -> Iterator[None]:
    """Inside the block, the first Ctrl-C raises KeyboardInterrupt as always, the second exits with ExitCode.interrupted.

    Nothing changes in a thread other than the main one, or where somebody handles Ctrl-C already.
    """
    ours = threading.current_thread() is threading.main_thread() and signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if not ours:
        yield
        return
    signals, wake = os.pipe()
    os.set_blocking(wake, False)
    before = signal.set_wakeup_fd(wake)
    watcher = threading.Thread(target=_watch, args=(signals,), daemon=True)
    watcher.start()
    try:
        yield
    finally:
        signal.set_wakeup_fd(before)
        os.close(wake)  # which ends the watcher
        watcher.join()
        os.close(signals)


def _watch(signals: int) -> None:
    interrupts, patience = 0, None
    while True:
        if not select.select([signals], [], [], patience)[0]:
            os.write(2, erasing() + b"interrupted; waiting for the case to return. Ctrl-C again to stop at once\n")
            patience = None
            continue
        number = os.read(signals, 1)
        if not number:
            return
        if number[0] == signal.SIGINT:
            interrupts, patience = interrupts + 1, PATIENCE_S
        if interrupts > 1:
            os.write(2, erasing())
            os._exit(ExitCode.interrupted)
