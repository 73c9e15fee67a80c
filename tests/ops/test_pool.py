"""Pooling as compiled, on data whose result is known without a reference; and illegal graphs."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from benchgraph.core.attrs import Attrs
from benchgraph.core.dtypes import DType
from benchgraph.core.errors import BenchgraphError, InvalidGraphOp, InvalidShape, Unimplemented
from benchgraph.core.tensor import Shape, TensorType
from benchgraph.ops import check_op, spec, with_defaults
from benchgraph.ops.laws import Reals
from benchgraph.ops.spec import Sample
from tests.ops.compiled import compiled

F32 = DType.f32
AVG = [pytest.param(s, id=s.why) for s in spec("AvgPool").testing.samples if s.dtypes[0] is F32 and 0 not in s.shapes[0]]
MAX = [pytest.param(s, id=s.why) for s in spec("MaxPool").testing.samples if s.dtypes[0] is F32 and 0 not in s.shapes[0]]


def counts(sample: Sample) -> Reals:
    """The number of elements of src in each window, counted one by one along each spatial dim."""
    attrs, (shape,) = with_defaults("AvgPool", sample.attrs), sample.shapes
    spatial = shape[2:] if attrs.string("data_format") == "NCX" else shape[1:-1]
    (dst,) = spec("AvgPool").semantics.infer(attrs, (TensorType(F32, shape),))
    outs = dst[2:] if attrs.string("data_format") == "NCX" else dst[1:-1]
    begin = attrs.integers("pads_begin") or (0,) * len(spatial)
    sides = []
    for size, count, k, s, p in zip(spatial, outs, attrs.integers("kernel"), attrs.integers("strides"), begin, strict=True):
        sides.append([sum(0 <= o * s + t - p < size for t in range(k)) for o in range(count)])
    total = np.array([np.prod(point) for point in product(*sides)]).reshape(outs)
    return np.broadcast_to(total if attrs.string("data_format") == "NCX" else total[..., None], dst).astype(np.float64)


def given_pads(samples: list) -> list:
    return [p for p in samples if "auto_pad" not in p.values[0].attrs]


@pytest.mark.parametrize("sample", given_pads(AVG))
def test_the_average_of_ones(sample: Sample) -> None:
    """1 with exclude_pad if there is an element; else the share of the kernel that is on src."""
    inside = counts(sample)
    dst = compiled("AvgPool", sample.attrs, np.ones(sample.shapes[0]))
    want = inside > 0 if sample.attrs.flag("exclude_pad") else inside / np.prod(sample.attrs.integers("kernel"))
    np.testing.assert_allclose(dst, want, rtol=1e-6)


@pytest.mark.parametrize("sample", MAX)
def test_the_largest_of_a_constant_is_the_constant(sample: Sample) -> None:
    dst = compiled("MaxPool", sample.attrs, np.full(sample.shapes[0], -3.0))
    assert set(np.unique(dst)) <= {-3.0, -np.inf}
    assert np.isfinite(dst).any()


@pytest.mark.parametrize("sample", MAX[::3])
def test_max_pooling_commutes_with_increasing_functions(sample: Sample) -> None:
    """It picks elements, so it commutes with increasing functions; 2x + 1 is exact on multiples of 1/64."""
    src = np.rint(np.random.default_rng(5).uniform(-64, 64, sample.shapes[0])) / 64
    assert np.array_equal(compiled("MaxPool", sample.attrs, 2 * src + 1), 2 * compiled("MaxPool", sample.attrs, src) + 1)


@pytest.mark.parametrize("sample", AVG[::3])
def test_average_pooling_is_linear(sample: Sample) -> None:
    a, b = np.random.default_rng(6).uniform(-1, 1, (2, *sample.shapes[0]))
    together = compiled("AvgPool", sample.attrs, 3 * a + b)
    apart = 3 * compiled("AvgPool", sample.attrs, a) + compiled("AvgPool", sample.attrs, b)
    np.testing.assert_allclose(together, apart, atol=4e-6)


@pytest.mark.parametrize("kind", ["AvgPool", "MaxPool"])
def test_both_data_formats_give_the_same_numbers(kind: str) -> None:
    src = np.random.default_rng(7).uniform(-2, 2, (2, 5, 9, 20))
    attrs = Attrs(kernel=(3, 2), strides=(2, 1), pads_begin=(1, 1), pads_end=(1, 0))
    attrs = attrs.updated(exclude_pad=True) if kind == "AvgPool" else attrs
    first = compiled(kind, attrs.updated(data_format="NCX"), src)
    last = compiled(kind, attrs.updated(data_format="NXC"), np.moveaxis(src, 1, -1))
    assert np.array_equal(np.moveaxis(last, -1, 1), first)


# ---- gradients -------------------------------------------------------------------------------------------------------


def of_kind(kind: str) -> list:
    return [pytest.param(s, id=s.why) for s in spec(kind).testing.samples if set(s.dtypes) == {F32}]


@pytest.mark.parametrize("sample", of_kind("AvgPoolBackward"))
def test_the_gradient_of_the_average_is_its_adjoint(sample: Sample) -> None:
    """<AvgPool(x), g> = <x, AvgPoolBackward(g)>, both compiled."""
    forward = sample.attrs.without("src_shape")
    rng = np.random.default_rng(8)
    x, g = rng.uniform(-1, 1, sample.attrs.integers("src_shape")), rng.uniform(-1, 1, sample.shapes[0])
    there, back = compiled("AvgPool", forward, x) * g, x * compiled("AvgPoolBackward", sample.attrs, g)
    assert abs(there.sum() - back.sum()) <= 1e-5 * (np.abs(there).sum() + 1)


@pytest.mark.parametrize("sample", of_kind("MaxPoolBackward"))
def test_the_gradient_of_max_pooling_is_at_the_element_the_forward_op_picks(sample: Sample) -> None:
    """The sum of x * gradient over x is that of dst * diff_dst, both compiled: max(x) is homogeneous in x."""
    rng = np.random.default_rng(9)
    x, g = (rng.uniform(-1, 1, shape) for shape in sample.shapes)
    there, back = compiled("MaxPool", sample.attrs, x) * g, x * compiled("MaxPoolBackward", sample.attrs, x, g)
    assert abs(there.sum() - back.sum()) <= 1e-5 * (np.abs(there).sum() + 1)


@pytest.mark.parametrize("data_format", ["NCX", "NXC"])
def test_of_equal_elements_the_first_one_gets_the_gradient(data_format: str) -> None:
    """In row-major order, and on src: the begin of a window in the padding does not count."""
    attrs = Attrs(kernel=(2, 3), strides=(2, 3), pads_begin=(1, 1), pads_end=(0, 1), data_format=data_format)
    src, diff_dst = np.full((1, 1, 5, 7), 2.0), np.arange(1.0, 10).reshape(1, 1, 3, 3)
    want = np.zeros((5, 7))
    want[np.ix_((0, 1, 3), (0, 2, 5))] = diff_dst
    if data_format == "NXC":
        src, diff_dst = np.moveaxis(src, 1, -1), np.moveaxis(diff_dst, 1, -1)
    assert np.array_equal(compiled("MaxPoolBackward", attrs, src, diff_dst).reshape(5, 7), want)


def test_a_window_that_is_all_padding_has_no_gradient() -> None:
    attrs = Attrs(kernel=(2,), strides=(1,), pads_begin=(3,), pads_end=(0,))
    diff_src = compiled("MaxPoolBackward", attrs, np.array([[[1.0], [5.0]]]), np.array([[[7.0], [7.0], [1.0], [2.0]]]))
    assert diff_src.ravel().tolist() == [1.0, 2.0]
    average = attrs.updated(exclude_pad=True, src_shape=(1, 2, 1))
    assert compiled("AvgPoolBackward", average, np.array([[[7.0], [7.0], [1.0], [2.0]]])).ravel().tolist() == [2.0, 1.0]


def test_windows_rounded_up_have_gradients_too() -> None:
    """The backward ops have no rounding_type: diff_dst has the number of windows."""
    attrs = Attrs(kernel=(3,), strides=(2,), pads_begin=(0,), pads_end=(0,))
    src = np.arange(6.0).reshape(1, 6, 1)
    for count, want in ((2, [0, 0, 1, 0, 1, 0]), (3, [0, 0, 1, 0, 1, 1])):
        assert compiled("MaxPoolBackward", attrs, src, np.ones((1, count, 1))).ravel().tolist() == want


# ---- refusals --------------------------------------------------------------------------------------------------------

GIVEN = {"kernel": (2, 2), "strides": (1, 1), "pads_begin": (0, 0), "pads_end": (0, 0)}


@pytest.mark.parametrize(
    ("kind", "attrs", "message"),
    [
        ("MaxPool", {"pads_end": (0, -1)}, "attribute 'pads_end' is (0, -1); give it sizes of 0 or more"),
        ("AvgPool", {"pads_begin": (-1, 0)}, "attribute 'pads_begin' is (-1, 0); give it sizes of 0 or more"),
        ("MaxPool", {"dilations": (2,)}, "attribute 'dilations' is (2,) for kernel (2, 2); give it one number per dim of the kernel"),
        ("MaxPool", {"rounding_type": "Ceil"}, "attribute 'rounding_type' is 'Ceil'; choose floor or ceil"),
        ("AvgPool", {"auto_pad": "same_upper"}, "attribute 'auto_pad' is 'same_upper'; did you mean 'SAME_UPPER'?"),
        ("AvgPool", {"dilations": (1, 1)}, "unknown attribute 'dilations'; its attributes are "),
    ],
)
def test_add_op_refuses(kind: str, attrs: dict, message: str) -> None:
    given = {**GIVEN, **({"exclude_pad": True} if kind == "AvgPool" else {}), **attrs}
    with pytest.raises(InvalidGraphOp) as caught:
        check_op(kind, Attrs(given), ((F32, None),), (F32,))
    assert str(caught.value).startswith(message)


def test_a_gradient_of_another_shape_is_refused() -> None:
    src, diff_dst = TensorType(F32, (1, 6, 1)), TensorType(F32, (1, 4, 1))
    attrs = Attrs(kernel=(3,), strides=(2,), pads_begin=(0,), pads_end=(0,), exclude_pad=True, src_shape=(1, 6, 1))
    message = r"diff_dst \(1, 4, 1\) is not the shape that pooling a src of \(1, 6, 1\) gives; give it \(1, 2, 1\) or \(1, 3, 1\)"
    with pytest.raises(InvalidShape, match=message):
        spec("MaxPoolBackward").semantics.infer(
            with_defaults("MaxPoolBackward", attrs.without("exclude_pad", "src_shape")), (src, diff_dst)
        )
    with pytest.raises(InvalidShape, match=message):
        spec("AvgPoolBackward").semantics.infer(with_defaults("AvgPoolBackward", attrs), (diff_dst,))


def test_the_shape_of_src_is_an_attribute() -> None:
    """oneDNN's statuses: a tensor with the shape is not looked at, and without the attribute there is none."""
    attrs = with_defaults("AvgPoolBackward", Attrs(GIVEN, exclude_pad=True))
    diff_dst, shape = TensorType(F32, (1, 4, 4, 1)), TensorType(DType.s32, (4,))
    with pytest.raises(Unimplemented, match=r"src_shape is a tensor, .*; set the attribute 'src_shape'"):
        spec("AvgPoolBackward").semantics.infer(attrs, (diff_dst, shape))
    with pytest.raises(InvalidShape, match="attribute 'src_shape' is missing; give it the dims of the forward op's src"):
        spec("AvgPoolBackward").semantics.infer(attrs, (diff_dst,))
    given = attrs.updated(src_shape=(1, 5, 5, 1))
    assert (
        spec("AvgPoolBackward").semantics.infer(given, (diff_dst, shape))
        == spec("AvgPoolBackward").semantics.infer(given, (diff_dst,))
        == ((1, 5, 5, 1),)
    )


@pytest.mark.parametrize(
    ("shape", "attrs", "message"),
    [
        ((2, 3), {}, "shape (2, 3) has rank 2; give it a batch, a channel and at least one spatial dim"),
        ((2, 9, 3), {}, "attribute 'strides' is (1, 1), for a source with 1 spatial dim; give it one number per spatial dim"),
        ((2, 9, 9, 3), {"kernel": (3,)}, "kernel is (3,), for a source with 2 spatial dims; give it one number per spatial dim"),
        ((2, 9, 9, 3), {"kernel": (0, 2)}, "kernel is (0, 2); give it sizes of 1 or more"),
        ((2, 9, 4, 3), {"kernel": (2, 5)}, "a window spans 5 along spatial dim 1, where src with its pads has 4; make the kernel or its"),
    ],
)
def test_shapes_that_do_not_fit_are_refused(shape: Shape, attrs: dict, message: str) -> None:
    with pytest.raises(BenchgraphError) as caught:
        spec("MaxPool").semantics.infer(with_defaults("MaxPool", Attrs({**GIVEN, **attrs})), (TensorType(F32, shape),))
    assert isinstance(caught.value, InvalidShape)
    assert str(caught.value).startswith(message)
