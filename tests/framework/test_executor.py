"""The executor: graphs through the framework, judged by the reference; steady state; what may be opaque."""

from __future__ import annotations

from pathlib import Path

import pytest
from numpy.typing import NDArray as Array

from benchgraph.framework.executor import Executor
from benchgraph.framework.ndarray import NDArray
from benchgraph.graph import Graph, GraphBuilder, load
from benchgraph.harness.plugins import data_dir
from benchgraph.partition.ir import Policy
from benchgraph.reference import compare, evaluate, fill, tolerance

POLICIES = list(Policy)


def mlp(rows: int = 4, width: int = 128) -> Graph:
    """Two products with post-ops."""
    b = GraphBuilder()
    x, w0, w1, bias = b.input((rows, 96)), b.constant((96, width)), b.constant((width, 64)), b.constant((64,))
    y = b.op("MatMul", b.op("ReLU", b.op("MatMul", x, w0)), w1)
    b.op("Sigmoid", b.op("Add", y, bias))
    return b.graph()


def arrays(g: Graph, seed: int = 1) -> tuple[dict[int, Array], dict[int, NDArray], dict[int, NDArray]]:
    """(values, inputs, parameters) of a graph."""
    values = fill(g, seed)
    made = {t.id: NDArray.of(values[t.id], t.dtype, f"tensor {t.id}") for t in g.inputs}
    constant = {t.id for t in g.inputs if t.is_constant}
    return values, {i: a for i, a in made.items() if i not in constant}, {i: a for i, a in made.items() if i in constant}


def right(g: Graph, outs: dict[int, NDArray], values: dict[int, Array]) -> None:
    want, rtol = evaluate(g, values), tolerance(g)
    for t in g.outputs:
        c = compare(outs[t.id].numpy(), want[t.id], t.dtype, rtol)
        assert c.ok, f"tensor {t.id}: {c.points[0]}"


@pytest.mark.parametrize("policy", POLICIES)
def test_the_second_run_makes_nothing_anew(policy: Policy) -> None:
    """I5, I6: no compilation, no weight converted, no temporary allocated, the same bits."""
    g = mlp()
    values, inputs, params = arrays(g)
    executor = Executor(g, params, policy=policy)
    first = {id: a.numpy() for id, a in executor.forward(inputs).items()}
    c = executor.last.counters
    assert c.misses == len(executor.last.partitions)
    assert c.weight_reorders == 1, "128 columns are two panels; 64 are one, which is row-major"
    for _ in range(4):
        outs = executor.forward(inputs)
        c = executor.last.counters
        assert (c.misses, c.reorders, c.weight_reorders, c.spills, c.lazy_reorders) == (0, 0, 0, 0, 0)
        assert c.hits == len(executor.last.partitions)
        assert all(a.numpy().tobytes() == first[id].tobytes() for id, a in outs.items())
    right(g, outs, values)


GRAPHS = data_dir("inputs") / "graph"
CASES = ["attention", "quantised_mlp", "pattern/mlp_residual", "pattern/two_islands", "pattern/mlp_backward", "pattern/matmul_interior_end"]


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("case", CASES)
def test_graphs_through_the_framework(case: str, policy: Policy) -> None:
    g = load(Path(GRAPHS / f"{case}.json"))
    values, inputs, params = arrays(g)
    executor = Executor(g, params, policy=policy)
    for _ in range(2):
        right(g, executor.forward(inputs), values)
    assert executor.last.counters.lazy_reorders == 0
    assert not executor.last.counters.fallbacks


def test_values_between_partitions_are_opaque_and_only_there() -> None:
    """I19: blocks where partitions alone read, row-major where the graph ends."""
    g = mlp()
    _, inputs, params = arrays(g)
    for propagates in (True, False):
        executor = Executor(g, params, policy=Policy.post_ops, propagates=propagates)
        outs = executor.forward(inputs)
        (workspace,) = executor._per_thread.workspaces.values()
        assert [a.is_opaque for a in workspace.values.values()] == [propagates]
        assert not any(a.is_opaque for a in outs.values())
