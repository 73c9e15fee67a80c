"""Broadcasting of slope to src, and illegal slopes; BiasAddBackward's ranks, of which oneDNN has fewer."""

from __future__ import annotations

import numpy as np
import pytest

from benchgraph.core.attrs import Attrs
from benchgraph.core.dtypes import DType
from benchgraph.core.errors import InvalidShape
from benchgraph.core.tensor import Shape, TensorType
from benchgraph.ops import call_of, spec, with_defaults
from benchgraph.ops.elementwise.prelu import aligned
from benchgraph.ops.spec import Sample

NCX, NXC = Attrs(data_format="NCX"), Attrs(data_format="NXC")
LAST = Attrs(data_format="NCX", per_channel_broadcast=False)


def infer(kind: str, *shapes: Shape, **attrs: object) -> tuple[Shape, ...]:
    return spec(kind).semantics.infer(with_defaults(kind, Attrs(attrs)), tuple(TensorType(DType.f32, s) for s in shapes))


@pytest.mark.parametrize(
    ("attrs", "src", "slope", "want"),
    [
        (NCX, (2, 5, 3, 7), (5,), (5, 1, 1)),
        (NXC, (2, 5, 3, 7), (7,), (7,)),
        (LAST, (2, 5, 3, 7), (7,), (7,)),
        (NCX, (2, 5), (5,), (5,)),
        (NCX, (2, 1, 3), (1,), (1,)),
        (NCX, (2, 5, 3), (5, 1), (5, 1)),
        (NCX, (3,), (3,), (3,)),
        (NCX, (), (), ()),
    ],
)
def test_the_shape_of_slope_that_broadcasts(attrs: Attrs, src: Shape, slope: Shape, want: Shape) -> None:
    assert aligned(attrs, src, slope) == want


@pytest.mark.parametrize(
    ("shapes", "attrs", "message"),
    [
        (
            ((2, 5, 3), (3,)),
            {"data_format": "NCX"},
            "slope (3,) does not fit src (2, 5, 3); give slope the shape (5,), the size of dim 1, or (1,)",
        ),
        (((2, 5, 3), (5,)), {}, "slope (5,) does not fit src (2, 5, 3); give slope the shape (3,), the size of dim 2, or (1,)"),
        (((), (3,)), {}, "slope (3,) does not fit src (); use rank 0"),
        (
            ((2, 5), (3, 5)),
            {},
            "slope (3, 5) does not broadcast to src (2, 5); each dim of slope, counted from the right, must be 1 or equal",
        ),
    ],
)
def test_a_slope_that_does_not_fit_is_refused(shapes: tuple[Shape, ...], attrs: dict[str, object], message: str) -> None:
    for kind, more in (("PReLU", ()), ("PReLUBackward", (shapes[0],))):
        with pytest.raises(InvalidShape) as caught:
            infer(kind, *shapes, *more, **attrs)
        assert str(caught.value) == message


def test_diff_dst_has_the_shape_of_src() -> None:
    with pytest.raises(InvalidShape) as caught:
        infer("PReLUBackward", (2, 5), (5,), (5,))
    assert str(caught.value) == "diff_dst (5,) differs from src (2, 5); give diff_dst the shape of src"


def test_at_zero_diff_src_has_the_slope_and_diff_slope_is_0() -> None:
    call = call_of("PReLUBackward", Sample(((1,), (1,), (1,)), why="a test"))
    diff_src, diff_slope = spec("PReLUBackward").semantics.reference(call, (np.zeros(1), np.full(1, 0.25), np.full(1, 8.0)))
    assert (diff_src.tolist(), diff_slope.tolist()) == ([2.0], [0.0])


def test_bias_add_backward_takes_rank_2_and_3() -> None:
    assert infer("BiasAddBackward", (4, 5)) == ((5,),)
    assert infer("BiasAddBackward", (4, 5, 3), data_format="NCX") == ((5,),)


def test_bias_add_backward_wants_a_channel() -> None:
    with pytest.raises(InvalidShape) as caught:
        infer("BiasAddBackward", (4,))
    assert str(caught.value) == "diff_dst (4,) has rank 1; BiasAddBackward takes rank 2 or more: batch and channel"
