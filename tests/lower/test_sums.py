"""The backward graph of attention: sums over queries go into the gradients of keys and values while the queries' rows are in cache."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from benchgraph.compile import compile_partition
from benchgraph.core.dtypes import DType
from benchgraph.core.target import Target, current
from benchgraph.core.tensor import LogicalTensor
from benchgraph.gir.build import from_partition
from benchgraph.gir.ir import Fused
from benchgraph.gir.passes import PIPELINE
from benchgraph.gir.verify import verify
from benchgraph.graph.build import GraphBuilder
from benchgraph.graph.ir import Graph
from benchgraph.lower import sums
from benchgraph.partition.ir import Partition, Policy
from benchgraph.partition.partitioner import partitions
from benchgraph.reference.evaluate import evaluate
from benchgraph.tir.build import seq
from benchgraph.tir.ir import For, LoopKind, Seq

TARGET = replace(current(), l2_bytes=1 << 20, cores=2)


def backward(
    b: GraphBuilder,
    batch: tuple[int, ...] = (2, 3),
    queries: int = 37,
    keys: int = 53,
    d: int = 16,
    groups: tuple[int, ...] = (),
    dropped: bool = False,
    dtype: DType = DType.f32,
) -> None:
    """dV = P^T dO; dS = P (dO V^T - rowsum(O dO)) / c; dQ = dS K; dK = dS^T Q. groups: the batch dims of keys and values, if fewer."""
    wide, narrow = (*batch, queries, d), (*(groups or batch), keys, d)
    q, k, v, out, d_out = (b.input(shape, dtype) for shape in (wide, narrow, narrow, wide, wide))
    stats, scale = b.input((*batch, queries, 1), dtype), b.input((1,), dtype)
    s = b.op("Multiply", b.op("MatMul", q, k, transpose_b=True), scale)
    p = b.op("Exp", b.op("Subtract", s, stats))
    numbers = (b.input((), DType.s64), b.input((), DType.s64), b.input(())) if dropped else ()

    def drop(x: LogicalTensor) -> LogicalTensor:
        return b.op("Dropout", x, *numbers) if dropped else x

    def grouped(x: LogicalTensor) -> LogicalTensor:
        axes = [i for i, (one, many) in enumerate(zip(groups, batch, strict=False)) if one != many]
        return b.op("ReduceSum", x, axes=axes, keep_dims=True) if axes else x

    grouped(b.op("MatMul", drop(p), d_out, transpose_a=True))
    rows = b.op("ReduceSum", b.op("Multiply", out, d_out), axes=[len(batch) + 1], keep_dims=True)
    d_p = drop(b.op("MatMul", d_out, v, transpose_b=True))
    d_s = b.op("Multiply", b.op("Multiply", p, b.op("Subtract", d_p, rows)), scale)
    b.op("MatMul", d_s, k)
    grouped(b.op("MatMul", d_s, q, transpose_a=True))


def built(**options: object) -> Graph:
    b = GraphBuilder()
    backward(b, **options)
    return b.graph()


def the_partition(graph: Graph) -> Partition:
    (partition,) = (p for p in partitions(graph, Policy.fused) if p.is_supported)
    return partition


def nests(partition: Partition, target: Target = TARGET) -> list[Fused]:
    g = from_partition(partition)
    for p in PIPELINE:
        g = p.fn(g, target)
        verify(g)
    return [n for n in g.nodes if isinstance(n, Fused)]


def assert_right(graph: Graph, target: Target = TARGET, tolerance: float = 1e-5, spread: float = 1.0) -> None:
    partition, rng = the_partition(graph), np.random.default_rng(2)
    data = {t.id: np.asarray(rng.normal(size=t.known_shape) * spread).astype(t.dtype.numpy) for t in partition.inputs}
    for t in partition.inputs:
        if t.known_shape == (1,):
            data[t.id][...] = 0.25
        elif t.known_shape == ():
            data[t.id][...] = 0.25 if t.dtype.is_float else 3
        elif t.known_shape[-1] == 1:
            data[t.id][...] += 3  # statistics: the logarithm of a sum of exponentials
    outs = [np.full(t.known_shape, np.nan, t.dtype.numpy) for t in partition.outputs]
    compile_partition(partition, target).bind([data[t.id] for t in partition.inputs], outs)()
    want = evaluate(graph, {id: a.astype(np.float64) if graph.tensors[id].dtype.is_float else a for id, a in data.items()})
    for t, got in zip(partition.outputs, outs, strict=True):
        rms = np.sqrt(np.mean(want[t.id] ** 2))
        np.testing.assert_allclose(got.astype(np.float64), want[t.id], rtol=tolerance, atol=2 * tolerance * rms)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"queries": 128, "keys": 64},
        {"queries": 1, "keys": 5},
        {"queries": 131, "keys": 1},
        {"d": 70},
        {"batch": (2, 2, 3), "groups": (2, 2, 1)},
        {"dropped": True},
    ],
    ids=str,
)
def test_gradients_are_right(options: dict[str, object]) -> None:
    assert_right(built(**options))


@pytest.mark.parametrize("options", [{}, {"dropped": True}, {"queries": 1, "keys": 577}], ids=str)
def test_backward_is_one_nest_and_one_region(options: dict[str, object]) -> None:
    partition = the_partition(built(**options))
    (nest,) = nests(partition)
    assert sum(stage.sums_rows for stage in nest.stages) == 2
    main = compile_partition(partition, TARGET).module.main
    top = main.body.stmts if isinstance(main.body, Seq) else (main.body,)
    assert [isinstance(s, For) and s.kind is LoopKind.parallel for s in top] == [True]


def test_groups_are_summed_in_the_same_region() -> None:
    partition = the_partition(built(batch=(2, 2, 3), groups=(2, 2, 1), queries=128, keys=128, d=64))
    assert len(nests(partition)) == 3
    main = compile_partition(partition, TARGET).module.main
    assert isinstance(main.body, For)
    assert main.shared_bytes == 0


def thread_bytes(**options: object) -> int:
    return compile_partition(the_partition(built(**options)), TARGET).module.main.thread_bytes


def test_temporaries_grow_neither_with_the_batch_nor_with_the_square_of_the_sequence() -> None:
    assert thread_bytes(batch=(4, 4)) == thread_bytes(batch=(16, 16))
    for n in (512, 1024, 2048):
        keys_and_values = 2 * n * 64 * 4
        assert thread_bytes(batch=(4, 4), queries=n, keys=n, d=64) <= keys_and_values + 2 * TARGET.l2_bytes


def test_one_entry_keeps_its_rows_parallel() -> None:
    """Threads cannot add to one sum."""
    found = nests(the_partition(built(batch=(1, 1), queries=256, keys=256)))
    assert not any(stage.sums_rows for nest in found for stage in nest.stages)
    assert_right(built(batch=(1, 1), queries=256, keys=256))


def test_gradients_of_weights_sum_over_tasks_of_all_threads_and_stay_apart() -> None:
    b = GraphBuilder()
    x, dy = b.input((256, 32)), b.input((256, 48))
    b.op("MatMul", x, b.op("Tanh", b.op("MatMul", x, b.input((32, 48)))), transpose_a=True)
    b.op("ReLU", dy)
    (partition,) = (p for p in partitions(b.graph(), Policy.fused) if len(p.ops) > 1)
    assert not any(stage.sums_rows for nest in nests(partition) for stage in nest.stages)


def test_sums_begin_at_zero(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sums.Sum, "cleared", lambda self: seq())
    with pytest.raises(AssertionError):
        assert_right(built())


def test_every_task_adds_its_own_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    added = sums.Sum.added

    def of_the_first_task(self: sums.Sum) -> object:
        mo, self.nest.mo = self.nest.mo, sums.ZERO
        try:
            return added(self)
        finally:
            self.nest.mo = mo

    monkeypatch.setattr(sums.Sum, "added", of_the_first_task)
    with pytest.raises(AssertionError):
        assert_right(built(queries=128))
