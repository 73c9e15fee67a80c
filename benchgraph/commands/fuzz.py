"""`benchgraph fuzz`: seed and count are its own options, all others are those of a run.

benchgraph fuzz --seed 1 --count 2 --jobs=2     ->     benchgraph --fuzz --jobs=2 1:0 1:1, then failures are shrunk
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from benchgraph.core.config import config
from benchgraph.core.errors import BenchgraphError, UsageError
from benchgraph.core.formats import counted
from benchgraph.fuzz.sensitivity import too_sensitive
from benchgraph.fuzz.shrink import TRIES, shrink
from benchgraph.graph.ir import Graph
from benchgraph.graph.json import save
from benchgraph.harness.bench import Bench
from benchgraph.harness.case import run_case
from benchgraph.harness.command_words import own_options, parsed_value
from benchgraph.harness.isolate import run_isolated, share_of_threads
from benchgraph.options.argv import CONTROLS, CommandLine, parse
from benchgraph.options.knobs import Globals
from benchgraph.options.parsers import Parse, natural, positive
from benchgraph.options.plugins import driver_option
from benchgraph.options.problem import TRIGGER, Problem
from benchgraph.present.progress import progress_line
from benchgraph.reference import domain
from benchgraph.results.result import CaseResult, Status

DRIVER = "fuzz"
OPTIONS: dict[str, tuple[str, Parse]] = {  # option -> field of Request, parser
    "--seed": ("seed", natural),
    "--count": ("count", positive),
    "--start": ("start", natural),
    "--tries": ("tries", natural),
    "--output": ("output", str),
    "-o": ("output", str),
}
OURS = Globals().library[0]  # supports every op; UNIMPLEMENTED by another library is no failure
LOST = re.compile(r"worker process|no result within")  # the worker process ended: such cases are tried in a process of their own


@dataclass(frozen=True)
class Request:
    """The graphs start, start + 1 ... of a seed. tries: executions per failure for shrinking, 0 for none.

    output: the folder for shrunk cases. rest: words that apply to every graph, such as --library.
    """

    seed: int = 0
    count: int = 100
    start: int = 0
    tries: int = TRIES
    output: str = "."
    rest: tuple[str, ...] = ()

    @property
    def words(self) -> list[str]:
        """The command line without `fuzz` that runs these graphs."""
        places = range(self.start, self.start + self.count)
        return [f"--{DRIVER}", *self.rest, *(f"{self.seed}:{index}" for index in places)]


def parse_request(given: Sequence[str]) -> Request:
    """Split off the command's own options. Raises UsageError."""
    own, words, rest = dict[str, Any](), list[str](), list[str]()
    for option, value in own_options("fuzz", OPTIONS, given, words):
        name, parser = OPTIONS[option]
        own[name] = parsed_value("fuzz", option, value, parser)
    for word in words:
        option = word.partition("=")[0]
        if option in (TRIGGER, *CONTROLS) or driver_option(option):
            raise UsageError("the cases of the command are random graphs", where=f"fuzz: {word}", fix="leave it out")
        if word.startswith("-"):
            rest.append(word)
        elif rest and "=" not in rest[-1]:
            rest[-1] += f"={word}"
        else:
            raise UsageError("a word that is not an option", where=f"fuzz: {word}", fix="write options as --name=value")
    return Request(**own, rest=tuple(rest))


def plan(request: Request) -> CommandLine:
    """The problems to run. Raises UsageError for invalid words."""
    return parse(request.words, command="fuzz")


# ---- failures ----------------------------------------------------------------------------------------------------------


def shrink_all(request: Request, problems: Sequence[Problem], failures: Sequence[CaseResult], bench: Bench) -> Iterator[str]:
    """Shrink every failed problem and write its case; yields a message for each when done."""
    by_index = {p.index: p for p in problems}
    for failure in failures if request.tries else ():
        problem = by_index[failure.index]
        place = problem.knobs.case
        if failure.result.status is Status.UNIMPLEMENTED and problem.globals.library[0] != OURS:
            continue
        path = Path(request.output) / f"{DRIVER}-{place.seed}-{place.index}.json"
        try:
            yield _shrunk(problem, failure, path, request.tries, bench)
        except (BenchgraphError, OSError) as bad:
            yield f"{place}: not shrunk: {bad}"


def _shrunk(problem: Problem, failure: CaseResult, path: Path, tries: int, bench: Bench) -> str:
    """Write the smallest graph that fails as this problem did. Returns a message with its command line."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with progress_line("tries to shrink it", tries) as step:
        trial = _Trial(_as_it_ran(problem), failure, path, bench, step)
        shrunk = shrink(problem.graph(), trial.fails, tries)
        case = trial.run(shrunk.graph)
    return f"shrunk in {shrunk.tries} tries to {counted(len(shrunk.graph.ops), 'op')}: {case.line}"


def _as_it_ran(problem: Problem) -> Problem:
    """The problem with settings of its own, and the number of threads of its worker, which code depends on."""
    settings = problem.globals
    threads = settings.threads or (config().threads if not settings.jobs else share_of_threads(settings.jobs))
    return replace(problem, globals=replace(settings, threads=threads, verbose=0, fill=problem.fill))


@dataclass(frozen=True)
class _Trial:
    """Runs candidates as the failed problem ran, from a file as users would. step: called after each."""

    problem: Problem
    failure: CaseResult
    path: Path
    bench: Bench
    step: Callable[[], None]

    def fails(self, graph: Graph) -> bool:
        """Whether a graph fails in the same way. For wrong values, it must not be too sensitive to errors (sensitivity.py)."""
        same = _failure_kind(self.run(graph)) == _failure_kind(self.failure)
        self.step()
        return same and not (
            self.failure.result.errors and too_sensitive(graph, domain(graph, self.problem.globals.seed), str(self.path.name))
        )

    def run(self, graph: Graph) -> CaseResult:
        save(graph, self.path)
        (problem,) = parse(["--graph", "--expected-n-partitions=0", f"--case={self.path}"]).problems
        problem = replace(problem, globals=self.problem.globals)
        if not LOST.search(self.failure.result.reason):
            return run_case(problem, self.bench, lambda text: None)
        (done,) = run_isolated([problem], self.bench, 1)
        return done.case


def _failure_kind(case: CaseResult) -> tuple[Status, str]:
    """The kind of a failure, without numbers, names and quotations, which smaller graphs change."""
    if case.result.errors:
        return case.result.status, "wrong values"
    where_less = re.sub(r"^(\S+\.json|\d+:\d+): ", "", case.result.reason.partition(";")[0])
    numberless = re.sub(r"'[^']*'|\"[^\"]*\"|\([^()]*\)|\S*\d\S*", "#", where_less)
    return case.result.status, re.sub(r"#: \w+", "#", numberless)  # drops the word after a quoted name: "tensor 'x': f32"
