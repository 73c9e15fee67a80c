"""Modes I, R, B and C: compile; execute once; execute twice and compare the bits; compare with the float64 reference.

Data flows through the partitions as it will in use. Each partition is judged on the data it really received, so the first wrong one is
named; with several partitions the graph's outputs are also judged against the reference of the whole graph.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cache

import numpy as np
from numpy.typing import NDArray

from benchgraph.core.arrays import Array, elements, view
from benchgraph.core.dtypes import DType
from benchgraph.core.tensor import LogicalTensor
from benchgraph.graph.ir import Graph
from benchgraph.harness.buffers import NAN_BYTE, constant_inputs, last_uses, load_inputs, turn_bits
from benchgraph.harness.contenders import Contender, Hearing
from benchgraph.harness.cut import compile_all, cut, described
from benchgraph.harness.differ import differences
from benchgraph.library.protocol import Compiled
from benchgraph.measure.phases import phase
from benchgraph.options.problem import Problem
from benchgraph.partition.ir import Partition
from benchgraph.reference import (
    REMEDY,
    SHALLOWER,
    Comparison,
    below_range,
    beyond_range,
    compare_output,
    domain,
    evaluate,
    fill,
    hang_on_rounding,
    is_deep,
    is_faint,
    is_lost,
    is_saturated,
    masked,
    tolerance,
    zero_limit,
)
from benchgraph.results.accuracy import Accuracy
from benchgraph.results.mode import Mode
from benchgraph.results.result import Result, Status
from benchgraph.runtime.memory import mapped


def initialise(problem: Problem, graph: Graph, contenders: Sequence[Contender]) -> Result:
    """Mode I: cut and compile."""
    result, hearing = described(Status.INITIALIZED, graph), Hearing(problem, contenders)
    for c in contenders:
        with hearing.of(c):
            partitions = cut(problem, graph, c.library, c.side)
            compile_all(partitions, c.library, c.side.policy)
            result = _with_partitions(result, c.label, partitions)
            hearing.ran(c, Status.INITIALIZED)
    return replace(result, outcomes=tuple(hearing.told))


def check(problem: Problem, graph: Graph, contenders: Sequence[Contender]) -> Result:
    """Modes R, B and C: cut, compile and execute.

    R: EXECUTED; nothing is compared. B: FAILED at the first tensor that a second execution on the same data does not repeat to the bit,
    else EXECUTED. C: FAILED at the first wrong tensor, MISTRUSTED when an output is nearly all zeros, else PASSED.

    The first wrong contender of the library under test ends it, unless there are witnesses to be heard. Of several libraries the first
    decides; how they differ is told.
    """
    mode, hearing = problem.globals.mode, Hearing(problem, contenders)
    success = Status.PASSED if mode is Mode.correctness else Status.EXECUTED
    result = described(success, graph)
    inputs: dict[int, Array] = {}
    outputs: dict[str, dict[int, Array]] = {}
    wanted = cache(lambda: _wanted(graph, inputs))  # once for all contenders
    for c in contenders:
        with hearing.of(c):
            partitions = cut(problem, graph, c.library, c.side)
            compiled = compile_all(partitions, c.library, c.side.policy)
            result = _with_partitions(result, c.label, partitions)
            with phase("fill"):
                inputs = inputs or inputs_of(problem, graph)
            verdict = _execute(graph, partitions, compiled, inputs, mode, wanted)
            outputs[c.label] = verdict.outputs
            result = _with_verdict(result, c, verdict)
            hearing.ran(c, verdict.status or success, verdict.reason)
        if result.status is Status.FAILED and not hearing.is_several:
            break
    if mode is Mode.correctness and hearing.is_several:
        want = wanted()
        with phase("compare"):
            result = replace(result, differences=differences(graph, _elements(graph.inputs, inputs), outputs, want))
    return replace(result, outcomes=tuple(hearing.told))


def _with_partitions(result: Result, policy: str, partitions: Sequence[Partition]) -> Result:
    ops = tuple(tuple(op.id for op in p.ops) for p in partitions)
    return replace(result, n_partitions={**result.n_partitions, policy: len(ops)}, partitions={**result.partitions, policy: ops})


def inputs_of(problem: Problem, graph: Graph) -> dict[int, Array]:
    """Buffers with what the case's inputs hold."""
    if problem.globals.has_no_reference:
        return constant_inputs(graph)
    make = fill if problem.fill == "integers" else domain
    return load_inputs(graph, make(graph, problem.globals.seed))


def _with_verdict(result: Result, contender: Contender, verdict: Verdict) -> Result:
    """What a contender's outputs are off by; and of the library under test, what that says of the case."""
    accuracy = tuple(replace(a, policy=contender.label) for a in verdict.accuracy)
    result = replace(result, accuracy=(*result.accuracy, *accuracy))
    if contender.side.is_witness:
        return result
    result = replace(result, total=result.total + verdict.total)
    if verdict.status is None or result.status is Status.FAILED:
        return result
    return replace(result, status=verdict.status, errors=verdict.errors, reason=f"{contender.label}: {verdict.reason}")


@dataclass(frozen=True)
class Verdict:
    """errors and total: sums over tensors. reason is set for a wrong tensor, and, with no errors, for one that is not to be trusted.

    outputs: of the graph, as far as they were computed. is_beyond: what was computed hangs on numbers beyond the range of their types, so
    that what is computed of it is no more to be trusted.
    """

    errors: int = 0
    total: int = 0
    reason: str = ""
    accuracy: tuple[Accuracy, ...] = ()
    outputs: dict[int, Array] = field(default_factory=dict)
    is_beyond: bool = False

    @property
    def status(self) -> Status | None:
        """None: nothing is against it."""
        return Status.FAILED if self.errors else Status.MISTRUSTED if self.reason else None


def _execute(
    graph: Graph,
    partitions: Sequence[Partition],
    compiled: Sequence[Compiled],
    inputs: dict[int, Array],
    mode: Mode,
    wanted: Callable[[], dict[int, Array]],
) -> Verdict:
    """Run the partitions in order, judging each on its outputs as the mode has it; buffers go after their last use.

    wanted: the reference's outputs of the whole graph.
    """
    live, ends, verdict = dict(inputs), last_uses(partitions), Verdict()
    keep = {t.id for t in graph.outputs}
    for step, (partition, code) in enumerate(zip(partitions, compiled, strict=True)):
        where = f"partition {step} ({partition.kind})"
        run = _Run(partition, code, live)
        if mode is Mode.correctness:
            run.on_other_data()
        run()
        live.update(run.outputs)
        if mode is Mode.correctness:
            with phase("reference"):
                given = _elements(partition.inputs, live)
                want = evaluate(partition.graph, given)
            verdict = judge(partition.graph, given, live, want, where, verdict, whole=graph)
        elif mode is Mode.bitwise:
            verdict = _repeat(run, where, verdict)
        if verdict.errors:
            break
        for id in (id for id, end in ends.items() if end == step and id not in keep):
            del live[id]
    if mode is Mode.correctness and len(partitions) > 1 and not verdict.errors:
        stored = frozenset(t.id for p in partitions for t in p.outputs)
        verdict = judge(graph, _elements(graph.inputs, inputs), live, wanted(), "whole graph", verdict, stored)
    return replace(verdict, outputs={id: array for id, array in live.items() if id in keep})


@phase("reference")
def _wanted(graph: Graph, inputs: dict[int, Array]) -> dict[int, Array]:
    return evaluate(graph, _elements(graph.inputs, inputs))


def _elements(tensors: Iterable[LogicalTensor], live: dict[int, Array]) -> dict[int, Array]:
    """What the reference computes with: the elements of these tensors."""
    return {t.id: elements(live[t.id], t) for t in tensors}


class _Run:
    """A compiled partition on its inputs, with memory of its own for its outputs."""

    @phase("execute")
    def __init__(self, partition: Partition, code: Compiled, live: dict[int, Array]) -> None:
        self._memory = [mapped(t.nbytes) for t in partition.outputs]
        self.tensors = partition.outputs
        self.outputs = {t.id: view(m, t) for m, t in zip(self._memory, partition.outputs, strict=True)}
        self._variable = [live[t.id] for t in partition.inputs if not t.is_constant]
        self._bound = code.bind([live[t.id] for t in partition.inputs], list(self.outputs.values()))

    @phase("execute")
    def __call__(self) -> None:
        """Execute into memory full of NaN bytes, so that an element nobody writes shows."""
        for m in self._memory:
            m.fill(NAN_BYTE)
        self._bound()

    def on_other_data(self) -> None:
        """Execute with every bit of the inputs turned, but for constants, which the first execution may keep.

        Only the next execution uses what was kept; were that made of anything but constants, its results are wrong.
        """
        turn_bits(self._variable)
        try:
            self()
        finally:  # other libraries go on with these inputs when this one breaks down
            turn_bits(self._variable)


def _repeat(run: _Run, where: str, verdict: Verdict) -> Verdict:
    """The verdict on a second execution, which must give the same bits."""
    first = {t.id: _bits(run.outputs[t.id], t) for t in run.tensors}
    run()
    for t in run.tensors:
        wrong = np.flatnonzero((first[t.id] != _bits(run.outputs[t.id], t)).any(axis=1))
        verdict = replace(verdict, total=verdict.total + t.type.elements)
        if wrong.size:
            what = f"{wrong.size} of {t.type.elements} values differ from one execution to the next; first at position {wrong[0]}"
            return replace(verdict, errors=int(wrong.size), reason=f"{where}: tensor {t.id}: {what}")
    return verdict


def _bits(array: Array, t: LogicalTensor) -> NDArray[np.uint8]:
    """A row of bytes per element."""
    return np.frombuffer(elements(array, t).tobytes(), np.uint8).reshape(t.type.elements, -1 if t.type.elements else 1)


@phase("compare")
def judge(
    graph: Graph,
    given: dict[int, Array],
    got: dict[int, Array],
    want: dict[int, Array],
    where: str,
    verdict: Verdict,
    stored: frozenset[int] = frozenset(),
    whole: Graph | None = None,
) -> Verdict:
    """The verdict with the outputs of a graph or partition added; stops at the first wrong one. given: the elements of its inputs; stored:
    tensors that went from partition to partition; whole: the graph that a partition is a part of."""
    rtol, own = tolerance(graph), {t.id for t in (whole or graph).inputs}
    for t in graph.outputs:
        array = elements(got[t.id], t)
        c = compare_output(graph, given, t, array, want[t.id], rtol, stored)
        hangs = np.zeros(want[t.id].shape, np.bool_)
        for excuse in _excuses(graph, given, t, array, want[t.id], c, own, verdict, stored):
            hangs |= excuse.hangs
            with np.errstate(over="ignore", invalid="ignore"):
                right = np.where(hangs, want[t.id].astype(t.dtype.numpy), array)
            kept = compare_output(graph, given, t, right, want[t.id], rtol, stored)
            if kept.ok:
                c = kept
                reason = verdict.reason or f"{where}: tensor {t.id}: {excuse.reason}"
                verdict = replace(verdict, reason=reason, is_beyond=verdict.is_beyond or excuse.is_beyond)
                break
        limit = zero_limit(graph, t.id)
        if c.is_mistrusted(limit):
            limit = zero_limit(graph, t.id, masked(given.values()), whole)
        sizes = c.max_abs, c.max_rel, c.max_ulp, c.l2_rel, c.zero_share
        found = Accuracy(where, t.id, t.dtype.value, c.total, c.errors, *sizes, rtol=rtol, zero_limit=limit, nonfinite=c.nonfinite)
        verdict = replace(verdict, total=verdict.total + c.total, accuracy=(*verdict.accuracy, found))
        if not c.ok:
            return replace(verdict, errors=c.errors, reason=f"{where}: tensor {t.id}: {c}")
        if c.is_mistrusted(limit) and not verdict.is_beyond and not verdict.reason.endswith(REMEDY):
            share = f"{c.zero_share:.0%} zeros prove little; at most {limit:.0%} are trusted"
            if is_faint(graph, given, t, array == 0, limit):
                share = f"{c.zero_share:.0%} of the values are too small for {t.dtype.value}, or others on the way are; {REMEDY}"
            verdict = replace(verdict, reason=f"{where}: tensor {t.id}: {share}")
        if not verdict.reason and is_saturated(want[t.id], t.dtype) and is_deep(whole or graph):
            verdict = replace(verdict, reason=f"{where}: tensor {t.id}: nearly all values are at the ends of {t.dtype.value}; {REMEDY}")
    return verdict


@dataclass(frozen=True)
class _Excuse:
    """Why points of an output prove nothing, with the remedy. is_beyond: they hang on numbers beyond the range of their types."""

    hangs: NDArray[np.bool_]
    reason: str
    is_beyond: bool = False


def _excuses(
    graph: Graph,
    given: dict[int, Array],
    t: LogicalTensor,
    got: Array,
    want: Array,
    c: Comparison,
    own: set[int],
    verdict: Verdict,
    stored: frozenset[int],
) -> Iterator[_Excuse]:
    """What may be said for an output that is wrong, or infinite, each in turn."""
    if beyond := _beyond(graph, given, t, want, c, own, verdict):
        yield beyond
    if c.ok:
        return
    if (found := below_range(graph, given, own, tolerance(graph))) is not None:
        what = f"{np.mean(found.hangs[t.id]):.0%} of the values hang on numbers too small for f32, which {found.op.label} makes first"
        yield _Excuse(found.hangs[t.id], f"{what}; {REMEDY}")
    if t.dtype is not DType.boolean:
        hangs = hang_on_rounding(graph, given, t, got, want, tolerance(graph), stored)
        if hangs.any():
            what = f"rounding errors grow from op to op to more than the tolerance in {np.mean(hangs):.0%} of the values"
            yield _Excuse(hangs, f"{what}; {SHALLOWER}")


def _beyond(
    graph: Graph, given: dict[int, Array], t: LogicalTensor, want: Array, c: Comparison, own: set[int], verdict: Verdict
) -> _Excuse | None:
    """The excuse of an output that is wrong, or infinite, because numbers left their range; None where it needs none, or has none."""
    if c.ok and (want.dtype.kind != "f" or np.isfinite(want).all()):
        return None
    if verdict.is_beyond:
        return None if c.ok else _Excuse(np.ones(want.shape, np.bool_), verdict.reason, is_beyond=True)
    found = beyond_range(graph, given, own)
    if found is None or (c.ok and not is_lost(want, found.hangs[t.id])):
        return None
    hangs, op = found.hangs[t.id], found.op
    what = f"{np.mean(hangs):.0%} of the values hang on numbers beyond the range of {found.dtype.value}, which {op.label} makes first"
    return _Excuse(hangs, f"{what}; {REMEDY}", is_beyond=True)
