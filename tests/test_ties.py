"""Quotients that are ties, or next to one, become the 8-bit numbers that the reference says: every one of them, as there is no noise."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from benchgraph.compile import compile_partition
from benchgraph.core.dtypes import DType
from benchgraph.core.tensor import LogicalTensor
from benchgraph.graph.build import GraphBuilder
from benchgraph.ops.spec import Array
from benchgraph.partition.ir import Policy
from benchgraph.partition.partitioner import partitions
from benchgraph.reference.evaluate import evaluate

u8, s8, e5m2, e4m3 = DType.u8, DType.s8, DType.f8_e5m2, DType.f8_e4m3
Build = Callable[[GraphBuilder], LogicalTensor]


def all_of(dtype: DType) -> Array:
    """Every finite number of a type, in rows."""
    codes = np.arange(256, dtype=np.uint8).view(dtype.numpy)
    finite = codes[np.isfinite(codes.astype(np.float64))]
    return finite[: len(finite) // 8 * 8].reshape(8, -1)


def agrees(build: Build, *ins: Array) -> bool:
    """Whether compiled code says bit by bit what the reference does. NaN is one number."""
    b = GraphBuilder()
    dst = build(b)
    graph = b.graph()
    want = evaluate(graph, {t.id: a for t, a in zip(graph.inputs, ins, strict=True)})[dst.id]
    (partition,) = (p for p in partitions(graph, Policy.fused) if p.is_supported)
    got = np.zeros(want.shape, dst.dtype.numpy)
    compile_partition(partition).bind([np.ascontiguousarray(a) for a in ins], [got])()
    return np.array_equal(got.astype(np.float64), want.astype(np.float64), equal_nan=dst.dtype.is_float)


def scaled(b: GraphBuilder, kind: str, x: LogicalTensor, dtype: DType, *scales: float, axis: int = 1) -> LogicalTensor:
    return b.op(kind, x, dtype=dtype, scales=list(scales), qtype="per_channel" if len(scales) > 1 else "per_tensor", axis=axis)


SCALES = (0.05, 0.3, 0.07, 0.11, 0.013, 0.023, 0.19, 0.083)


@pytest.mark.parametrize("dtype", [u8, s8, e5m2, e4m3])
@pytest.mark.parametrize("relu", [False, True])
def test_a_requantisation_by_twice_the_scale_keeps_its_ties(dtype: DType, relu: bool) -> None:
    """Every odd number is half way between two integers then; in f8 those are the subnormal ones."""
    src = all_of(dtype)

    def build(b: GraphBuilder, scale: float) -> LogicalTensor:
        x = scaled(b, "Dequantize", b.input(src.shape, dtype), DType.f32, scale)
        return scaled(b, "Quantize", b.op("ReLU", x) if relu else x, dtype, 2 * float(np.float32(scale)))

    assert [s for s in SCALES if not agrees(lambda b, s=s: build(b, s), src)] == []


@pytest.mark.parametrize("dtype", [u8, s8])
def test_what_is_nearly_a_tie_of_integers_is_none(dtype: DType) -> None:
    """Scales of a ratio of 1.5 but for their roundings: all odd numbers are off a tie, to the same side."""
    src = all_of(dtype)

    def build(b: GraphBuilder, scale: float) -> LogicalTensor:
        return scaled(b, "Quantize", scaled(b, "Dequantize", b.input(src.shape, dtype), DType.f32, scale), dtype, scale / 1.5)

    assert [s for s in SCALES if not agrees(lambda b, s=s: build(b, s), src)] == []


@pytest.mark.covering(1)
@pytest.mark.parametrize("dtype", [e5m2, e4m3])
@pytest.mark.parametrize("source", [s8, e5m2, e4m3])
def test_exact_products_are_divided_on_the_way_to_f8(source: DType, dtype: DType) -> None:
    """72 / 0.3 is less than a tie, and 72 times 1 / 0.3, rounded to f32, is that tie."""
    src = all_of(source)

    def build(b: GraphBuilder, scale: float) -> LogicalTensor:
        return scaled(b, "Quantize", scaled(b, "Dequantize", b.input(src.shape, source), DType.f32, 1.0), dtype, scale)

    assert [s for s in (*SCALES, 0.6, 0.15) if not agrees(lambda b, s=s: build(b, s), src)] == []


def test_a_requantisation_per_channel_keeps_its_ties() -> None:
    src = all_of(s8).reshape(8, 8, 4).transpose(1, 0, 2)

    def build(b: GraphBuilder) -> LogicalTensor:
        x = scaled(b, "Dequantize", b.input(src.shape, s8), DType.f32, *SCALES)
        return scaled(b, "Quantize", x, s8, *(2 * float(np.float32(s)) for s in SCALES))

    assert agrees(build, src)


def test_a_product_of_integers_keeps_its_ties() -> None:
    """The sums are whole numbers, and a fourth of them is the result: one in four is a tie."""
    src, wei = all_of(u8)[:, :16] % 8, all_of(s8)[:, :16].T % 4

    def build(b: GraphBuilder, scale: float) -> LogicalTensor:
        x = scaled(b, "Dequantize", b.input(src.shape, u8), DType.f32, 0.25)
        y = scaled(b, "Dequantize", b.input(wei.shape, s8), DType.f32, scale)
        return scaled(b, "Quantize", b.op("MatMul", x, y), u8, scale)

    assert [s for s in SCALES if not agrees(lambda b, s=s: build(b, s), src, wei)] == []


@pytest.mark.parametrize("dtype", [u8, s8, e5m2, e4m3])
def test_few_digits_by_a_scale_are_divided(dtype: DType) -> None:
    """Whole numbers times a scale of 8 bits known at execution only are exact, and so is where they lie beside a tie."""
    src = all_of(u8)

    def build(b: GraphBuilder, scale: float) -> LogicalTensor:
        x = b.op("DynamicDequantize", b.input(src.shape, u8), b.input((1,)), dtype=DType.f32, qtype="per_tensor")
        return scaled(b, "Quantize", x, dtype, scale)

    in_f8 = [(0.3, 0.75)] if dtype.is_float else []  # ties of f32 quotients are those of f8; of integers they may go either way
    for known, given in (*in_f8, (0.4765625, 0.23828125), (1.9921875, 0.99609375)):
        assert agrees(lambda b, known=known: build(b, known), src, np.array([given], np.float32)), known
