"""The backward graph of attention, and its results compared with the reference."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from benchgraph.compile import compile_partition
from benchgraph.core.dtypes import DType
from benchgraph.core.tensor import LogicalTensor
from benchgraph.graph.build import GraphBuilder
from benchgraph.graph.ir import Graph
from benchgraph.machine.target import Target, current
from benchgraph.partition.ir import Partition
from benchgraph.reference.evaluate import evaluate
from tests.support.partitions import graph_of, partition_of

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
    """The graph of `backward`."""
    return graph_of(lambda b: backward(b, **options))


def assert_right(
    graph: Graph, target: Target = TARGET, tolerance: float = 1e-5, spread: float = 1.0, partition: Partition | None = None
) -> None:
    """partition: of the graph, if not what the policy makes of it."""
    partition, rng = partition or partition_of(graph), np.random.default_rng(2)
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
