"""Compiled products of bf16 operands compared with float64, on dot products of the machine or emulated ones."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from benchgraph.compile import compile_partition
from benchgraph.core.dtypes import DType
from benchgraph.graph.build import GraphBuilder
from benchgraph.machine.target import Target, current
from tests.support.partitions import partition_of

SHAPES = ((1, 13, 1), (5, 13, 70), (33, 479, 64), (3, 4, 17), (17, 130, 15), (40, 1, 33))  # m, k, n: whole, ragged, one
WAYS = (  # transposed weights, constant weights, batch
    (False, True, ()),
    (True, True, ()),
    (False, False, (2, 3)),
    (True, False, (2,)),
)


def target(*emulated: DType) -> Target:
    return replace(current(), emulated=frozenset(emulated))


def close(got: np.ndarray, want: np.ndarray, rtol: float) -> bool:
    scale = max(float(np.abs(want).max()), 1.0)
    return bool(np.abs(got.astype(np.float64) - want).max() <= rtol * scale)


def check_two_products(way: tuple[bool, bool, tuple[int, ...]]) -> None:
    """Two products in bf16 after one another. way: whether weights are transposed and constant, and their batch dims."""
    rng, (transposed, constant, batch) = np.random.default_rng(2), way
    for m, k, n in SHAPES:
        b, shape = GraphBuilder(), (*batch, n, k) if transposed else (*batch, k, n)
        x = b.input((*batch, m, k), DType.bf16)
        h = b.op("Abs", b.op("MatMul", x, (b.constant if constant else b.input)(shape, DType.bf16), transpose_b=transposed))
        b.op("MatMul", h, b.constant((n, 24), DType.bf16))
        data = [rng.standard_normal(t.known_shape).astype(DType.bf16.numpy) for t in b.graph().inputs]
        dst = np.zeros((*batch, m, 24), DType.bf16.numpy)
        compile_partition(partition_of(b.graph()), target(DType.bf16)).bind(data, [dst])()
        a, w, v = (x.astype(np.float64) for x in data)
        hidden = np.abs(a @ (w.swapaxes(-1, -2) if transposed else w)).astype(DType.bf16.numpy).astype(np.float64)
        assert close(dst, hidden @ v, 2 * DType.bf16.eps), (m, k, n)


def check_padding_is_unused() -> None:
    """NaN in src's next row and in weights beyond k does not show in any sum."""
    b = GraphBuilder()
    b.op("MatMul", b.input((3, 5), DType.bf16), b.input((5, 4), DType.bf16))
    memory = np.full((3 * 5 + 32,), np.nan, DType.bf16.numpy)
    src = memory[:15].reshape(3, 5)
    src[...] = 1
    wei, dst = np.ones((5, 4), DType.bf16.numpy), np.zeros((3, 4), DType.bf16.numpy)
    compile_partition(partition_of(b.graph()), target(DType.bf16)).bind([src, wei], [dst])()
    assert np.all(dst == 5)
