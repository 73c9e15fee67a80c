"""Interpolation as compiled, on data whose result is known without a reference; and illegal graphs."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

import numpy as np
import pytest

from benchgraph.core.attrs import Attrs
from benchgraph.core.dtypes import DType
from benchgraph.core.errors import BenchgraphError, InvalidArguments, InvalidGraphOp, InvalidShape
from benchgraph.core.tensor import Shape, TensorType
from benchgraph.ops import check_op, spec, with_defaults
from benchgraph.ops.interpolation.dims import is_at_once
from benchgraph.ops.laws import Reals
from benchgraph.ops.spec import Call, Sample, Tap, Window
from benchgraph.tir.build import constant
from benchgraph.tir.index import Simplifier
from benchgraph.tir.ir import Const, Load, tensor
from tests.ops.compiled import compiled

F32 = DType.f32


def of_kind(kind: str) -> list:
    return [pytest.param(s, id=s.why) for s in spec(kind).testing.samples if set(s.dtypes) == {F32} and s.shapes[0][0]]


FORWARD, BACKWARD = of_kind("Interpolate"), of_kind("InterpolateBackward")


def grid(shape: Shape, attrs: Attrs) -> Reals:
    """Every element the sum of its spatial coordinates, each with another factor: an affine function."""
    rank = len(shape)
    axes = range(2, rank) if attrs.get("data_format") == "NCX" else range(1, rank - 1)
    where = np.indices(shape).astype(np.float64)
    return sum(((i + 2) * where[axis] for i, axis in enumerate(axes)), np.full(shape, 0.5))


@pytest.mark.parametrize("sample", [p for p in FORWARD if p.values[0].attrs["mode"] != "nearest"])
def test_an_affine_function_stays_affine_where_nothing_is_clamped(sample: Sample) -> None:
    """Along each spatial dim the second differences of dst are 0, but for outputs beyond the outermost elements of src."""
    attrs = with_defaults("Interpolate", sample.attrs)
    dst = compiled("Interpolate", sample.attrs, grid(sample.shapes[0], attrs))
    axes = range(2, dst.ndim) if attrs["data_format"] == "NCX" else range(1, dst.ndim - 1)
    for axis in axes:
        size, count = sample.shapes[0][axis], dst.shape[axis]
        x = (np.arange(count) + 0.5) * size / count - 0.5
        inside = np.ones(count, dtype=bool) if "align_corners" in attrs.values() else (x >= 0) & (x <= size - 1)
        second = np.diff(np.compress(inside, dst, axis), 2, axis)
        assert np.abs(second).max(initial=0.0) <= 1e-5 * np.abs(dst).max()


def elements(kind: str, shapes: tuple[Shape, ...], attrs: Attrs) -> Iterator[tuple[Tap, list[Tap]]]:
    """For each tap of each element of dst: the clamped tap, and those that are unclamped along one axis. Indices are numbers."""
    row, attrs = spec(kind), with_defaults(kind, attrs)
    window = row.lowering.form
    assert isinstance(window, Window)
    assert window.unclamped is not None
    types = tuple(TensorType(F32, shape) for shape in shapes)
    call = Call(kind, attrs, types, tuple(TensorType(F32, shape) for shape in row.semantics.infer(attrs, types)))
    src = tensor("src", F32, shapes[0])
    for at, tap in product(np.ndindex(*call.outs[0].shape), np.ndindex(*window.taps(call))):
        given = (call, tuple(map(Const, at)), tuple(map(Const, tap)), lambda port, index: Load(src, index))
        yield window.tap(*given), [window.unclamped(*given, axis) for axis in range(len(at))]


@pytest.mark.parametrize("coordinates", ["half_pixel", "align_corners"])
@pytest.mark.parametrize(("shape", "sizes"), [((1, 5, 1), (8,)), ((1, 7, 1), (5,)), ((1, 3, 5, 2), (5, 4)), ((1, 2, 2, 3, 1), (3, 4, 2))])
def test_unclamped_taps_equal_clamped_ones_under_their_conditions(shape: Shape, sizes: Shape, coordinates: str) -> None:
    """And clamped ones have no conditions: every one of them counts everywhere."""
    attrs = Attrs(mode="linear", sizes=sizes, coordinate_transformation_mode=coordinates)
    holds = []
    for tap, unclamped in elements("Interpolate", (shape,), attrs):
        assert not tap.conditions
        for free in unclamped:
            holds += [all(constant(Simplifier({})(c)) for c in free.conditions)] if free.conditions else []
            if not free.conditions or holds[-1]:
                assert Simplifier({})(free.value) == Simplifier({})(tap.value)
    assert any(holds)


@pytest.mark.parametrize("coordinates", ["half_pixel", "align_corners"])
def test_every_ratio_of_small_sizes(coordinates: str) -> None:
    """Rows of one element each, rows that are borders alone, and rows without any."""
    src, results = np.random.default_rng(8).uniform(-1, 1, (1, 2, 4)), {}
    for size, count in product(range(1, 5), range(1, 7)):
        attrs = Attrs(mode="linear", sizes=(count,), data_format="NCX", coordinate_transformation_mode=coordinates)
        row, kept = spec("Interpolate"), src[..., :size].astype(np.float32)
        types = (TensorType(F32, kept.shape),), (TensorType(F32, (1, 2, count)),)
        (want,) = row.semantics.reference(Call(row.kind, with_defaults(row.kind, attrs), *types), (kept,))
        results[f"{size} to {count}"] = (compiled(row.kind, attrs, kept), want)
    assert {name for name, (got, want) in results.items() if not np.allclose(got, want, rtol=1e-5, atol=1e-6)} == set()


@pytest.mark.parametrize(
    ("shape", "attrs", "dtype", "at_once"),
    [
        ((2, 3, 5, 9), {"sizes": (10, 18)}, F32, False),
        ((2, 3, 5, 9), {"sizes": (5, 18)}, F32, True),  # one dim alone
        ((2, 3, 5, 9), {"sizes": (10, 8)}, F32, True),  # one that does not grow
        ((2, 3, 5, 9), {"sizes": (10, 18), "mode": "nearest"}, F32, True),
        ((2, 5, 9, 3), {"sizes": (10, 18), "data_format": "NXC"}, F32, True),
        ((2, 5, 9, 3), {"sizes": (10, 18), "data_format": "NXC"}, DType.bf16, False),
        ((1, 1, 300, 300), {"sizes": (600, 600)}, F32, True),  # 720 KB between the two
        ((1, 1, 300, 300), {"sizes": (600, 600)}, DType.bf16, False),
        ((1, 1, 300, 300), {"sizes": (600, 601)}, F32, False),  # weights that do not repeat
        ((1, 1, 8, 16, 16), {"sizes": (16, 32, 32)}, F32, False),
    ],
)
def test_growing_dims_are_interpolated_one_by_one(shape: Shape, attrs: dict, dtype: DType, at_once: bool) -> None:
    full = with_defaults("Interpolate", Attrs(**{"mode": "linear", "data_format": "NCX"} | attrs))
    types = (TensorType(dtype, shape),)
    assert (
        is_at_once(Call("Interpolate", full, types, (TensorType(dtype, spec("Interpolate").semantics.infer(full, types)[0]),))) is at_once
    )


@pytest.mark.parametrize("sample", FORWARD)
def test_a_constant_stays_one(sample: Sample) -> None:
    dst = compiled("Interpolate", sample.attrs, np.full(sample.shapes[0], 1.5))
    np.testing.assert_allclose(dst, 1.5, rtol=4e-7)


@pytest.mark.parametrize("mode", ["nearest", "linear"])
@pytest.mark.parametrize("sizes", [(4, 3), (9, 5), (2, 2)])
def test_with_corners_aligned_the_corners_are_kept(mode: str, sizes: Shape) -> None:
    src = np.random.default_rng(3).uniform(-1, 1, (2, 5, 4, 6))
    attrs = Attrs(mode=mode, sizes=sizes, coordinate_transformation_mode="align_corners")
    dst = compiled("Interpolate", attrs, src)
    assert np.array_equal(dst[:, :: sizes[0] - 1, :: sizes[1] - 1], src.astype(np.float32)[:, ::4, ::3])


def test_twice_as_large_by_nearest_repeats_every_element() -> None:
    src = np.random.default_rng(4).uniform(-1, 1, (2, 3, 5, 7)).astype(np.float32)
    dst = compiled("Interpolate", Attrs(mode="nearest", scales=(2.0, 2.0), data_format="NCX"), src)
    assert np.array_equal(dst, src.repeat(2, 2).repeat(2, 3))


def test_halving_takes_means_of_pairs_and_nearest_the_larger_index() -> None:
    src = np.arange(8.0).reshape(1, 8, 1)
    assert compiled("Interpolate", Attrs(mode="linear", sizes=(4,)), src).ravel().tolist() == [0.5, 2.5, 4.5, 6.5]
    assert compiled("Interpolate", Attrs(mode="nearest", sizes=(4,)), src).ravel().tolist() == [1, 3, 5, 7]


@pytest.mark.parametrize("sample", BACKWARD)
def test_the_gradient_is_the_adjoint(sample: Sample) -> None:
    """<Interpolate(x), g> = <x, InterpolateBackward(g)>, both compiled."""
    rng = np.random.default_rng(5)
    x, g = (rng.uniform(-1, 1, shape) for shape in sample.shapes)
    there, back = compiled("Interpolate", sample.attrs, x) * g, x * compiled("InterpolateBackward", sample.attrs, x, g)
    assert abs(there.sum() - back.sum()) <= 1e-5 * (np.abs(there).sum() + 1)


@pytest.mark.parametrize("sample", BACKWARD)
def test_the_gradient_keeps_the_sum(sample: Sample) -> None:
    """Weights add up to 1, so that diff_src sums to diff_dst."""
    g = np.random.default_rng(6).uniform(0, 1, sample.shapes[1])
    diff_src = compiled("InterpolateBackward", sample.attrs, np.zeros(sample.shapes[0]), g)
    np.testing.assert_allclose(diff_src.sum(), g.sum(), rtol=1e-5)


def test_infinities_do_not_spread() -> None:
    """An output with no weight in an element has no part in its gradient, not even as a 0 times infinity."""
    g = np.array([np.inf, 1.0, 1.0, 1.0]).reshape(1, 4, 1)
    diff_src = compiled("InterpolateBackward", Attrs(mode="linear", sizes=(4,)), np.zeros((1, 8, 1)), g)
    assert np.isinf(diff_src.ravel()).tolist() == [True, True] + [False] * 6


# ---- refusals --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("attrs", "message"),
    [
        ({}, "neither of the attributes 'sizes' and 'scales' given; give one of them, with a number per spatial dim"),
        ({"sizes": (4,), "scales": (2.0,)}, "both of the attributes 'sizes' and 'scales' given; give one of them, with a number per"),
        ({"sizes": (4,), "mode": "cubic"}, "attribute 'mode' is 'cubic'; choose nearest or linear or bilinear or trilinear"),
    ],
)
@pytest.mark.parametrize("ins", [1, 2])
def test_add_op_refuses(attrs: dict, message: str, ins: int) -> None:
    """Sizes as a tensor do not replace the attribute."""
    declared = ((F32, None), (DType.s32, None))[:ins]
    with pytest.raises(InvalidGraphOp) as caught:
        check_op("Interpolate", Attrs({"mode": "linear", **attrs}), declared, (F32,))
    assert str(caught.value).startswith(message)


@pytest.mark.parametrize(
    ("shape", "attrs", "error", "message"),
    [
        ((2, 3), {"sizes": (4,)}, InvalidShape, "shape (2, 3) has rank 2; give it a batch"),
        ((2, 5, 3), {"sizes": (4, 4)}, InvalidArguments, "attribute 'sizes' is (4, 4), for a src with 1 spatial dims; give it one number"),
        ((2, 5, 3), {"scales": (0.1,)}, InvalidShape, "attribute 'scales' makes dst (0,) large; make every dim 1 or more"),
        ((2, 0, 3), {"sizes": (4,)}, InvalidShape, "shape (2, 0, 3) has no elements along a spatial dim; make its spatial dims 1 or more"),
    ],
)
def test_shapes_that_do_not_fit_are_refused(shape: Shape, attrs: dict, error: type[BenchgraphError], message: str) -> None:
    with pytest.raises(error) as caught:
        spec("Interpolate").semantics.infer(with_defaults("Interpolate", Attrs({"mode": "linear", **attrs})), (TensorType(F32, shape),))
    assert str(caught.value).startswith(message)


def test_a_gradient_of_another_batch_is_refused() -> None:
    attrs = with_defaults("InterpolateBackward", Attrs(mode="linear", sizes=(4,)))
    with pytest.raises(
        InvalidShape, match=r"diff_dst \(3, 4, 1\) does not belong to src \(2, 5, 1\); give it src's batch and channels: \(2, 4, 1\)"
    ):
        spec("InterpolateBackward").semantics.infer(attrs, (TensorType(F32, (2, 5, 1)), TensorType(F32, (3, 4, 1))))


def test_scales_round_down_in_f32() -> None:
    """As oneDNN does: 5 * 0.6 is 3.0000001 in f64 but 3 in f32, and 7 * (1 / 7) stays 1."""
    for size, scale, want in ((5, 0.6, 3), (7, 1 / 7, 1), (17, 1.235294, 20), (3, 1.66667, 5)):
        attrs = with_defaults("Interpolate", Attrs(mode="linear", scales=(scale,)))
        assert spec("Interpolate").semantics.infer(attrs, (TensorType(F32, (1, size, 1)),)) == ((1, want, 1),)
