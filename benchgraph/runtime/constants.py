"""What init computes once and later executions read: packed weights, folded scales, tables."""

from __future__ import annotations

import threading
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from benchgraph.runtime.memory import Allocator, Use, allocate
from benchgraph.tir.ir import Tensor

Array = NDArray[np.generic]


class Constants:
    """The constants of one set of constant input buffers. ready: init has run; lock: held while it does."""

    def __init__(self, tensors: Sequence[Tensor], literals: Sequence[Array | None], allocator: Allocator | None, *, ready: bool) -> None:
        self.buffers = [_filled(t, data, allocator) for t, data in zip(tensors, literals, strict=True)]
        self.lock = threading.Lock()
        self.ready = ready


def _filled(t: Tensor, data: Array | None, allocator: Allocator | None) -> Array:
    buffer = allocate(t.nbytes, Use.persistent, allocator)
    if data is not None:
        source = np.ascontiguousarray(data).reshape(-1).view(np.uint8)
        buffer[: source.size] = source
    return buffer
