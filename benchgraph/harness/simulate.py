"""Mode S: exactly one execution per policy, for simulators and tracers, where whatever is not the case is in the way.

Nothing is warmed up, no input is written, no roof is measured. The partitions are called one by one with a look at the clock between, so
that the one execution says how long each took. Constants are computed in it, as in every first execution.
"""

from __future__ import annotations

from benchgraph.core.target import current
from benchgraph.graph.ir import Graph
from benchgraph.harness.bench import Bench
from benchgraph.harness.buffers import allocate
from benchgraph.harness.built import build, need_in_process
from benchgraph.harness.cold import cold_cache
from benchgraph.harness.cut import cut, flops, traffic
from benchgraph.harness.phases import phase
from benchgraph.harness.problem import Problem
from benchgraph.harness.results import PolicyTiming, Result, Status, Timing
from benchgraph.harness.sampling import seconds
from benchgraph.harness.streams import threads_per_stream
from benchgraph.harness.timing import policy_timing
from benchgraph.library.protocol import Library
from benchgraph.partition.ir import Partition


def simulate(problem: Problem, graph: Graph, library: Library, bench: Bench) -> Result:
    """Execute the graph once under every policy. Raises what cut and compile raise, InvalidArguments for several streams."""
    settings = problem.globals
    threads = threads_per_stream(settings.num_streams, current().cores, is_single=True)
    need_in_process(library, cold_cache(settings.cold_cache), settings.num_streams)
    cuts = {policy: cut(problem, graph, library, policy) for policy in settings.policies}
    return Result(
        Status.EXECUTED,
        n_partitions={policy: len(parts) for policy, parts in cuts.items()},
        flops=flops(graph.ops),
        bytes=traffic(graph),
        input_bytes=sum(t.nbytes for t in graph.inputs),
        timings=tuple(_once(graph, policy, parts, library, bench, settings.cold_cache, threads) for policy, parts in cuts.items()),
        cold_cache=settings.cold_cache,
    )


@phase("execute")
def _once(
    graph: Graph, policy: str, partitions: tuple[Partition, ...], library: Library, bench: Bench, cold: str, threads: int
) -> PolicyTiming:
    """Build one policy, execute it once, and let its memory go."""
    built = build(graph, policy, partitions, library, [{t.id: allocate(t) for t in graph.inputs}])
    if (cache := cold_cache(cold)).is_made:
        bench.evict(cache.victims(built.whole.data, built.whole.chain), cache.tlb_bytes, threads)()
    each = [seconds(work.chain, 1, bench.clock) for work in built.alone]
    return policy_timing(built, Timing((sum(each),), 1), [Timing((s,), 1) for s in each])
