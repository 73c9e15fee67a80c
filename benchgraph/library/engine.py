"""Where work runs and whose memory it uses: engines with allocators, and streams."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from benchgraph.core.errors import InvalidArguments
from benchgraph.core.target import Target, current
from benchgraph.runtime.memory import Allocator, Use, allocate


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
        """Memory for a tensor, as long as the array lives. Raises OutOfMemory, also when the user's allocator gives none."""
        return allocate(nbytes, Use.output, self.allocator)


@dataclass(frozen=True, eq=False)
class Stream:
    """An in-order queue on an engine. Execution is synchronous, so `wait` returns at once."""

    engine: Engine

    def wait(self) -> None:
        """Everything executed on the stream so far is done when this returns."""
