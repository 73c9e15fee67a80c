"""MatMul beyond its samples: identities, costs, and what counts as canonical."""

from __future__ import annotations

import numpy as np
import pytest

from benchgraph.core.attrs import Attrs
from benchgraph.core.dtypes import DType
from benchgraph.ops import call_of, spec
from benchgraph.ops.spec import Call, Sample
from tests.ops.evaluate_decomposition import evaluate

ROW = spec("MatMul")


def call(*shapes: tuple[int, ...], dtypes: tuple[DType, ...] = (), **attrs: object) -> Call:
    return call_of("MatMul", Sample(shapes, Attrs(attrs), dtypes, (DType.f32,)))


def test_the_identity_matrix_changes_nothing() -> None:
    x = np.arange(12.0).reshape(3, 4)
    assert np.array_equal(ROW.semantics.reference(call((3, 4), (4, 4)), (x, np.eye(4)))[0], x)
    assert np.array_equal(ROW.semantics.reference(call((3, 4), (3, 3), transpose_a=True), (x, np.eye(3)))[0], x.T)
    assert np.array_equal(ROW.semantics.reference(call((3, 3), (4, 3), transpose_b=True), (np.eye(3), x.T))[0], x)


def test_flops_are_two_per_product_and_one_per_bias() -> None:
    assert ROW.semantics.flops(call((2, 3, 5), (5, 7))) == 2 * 2 * 3 * 5 * 7
    assert ROW.semantics.flops(call((3, 5), (5, 7), (7,))) == 2 * 3 * 5 * 7 + 3 * 7
    assert ROW.semantics.flops(call((5, 3), (5, 7), transpose_a=True)) == 2 * 3 * 5 * 7


@pytest.mark.parametrize(
    ("is_canonical", "made"),
    [
        (True, call((3, 5), (5, 7))),
        (True, call((2, 1, 3, 5), (1, 4, 5, 7), accumulation_mode="any")),
        (False, call((3, 5), (5, 7), (7,))),
        (False, call((5, 3), (5, 7), transpose_a=True)),
        (False, call((2, 3, 5), (5, 7))),
        (False, call((5,), (5,))),
        (False, call((3, 5), (5, 7), dtypes=(DType.bf16, DType.bf16))),
    ],
)
def test_canonical_is_two_plain_f32_operands_of_one_rank(is_canonical: bool, made: Call) -> None:
    assert ROW.lowering.is_canonical is not None
    assert ROW.lowering.is_canonical(made) is is_canonical


def kinds(made: Call) -> list[str]:
    return evaluate(made, tuple(np.ones(t.shape) for t in made.ins))[2]


def test_the_decomposition_adds_only_what_is_needed() -> None:
    assert kinds(call((3, 5), (7, 5), transpose_b=True)) == ["StaticTranspose", "MatMul"]
    assert kinds(call((2, 3, 5), (5, 7))) == ["StaticReshape", "MatMul"]
    assert kinds(call((3, 5), (5, 7), (7,))) == ["MatMul", "Add"]
    assert kinds(call((5,), (5, 7))) == ["StaticReshape", "MatMul", "StaticReshape"]


def test_data_keeps_its_variance() -> None:
    made = call((64, 300), (300, 64))
    rng = np.random.default_rng(0)
    dst = ROW.semantics.reference(made, tuple(ROW.testing.domain(made, port, rng) for port in (0, 1)))[0]
    assert 0.8 < dst.std() / np.sqrt(1 / 3) < 1.25


def test_the_threshold_covers_an_f32_product_and_not_a_bf16_one() -> None:
    made = call((64, 1000), (1000, 64))
    rng = np.random.default_rng(0)
    src, wei = (ROW.testing.domain(made, port, rng) for port in (0, 1))
    want = ROW.semantics.reference(made, (src, wei))[0]
    allowed = ROW.semantics.threshold(made) * DType.f32.eps * np.maximum(np.abs(want), np.sqrt(np.mean(want**2)))
    running = np.zeros((64, 64), np.float32)
    for k in range(1000):
        running += np.outer(src[:, k], wei[k]).astype(np.float32)
    assert np.all(np.abs(running - want) <= allowed)
    coarse = src.astype(DType.bf16.numpy).astype(np.float64) @ wei
    assert not np.all(np.abs(coarse - want) <= allowed)
