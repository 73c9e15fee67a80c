"""Engines with allocators, and streams."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from benchgraph.core.errors import InvalidArguments
from benchgraph.machine.target import Target, current
from benchgraph.runtime.memory import Allocator, Use, allocate
from benchgraph.runtime.user_pool import ThreadPool


@dataclass(frozen=True, eq=False)
class Engine:
    """A device to compile for: the CPU. target: by default this machine as configured. Raises InvalidArguments for another kind."""

    kind: str = "cpu"
    index: int = 0
    allocator: Allocator | None = None
    target: Target = field(default_factory=current)

    def __post_init__(self) -> None:
        if self.kind != "cpu" or self.index:
            raise InvalidArguments(f"there is no engine {self.kind}:{self.index}", where="Engine", fix="use kind 'cpu', index 0")

    def allocate(self, nbytes: int) -> NDArray[np.uint8]:
        """Memory for a tensor, freed with the array. Raises OutOfMemory, also if the user's allocator returns none."""
        return allocate(nbytes, Use.output, self.allocator)


@dataclass(frozen=True, eq=False)
class Stream:
    """An in-order queue on an engine. Execution is synchronous, so `wait` returns at once.

    threadpool: the user's threads, which run parallel code; None: the library's. Raises InvalidArguments for an invalid engine or pool.
    """

    engine: Engine
    threadpool: ThreadPool | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.engine, Engine):
            raise InvalidArguments(f"the engine is a {type(self.engine).__name__}", where="Stream", fix="give it an Engine")
        if self.threadpool is not None:
            threads = getattr(self.threadpool, "num_threads", None)
            if not isinstance(threads, int) or threads < 1 or not callable(getattr(self.threadpool, "parallel_for", None)):
                what = f"the thread pool is a {type(self.threadpool).__name__} with num_threads {threads}"
                raise InvalidArguments(what, where="Stream", fix="give it num_threads >= 1 and parallel_for(n, task)")

    def wait(self) -> None:
        """Returns when everything executed on the stream so far is done."""
