"""Compiled products of quantised and of bf16 operands against float64, on this machine's dot products and on emulated ones."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from benchgraph.compile import compile_partition
from benchgraph.core.dtypes import DType
from benchgraph.graph.build import GraphBuilder
from tests.support.bf16_products import SHAPES, WAYS, check_padding_is_unused, check_two_products, close, target
from tests.support.partitions import partition_of

BYTES = (DType.u8, DType.s8)


PAIRS = tuple(product(BYTES, repeat=2))
ZPS = ((0, 0), (3, 0), (0, 7), (5, -2))


@pytest.mark.parametrize("dtypes", PAIRS, ids=lambda pair: "_".join(d.value for d in pair))
@pytest.mark.parametrize("zps", ZPS, ids=str)
def test_quantised_products(dtypes: tuple[DType, DType], zps: tuple[int, int], pytestconfig: pytest.Config) -> None:
    """In one way each, so that any two of dtypes, zero points and way occur together; two of the shapes. --exhaustive: all."""
    rng, first = np.random.default_rng(1), PAIRS.index(dtypes) + ZPS.index(zps)
    chosen = [(WAYS[first % len(WAYS)], SHAPES[i % len(SHAPES)]) for i in range(first, first + 2)]
    for way, (m, k, n) in product(WAYS, SHAPES) if pytestconfig.getoption("--exhaustive") else chosen:
        transposed, constant, batch = way
        b, shape = GraphBuilder(), (*batch, n, k) if transposed else (*batch, k, n)
        axis, scales = len(shape) - (2 if transposed else 1), [0.5 + 0.01 * i for i in range(n)]
        src = b.op("Dequantize", b.input((*batch, m, k), dtypes[0]), scales=[0.25], zps=[zps[0]], qtype="per_tensor")
        wei = (b.constant if constant else b.input)(shape, dtypes[1])
        wei = b.op("Dequantize", wei, scales=scales, zps=[zps[1]] * n, qtype="per_channel", axis=axis)
        b.op("MatMul", src, wei, transpose_b=transposed)
        data = [
            rng.integers(*t.dtype.range, t.known_shape, endpoint=True).astype(t.dtype.numpy) for t in b.graph().inputs
        ]  # of the whole range: sums would saturate where a machine's products of bytes do
        a, w = ((x.astype(np.float64) - zp) for x, zp in zip(data, zps, strict=True))
        w = (w.swapaxes(-1, -2) if transposed else w) * np.array(scales, np.float32).astype(np.float64)
        for multiplied in (DType.u8, DType.s16):
            dst = np.full((*batch, m, n), np.nan, np.float32)
            compile_partition(partition_of(b.graph()), target(multiplied)).bind(data, [dst])()
            assert close(dst, 0.25 * a @ w, 1e-6), (m, k, n, multiplied)


@pytest.mark.parametrize("way", WAYS, ids=str)
def test_bf16_products_feed_each_other(way: tuple[bool, bool, tuple[int, ...]]) -> None:
    """What the first makes goes into the second in bf16; weights that are not constant are packed in pairs."""
    check_two_products(way)


def test_padding_is_never_multiplied() -> None:
    """NaN in src's next row and in weights beyond k would show in every sum."""
    check_padding_is_unused()
