"""Users' regular expressions, which may backtrack for very long."""

from __future__ import annotations

import re
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from benchgraph.core.errors import InvalidArguments

LIMIT_S = 2.0  # of CPU time per line; without backtracking, matching takes microseconds


class _TooLong(Exception):
    pass


def matches(pattern: str, text: str) -> bool:
    """Whether the pattern occurs in the text. Raises InvalidArguments if that takes longer than LIMIT_S.

    The limit is a signal, which only the main thread gets; other threads have no limit.
    """
    try:
        with _limited():
            return re.search(pattern, text) is not None
    except _TooLong:
        what = f"the regular expression '{pattern}' takes more than {LIMIT_S:g} s for one case"
        raise InvalidArguments(what, fix="leave out repetitions inside of repetitions, as in '(a+)+'") from None


@contextmanager
def _limited() -> Iterator[None]:
    """Raises _TooLong inside the block after LIMIT_S."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def stop(number: int, frame: FrameType | None) -> None:
        raise _TooLong

    before = signal.signal(signal.SIGVTALRM, stop)
    try:
        signal.setitimer(signal.ITIMER_VIRTUAL, LIMIT_S)
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)
