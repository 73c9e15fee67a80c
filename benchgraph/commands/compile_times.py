"""`benchgraph compile-times`: the time to compile partitions, and to start warm from what an earlier process has compiled.

Every figure is from a new process, as for a user: LLVM's initialisation counts for the first partition of a case. For each run one process
fills a disk cache of its own, and a second one starts from it. --runs=N (5) is the command's option, all other words select cases.
"""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass
from statistics import median
from tempfile import TemporaryDirectory
from textwrap import wrap

from benchgraph.core.config import environment, module_path
from benchgraph.core.errors import BenchgraphError, UsageError
from benchgraph.core.progress import begin_item, report_progress
from benchgraph.harness.bench import Bench, need_isas
from benchgraph.harness.blas_threads import SINGLE
from benchgraph.harness.command_words import own_options, parsed_value, select_cases
from benchgraph.harness.fallback import with_fallback
from benchgraph.harness.partitioning import partition_graph
from benchgraph.options.argv import parse
from benchgraph.options.knobs import Globals
from benchgraph.options.parsers import positive
from benchgraph.options.problem import Problem, settings_of
from benchgraph.present.progress import progress_line
from benchgraph.present.terminal import columns
from benchgraph.present.word_wrap import folded

RUNS = 5
_CHILD = "import sys; from benchgraph.commands.compile_times import measure; measure(sys.argv[1:])"


@dataclass(frozen=True)
class Compiled:
    """One partition in one process. label: its case, policy and position."""

    label: str
    seconds: float
    is_warm: bool


def run(given: list[str]) -> str:
    """A table: min and median over runs, in ms. Raises UsageError for invalid words, and the errors of a case's graph."""
    runs, words = RUNS, list[str]()
    for option, value in own_options("compile-times", ["--runs"], given, words):
        runs = parsed_value("compile-times", option, value, positive)
    command_line = select_cases("compile-times", words)
    if not (problems := command_line.problems):
        raise UsageError("no case to compile", where="compile-times", fix=f"add {command_line.case}")
    if any(p.globals.library != Globals().library for p in problems):
        raise UsageError("only our own compiler is timed", where="compile-times: --library", fix="leave it out")
    need_isas(problems)
    times: dict[str, tuple[list[float], list[float]]] = {}
    with progress_line("runs", runs * len(problems), is_measuring=True) as step:
        for problem in problems:
            for _ in range(runs):
                begin_item(problem.description)
                _add(problem, times)
                step()
    return _table(times, runs)


def _add(problem: Problem, times: dict[str, tuple[list[float], list[float]]]) -> None:
    """The times of a case to compile, and to start warm, from two processes."""
    with TemporaryDirectory() as cache:
        results = []
        for what in ("compile", "start warm"):
            report_progress(what)
            results.append(_in_new_process(problem, cache))
    for cold, warm in zip(*results, strict=True):
        if not warm.is_warm:
            raise BenchgraphError("the second process compiled it too", where=warm.label, fix="see whether TMPDIR is full")
        if not cold.is_warm:  # otherwise another policy has the same partition
            compiled, read = times.setdefault(cold.label, ([], []))
            compiled.append(cold.seconds)
            read.append(warm.seconds)


def _in_new_process(problem: Problem, cache: str) -> list[Compiled]:
    env = environment(SINGLE, BENCHGRAPH_CACHE_DIR=cache, BENCHGRAPH_DISK_CACHE_CAPACITY="256", PYTHONPATH=module_path())
    try:
        done = subprocess.run([sys.executable, "-P", "-c", _CHILD, *problem.words], env=env, capture_output=True, text=True)
    except OSError as bad:
        raise BenchgraphError(f"no process can be started: {bad.strerror}", where=problem.repro, fix="end other processes") from bad
    if done.returncode:
        raise BenchgraphError((done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1], where=problem.repro)
    return [Compiled(*line) for line in json.loads(done.stdout)]


def measure(words: list[str]) -> None:
    """In the child process: compile every partition of a case once and print the times as JSON, or exit with 1 and the error."""
    try:
        print(json.dumps(_measured(words)))
    except BenchgraphError as bad:
        sys.exit(bad.line)


def _measured(words: list[str]) -> list[tuple[str, float, bool]]:
    """Label, seconds and whether it was warm, for each partition."""
    times, bench = [], Bench()
    for problem in parse(words).problems:
        with settings_of(problem):
            graph = problem.graph()
            for spec in problem.globals.contender_specs:
                library = with_fallback(bench.library(spec.library), graph)
                for position, partition in enumerate(partition_graph(problem, graph, library, spec)):
                    compiled = library.compile(partition)
                    ops = " ".join(op.kind for op in partition.ops)
                    label = f"{problem.repro} {spec.policy} {position}: {ops}"
                    times.append((label, compiled.compile_s, compiled.is_warm))
    return times


def _table(times: dict[str, tuple[list[float], list[float]]], runs: int) -> str:
    """A line for each partition, wrapped with a hanging indent; on a very narrow terminal the numbers are below the label."""
    rows = [f"{'first min':>9} {'median':>7} {'warm min':>9} {'median':>7}  ms, of {runs} runs"]
    for label, (first, warm) in times.items():
        figures = [f(t) * 1e3 for t in (first, warm) for f in (min, median)]
        numbers = "{:9.1f} {:7.1f} {:9.1f} {:7.1f}  ".format(*figures)
        if columns() < 2 * len(numbers):
            rows += [folded(label, columns(), indent=2), numbers.rstrip()]
            continue
        rows += wrap(
            label,
            columns(),
            initial_indent=numbers,
            subsequent_indent=" " * (len(numbers) + 2),
            break_long_words=False,
            break_on_hyphens=False,
        )
    return "\n".join(rows)
