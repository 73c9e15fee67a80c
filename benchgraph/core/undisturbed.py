"""Work without the interpreter's pauses.

A full collection of garbage takes 20 ms once numpy, LLVM and the op table are loaded, twice a warm start. A thread that comes back from
LLVM waits 5 ms for a turn while another one runs Python, and comes back from LLVM five times for each module: with turns of 0.3 ms the
first compile of MLP_2 in int8 takes 133 ms for 139, the least of six interleaved runs each on two cores of a Zen 4.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager

TURN_S = 0.3e-3  # for which a thread runs Python before another one that waits gets to it


@contextmanager
def undisturbed() -> Iterator[None]:
    """No collection inside the block, or the function it decorates, and short turns, unless another thread leaves its own first; afterwards
    as before.
    """
    was_enabled, turn = gc.isenabled(), sys.getswitchinterval()
    gc.disable()
    sys.setswitchinterval(min(turn, TURN_S))
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
        if turn > TURN_S:
            sys.setswitchinterval(turn)
