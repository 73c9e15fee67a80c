"""Modes I, R and C: compile; execute once; compare with the float64 reference.

Data flows through the partitions as it will in use. Each partition is judged on the data it really received, so the first wrong one is
named; with several partitions the graph's outputs are also judged against the reference of the whole graph.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from benchgraph.core.arrays import elements, view
from benchgraph.core.tensor import LogicalTensor
from benchgraph.graph.ir import Graph
from benchgraph.harness.buffers import NAN_BYTE, Array, last_uses, load_inputs, storage
from benchgraph.harness.cut import compile_all, cut, flops, traffic
from benchgraph.harness.phases import phase
from benchgraph.harness.problem import Problem
from benchgraph.harness.results import Result, Status
from benchgraph.library.protocol import Compiled, Library
from benchgraph.partition.ir import Partition
from benchgraph.reference import Comparison, compare, evaluate, fill, sure_zeros, tolerance


def initialise(problem: Problem, graph: Graph, library: Library) -> Result:
    """Mode I: cut and compile."""
    counts = {}
    for policy in problem.globals.policies:
        partitions = cut(problem, graph, library, policy)
        compile_all(partitions, library, policy)
        counts[policy] = len(partitions)
    return Result(Status.INITIALIZED, n_partitions=counts, flops=flops(graph.ops), bytes=traffic(graph))


def run_once(problem: Problem, graph: Graph, library: Library) -> Result:
    """Mode R: cut, compile and execute, on data that is cheap to make; nothing is compared."""
    return _every_policy(problem, graph, library, Status.EXECUTED, cheap=True)


def check(problem: Problem, graph: Graph, library: Library) -> Result:
    """Mode C. FAILED at the first wrong tensor, MISTRUSTED when an output is nearly all zeros, else PASSED."""
    return _every_policy(problem, graph, library, Status.PASSED, cheap=False)


def _every_policy(problem: Problem, graph: Graph, library: Library, success: Status, *, cheap: bool) -> Result:
    result = Result(success, flops=flops(graph.ops), bytes=traffic(graph))
    inputs: dict[int, Array] = {}
    for policy in problem.globals.policies:
        partitions = cut(problem, graph, library, policy)
        compiled = compile_all(partitions, library, policy)
        result = replace(result, n_partitions={**result.n_partitions, policy: len(partitions)})
        with phase("fill"):
            inputs = inputs or load_inputs(graph, fill(graph, problem.globals.seed, cheap=cheap))
        verdict = _execute(graph, partitions, compiled, inputs, judge=not cheap)
        result = replace(result, total=result.total + verdict.total)
        if verdict.errors:
            return replace(result, status=Status.FAILED, errors=verdict.errors, reason=f"{policy}: {verdict.reason}")
        if verdict.reason:
            result = replace(result, status=Status.MISTRUSTED, reason=f"{policy}: {verdict.reason}")
    return result


@dataclass(frozen=True)
class Verdict:
    """Sums over tensors. reason is set for a wrong tensor, and, with no errors, for one that is not to be trusted."""

    errors: int = 0
    total: int = 0
    reason: str = ""


def _execute(
    graph: Graph, partitions: Sequence[Partition], compiled: Sequence[Compiled], inputs: dict[int, Array], *, judge: bool
) -> Verdict:
    """Run the partitions in order, judging each on its outputs; buffers go after their last use."""
    live, ends, verdict = dict(inputs), last_uses(partitions), Verdict()
    keep = {t.id for t in graph.outputs}
    for step, (partition, code) in enumerate(zip(partitions, compiled, strict=True)):
        live.update(_run(partition, code, live, again=judge))
        if judge:
            with phase("reference"):
                want = evaluate(partition.graph, _elements(partition.inputs, live))
            where = f"partition {step} ({partition.kind}): "
            verdict = _judge(partition.graph, partition.outputs, live, want, where, verdict)
        if verdict.errors:
            return verdict
        for id in (id for id, end in ends.items() if end == step and id not in keep):
            del live[id]
    if judge and len(partitions) > 1:
        with phase("reference"):
            want = evaluate(graph, _elements(graph.inputs, inputs))
        verdict = _judge(graph, graph.outputs, live, want, "whole graph: ", verdict)
    return verdict


def _elements(tensors: Iterable[LogicalTensor], live: dict[int, Array]) -> dict[int, Array]:
    """What the reference computes with: the elements of these tensors."""
    return {t.id: elements(live[t.id], t) for t in tensors}


@phase("execute")
def _run(partition: Partition, code: Compiled, live: dict[int, Array], *, again: bool) -> dict[int, Array]:
    """Execute into memory full of NaN bytes, so that an element nobody writes shows.

    again: twice, because only the second execution uses the constants that the first one cached.
    """
    memory = [storage(t.nbytes) for t in partition.outputs]
    outputs = [view(m, t) for m, t in zip(memory, partition.outputs, strict=True)]
    bound = code.bind([live[t.id] for t in partition.inputs], outputs)
    for _ in range(2 if again else 1):
        for m in memory:
            m.fill(NAN_BYTE)
        bound()
    return {t.id: array for t, array in zip(partition.outputs, outputs, strict=True)}


@phase("compare")
def _judge(
    graph: Graph, tensors: Iterable[LogicalTensor], got: dict[int, Array], want: dict[int, Array], where: str, verdict: Verdict
) -> Verdict:
    """The verdict with these outputs of the graph added; stops at the first wrong one."""
    rtol, sure = tolerance(graph), sure_zeros(graph)
    for t in tensors:
        c = compare(elements(got[t.id], t), want[t.id], t.dtype, rtol)
        verdict = replace(verdict, total=verdict.total + c.total)
        if not c.ok:
            return replace(verdict, errors=c.errors, reason=f"{where}tensor {t.id}: {_describe(c)}")
        if c.is_mistrusted(sure):
            verdict = replace(verdict, reason=f"{where}tensor {t.id}: {c.zero_share:.0%} zeros prove little")
    return verdict


def _describe(c: Comparison) -> str:
    first = c.points[0]
    sizes = f"by up to {c.max_abs:.3g} ({c.max_rel:.3g} relative)"
    return f"{c.errors} of {c.total} values differ, {sizes}; first at {list(first.index)}: want {first.want:.6g}, got {first.got:.6g}"
