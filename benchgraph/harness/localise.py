"""Finds the first wrong op of a case: op by op, then inside the partitions that the library makes.

1. Every op alone, on what the library itself computed before: an op whose output leaves its tolerance is wrong by itself.
2. If all are right alone, the partitions of the case's policy. Of the first wrong one, windows of consecutive ops are compiled; the
   shortest wrong window ends with the op that goes wrong in company.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from benchgraph.core.arrays import Array, elements, put
from benchgraph.core.errors import Unavailable, Unimplemented
from benchgraph.core.progress import report_progress
from benchgraph.core.tensor import LogicalTensor
from benchgraph.graph.ir import END, Graph, Op
from benchgraph.harness.bound import BoundPartition
from benchgraph.harness.buffers import allocate
from benchgraph.harness.inputs import inputs_of
from benchgraph.harness.verdict import Verdict, compare_outputs
from benchgraph.library.protocol import Library
from benchgraph.options.policy import PolicyChoice
from benchgraph.options.problem import Problem
from benchgraph.partition.ir import Partition, Policy
from benchgraph.reference import evaluate


@dataclass(frozen=True)
class Place:
    """Where a case first goes wrong.

    op: None if no output leaves its tolerance. company: the other ops of the shortest wrong window, () if it is wrong alone. right: how
    many ops were right alone. unrun: ops that the library cannot run alone, for which the reference stood in. reason: of the wrong output.
    """

    op: Op | None
    reason: str = ""
    company: tuple[Op, ...] = ()
    right: int = 0
    unrun: tuple[Op, ...] = ()


def localise(problem: Problem, graph: Graph, library: Library, policy: str) -> Place:
    """Raises the library's errors for a partition that it cannot compile under the case's own policy."""
    chosen, inputs = PolicyChoice.read(policy), inputs_of(problem, graph)
    try:
        parts = library.partitions(graph, Policy.one_op_each)
    except Unavailable:  # a library with one way to partition: its partitions are as small as it can make them
        parts = library.partitions(graph, chosen.policy)
    steps = [s for s in parts if any(op.kind != END for op in s.ops)]
    live, right, unrun = dict(inputs), 0, list[Op]()
    for step, partition in enumerate(steps):
        report_progress("op", step, len(steps))
        verdict = _run(library, partition, live)
        if verdict is None:
            unrun += partition.ops
        elif verdict.errors:
            return Place(partition.ops[-1], _reason(verdict), partition.ops[:-1], right, tuple(unrun))
        else:
            right += len(partition.ops)
    found = _in_company(library, graph, inputs, chosen)
    return replace(found, right=right, unrun=tuple(unrun))


def _in_company(library: Library, graph: Graph, inputs: dict[int, Array], chosen: PolicyChoice) -> Place:
    live = dict(inputs)
    for partition in library.partitions(graph, chosen.policy):
        if all(op.kind == END for op in partition.ops):
            continue
        received = {t.id: live[t.id] for t in partition.inputs}
        verdict = _run(library, replace(partition, options=chosen.options), live)
        if verdict is None:
            raise Unimplemented(partition.reason, where=labels(partition.ops))
        if verdict.errors:
            return _Windows(library, partition, received | _all_values(partition, received), chosen).shortest(_reason(verdict))
    return Place(None)


@dataclass(frozen=True)
class _Windows:
    """Consecutive ops of a wrong partition, compiled without the others; what the others compute comes from the reference.

    values: every tensor of the partition, in its type.
    """

    library: Library
    partition: Partition
    values: dict[int, Array]
    chosen: PolicyChoice

    def shortest(self, reason: str) -> Place:
        """The op that a shortest wrong window ends with. reason: of the whole partition.

        First the end of a wrong prefix, then its start. As errors of a long window may have grown beyond what can be compared, or beyond
        what a reference can tell, the end of the short one may be earlier. These are bisections: they assume that a window is wrong if a
        part of it is.
        """
        end = _first(0, len(self.partition.ops) - 1, lambda k: bool(self.wrong(0, k)))
        start = _first(0, end, lambda k: not self.wrong(k + 1, end))
        end = _first(start, end, lambda k: bool(self.wrong(start, k)))
        graph = self.graph(start, end)
        op, reason = self._within(graph) or (graph.ops[-1], self.wrong(start, end) or reason)
        return Place(op, reason, tuple(other for other in graph.ops if other is not op))

    def _within(self, graph: Graph) -> tuple[Op, str] | None:
        """The first op of a wrong window whose output is wrong where all of them are outputs; None if that makes them right."""
        outputs = tuple(t.id for op in graph.ops for t in op.outputs)
        verdict = self._verdict(replace(graph, output_ports=outputs))
        if verdict is None or not verdict.errors:
            return None
        wrong = verdict.accuracy[-1].tensor
        return next(op for op in graph.ops if any(t.id == wrong for t in op.outputs)), _reason(verdict)

    def graph(self, start: int, end: int) -> Graph:
        """The last op of a window, and those of it that this op depends on."""
        *earlier, op = self.partition.ops[start : end + 1]
        needed, read = [op], {t.id for t in op.inputs}
        for other in reversed(earlier):
            if any(t.id in read for t in other.outputs):
                needed.insert(0, other)
                read |= {t.id for t in other.inputs}
        outputs = tuple(t.id for t in op.outputs)
        return replace(self.partition.graph, ops=tuple(needed), input_ports=None, output_ports=outputs)

    def wrong(self, start: int, end: int) -> str:
        """Why the last op's output is wrong; '' if it is right, the library cannot run the window, or the window is empty."""
        if start > end:
            return ""
        report_progress("window", start, len(self.partition.ops))
        verdict = self._verdict(self.graph(start, end))
        return _reason(verdict) if verdict is not None and verdict.errors else ""

    def _verdict(self, graph: Graph) -> Verdict | None:
        """Of the first partition of a graph that is wrong, or that the library cannot run (None), else of the last one."""
        live, verdict = {t.id: self.values[t.id] for t in graph.inputs}, None
        for partition in self.library.partitions(graph, self.chosen.policy):
            verdict = _run(self.library, replace(partition, options=self.chosen.options), live)
            if verdict is None or verdict.errors:
                break
        return verdict


def _first(low: int, high: int, holds: Callable[[int], bool]) -> int:
    """The least number from low to high for which a condition holds that, once true, stays true; high if it holds for none below."""
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if holds(middle) else (middle + 1, high)
    return low


def _all_values(partition: Partition, received: dict[int, Array]) -> dict[int, Array]:
    """The reference's values of all tensors that the partition makes, in their types."""
    made = [t for op in partition.ops for t in op.outputs]
    given = {t.id: elements(received[t.id], t) for t in partition.inputs}
    return _stored(made, evaluate(partition.graph, given, keep=[t.id for t in made]))


def _run(library: Library, partition: Partition, live: dict[int, Array]) -> Verdict | None:
    """Execute a partition on live buffers, which get its outputs; the verdict, or None if the library cannot, and the reference did."""
    given = {t.id: elements(live[t.id], t) for t in partition.inputs}
    want = evaluate(partition.graph, given)
    try:
        if not partition.is_supported:
            raise Unimplemented(partition.reason)
        bound = BoundPartition(partition, library.compile(partition), live)
    except Unimplemented:
        live |= _stored(partition.outputs, want)
        return None
    bound.execute()
    live |= bound.outputs
    return compare_outputs(partition.graph, given, live, want, "", Verdict())


def _reason(verdict: Verdict) -> str:
    return verdict.reason.removeprefix(": ")  # of no place within a case


def _stored(tensors: Sequence[LogicalTensor], values: dict[int, Array]) -> dict[int, Array]:
    """The reference's values in buffers of the tensors' types."""
    found = {t.id: allocate(t) for t in tensors}
    for t in tensors:
        put(found[t.id], t, values[t.id].astype(t.dtype.numpy))
    return found


def labels(ops: Sequence[Op]) -> str:
    """Ops as text, the first few by name."""
    shown = ", ".join(op.label for op in ops[:4])
    return shown + (f" and {len(ops) - 4} others" if len(ops) > 4 else "")
