"""The interface between the harness and a library under test: partition, compile, bind."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from benchgraph.core.implementation import Implementation
from benchgraph.core.layers import Profiled
from benchgraph.graph.ir import Graph
from benchgraph.graph.model import Model
from benchgraph.partition.ir import Partition, Policy


class Bound(Protocol):
    """A compiled partition with its buffers bound: the hot path."""

    def __call__(self) -> None:
        """Execute once, synchronously. The first call also computes the cached constants."""


class Compiled(Protocol):
    """A compiled partition."""

    @property
    def compile_s(self) -> float:
        """Seconds that its compilation took, possibly in parallel with others."""

    @property
    def is_warm(self) -> bool:
        """Whether it was read from disk, so that compile_s is not a compile time."""

    @property
    def implementations(self) -> tuple[Implementation, ...]:
        """What it runs on, by the library's names; () if the library does not tell."""

    def bind(self, inputs: Sequence[NDArray[np.generic]], outputs: Sequence[NDArray[np.generic]]) -> Bound:
        """Bind the buffers, in the order of the partition's inputs and outputs; they are used in place and kept alive.

        Each array has the dtype, shape and strides of its logical tensor; that of an s4 or u4 tensor is its packed memory (core/arrays.py).
        """


class Library(Protocol):
    """A library under test."""

    @property
    def name(self) -> str:
        """Its name in reports."""

    @property
    def version(self) -> str:
        """Its version in reports; '' if they have it anyway."""

    @property
    def is_in_process(self) -> bool:
        """Whether it executes on the caller's memory and threads, as cold caches and streams require."""

    @property
    def dumps_itself(self) -> bool:
        """Whether it writes dumps of graphs and partitions itself, where its own environment variables ask for them."""

    def partitions(self, graph: Graph, policy: Policy) -> tuple[Partition, ...]:
        """Partition a shape-inferred graph; in an executable order."""

    def compile(self, partition: Partition) -> Compiled:
        """Compile a partition. Raises Unimplemented for an unsupported one."""

    def compile_all(self, partitions: Sequence[Partition]) -> list[Compiled]:
        """Compile several, perhaps in parallel. Raises the error of the first that fails."""

    def caller(
        self, partition: Partition, compiled: Compiled, inputs: Sequence[NDArray[np.generic]], outputs: Sequence[NDArray[np.generic]]
    ) -> Callable[[], None] | None:
        """One execution as a Python program requests it through the API, on arrays as for `bind`; None if there is no such API."""

    def sequence(self, steps: Sequence[Bound]) -> Chain:
        """Several bound partitions as one native call, without the interpreter between them."""

    def profiled(
        self,
        partitions: Sequence[Partition],
        inputs: Sequence[Sequence[NDArray[np.generic]]],
        outputs: Sequence[Sequence[NDArray[np.generic]]],
    ) -> Profiled | None:
        """The same partitions once more, such that executing them tells the time of each layer; None if the library cannot.

        inputs, outputs: of each partition, as for `bind`.
        """


@runtime_checkable
class RunsModels(Protocol):
    """What a library has that runs a model's own file, which a graph does not name."""

    def for_model(self, model: Model) -> Library:
        """The library for one model: it takes that model's graph as one partition, and runs model.source.

        Its `partitions` raises Unavailable where there is no source, or it is of another format.
        """


class Chain(Protocol):
    def run(self, times: int) -> float | None:
        """Execute all steps in order, `times` times, natively. Returns the seconds by the library's clock; None: the caller times it."""

    @property
    def implementations(self) -> Sequence[tuple[Implementation, ...]]:
        """Of each step, where they are not those of the compiled partitions; else ()."""

    @property
    def constants(self) -> Sequence[NDArray[np.generic]]:
        """The library's memory that every execution reads: what it computes, at the latest at the first one, from constant inputs."""

    @property
    def notes(self) -> Sequence[str]:
        """What results say about the chain, a line each."""
