"""GenIndex in use: causal masks of attention."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from benchgraph.compile import compile_partition
from benchgraph.core.dtypes import DType
from benchgraph.graph.build import GraphBuilder
from benchgraph.partition.ir import Policy
from benchgraph.partition.partitioner import partitions

QUERIES, KEYS, HEAD = 37, 50, 16
F32 = NDArray[np.float32]


def attend(q: F32, k: F32, v: F32, shift: int) -> F32:
    """Query i sees keys 0 to i + shift; the others are masked with -inf."""
    b = GraphBuilder()
    inputs = [b.input(a.shape) for a in (q, k, v)]
    scores = b.op("MatMul", *inputs[:2], transpose_b=True)
    last = b.op("Add", b.op("GenIndex", scores, axis=-2), b.input((1,), DType.s32))
    seen = b.op("GreaterEqual", last, b.op("GenIndex", scores, axis=-1))
    p = b.op("SoftMax", b.op("Select", seen, scores, b.input((1,))), axis=-1, mode="inf_as_zero")
    b.op("MatMul", p, inputs[2])
    (partition,) = partitions(b.graph(), Policy.fused)
    dst = np.full(q.shape, np.nan, np.float32)
    compile_partition(partition).bind([q, k, np.array([shift], np.int32), np.array([-np.inf], np.float32), v], [dst])()
    return dst


@pytest.fixture
def qkv() -> tuple[F32, F32, F32]:
    rng = np.random.default_rng(3)
    shapes = ((2, QUERIES, HEAD), (2, KEYS, HEAD), (2, KEYS, HEAD))
    q, k, v = (rng.normal(size=s).astype(np.float32) for s in shapes)
    return q / 8, k, v  # scores of about 1, so that every key seen matters


def test_the_first_query_sees_the_first_key_only(qkv: tuple[F32, F32, F32]) -> None:
    q, k, v = qkv
    dst = attend(q, k, v, shift=0)
    np.testing.assert_allclose(dst[:, 0], v[:, 0], rtol=1e-6)
    assert np.abs(dst[:, 1] - v[:, 1]).max() > 1e-2


def test_a_query_knows_nothing_of_later_keys(qkv: tuple[F32, F32, F32]) -> None:
    q, k, v = qkv
    later_k, later_v = k.copy(), v.copy()
    later_k[:, 21:] += 1
    later_v[:, 21:] -= 3
    before, after = attend(q, k, v, shift=0), attend(q, later_k, later_v, shift=0)
    assert np.array_equal(before[:, :21], after[:, :21])
    assert (before[:, 21:] != after[:, 21:]).any(axis=-1).all()


def test_bottom_right_alignment_lets_the_last_query_see_every_key(qkv: tuple[F32, F32, F32]) -> None:
    q, k, v = qkv
    shifted = attend(q, k, v, shift=KEYS - QUERIES)
    everything = attend(q, k, v, shift=KEYS)
    np.testing.assert_allclose(shifted[:, -1], everything[:, -1], rtol=1e-6)
    assert np.abs(shifted[:, -2] - everything[:, -2]).max() > 1e-4


def test_queries_without_visible_keys_give_zeros(qkv: tuple[F32, F32, F32]) -> None:
    dst = attend(*qkv, shift=-5)
    assert (dst[:, :5] == 0).all()
    assert (dst[:, 5:] != 0).all()
