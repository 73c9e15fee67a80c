"""Where work runs and whose memory it uses: engines with allocators, and streams."""

from __future__ import annotations

import ctypes
import weakref
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from benchgraph.core.errors import InvalidArguments, OutOfMemory
from benchgraph.core.target import Target, current
from benchgraph.runtime.memory import aligned

ALIGNMENT = 64  # bytes; what malloc of an allocator is asked for


@dataclass(frozen=True)
class Allocator:
    """A user's memory functions: malloc(size, alignment) -> address (0: none left), free(address)."""

    malloc: Callable[[int, int], int]
    free: Callable[[int], None]


@dataclass(frozen=True, eq=False)
class Engine:
    """A device to compile for: the CPU. target: this machine as configured, unless given. Raises InvalidArguments for another kind."""

    kind: str = "cpu"
    index: int = 0
    allocator: Allocator | None = None
    target: Target = field(default_factory=current)

    def __post_init__(self) -> None:
        if self.kind != "cpu" or self.index:
            raise InvalidArguments(f"there is no engine {self.kind}:{self.index}", where="Engine", fix="use kind 'cpu', index 0")

    def allocate(self, nbytes: int) -> NDArray[np.uint8]:
        """Memory that lives as long as the array. Raises OutOfMemory, also when the user's allocator gives none."""
        if self.allocator is None:
            return aligned(nbytes)
        address = self.allocator.malloc(max(nbytes, 1), ALIGNMENT)
        if not address:
            raise OutOfMemory(f"the engine's allocator has no {nbytes} bytes", where="Engine")
        buffer = (ctypes.c_uint8 * nbytes).from_address(address)
        array = np.frombuffer(memoryview(buffer), np.uint8) if nbytes else np.empty(0, np.uint8)
        weakref.finalize(buffer, self.allocator.free, address)
        return array


@dataclass(frozen=True, eq=False)
class Stream:
    """An in-order queue on an engine. Execution is synchronous, so `wait` returns at once."""

    engine: Engine

    def wait(self) -> None:
        """Everything executed on the stream so far is done when this returns."""
