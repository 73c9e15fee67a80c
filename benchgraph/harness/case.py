"""The steps of a case, in order: read and override, partition, compile, fill, bind, execute, compare, result. Modes P and S
time it: timing.py.

Data flows through the partitions as it will in use. Each partition is compared on the data that it really received, so that the first
wrong one is named; with several partitions the graph's outputs are also compared with the reference of the whole graph. A mistake or a
crash in a case costs that case alone.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cache

from benchgraph.core.arrays import Array, elements
from benchgraph.core.errors import InvalidGraph, InvalidShape, OutOfMemory
from benchgraph.core.printable import printable_lines
from benchgraph.core.progress import begin_item
from benchgraph.core.remarks import collected
from benchgraph.core.tensor import LogicalTensor
from benchgraph.graph.ir import END, Graph
from benchgraph.harness import verbose
from benchgraph.harness.bench import MEMORY_SHARE, Bench
from benchgraph.harness.bound import BoundPartition, repeat
from benchgraph.harness.buffers import last_uses, memory_needed
from benchgraph.harness.contenders import Contender, Outcomes, contenders_of, failure
from benchgraph.harness.fallback import is_fallback
from benchgraph.harness.implementations import judged, with_implementations
from benchgraph.harness.inputs import inputs_of
from benchgraph.harness.partitioning import WrongCount, compile_all, described, partition_graph, partition_notes
from benchgraph.harness.saved_failures import save_evidence, save_unrun
from benchgraph.harness.simulate import simulate
from benchgraph.harness.timing import measure
from benchgraph.harness.tuning_rows import noted
from benchgraph.harness.verdict import Verdict, compare_outputs, differences
from benchgraph.library.protocol import Compiled
from benchgraph.measure.phases import phase, timed
from benchgraph.options.knobs import USM
from benchgraph.options.problem import Problem, settings_of
from benchgraph.partition.ir import Partition
from benchgraph.present.show.picture import sketch
from benchgraph.reference import evaluate
from benchgraph.results.mode import Mode
from benchgraph.results.result import CaseResult, Result, Status
from benchgraph.schedule.tuning import taken

Log = Callable[[str], None]

SUCCESS = {Mode.init: Status.INITIALIZED, Mode.correctness: Status.PASSED}  # modes R and B: EXECUTED


def run_all(problems: Sequence[Problem], bench: Bench, log: Log) -> Iterator[CaseResult]:
    """Run each problem when its result is asked for, to the first failure under --fail-fast. log: where tracebacks and -v go."""
    for problem in problems:
        case = run_case(problem, bench, log)
        yield case
        if problem.globals.fail_fast and case.result.status.is_failure:
            return


def run_case(problem: Problem, bench: Bench, log: Log) -> CaseResult:
    """Run one problem; whatever goes wrong becomes its status and reason."""
    started, level = bench.clock(), problem.globals.verbose
    begin_item(problem.description)
    if level:
        log(f"run: {problem.repro}")
    with timed(bench.clock) as phases:
        try:
            with settings_of(problem):
                with taken() as nests:
                    result = _result(problem, bench, log)
                result = noted(result, nests)
        except Exception as error:
            if level:
                log(printable_lines(traceback.format_exc().rstrip()))
            result = failure(error, problem)
    if problem.globals.save_failures and result.status.is_failure:
        save_unrun(problem)
    for line in verbose.after(result, level):
        log(line)
    return CaseResult(problem.index, problem.repro, bench.clock() - started, result, phases)


def _result(problem: Problem, bench: Bench, log: Log) -> Result:
    """The result of the last of --repeats-per-prb runs, or the first that is not a pass."""
    if problem.index < problem.globals.start:
        return Result(Status.SKIPPED, "Skip-start option hit")
    if (kind := problem.globals.memory_kind) != USM:
        return Result(Status.SKIPPED, f"memory of kind {kind} is a device's, and the CPU has none; use --memory-kind={USM}")
    with phase("load"), collected() as remarks:
        graph = problem.graph()
    for line in verbose.before(problem, graph):
        log(line)
    result = _run(problem, graph, bench)
    for _ in range(problem.globals.repeats_per_prb - 1):
        if not result.status.is_pass:
            break
        result = _run(problem, graph, bench)
    result = replace(result, reason="; ".join([*filter(None, [result.reason]), *remarks]))
    return replace(result, graph=sketch(graph)) if result.n_partitions else result


def _run(problem: Problem, graph: Graph, bench: Bench) -> Result:
    """The graph as the mode has it."""
    mode = problem.globals.mode
    if mode is Mode.list:
        return Result(Status.LISTED)
    if lack := _lack_of_memory(problem, graph, bench):
        return lack
    if mode.is_timed and all(op.kind == END for op in graph.ops):
        return Result(Status.SKIPPED, "nothing to measure: no op of the graph computes anything")
    if problem.driver.run is not None:
        return problem.driver.run(problem, graph)
    contenders = contenders_of(problem, graph, bench)
    try:
        if mode is Mode.simulation:
            return simulate(problem, graph, contenders, bench)
        result = measure(problem, graph, contenders, bench) if mode.is_timed else check(problem, graph, contenders)
        return judged(result, contenders[0], problem.globals)
    except WrongCount:
        raise
    except (InvalidGraph, InvalidShape) as refused:  # benchdnn: it is the library, not the harness, that refuses the case
        return Result(Status.SKIPPED, f"Invalid case: {refused}")


def _lack_of_memory(problem: Problem, graph: Graph, bench: Bench) -> Result | None:
    """The result of a case that does not fit into memory; None when it does, when nothing is executed, and where free memory is unknown."""
    if problem.globals.mode is Mode.init:
        return None
    try:
        free = bench.free_bytes()
    except OutOfMemory:
        return None
    copies = problem.globals.num_streams if problem.globals.mode.is_timed else 1
    need = copies * memory_needed(graph, with_reference=problem.globals.mode is Mode.correctness)
    need += sum(array.nbytes for array in problem.model(graph).data.values())
    if need <= min(MEMORY_SHARE * free, need if bench.share is None else bench.share):
        return None
    reason = f"Not enough RAM: {need / 2**30:.1f} GiB are needed, {free / 2**30:.1f} are free; try a smaller --mb or --in-shapes"
    return Result(Status.SKIPPED, reason, no_memory=bench.share is not None, memory_needed=need)


def check(problem: Problem, graph: Graph, contenders: Sequence[Contender]) -> Result:
    """Modes I, R, B and C, for every contender.

    I: compile; INITIALIZED. R: execute; EXECUTED. B: execute twice; FAILED at the first tensor whose bits differ, else EXECUTED. C:
    compare with the float64 reference; FAILED at the first wrong tensor, MISTRUSTED when an output proves nothing, else PASSED.

    The first contender of the library under test that fails ends it, unless there are witnesses to be heard. Of several libraries the
    first decides the status; differences between them are reported.
    """
    mode, outcomes = problem.globals.mode, Outcomes(problem, contenders)
    success = SUCCESS.get(mode, Status.EXECUTED)
    result = described(success, graph)
    inputs: dict[int, Array] = {}
    outputs: dict[str, dict[int, Array]] = {}
    wanted = cache(lambda: _reference(graph, _elements(graph.inputs, inputs)))  # once for all contenders
    for c in contenders:
        with outcomes.record_failure(c):
            partitions = partition_graph(problem, graph, c.library, c.spec)
            compiled = compile_all(partitions, c.library, c.spec.policy)
            ops = tuple(tuple(op.id for op in p.ops) for p in partitions)
            counts, ops_by_label = result.n_partitions | {c.label: len(ops)}, result.partitions | {c.label: ops}
            notes = (*result.notes, *partition_notes(c.label, partitions))
            result = replace(result, n_partitions=counts, partitions=ops_by_label, notes=notes)
            result = with_implementations(result, c.label, [x.implementations for x in compiled])
            verdict = Verdict()
            if mode is not Mode.init:
                with phase("fill"):
                    inputs = inputs or inputs_of(problem, graph)
                verdict = _execute(graph, partitions, compiled, inputs, mode, wanted)
                if problem.globals.save_failures and verdict.evidence is not None:
                    save_evidence(problem, graph, inputs, verdict.evidence)
                outputs[c.label] = verdict.outputs
                result = _with_verdict(result, c, verdict)
            outcomes.record(c, verdict.status or success, verdict.reason)
        if result.status is Status.FAILED and not outcomes.is_several:
            break
    if mode is Mode.correctness and outcomes.is_several:
        want = wanted()
        with phase("compare"):
            result = replace(result, differences=differences(graph, _elements(graph.inputs, inputs), outputs, want))
    return replace(result, outcomes=tuple(outcomes.all))


def _execute(
    graph: Graph,
    partitions: Sequence[Partition],
    compiled: Sequence[Compiled],
    inputs: dict[int, Array],
    mode: Mode,
    wanted: Callable[[], dict[int, Array]],
) -> Verdict:
    """Bind and run the partitions in order, comparing the outputs of each as the mode has it; buffers are freed after their last use.

    wanted: the reference's outputs of the whole graph.
    """
    live, ends, verdict = dict(inputs), last_uses(partitions), Verdict()
    keep = {t.id for t in graph.outputs}
    for step, (partition, code) in enumerate(zip(partitions, compiled, strict=True)):
        where = f"partition {step} ({partition.kind})"
        bound = BoundPartition(partition, code, live)
        if mode is Mode.correctness and not is_fallback(partition):  # which keeps nothing, and may not take other data
            bound.execute_on_other_data()
        bound.execute()
        live.update(bound.outputs)
        if mode is Mode.correctness:
            given = _elements(partition.inputs, live)
            want = _reference(partition.graph, given)
            verdict = compare_outputs(partition.graph, given, live, want, where, verdict, whole=graph)
        elif mode is Mode.bitwise:
            verdict = repeat(bound, where, verdict)
        if verdict.errors:
            break
        for id in (id for id, end in ends.items() if end == step and id not in keep):
            del live[id]
    if mode is Mode.correctness and len(partitions) > 1 and not verdict.errors:
        stored = frozenset(t.id for p in partitions for t in p.outputs)
        verdict = compare_outputs(graph, _elements(graph.inputs, inputs), live, wanted(), "whole graph", verdict, stored)
    return replace(verdict, outputs={id: array for id, array in live.items() if id in keep})


@phase("reference")
def _reference(graph: Graph, given: dict[int, Array]) -> dict[int, Array]:
    return evaluate(graph, given)


def _elements(tensors: Iterable[LogicalTensor], live: dict[int, Array]) -> dict[int, Array]:
    """The elements of these tensors, which the reference computes with."""
    return {t.id: elements(live[t.id], t) for t in tensors}


def _with_verdict(result: Result, contender: Contender, verdict: Verdict) -> Result:
    """The accuracy of a contender's outputs; and, for the library under test, what it means for the case."""
    accuracy = tuple(replace(a, policy=contender.label) for a in verdict.accuracy)
    result = replace(result, accuracy=(*result.accuracy, *accuracy))
    if contender.spec.is_witness:
        return result
    result = replace(result, total=result.total + verdict.total)
    if verdict.status is None or result.status is Status.FAILED:
        return result
    return replace(result, status=verdict.status, errors=verdict.errors, reason=f"{contender.label}: {verdict.reason}")
