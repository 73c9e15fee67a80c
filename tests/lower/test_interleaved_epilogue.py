"""Interleaved phases of a transposed convolution: rows of dst are stored contiguously."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from benchgraph.core.dtypes import DType
from benchgraph.core.tensor import LogicalTensor, Shape
from benchgraph.graph.build import GraphBuilder
from benchgraph.tir.ir import Brgemm, For, Func, Ramp, Store
from benchgraph.tir.text import print_tir
from benchgraph.tir.visit import walk
from tests.support.reference_check import matches_reference
from tests.support.tensor_ir import lowered, tir

KERNEL = 3


def attributes(rank: int = 2, stride: int = 2, **attrs: object) -> dict[str, object]:
    """The end is padded so that dst has `stride` times as many rows and columns as src."""
    pads = {"pads_begin": (0,) * rank, "pads_end": (KERNEL - stride,) * rank}
    return {"strides": (stride,) * rank, "dilations": (1,) * rank, **pads, "data_format": "NCX", "weights_format": "IOX", **attrs}


def transposed(
    b: GraphBuilder, images: Shape = (2, 20, 5, 12), channels: int = 64, stride: int = 2, dtype: DType = DType.f32, groups: int = 1
) -> LogicalTensor:
    rank = len(images) - 2
    weights = b.constant((images[1], channels // groups, *(KERNEL,) * rank), dtype)
    return b.op("ConvTranspose", b.input(images, dtype), weights, **attributes(rank, stride, groups=groups))


def alone(b: GraphBuilder) -> None:
    transposed(b)


def one_dim(b: GraphBuilder) -> None:
    """Three phases that are the outermost digit of a column's number."""
    transposed(b, (2, 20, 40), stride=3)


def three_dims(b: GraphBuilder) -> None:
    transposed(b, (1, 8, 3, 4, 12), channels=16)


def groups(b: GraphBuilder) -> None:
    transposed(b, channels=128, groups=2)


def long_rows(b: GraphBuilder) -> None:
    """Tasks of two heights."""
    transposed(b, (1, 20, 2, 141))


def phases_narrower_than_a_panel(b: GraphBuilder) -> None:
    transposed(b, channels=16)


def post_ops(b: GraphBuilder) -> None:
    """One number per channel, and an operand with the result's strides."""
    x = b.op("BiasAdd", transposed(b), b.constant((64,)), data_format="NCX")
    b.op("Add", b.op("ReLU", x), b.input((2, 64, 10, 24)))


def narrow(b: GraphBuilder) -> None:
    transposed(b, dtype=DType.bf16)


def bytes(b: GraphBuilder) -> None:
    """The sums are integers, and u8 is stored."""
    src = b.op("Dequantize", b.input((2, 20, 5, 12), DType.u8), qtype="per_tensor", scales=[0.02], zps=[3])
    wei = b.op("Dequantize", b.constant((20, 64, 3, 3), DType.s8), qtype="per_tensor", scales=[0.01], zps=[0])
    b.op("Quantize", b.op("ConvTranspose", src, wei, **attributes()), dtype=DType.u8, qtype="per_tensor", scales=[0.05], zps=[0])


GRAPHS: dict[str, Callable[[GraphBuilder], None]] = {
    f.__name__: f for f in (alone, one_dim, three_dims, groups, long_rows, phases_narrower_than_a_panel, post_ops, narrow, bytes)
}


def stores_of_result(f: Func) -> list[Store]:
    params = {t.name for t in f.params}
    return [s for s in walk(f.body) if isinstance(s, Store) and s.tensor.name in params]


@pytest.mark.parametrize("name", GRAPHS)
def test_results_are_right(name: str) -> None:
    assert matches_reference(GRAPHS[name])


@pytest.mark.parametrize("name", GRAPHS)
def test_rows_are_stored_contiguously(name: str) -> None:
    stores = stores_of_result(tir(GRAPHS[name]))
    assert stores
    assert {s.index[0].stride if isinstance(s.index[0], Ramp) else 0 for s in stores} == {1}


def test_one_block_of_each_phase_at_a_time(golden) -> None:
    golden(print_tir(lowered(alone).main))


def test_each_phase_has_only_its_own_taps() -> None:
    """Four phases have 1, 2, 2 and 4 of 3x3 taps."""
    body = tir(alone).body
    assert {s.batch for s in walk(body) if isinstance(s, Brgemm)} == {(1, 1), (1, 2), (2, 1), (2, 2)}


def phases_that_fill_no_panels(b: GraphBuilder) -> None:
    transposed(b, channels=40)


def channels_last(b: GraphBuilder) -> None:
    b.op("ConvTranspose", b.input((2, 5, 12, 20)), b.constant((20, 64, 3, 3)), **attributes(data_format="NXC"))


def cut_off(b: GraphBuilder) -> None:
    """The last phase of the last window is outside of dst, so all phases are computed before dst is written."""
    b.op("ConvTranspose", b.input((2, 20, 5, 12)), b.constant((20, 64, 3, 3)), **attributes(pads_end=(0, 0)))


@pytest.mark.parametrize("make", [phases_that_fill_no_panels, channels_last, cut_off])
def test_other_products_are_not_interleaved(make: Callable[[GraphBuilder], None]) -> None:
    assert not any(isinstance(s, For) and s.var.name.startswith("po") for s in walk(lowered(make).main.body))
    assert matches_reference(make)
