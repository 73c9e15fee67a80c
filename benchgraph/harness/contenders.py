"""What a case compares: one or more libraries under their policies, on the same data.

The first library named is under test, and its status is the case's. The others are witnesses: where one of them cannot run a case, or
computes a wrong result, that is reported beside the status.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from benchgraph.core.errors import BenchgraphError, Unavailable
from benchgraph.core.errors import Status as ErrorStatus
from benchgraph.core.printable import MESSAGE, printable, shortened
from benchgraph.graph.ir import Graph
from benchgraph.harness.bench import Bench
from benchgraph.harness.fallback import with_fallback
from benchgraph.harness.partitioning import WrongCount
from benchgraph.harness.user_data import changes_weights
from benchgraph.library.protocol import Library, RunsModels
from benchgraph.options.knobs import ContenderSpec
from benchgraph.options.problem import CannotExpress, CannotOverride, Problem
from benchgraph.results.result import ContenderOutcome, Result, Status


@dataclass(frozen=True, eq=False)
class Contender:
    """A contender with its library. Not comparable: each has a library object of its own."""

    spec: ContenderSpec
    library: Library

    @property
    def label(self) -> str:
        return self.spec.label


def library_of(problem: Problem, graph: Graph, bench: Bench, name: str) -> Library:
    """The library of that name for a problem with this graph, and numpy for its Wildcards. Raises BenchgraphError for one that is
    missing.
    """
    library = bench.library(name)
    if not isinstance(library, RunsModels):
        return with_fallback(library, graph)
    model, data = problem.model(graph), problem.globals.data
    has_other_weights = bool(data) and changes_weights(model, data, problem.file)
    return library.for_model(replace(model, source=None) if has_other_weights else model)


def contenders_of(problem: Problem, graph: Graph, bench: Bench) -> tuple[Contender, ...]:
    """Libraries are made anew, so that every case compiles cold. Raises BenchgraphError for one that is missing."""
    libraries = {name: library_of(problem, graph, bench, name) for name in problem.globals.library}
    return tuple(Contender(spec, libraries[spec.library]) for spec in problem.globals.contender_specs)


@dataclass
class Outcomes:
    """Collects how every contender did. all: empty where there is but one library."""

    problem: Problem
    contenders: Sequence[Contender]
    all: list[ContenderOutcome] = field(default_factory=list)

    @property
    def is_several(self) -> bool:
        return any(c.spec.is_witness for c in self.contenders)

    @contextmanager
    def record_failure(self, contender: Contender) -> Iterator[None]:
        """An exception inside is recorded for a witness, and raised for the library under test."""
        try:
            yield
        except Exception as error:
            if not contender.spec.is_witness:
                raise
            result = failure(error, self.problem)
            self.all.append(ContenderOutcome(contender.label, result.status, result.reason))

    def record(self, contender: Contender, status: Status, reason: str = "") -> None:
        """Record the status of a contender that ran."""
        if self.is_several:
            self.all.append(ContenderOutcome(contender.label, status, reason))


# ---- exceptions ---------------------------------------------------------------------------------------------------------

# benchdnn's status for a library status, if not INVALID_ARGUMENTS
STATUS_OF = {
    ErrorStatus.unimplemented: Status.UNIMPLEMENTED,
    ErrorStatus.runtime_error: Status.FAILED,
    ErrorStatus.out_of_memory: Status.SKIPPED,
}


def failure(bad: Exception, problem: Problem) -> Result:
    """benchdnn's status of a case that raised this, and the reason in one line."""
    if isinstance(bad, CannotOverride | WrongCount):
        return Result(Status.UNTESTED, _one_line(bad, problem))
    if isinstance(bad, CannotExpress | Unavailable):
        return Result(Status.SKIPPED, _one_line(bad, problem))
    if isinstance(bad, BenchgraphError):
        file = str(problem.file or "")
        named = bad if file in bad.where else bad.inside(file)
        status = STATUS_OF.get(bad.status, Status.INVALID_ARGUMENTS)
        return Result(status, _one_line(named, problem), no_memory=bad.status is ErrorStatus.out_of_memory)
    if isinstance(bad, MemoryError):
        return Result(Status.SKIPPED, "not enough memory; try a smaller --mb", no_memory=True)
    first = shortened(printable(next(iter(str(bad).splitlines()), "")), MESSAGE)
    hint = "" if problem.globals.verbose else "; run with -v for the traceback"
    return Result(Status.FAILED, f"{type(bad).__name__}: {first}{hint}")


def _one_line(bad: BenchgraphError, problem: Problem) -> str:
    """The error in one line, with the file named as in the repro line: paths of packaged files differ between machines."""
    line, file = bad.line, printable(f"{problem.file}: ")
    return f"{printable(problem.knobs.case)}: {line.removeprefix(file)}" if problem.file and line.startswith(file) else line
