"""The benchdnn status and one-line reason of an exception."""

from __future__ import annotations

from benchgraph.core.errors import BenchgraphError, Unavailable
from benchgraph.core.errors import Status as ErrorStatus
from benchgraph.core.printable import MESSAGE, printable, shortened
from benchgraph.harness.cut import WrongCount
from benchgraph.options.problem import CannotExpress, CannotOverride, Problem
from benchgraph.results.result import Result, Status

# benchdnn's status for a library status, if not INVALID_ARGUMENTS
STATUS_OF = {
    ErrorStatus.unimplemented: Status.UNIMPLEMENTED,
    ErrorStatus.runtime_error: Status.FAILED,
    ErrorStatus.out_of_memory: Status.SKIPPED,
}


def failure(bad: Exception, problem: Problem) -> Result:
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
