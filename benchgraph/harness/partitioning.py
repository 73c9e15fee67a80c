"""Partitions a graph and compiles the partitions, for all modes that compile."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import nullcontext
from dataclasses import replace

from benchgraph.core.config import config, override
from benchgraph.core.errors import InvalidGraph, Unimplemented
from benchgraph.graph.ir import END, Graph
from benchgraph.harness.fallback import fallback_kinds
from benchgraph.library.dump import dump_graph, dump_partitioning
from benchgraph.library.protocol import Compiled, Library
from benchgraph.measure.layers import flops
from benchgraph.measure.phases import phase
from benchgraph.options.knobs import ContenderSpec
from benchgraph.options.policy import PolicyChoice
from benchgraph.options.problem import Problem
from benchgraph.partition.ir import Partition, Policy
from benchgraph.results.result import Result, Status


class WrongCount(InvalidGraph):
    """The fused policy made another number of partitions than the case expects."""


@phase("partition")
def partition_graph(problem: Problem, graph: Graph, library: Library, contender: ContenderSpec) -> tuple[Partition, ...]:
    """The partitions to execute, in order; those that hold nothing but End are left out.

    Raises Unimplemented for one the library cannot compile, WrongCount when the fused policy of the library under test made an
    unexpected number. The graph and what became of it are dumped where the environment asks for that, under the index of the problem.
    """
    chosen = PolicyChoice.read(contender.policy)
    found = tuple(replace(p, options=chosen.options) for p in library.partitions(graph, chosen.policy))
    if not library.dumps_itself:
        several = len({s.policy for s in problem.globals.contender_specs if s.library == contender.library}) > 1
        dump_graph(problem.index, graph)
        dump_partitioning(f"{problem.index}-{contender.policy}" if several else problem.index, graph, found)
    work = tuple(p for p in found if any(op.kind != END for op in p.ops))
    for position, p in enumerate(work):
        if not p.is_supported:
            ops = ", ".join(op.label for op in p.ops)
            raise Unimplemented(f"partition {position} ({ops}) is unsupported: {p.reason}", where=contender.label)
    if chosen.policy is Policy.fused and not contender.is_witness:
        need_expected(problem, len(work))
    return work


def need_expected(problem: Problem, count: int) -> None:
    """Raise WrongCount if the problem expects another number of partitions of the fused policy."""
    want = problem.expected_partitions
    if want and count != want:
        what = f"expected number of partitions ({want}) doesn't coincide with the actual number of partitions ({count})"
        raise WrongCount(what, fix=f"use --expected-n-partitions={count} if that is right, 0 not to check")


@phase("compile")
def compile_all(partitions: Sequence[Partition], library: Library, policy: str) -> list[Compiled]:
    """Compile them, several at once where the library can; text dumps, when asked for, go to a folder per policy.

    The phase is the time of the whole. What each partition says it took may add up to more.
    """
    folder = config().dump_dir
    with override(dump_dir=f"{folder}/{policy}") if folder else nullcontext():
        return library.compile_all(partitions)


def partition_notes(label: str, partitions: Iterable[Partition]) -> list[str]:
    """What the library of this label says about its partitions."""
    return [f"{label}: {p.note}" for p in partitions if p.note]


def described(status: Status, graph: Graph) -> Result:
    """A result that says how much there is to compute and to move."""
    nbytes = sum(t.nbytes for t in graph.inputs)
    return Result(status, flops=flops(graph.ops), bytes=traffic(graph), input_bytes=nbytes, fallback=fallback_kinds(graph))


def traffic(source: Graph | Partition) -> int:
    """Bytes that must enter and leave at least: inputs and outputs, each once."""
    return sum(t.nbytes for t in (*source.inputs, *source.outputs))
