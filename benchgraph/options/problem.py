"""A problem: one driver with one fixed setting of all its knobs. It knows its own repro line and builds its graph."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchgraph.core.config import Config, config, override
from benchgraph.core.errors import InvalidArguments, Unimplemented, within
from benchgraph.core.lines import printable, shortened
from benchgraph.options.knobs import Globals, knobs_of, words
from benchgraph.options.parsers import shell_word, text

if TYPE_CHECKING:  # the graph imports numpy, which --help must not wait for
    from benchgraph.graph.ir import Graph
    from benchgraph.results.result import Result


class CannotOverride(InvalidArguments):
    """The case loads, but a knob cannot be applied to it (benchdnn: "Rewriter failed")."""


class CannotExpress(Unimplemented):
    """The problem is a good one, but no op of oneDNN Graph means it: it is skipped."""


TRIGGER = "--case"  # the option that every driver has, and that runs a problem


def unchecked(knobs: Any) -> int:
    """`expected` of a driver that expects no number of partitions. A function with a name, so that problems can go to worker processes."""
    return 0


@dataclass(frozen=True)
class Driver:
    """What a file under drivers/ offers as DRIVER.

    knobs: a frozen dataclass of knobs; setting its field `case` runs the problem. A case names a file, and build(knobs, file) makes the
    shape-inferred graph; or it is bare, a problem descriptor, and build(knobs) does. build raises CannotOverride when the case is good
    but a knob does not fit it, CannotExpress when no op means it. expected(knobs): how many partitions the fused policy should make,
    0 when that is not to be checked. loops: fields with alternatives in the order in which their loops nest, the outermost first; fields
    that are not named follow in order of declaration. fill: what inputs hold unless --fill says otherwise. inputs: the folder under
    inputs/ where its files are, its own name unless given. run(problem, graph): what is done with a case instead of what the mode says.
    inert: options of benchdnn's driver that change nothing here, and why. examples: lines for --help, without `benchgraph`.
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
    inert: Mapping[str, str] = field(default_factory=dict, hash=False)
    examples: tuple[str, ...] = ()

    @property
    def folder(self) -> str:
        return self.inputs or self.name

    @property
    def reads_files(self) -> bool:
        return not knobs_of(self.knobs)[TRIGGER].bare


@dataclass(frozen=True)
class Problem:
    """file is None for a descriptor, and when the case was not found. unusable: what is wrong with a case; knobs.case is then its text."""

    index: int
    driver: Driver
    globals: Globals
    knobs: Any
    file: Path | None
    unusable: InvalidArguments | None = None

    @property
    def words(self) -> list[str]:
        """The command line that runs this problem again, in words; defaults are left out."""
        return [*words(self.globals, all=self.globals.canonical), *self._own_words]

    @property
    def _own_words(self) -> list[str]:
        return [f"--{self.driver.name}", *words(self.knobs)]

    @property
    def repro(self) -> str:
        """`words` for a shell or a batch file, on one line."""
        return _line(self.words)

    @property
    def description(self) -> str:
        """The repro line without the global options."""
        return _line(self._own_words)

    @property
    def label(self) -> str:
        """A name for files of this problem; not unique."""
        case = shortened(self.file.stem if self.file else text(self.knobs.case))
        return f"{self.driver.name}-" + "".join(c if c.isalnum() or c in "_-." else "-" for c in case)

    @property
    def fill(self) -> str:
        """What inputs hold: integers or reals."""
        return self.globals.fill or self.driver.fill

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


def _line(words: Iterable[str]) -> str:
    """Words as one types them: quoted where a shell needs it, and on one line whatever is in them."""
    return " ".join(printable(shell_word(word)) for word in words)


def settings_of(problem: Problem) -> AbstractContextManager[Config]:
    """The configuration in force during the case; text dumps of several cases go to a folder each."""
    settings = [(k, getattr(problem.globals, k.name)) for k in knobs_of(Globals).values() if k.config]
    changes = {k.config: value for k, value in settings if value != k.default}
    if folder := changes.get("dump_dir") or config().dump_dir:
        changes["dump_dir"] = str(Path(folder) / f"{problem.index:04d}-{problem.label}")
    return override(**changes)
