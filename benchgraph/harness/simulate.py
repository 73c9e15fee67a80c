"""Mode S: exactly one execution per contender, for simulators and tracers, which should see only the case itself.

Nothing is warmed up, no input is written, no peak is measured. The partitions are timed one by one, so that the one
execution says how long each took. Constants are computed in it, as in every first execution.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from benchgraph.graph.ir import Graph
from benchgraph.harness.bench import Bench
from benchgraph.harness.buffers import unwritten_inputs
from benchgraph.harness.built import build, need_in_process
from benchgraph.harness.contenders import Contender, Outcomes
from benchgraph.harness.partitioning import described, partition_graph
from benchgraph.harness.timing import policy_timing
from benchgraph.machine.target import current
from benchgraph.measure.cold_cache import cold_cache
from benchgraph.measure.phases import phase
from benchgraph.measure.sampling import seconds
from benchgraph.measure.streams import threads_per_stream
from benchgraph.options.problem import Problem
from benchgraph.partition.ir import Partition
from benchgraph.results.result import PolicyTiming, Result, Status, Timing


def simulate(problem: Problem, graph: Graph, contenders: Sequence[Contender], bench: Bench) -> Result:
    """Execute the graph once for every contender. Raises errors of partitioning and compiling; InvalidArguments for several
    streams."""
    settings = problem.globals
    threads = threads_per_stream(settings.num_streams, current().cores, is_single=True)
    outcomes, counts, timings = Outcomes(problem, contenders), dict[str, int](), list[PolicyTiming]()
    for c in contenders:
        need_in_process(c.library, cold_cache(settings.cold_cache), settings.num_streams)
        with outcomes.record_failure(c):
            parts = partition_graph(problem, graph, c.library, c.spec)
            timings.append(_once(graph, c, parts, bench, settings.cold_cache, threads))
            counts[c.label] = len(parts)
            outcomes.record(c, Status.EXECUTED)
    return replace(
        described(Status.EXECUTED, graph),
        n_partitions=counts,
        timings=tuple(timings),
        cold_cache=settings.cold_cache,
        outcomes=tuple(outcomes.all),
    )


@phase("execute")
def _once(graph: Graph, contender: Contender, partitions: tuple[Partition, ...], bench: Bench, cold: str, threads: int) -> PolicyTiming:
    """Build for one contender, execute it once, and free its memory."""
    built = build(graph, contender, partitions, [unwritten_inputs(graph)])
    if (cache := cold_cache(cold)).is_made:
        bench.evict(cache.victims(built.whole.data, built.whole.chain), cache.tlb_bytes, threads)()
    each = [seconds(work.chain, 1, bench.clock) for work in built.alone]
    return policy_timing(built, Timing((sum(each),), 1), [Timing((s,), 1) for s in each])
