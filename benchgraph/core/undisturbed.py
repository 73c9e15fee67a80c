"""Work without pauses for garbage collection: a full one takes 20 ms once numpy, LLVM and the op table are loaded, twice a warm start."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def undisturbed() -> Iterator[None]:
    """No collection inside the block, or the function it decorates, unless another thread leaves its own first; afterwards as before."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
