"""Run problems one after another. A mistake or a crash in one costs that one alone."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path

from benchgraph.core.config import Config, config, override
from benchgraph.core.errors import BenchgraphError
from benchgraph.core.errors import Status as ErrorStatus
from benchgraph.harness.bench import Bench
from benchgraph.harness.check import check, initialise, run_once
from benchgraph.harness.cut import WrongCount
from benchgraph.harness.knobs import Globals, Mode, knobs_of
from benchgraph.harness.phases import phase, timed
from benchgraph.harness.problem import CannotExpress, CannotOverride, Problem
from benchgraph.harness.results import CaseResult, Result, Status
from benchgraph.harness.timing import measure

Log = Callable[[str], None]

# benchdnn's meaning of a library status, where it is not "these arguments are invalid"
STATUS_OF = {
    ErrorStatus.unimplemented: Status.UNIMPLEMENTED,
    ErrorStatus.runtime_error: Status.FAILED,
    ErrorStatus.out_of_memory: Status.SKIPPED,
}


def run_all(problems: Sequence[Problem], bench: Bench, log: Log) -> Iterator[CaseResult]:
    """Run each problem when its result is asked for. log: where tracebacks and -v go."""
    for problem in problems:
        yield run_case(problem, bench, log)


def run_case(problem: Problem, bench: Bench, log: Log) -> CaseResult:
    """Run one problem; whatever goes wrong becomes its status and reason."""
    started = bench.clock()
    if problem.globals.verbose:
        log(f"run: {problem.repro}")
    with timed(bench.clock) as phases:
        try:
            with _settings(problem):
                result = _run(problem, bench, log)
        except Exception as bad:
            if problem.globals.verbose:
                log(traceback.format_exc().rstrip())
            result = failure(bad, problem)
    return CaseResult(problem.index, problem.repro, bench.clock() - started, result, phases)


def failure(bad: Exception, problem: Problem) -> Result:
    """The status and one-line reason that an exception means."""
    if isinstance(bad, CannotOverride | WrongCount):
        return Result(Status.UNTESTED, str(bad))
    if isinstance(bad, CannotExpress):
        return Result(Status.SKIPPED, str(bad))
    if isinstance(bad, BenchgraphError):
        file = str(problem.file or "")
        named = bad if file in bad.where else bad.inside(file)
        return Result(STATUS_OF.get(bad.status, Status.INVALID_ARGUMENTS), str(named))
    if isinstance(bad, MemoryError):
        return Result(Status.SKIPPED, "not enough memory; try a smaller --mb")
    first = next(iter(str(bad).splitlines()), "")
    hint = "" if problem.globals.verbose else "; run with -v for the traceback"
    return Result(Status.FAILED, f"{type(bad).__name__}: {first}{hint}")


def _settings(problem: Problem) -> AbstractContextManager[Config]:
    """The configuration in force during the case; text dumps of several cases go to a folder each."""
    settings = [(k.config, getattr(problem.globals, k.name)) for k in knobs_of(Globals).values() if k.config]
    changes = {name: value for name, value in settings if value}
    if folder := changes.get("dump_dir") or config().dump_dir:
        changes["dump_dir"] = str(Path(folder) / f"{problem.index:04d}-{problem.label}")
    return override(**changes)


def _run(problem: Problem, bench: Bench, log: Log) -> Result:
    with phase("load"):
        graph = problem.graph()
    mode = problem.globals.mode
    if mode is Mode.list:
        return Result(Status.LISTED)
    library = bench.library(problem.globals.library)
    if mode is Mode.performance:
        return measure(problem, graph, library, bench)
    return {Mode.init: initialise, Mode.run: run_once, Mode.correctness: check}[mode](problem, graph, library)
