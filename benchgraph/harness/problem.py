"""A problem: one driver with one fixed setting of all its knobs. It knows its own repro line and builds its graph."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchgraph.core.errors import InvalidArguments
from benchgraph.harness.knobs import Globals, words

if TYPE_CHECKING:  # the graph imports numpy, which --help must not wait for
    from benchgraph.graph.ir import Graph


class CannotOverride(InvalidArguments):
    """The case loads, but a knob cannot be applied to it (benchdnn: "Rewriter failed")."""


@dataclass(frozen=True)
class Driver:
    """What a file under drivers/ offers as DRIVER.

    knobs: a frozen dataclass of knobs; a field named `case` holds a file and setting it runs the problem. build(knobs, file) makes the
    shape-inferred graph, raising CannotOverride when the case is good but a knob does not fit it. expected(knobs): how many partitions
    the fused policy should make, 0 when that is not to be checked. loops: fields with alternatives in the order in which their loops
    nest, the outermost first; fields that are not named follow in order of declaration.
    """

    name: str
    about: str
    knobs: type
    build: Callable[[Any, Path], Graph]
    expected: Callable[[Any], int]
    loops: tuple[str, ...] = ()


@dataclass(frozen=True)
class Problem:
    """file is None when the case was not found; `missing` then says where it was sought."""

    index: int
    driver: Driver
    globals: Globals
    knobs: Any
    file: Path | None
    missing: InvalidArguments | None = None

    @property
    def repro(self) -> str:
        """The command line that runs this problem again; defaults are left out."""
        return " ".join([*words(self.globals, all=self.globals.canonical), self.description])

    @property
    def description(self) -> str:
        """The repro line without the global options."""
        return " ".join([f"--{self.driver.name}", *words(self.knobs)])

    @property
    def expected_partitions(self) -> int:
        return self.driver.expected(self.knobs)

    def graph(self) -> Graph:
        """Load or build the graph. Raises BenchgraphError."""
        if self.file is None:
            raise self.missing or InvalidArguments("no case given")
        return self.driver.build(self.knobs, self.file)
