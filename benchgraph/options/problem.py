"""A problem: one driver with a value for each of its knobs. It makes its repro line and builds its graph."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchgraph.core.config import Config, config, override
from benchgraph.core.errors import InvalidArguments, Unimplemented, within
from benchgraph.core.printable import printable, shortened
from benchgraph.core.remarks import collected
from benchgraph.options.knobs import Globals, knobs_of, words
from benchgraph.options.parsers import shell_word, text
from benchgraph.results.mode import Mode

if TYPE_CHECKING:  # the graph imports numpy, which --help must not wait for
    from benchgraph.graph.ir import Graph
    from benchgraph.graph.model import Model
    from benchgraph.results.result import Result


class CannotOverride(InvalidArguments):
    """The case loads, but a knob cannot be applied to it (benchdnn: "Rewriter failed")."""


class CannotExpress(Unimplemented):
    """The problem is valid, but no op of oneDNN Graph expresses it: it is skipped."""


TRIGGER = "--case"  # the option of every driver that adds a problem


def unchecked(knobs: Any) -> int:
    """`Driver.expected` for drivers that expect no number of partitions. A named function, so that problems can be pickled."""
    return 0


@dataclass(frozen=True)
class Driver:
    """What a file under drivers/ exports as DRIVER.

    knobs: a frozen dataclass of knobs; setting its field `case` adds a problem. A case is a file, and build(knobs, file) makes the
    shape-inferred graph; or it is a problem descriptor (bare), and build(knobs) does. build raises CannotOverride for a knob that does not
    fit the case, CannotExpress if no op expresses it. expected(knobs): the number of partitions that the fused policy should make, 0 for no
    check. model(knobs, file): for cases whose files have data and names, the model with that graph. loops: fields with alternatives in the
    order of loop nesting, outermost first; others follow in order of declaration. fill: the default of --fill. inputs: its folder under
    inputs/, by default its name. run(problem, graph): replaces what the mode does with a case. inert: options of benchdnn's driver without
    effect here, and why. aliases: older names of options, with - for _. examples: lines for --help, without `benchgraph`.
    """

    name: str
    about: str
    knobs: type
    build: Callable[..., Graph]
    expected: Callable[[Any], int] = unchecked
    loops: tuple[str, ...] = ()
    fill: str = "integers"
    inputs: str = ""
    run: Callable[[Problem, Graph], Result] | None = None
    model: Callable[..., Model] | None = None
    inert: Mapping[str, str] = field(default_factory=dict, hash=False)
    aliases: Mapping[str, str] = field(default_factory=dict, hash=False)
    examples: tuple[str, ...] = ()

    @property
    def folder(self) -> str:
        return self.inputs or self.name

    @property
    def example(self) -> str:
        """The case of its first example."""
        return self.examples[0].rpartition(" ")[2]

    @property
    def reads_files(self) -> bool:
        return not knobs_of(self.knobs)[TRIGGER].bare


@dataclass(frozen=True)
class Problem:
    """file: None for a descriptor, or if the case was not found. unusable: the error of a bad case; knobs.case is then its text. batch: the
    name of the batch file that the case stands in, '' for one of the command line.
    """

    index: int
    driver: Driver
    globals: Globals
    knobs: Any
    file: Path | None
    unusable: InvalidArguments | None = None
    batch: str = ""

    @property
    def words(self) -> list[str]:
        """The command line that runs this problem again, as words without defaults."""
        return [*words(self.globals, all=self.globals.canonical), *self._driver_words]

    @property
    def _driver_words(self) -> list[str]:
        return [f"--{self.driver.name}", *words(self.knobs)]

    @property
    def repro(self) -> str:
        """`words` as one line for a shell or a batch file."""
        return _line(self.words)

    @property
    def description(self) -> str:
        """The repro line without the global options."""
        return _line(self._driver_words)

    @property
    def label(self) -> str:
        """A name for this problem's files; not unique."""
        case = shortened(self.file.stem if self.file else text(self.knobs.case))
        return f"{self.driver.name}-" + "".join(c if c.isalnum() or c in "_-." else "-" for c in case)

    @property
    def fill(self) -> str:
        """What inputs hold: integers or reals."""
        return self.globals.fill or self.driver.fill

    @property
    def wants_layers(self) -> bool:
        """Whether the time of each layer is measured: of models unless told not to, of other graphs if asked for."""
        chosen, mode = self.globals.layers, self.globals.mode
        by_default = self.driver.model is not None and mode is Mode.performance
        return mode is not Mode.simulation and (by_default if chosen == "auto" else chosen == "true")

    @property
    def expected_partitions(self) -> int:
        return self.driver.expected(self.knobs)

    def graph(self) -> Graph:
        """Load or build the graph. Raises BenchgraphError."""
        for k in knobs_of(self.driver.knobs).values():
            if k.lacks and (value := getattr(self.knobs, k.name)) != k.default:
                raise CannotExpress(k.lacks, where=f"{text(self.knobs.case)}: {k.option}={text(value)}", fix="leave it out")
        if self.unusable is not None:
            raise self.unusable
        if self.file is not None:
            return self.driver.build(self.knobs, self.file)
        with within(text(self.knobs.case)):
            return self.driver.build(self.knobs)

    def model(self, graph: Graph) -> Model:
        """What the case's file has beside this graph, which the problem made. Raises BenchgraphError."""
        from benchgraph.graph.model import Model

        if self.driver.model is None:
            return Model(graph)
        with collected():  # remarks that making the graph has made already
            return self.driver.model(self.knobs, self.file)


def _line(words: Iterable[str]) -> str:
    return " ".join(printable(shell_word(word)) for word in words)


def settings_of(problem: Problem) -> AbstractContextManager[Config]:
    """The configuration in force during the case; text dumps of several cases go to a folder each."""
    settings = [(k, getattr(problem.globals, k.name)) for k in knobs_of(Globals).values() if k.config]
    changes = {k.config: value for k, value in settings if value != k.default}
    if folder := changes.get("dump_dir") or config().dump_dir:
        changes["dump_dir"] = str(Path(folder) / f"{problem.index:04d}-{problem.label}")
    return override(**changes)
