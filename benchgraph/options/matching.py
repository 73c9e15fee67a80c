"""Regular expressions of users, which may backtrack for longer than anybody waits."""

from __future__ import annotations

import re
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from benchgraph.core.errors import InvalidArguments

LIMIT_S = 2.0  # of CPU time for one line, which takes an expression that does not backtrack microseconds


class _TooLong(Exception):
    pass


def matches(pattern: str, text: str) -> bool:
    """Whether the expression is found in the text. Raises InvalidArguments when that cannot be told within LIMIT_S.

    Python looks for signals while it matches. They reach the main thread alone; elsewhere there is no limit.
    """
    try:
        with _limited():
            return re.search(pattern, text) is not None
    except _TooLong:
        what = f"the regular expression '{pattern}' takes more than {LIMIT_S:g} s for one case"
        raise InvalidArguments(what, fix="leave out repetitions inside of repetitions, as in '(a+)+'") from None


@contextmanager
def _limited() -> Iterator[None]:
    """Raises _TooLong inside the block when it has taken LIMIT_S."""
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
