"""Run problems one after another. A mistake or a crash in one costs that one alone."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path

from benchgraph.core.config import Config, config, override
from benchgraph.core.errors import InvalidGraph, InvalidShape, OutOfMemory
from benchgraph.core.lines import printable_lines
from benchgraph.core.remarks import collected
from benchgraph.core.steps import begin
from benchgraph.graph.ir import END, Graph
from benchgraph.graph.text import print_graph
from benchgraph.harness.bench import Bench
from benchgraph.harness.buffers import memory_needed
from benchgraph.harness.check import check, initialise
from benchgraph.harness.contenders import contenders_of
from benchgraph.harness.cut import WrongCount
from benchgraph.harness.failure import failure
from benchgraph.harness.simulate import simulate
from benchgraph.harness.timing import measure
from benchgraph.measure.phases import phase, timed
from benchgraph.options.knobs import USM, Globals, knobs_of
from benchgraph.options.problem import Problem
from benchgraph.present.show.picture import sketch
from benchgraph.reference import plan
from benchgraph.results.mode import Mode
from benchgraph.results.result import CaseResult, Result, Status

Log = Callable[[str], None]

# of --verbose; where benchdnn says it too, at its level
ACCURACY_LEVEL, WARNINGS_LEVEL, PARTITIONS_LEVEL, DATA_LEVEL, GRAPH_LEVEL = 1, 2, 3, 6, 7
MEMORY_SHARE = 0.85  # a case that takes more of what is free is skipped; benchdnn has 0.75, of what is not estimated so safely


def run_all(problems: Sequence[Problem], bench: Bench, log: Log) -> Iterator[CaseResult]:
    """Run each problem when its result is asked for, to the first failure under --fail-fast. log: where tracebacks and -v go."""
    for problem in problems:
        case = run_case(problem, bench, log)
        yield case
        if problem.globals.fail_fast and case.result.status.is_failure:
            return


def run_case(problem: Problem, bench: Bench, log: Log) -> CaseResult:
    """Run one problem; whatever goes wrong becomes its status and reason."""
    started = bench.clock()
    begin(problem.description)
    if problem.globals.verbose:
        log(f"run: {problem.repro}")
    with timed(bench.clock) as phases:
        try:
            with settings_of(problem):
                result = _repeated(problem, bench, log)
        except Exception as bad:
            if problem.globals.verbose:
                log(printable_lines(traceback.format_exc().rstrip()))
            result = failure(bad, problem)
    for line in _details(result, problem.globals.verbose):
        log(line)
    return CaseResult(problem.index, problem.repro, bench.clock() - started, result, phases)


def _details(result: Result, verbose: int) -> Iterator[str]:
    """What -v adds to the status line."""
    if verbose >= PARTITIONS_LEVEL:
        for policy, partitions in result.partitions.items():
            ops = " ".join("{" + " ".join(map(str, p)) + "}" for p in partitions)
            yield f"[INFO]: {policy}: n_partitions:{len(partitions)}; ops_in_partitions: {ops}"
    if verbose >= DATA_LEVEL:
        yield from (f"[COMPARE_CONFIG]: {a.configuration}" for a in result.accuracy)
    if verbose >= ACCURACY_LEVEL:
        yield from (f"[COMPARE]: {a}" for a in result.accuracy)
        yield from result.notes
    if verbose >= WARNINGS_LEVEL:
        yield from (f"[WARNING]: {w}" for w in result.warnings)


def settings_of(problem: Problem) -> AbstractContextManager[Config]:
    """The configuration in force during the case; text dumps of several cases go to a folder each."""
    settings = [(k, getattr(problem.globals, k.name)) for k in knobs_of(Globals).values() if k.config]
    changes = {k.config: value for k, value in settings if value != k.default}
    if folder := changes.get("dump_dir") or config().dump_dir:
        changes["dump_dir"] = str(Path(folder) / f"{problem.index:04d}-{problem.label}")
    return override(**changes)


def _repeated(problem: Problem, bench: Bench, log: Log) -> Result:
    """The result of the last of --repeats-per-prb runs, or the first that is not a pass."""
    if problem.index < problem.globals.start:
        return Result(Status.SKIPPED, "Skip-start option hit")
    if (kind := problem.globals.memory_kind) != USM:
        return Result(Status.SKIPPED, f"memory of kind {kind} is a device's, and the CPU has none; use --memory-kind={USM}")
    with phase("load"), collected() as remarks:
        graph = problem.graph()
    if problem.globals.verbose >= GRAPH_LEVEL:
        log(print_graph(graph).rstrip())
    for line in _data(problem, graph):
        log(line)
    result = _run(problem, graph, bench)
    for _ in range(problem.globals.repeats_per_prb - 1):
        if not result.status.is_pass:
            break
        result = _run(problem, graph, bench)
    result = replace(result, reason="; ".join([*filter(None, [result.reason]), *remarks]))
    return replace(result, graph=sketch(graph)) if result.n_partitions else result


def _data(problem: Problem, graph: Graph) -> Iterator[str]:
    """What -v says of the inputs: which of them a rule displaces, and what all of them hold."""
    verbose, g = problem.globals.verbose, problem.globals
    if verbose < PARTITIONS_LEVEL or g.has_no_reference or g.mode.is_timed or problem.fill != "integers":
        return
    for planned in plan(graph):
        if planned.rule:
            yield f"[DISPLACE]: {planned}"
        elif verbose >= DATA_LEVEL:
            yield f"[FILL]: {planned}"


def _run(problem: Problem, graph: Graph, bench: Bench) -> Result:
    mode = problem.globals.mode
    if mode is Mode.list:
        return Result(Status.LISTED)
    if lack := _lack_of_memory(problem, graph, bench):
        return Result(Status.SKIPPED, lack)
    if mode.is_timed and all(op.kind == END for op in graph.ops):
        return Result(Status.SKIPPED, "nothing to measure: no op of the graph computes anything")
    if problem.driver.run is not None:
        return problem.driver.run(problem, graph)
    contenders = contenders_of(problem, bench)
    try:
        if mode is Mode.simulation:
            return simulate(problem, graph, contenders, bench)
        if mode.is_timed:
            return measure(problem, graph, contenders, bench)
        return (initialise if mode is Mode.init else check)(problem, graph, contenders)
    except WrongCount:
        raise
    except (InvalidGraph, InvalidShape) as bad:  # benchdnn: the library, not the harness, has something against the case
        return Result(Status.SKIPPED, f"Invalid case: {bad}")


def _lack_of_memory(problem: Problem, graph: Graph, bench: Bench) -> str:
    """Why the case does not fit into memory; '' when it does, when nothing is executed, and where the system does not tell."""
    if problem.globals.mode is Mode.init:
        return ""
    try:
        free = bench.free_bytes()
    except OutOfMemory:
        return ""
    copies = problem.globals.num_streams if problem.globals.mode.is_timed else 1
    need = copies * memory_needed(graph, with_reference=problem.globals.mode is Mode.correctness)
    if need <= MEMORY_SHARE * free:
        return ""
    return f"Not enough RAM: {need / 2**30:.1f} GiB are needed, {free / 2**30:.1f} are free; try a smaller --mb or --in-shapes"
