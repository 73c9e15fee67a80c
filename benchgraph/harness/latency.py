"""The overhead of the framework layer at batch 1, and the gain from its caches: python -m benchgraph.harness.latency [FILE.json].

The graph is small on purpose. The contenders are interleaved, one execution each per round, so that disturbances affect all of them.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import TypeAlias

import click

from benchgraph.framework.executor import Executor
from benchgraph.framework.kernel_cache import DEFAULT_CAPACITY, set_kernel_cache_capacity
from benchgraph.framework.ndarray import NDArray
from benchgraph.framework.program import in_default_layout
from benchgraph.graph import Graph, GraphBuilder, load, with_batch
from benchgraph.harness.buffers import load_inputs
from benchgraph.harness.framework_check import bound
from benchgraph.library.cache import get_compiled_partition_cache_capacity, set_compiled_partition_cache_capacity
from benchgraph.machine.target import cpu_name
from benchgraph.partition.ir import Policy
from benchgraph.reference import fill

WIDTHS = 13, 512, 256, 128  # MLP_1 of the Graph Compiler paper
SLOW = 20  # rounds per round of the functions that compile
Ways: TypeAlias = dict[str, Callable[[], object]]


def mlp(rows: int) -> Graph:
    b = GraphBuilder()
    x = b.input((rows, WIDTHS[0]))
    for n, k in pairwise(WIDTHS):
        x = b.op("ReLU", b.op("Add", b.op("MatMul", x, b.constant((n, k))), b.constant((k,))))
    return b.graph()


def ways(graph: Graph, policy: Policy) -> Ways:
    """The measured functions: each executes the graph once."""
    buffers = load_inputs(graph, fill(graph, 1))
    arrays = {t.id: NDArray.of(buffers[t.id], t.dtype, f"tensor {t.id}") for t in graph.inputs}
    params = {t.id: arrays.pop(t.id) for t in graph.inputs if t.is_constant}
    steps, _ = bound(graph, policy, buffers)
    executor, kept = Executor(graph, params, policy=policy), get_compiled_partition_cache_capacity()

    def directly() -> None:
        for step in steps:
            step()

    def without_cache() -> None:
        set_kernel_cache_capacity(0)
        executor.forward(arrays)
        set_kernel_cache_capacity(DEFAULT_CAPACITY)

    def without_any() -> None:
        set_compiled_partition_cache_capacity(0)
        without_cache()
        set_compiled_partition_cache_capacity(kept)

    return {
        "the library, bound once": directly,
        "the framework": lambda: executor.forward(arrays),
        "the framework without its cache": without_cache,
        "neither it nor the library caches": without_any,
    }


def measured(timed: Ways, rounds: int) -> dict[str, list[float]]:
    """Seconds per execution, interleaved; the second half of the functions compiles, and runs only in every SLOW-th round."""
    fast = list(timed)[:2]
    samples = dict[str, list[float]]()
    for n in range(rounds):
        for name, run in timed.items():
            if name not in fast and n % SLOW:
                continue
            run()  # warms what the one before left cold
            begin = time.perf_counter()
            run()
            samples.setdefault(name, []).append(time.perf_counter() - begin)
    return samples


@click.command()
@click.argument("file", required=False, type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--rounds", default=400, show_default=True, help="executions of each way")
def main(file: Path | None, rounds: int) -> None:
    """Latency at batch 1 through the framework layer, with and without its caches. FILE: a graph; unless given, a small MLP."""
    graph = in_default_layout(with_batch(load(file), 1)) if file else mlp(1)
    click.echo(f"{cpu_name()}; {file or 'MLP ' + 'x'.join(map(str, WIDTHS))}, batch 1; microseconds")
    for policy in (Policy.fused, Policy.one_op_each):
        for name, samples in measured(ways(graph, policy), rounds).items():
            click.echo(f"{policy.value:12} {name:34} min {min(samples) * 1e6:9.1f}  median {median(samples) * 1e6:9.1f}")


if __name__ == "__main__":
    main()
