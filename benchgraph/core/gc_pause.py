"""Compile without garbage collection, and with short time slices for threads (docs/measurements/runtime.md).

A full collection takes twice as long as a warm start. A thread that returns from LLVM, as happens five times for each module, would wait
for 5 ms, Python's default time slice, while another thread runs Python.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager

SWITCH_INTERVAL_S = 0.3e-3  # after which a thread that runs Python lets a waiting one run


@contextmanager
def gc_paused() -> Iterator[None]:
    """Pause garbage collection and shorten time slices. If threads overlap, the first one to leave restores both."""
    was_enabled, interval = gc.isenabled(), sys.getswitchinterval()
    gc.disable()
    sys.setswitchinterval(min(interval, SWITCH_INTERVAL_S))
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
        if interval > SWITCH_INTERVAL_S:
            sys.setswitchinterval(interval)
