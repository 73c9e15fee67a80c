"""What the harness asks of a library under test. Ours is one; others implement the same three steps: partition, compile, bind."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from benchgraph.graph.ir import Graph
from benchgraph.partition.ir import Partition, Policy


class Bound(Protocol):
    """A compiled partition with its buffers fixed: the hot path."""

    def __call__(self) -> None:
        """Execute once, synchronously. The first call also computes the cached constants."""


class Compiled(Protocol):
    """A compiled partition."""

    @property
    def compile_s(self) -> float:
        """Seconds that its compilation took, be it that others ran at once."""

    @property
    def is_warm(self) -> bool:
        """Whether it was read from disk, so that those seconds are not what compiling it takes."""

    def bind(self, inputs: Sequence[NDArray[np.generic]], outputs: Sequence[NDArray[np.generic]]) -> Bound:
        """Fix the buffers, in the order of the partition's inputs and outputs.

        Each array has the dtype, shape and strides of its logical tensor; that of an s4 or u4 tensor is its packed memory, uint8 of shape
        (nbytes,) (core/arrays.py). They are used in place and kept alive.
        """


class Library(Protocol):
    """A library under test."""

    @property
    def name(self) -> str:
        """What reports call it."""

    @property
    def version(self) -> str:
        """What reports call its release; '' when they name it anyway."""

    @property
    def is_in_process(self) -> bool:
        """Whether it executes on the caller's memory and thread: what cold caches and streams need."""

    @property
    def dumps_itself(self) -> bool:
        """Whether it writes dumps of graphs and partitions itself, where its own environment variables ask for them."""

    def partitions(self, graph: Graph, policy: Policy) -> tuple[Partition, ...]:
        """Cut a shape-inferred graph into partitions, in an order in which they can be executed."""

    def compile(self, partition: Partition) -> Compiled:
        """Compile a supported partition. Raises Unimplemented for one that is not."""

    def compile_all(self, partitions: Sequence[Partition]) -> list[Compiled]:
        """Compile them as `compile` would one after the other, perhaps several at once. Raises what it does for the first that fails."""

    def caller(
        self, partition: Partition, compiled: Compiled, inputs: Sequence[NDArray[np.generic]], outputs: Sequence[NDArray[np.generic]]
    ) -> Callable[[], None] | None:
        """One execution as a user's Python program asks for it, through the API, on arrays as `bind` takes them; None: nobody does."""

    def sequence(self, steps: Sequence[Bound]) -> Chain:
        """Several bound partitions as one native call, so that timing sees no interpreter between them."""


class Chain(Protocol):
    def run(self, times: int) -> float | None:
        """Execute all steps in order, `times` times, in one native call.

        Returns the seconds that call took, by a clock of the library's own; None: the caller's clock around `run` is as good.
        """

    @property
    def constants(self) -> Sequence[NDArray[np.generic]]:
        """Memory of the library's own that every execution reads: what it has computed, or will at the first one, from constant inputs."""
