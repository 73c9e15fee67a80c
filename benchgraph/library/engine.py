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
    """A user's memory functions: malloc(size, alignment) -> address (0: none left), free(address). Unless both are given: the library's."""

    malloc: Callable[[int, int], int] | None = None
    free: Callable[[int], None] | None = None


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
        malloc, free = (self.allocator.malloc, self.allocator.free) if self.allocator is not None else (None, None)
        if malloc is None or free is None:
            return aligned(nbytes)
        address = malloc(max(nbytes, 1), ALIGNMENT)
        if not address:
            raise OutOfMemory(f"the engine's allocator has no {nbytes} bytes", where="Engine")
        buffer = (ctypes.c_uint8 * nbytes).from_address(address)
        array = np.frombuffer(memoryview(buffer), np.uint8) if nbytes else np.empty(0, np.uint8)
        weakref.finalize(buffer, free, address)
        return array


@dataclass(frozen=True, eq=False)
class Stream:
    """An in-order queue on an engine. Execution is synchronous, so `wait` returns at once."""

    engine: Engine

    def wait(self) -> None:
        """Everything executed on the stream so far is done when this returns."""
