"""Transposed convolutions as products: only what the result needs is multiplied."""

from __future__ import annotations

from math import prod

import numpy as np
import pytest

from benchgraph.core.attrs import Attrs
from benchgraph.core.dtypes import DType
from benchgraph.core.tensor import Shape, TensorType
from benchgraph.graph.build import GraphBuilder
from benchgraph.graph.ir import Graph
from benchgraph.ops import spec, with_defaults
from benchgraph.ops.spec import Call
from benchgraph.tir.ir import Brgemm
from benchgraph.tir.visit import walk
from tests.lower.products import multiplications, with_padding_multiplied
from tests.ops.compiled import compiled
from tests.support.tensor_ir import lowered

SPATIAL, OUT = (9, 7), 16  # of src, and the result's channels, of which one panel holds those of four phases


def deconvolution(kernel: Shape, strides: Shape, begin: Shape, end: Shape, out: int = OUT, dilations: Shape = (1, 1)) -> Graph:
    b = GraphBuilder()
    src, wei = b.input((1, *SPATIAL, 16)), b.input((*kernel, out, 16))
    b.op(
        "ConvTranspose",
        src,
        wei,
        strides=strides,
        pads_begin=begin,
        pads_end=end,
        dilations=dilations,
        data_format="NXC",
        weights_format="XOI",
    )
    return b.graph()


@pytest.mark.parametrize(
    ("begin", "end", "windows"),
    [((0, 0), (0, 0), (9, 7)), ((0, 0), (10, 8), (4, 3)), ((5, 0), (3, 9), (6, 3))],
    ids=["all", "cut behind", "cut on both sides"],
)
def test_windows_outside_the_result_are_not_multiplied(begin: Shape, end: Shape, windows: Shape) -> None:
    main = with_padding_multiplied(deconvolution((2, 2), (2, 2), begin, end))
    assert multiplications(main.body) == prod(windows) * 4 * OUT * 16


@pytest.mark.parametrize(
    ("kernel", "strides", "phases"),
    [((1, 1), (2, 3), 1), ((1, 2), (2, 2), 2), ((2, 1), (3, 2), 2), ((1, 3), (2, 2), 2)],
    ids=["one", "two of four", "two of six", "two, one of them half empty"],
)
def test_phases_without_taps_are_not_multiplied(kernel: Shape, strides: Shape, phases: int) -> None:
    main = with_padding_multiplied(deconvolution(kernel, strides, (0, 0), (0, 0)))
    assert {s.n for s in walk(main.body) if isinstance(s, Brgemm)} == {phases * OUT}


@pytest.mark.parametrize(
    ("kernel", "begin", "end", "windows", "taps"),
    [(3, 1, 0, (9, 7), 2), (4, 1, 1, (10, 8), 2), (5, 2, 1, (9, 7), 3), (5, 1, 2, (9, 7), 3)],
    ids=["an odd kernel", "an even one, where zeros ahead would cost a tap", "even padding", "more taps"],
)
def test_result_starts_at_the_first_phase_that_has_taps(kernel: int, begin: int, end: int, windows: Shape, taps: int) -> None:
    """Of a result twice as large as src, nothing outside of it is computed; narrow panels leave out more."""
    main = with_padding_multiplied(deconvolution((kernel, kernel), (2, 2), (begin, begin), (end, end)))
    assert multiplications(main.body) <= prod(windows) * taps * taps * 4 * OUT * 16


STRIDED = pytest.mark.parametrize(
    ("kernel", "strides", "begin"),
    [((3, 3), (2, 2), (1, 1)), ((3, 3), (2, 2), (0, 0)), ((5, 3), (2, 2), (2, 1)), ((4, 4), (2, 2), (0, 0)), ((4, 7), (3, 1), (0, 0))],
    ids=["a zero ahead of the kernel", "zeros behind it", "two sizes", "no zeros", "along one dim"],
)


@STRIDED
@pytest.mark.parametrize("out", [64, 128])
def test_only_kernel_taps_are_multiplied(kernel: Shape, strides: Shape, begin: Shape, out: int) -> None:
    """Where each phase has its own panels, every window is multiplied by as many matrices as the kernel has."""
    end = tuple(k - s - b for k, s, b in zip(kernel, strides, begin, strict=True))  # for strides times the windows of src
    main = with_padding_multiplied(deconvolution(kernel, strides, begin, end, out))
    windows = (
        prod(-(-(size * s + b) // s) for size, s, b in zip(SPATIAL, strides, begin, strict=True)) if begin == (0, 0) else prod(SPATIAL)
    )
    assert multiplications(main.body) == windows * prod(kernel) * out * 16


def test_dilation_leaves_phases_with_one_tap() -> None:
    """Phase 0 has taps 0, 2 and 4; phase 1 has none, and one is multiplied to write zeros."""
    main = with_padding_multiplied(deconvolution((3, 3), (2, 2), (0, 0), (0, 0), 64, dilations=(2, 2)))
    windows = prod(size + 2 for size in SPATIAL)
    assert multiplications(main.body) == windows * (9 + 3 + 3 + 1) * 64 * 16


@pytest.mark.covering(2)
@STRIDED
@pytest.mark.parametrize("dilations", [(1, 1), (2, 1), (3, 2)])
@pytest.mark.parametrize("out", [64, 20])
def test_skipped_taps_leave_results_right(out: int, kernel: Shape, strides: Shape, begin: Shape, dilations: Shape) -> None:
    """With integers, whose sums are exact; with panels for each phase, and with panels across phases."""
    rng = np.random.default_rng(7)
    attrs = Attrs(strides=strides, pads_begin=begin, pads_end=(0, 0), dilations=dilations, data_format="NXC", weights_format="XOI")
    src, wei = rng.integers(-3, 4, (1, 4, 3, 16)), rng.integers(-3, 4, (*kernel, out, 16))
    dst = compiled("ConvTranspose", attrs, src, wei)
    types = tuple(TensorType(DType.f32, a.shape) for a in (src, wei))
    call = Call("ConvTranspose", with_defaults("ConvTranspose", attrs), types, (TensorType(DType.f32, dst.shape),))
    (want,) = spec("ConvTranspose").semantics.reference(call, (src, wei))
    assert np.array_equal(dst, want)


def test_too_many_column_cases_multiply_all_taps() -> None:
    """25 phases, of two kinds along each dim, would need too many branches."""
    main = with_padding_multiplied(deconvolution((6, 6), (5, 5), (0, 0), (1, 1), 64))
    assert multiplications(main.body) == prod(SPATIAL) * 4 * 25 * 64 * 16


@pytest.mark.parametrize(("stride", "data_format", "is_product"), [(8, "NCX", True), (4, "NCX", False), (8, "NXC", False)])
def test_depthwise_with_many_phases_is_a_product_for_channels_first(stride: int, data_format: str, is_product: bool) -> None:
    channels, kernel, size = 3, 2 * stride, 4
    attrs = Attrs(
        strides=(stride,) * 2, pads_begin=(stride // 2,) * 2, pads_end=(stride // 2,) * 2, dilations=(1, 1), groups=channels,
        data_format=data_format, weights_format="IOX",
    )  # fmt: skip
    rng = np.random.default_rng(3)
    src = rng.uniform(-1, 1, (2, channels, size, size) if data_format == "NCX" else (2, size, size, channels)).astype(np.float32)
    wei = rng.uniform(-1, 1, (channels, 1, kernel, kernel)).astype(np.float32)
    b = GraphBuilder()
    b.op("ConvTranspose", b.input(src.shape), b.input(wei.shape), **attrs)
    assert any(isinstance(s, Brgemm) for s in walk(lowered(b.graph()).main.body)) == is_product
    types, row = tuple(TensorType(DType.f32, a.shape) for a in (src, wei)), spec("ConvTranspose")
    full = with_defaults(row.kind, attrs)
    (want,) = row.semantics.reference(
        Call(row.kind, full, types, (TensorType(DType.f32, row.semantics.infer(full, types)[0]),)), (src, wei)
    )
    np.testing.assert_allclose(compiled(row.kind, attrs, src, wei), want, rtol=1e-4, atol=1e-5)
