"""Taps of a convolution that meet only padding are not multiplied: those of whole rows of results, and those of the first and last of short
rows."""

from __future__ import annotations

from dataclasses import replace
from math import prod

import numpy as np
import pytest

from benchgraph.core.attrs import Attrs
from benchgraph.core.dtypes import DType
from benchgraph.core.isa import ISAS
from benchgraph.core.tensor import Shape, TensorType
from benchgraph.graph.build import GraphBuilder
from benchgraph.graph.ir import Graph
from benchgraph.lower.taps import MOST_BRANCHES
from benchgraph.ops import spec, with_defaults
from benchgraph.ops.spec import Call
from benchgraph.tir.ir import Brgemm, If
from benchgraph.tir.visit import walk
from tests.lower.products import multiplications
from tests.ops.compiled import compiled
from tests.support.reference_check import matches_reference
from tests.support.targets import TARGET
from tests.support.tensor_ir import lowered

OUT = 64  # channels
TERMS = 128  # of a tap


def attributes(rank: int, pads: Shape, strides: Shape, dilations: Shape) -> dict[str, object]:
    assert len(pads) == rank
    return {"strides": strides, "dilations": dilations, "pads_begin": pads, "pads_end": pads, "data_format": "NXC", "weights_format": "XIO"}


def convolution(
    spatial: Shape, kernel: Shape, pads: Shape, channels: int = 16, strides: Shape | None = None, dilations: Shape | None = None
) -> Graph:
    b, ones = GraphBuilder(), (1,) * len(spatial)
    src, wei = b.input((2, *spatial, channels)), b.constant((*kernel, channels, OUT))
    b.op("Convolution", src, wei, **attributes(len(spatial), pads, strides or ones, dilations or ones))
    return b.graph()


def met(size: int, kernel: int, pad: int, stride: int = 1, dilation: int = 1) -> int:
    """The pairs of a window and a tap along one dim that read an element; a window without any counts as one."""
    windows = range(-pad, size + pad - (kernel - 1) * dilation, stride)
    return sum(max(sum(0 <= first + t * dilation < size for t in range(kernel)), 1) for first in windows)


def count(size: int, kernel: int, pad: int, stride: int = 1, dilation: int = 1) -> int:
    return (size + 2 * pad - (kernel - 1) * dilation - 1) // stride + 1


def of(graph: Graph) -> int:
    assert matches_reference(graph)
    return multiplications(lowered(graph).main.body)


@pytest.mark.parametrize(
    ("kernel", "pad", "stride", "dilation"),
    [(3, 1, 1, 1), (5, 2, 1, 1), (7, 3, 2, 1), (3, 2, 1, 2), (2, 1, 2, 1), (1, 1, 1, 1), (3, 4, 1, 1), (3, 0, 1, 1)],
    ids=["one row", "two", "under a stride", "dilated", "even", "results of padding alone", "more padding than kernel", "no padding"],
)
def test_rows_of_results_skip_taps_of_padding(kernel: int, pad: int, stride: int, dilation: int) -> None:
    graph = convolution((9, 20), (kernel, 3), (pad, 0), strides=(stride, 1), dilations=(dilation, 1))
    assert of(graph) == 2 * met(9, kernel, pad, stride, dilation) * 18 * 3 * 16 * OUT


@pytest.mark.parametrize(("pad", "stride", "dilation"), [(0, 1, 1), (1, 1, 1), (2, 2, 1), (2, 1, 2), (4, 1, 1)])
def test_flops_count_no_padding(pad: int, stride: int, dilation: int) -> None:
    """As benchdnn counts, so skipped taps do not yield more than the peak."""
    src, wei = TensorType(DType.f32, (2, 9, 8, 16)), TensorType(DType.f32, (3, 5, 16, OUT))
    attrs = with_defaults("Convolution", Attrs(**attributes(2, (pad, 1), (stride, 1), (dilation, 1))))
    (shape,) = spec("Convolution").semantics.infer(attrs, (src, wei))
    call = Call("Convolution", attrs, (src, wei), (TensorType(DType.f32, shape),))
    of_padding = sum(max(-(first + 2 * dilation), 0) > 0 or first > 8 for first in range(-pad, 9 + pad - 2 * dilation, stride))
    pairs = met(9, 3, pad, stride, dilation) - of_padding  # a row of results of padding alone is a sum for all that
    assert spec("Convolution").semantics.flops(call) == 2 * 2 * pairs * met(8, 5, 1) * 16 * OUT


@pytest.mark.parametrize(("columns", "terms", "skips"), [(7, TERMS, True), (14, TERMS, True), (7, 8, False), (40, TERMS, False)])
def test_ends_of_short_rows_skip_taps_where_sums_are_long(columns: int, terms: int, skips: bool) -> None:
    along = met(columns, 3, 1) if skips else columns * 3
    assert of(convolution((9, columns), (3, 3), (0, 1), terms)) == 2 * 7 * 3 * along * terms * OUT


def test_rows_and_columns_skip_taps() -> None:
    assert of(convolution((7, 7), (3, 3), (1, 1), TERMS)) == 2 * met(7, 3, 1) ** 2 * TERMS * OUT


def test_three_dims_skip_taps_of_the_outermost() -> None:
    assert of(convolution((4, 5, 20), (3, 3, 3), (1, 1, 1))) == 2 * met(4, 3, 1) * 5 * 3 * 20 * 3 * 16 * OUT


def test_too_many_branches_multiply_all_taps() -> None:
    pad = MOST_BRANCHES // 2 + 1
    graph = convolution((20, 20), (2 * pad + 1, 1), (pad, 0))
    assert of(graph) == 2 * 20 * (2 * pad + 1) * 20 * 16 * OUT
    assert not any(isinstance(s, If) and any(isinstance(c, Brgemm) for c in walk(s)) for s in walk(lowered(graph).main.body))


def test_padding_other_than_zero_is_multiplied() -> None:
    """Zero points of u8 are padding, too, but not zero."""
    b = GraphBuilder()
    src = b.op("Dequantize", b.input((2, 7, 7, 16), DType.u8), qtype="per_tensor", scales=[0.5], zps=[3])
    wei = b.op("Dequantize", b.constant((3, 3, 16, OUT), DType.s8), qtype="per_tensor", scales=[0.5], zps=[0])
    b.op("Convolution", src, wei, **attributes(2, (1, 1), (1, 1), (1, 1)))
    assert matches_reference(b.graph())


@pytest.mark.parametrize(("kernel", "stride", "pads"), [(5, 2, (2, 2)), (5, 2, (3, 0)), (5, 3, (0, 2)), (3, 2, (1, 1)), (6, 2, (1, 2))])
def test_columns_with_few_taps_are_summed_once(kernel: int, stride: int, pads: Shape) -> None:
    """Some phases of a transposed convolution have only taps that not all rows need."""
    b = GraphBuilder()
    src, wei = b.input((1, 3, 6, TERMS)), b.constant((1, kernel, 64, TERMS))
    given = attributes(2, (0, 0), (1, stride), (1, 1)) | {"pads_begin": (0, pads[0]), "pads_end": (0, pads[1]), "weights_format": "XOI"}
    b.op("ConvTranspose", src, wei, **given)
    assert matches_reference(b.graph())


@pytest.mark.parametrize("data_format", ["NXC", "NCX"])
@pytest.mark.parametrize(
    ("spatial", "kernel", "pads"), [((7, 7), (3, 3), (1, 1)), ((5, 14), (5, 3), (2, 1)), ((3, 4, 6), (3, 3, 3), (1, 1, 1))]
)
def test_sums_of_integers_are_exact(data_format: str, spatial: Shape, kernel: Shape, pads: Shape) -> None:
    rng = np.random.default_rng(7)
    rank = len(spatial)
    attrs = Attrs(**attributes(rank, pads, (1,) * rank, (1,) * rank) | {"data_format": data_format})
    shape = (2, *spatial, TERMS) if data_format == "NXC" else (2, TERMS, *spatial)
    src, wei = rng.integers(-3, 4, shape), rng.integers(-3, 4, (*kernel, TERMS, OUT))
    dst = compiled("Convolution", attrs, src, wei)
    types = tuple(TensorType(DType.f32, a.shape) for a in (src, wei))
    call = Call("Convolution", with_defaults("Convolution", attrs), types, (TensorType(DType.f32, dst.shape),))
    (want,) = spec("Convolution").semantics.reference(call, (src, wei))
    assert np.array_equal(dst, want)
    assert prod(dst.shape) > 0


@pytest.mark.parametrize(("channels", "skips"), [(16, False), (64, True)])
def test_products_that_wait_for_sums_multiply_all_taps_of_short_rows(channels: int, skips: bool) -> None:
    """Of 16 columns a step of k has as many sums as instructions under way, so fewer rows take as long."""
    b = GraphBuilder()
    src, wei = b.input((2, 7, 7, TERMS), DType.bf16), b.constant((3, 3, TERMS, channels), DType.bf16)
    b.op("Convolution", src, wei, **attributes(2, (1, 1), (1, 1), (1, 1)))
    target = replace(TARGET, isa=ISAS["avx512_core_bf16"])
    along = met(7, 3, 1) if skips else 7 * 3
    assert multiplications(lowered(b.graph(), target).main.body) == 2 * met(7, 3, 1) * along * TERMS * channels
