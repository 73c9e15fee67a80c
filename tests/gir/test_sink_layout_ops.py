"""Pointwise ops run before a layout op: which do, and that results stay the same; and convolutions with such layout ops."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from benchgraph.core.attrs import Attrs
from benchgraph.core.dtypes import DType
from benchgraph.core.tensor import LogicalTensor, Shape
from benchgraph.gir.ir import Op
from benchgraph.graph.build import GraphBuilder
from benchgraph.ops import spec
from benchgraph.ops.spec import LayoutOp
from tests.support.graph_ir import gir, up_to
from tests.support.reference_check import matches_reference
from tests.support.targets import EMULATED_DOTS

Build = Callable[[GraphBuilder], object]
WINDOWS = {"strides": (1, 1), "pads_begin": (0, 0), "pads_end": (0, 0), "dilations": (1, 1), "data_format": "NCX", "weights_format": "OIX"}


def kinds(build: Build, last: str = "sink-layout-ops") -> list[str]:
    return [op.kind for op in up_to(gir(build), last, EMULATED_DOTS).nodes if isinstance(op, Op)]


def convolution(b: GraphBuilder, kernel: int = 3) -> LogicalTensor:
    """[2, 6, 4, 5]; by a kernel of 1 of one spatial dim, which a reshape makes two."""
    return b.op("Convolution", b.input((2, 3, kernel + 3, kernel + 4)), b.constant((6, 3, kernel, kernel)), **WINDOWS)


# ---- what is moved back ----------------------------------------------------------------------------------------------


def beside(shape: Shape, kernel: int = 3) -> Build:
    """A product's result times something of this shape."""
    return lambda b: b.op("Multiply", convolution(b, kernel), b.input(shape))


def of_another_product(b: GraphBuilder) -> None:
    b.op("ReLU", b.op("Add", convolution(b), b.op("Exp", convolution(b))))


def made_of_bytes(b: GraphBuilder) -> None:
    wide = b.op("Dequantize", b.input((2, 6, 4, 5), DType.s8), qtype="per_channel", axis=1, scales=[0.5] * 6, zps=[0] * 6)
    b.op("Add", convolution(b), wide)


def read_twice(b: GraphBuilder) -> None:
    other = b.op("Abs", b.input((2, 6, 4, 5)))
    b.op("Multiply", b.op("Add", convolution(b), other), other)


def read_elsewhere(b: GraphBuilder) -> None:
    other = b.op("Abs", b.input((2, 6, 4, 5)))
    b.op("Multiply", b.op("Add", convolution(b), other), b.op("SoftMax", other, axis=1))


def one_number(b: GraphBuilder) -> None:
    x = b.op("StaticReshape", b.op("Exp", b.input((4, 6))), shape=[2, 2, 6], special_zero=False)
    b.op("Multiply", x, b.input((1, 1, 1)))


def gradient_of_one_number(b: GraphBuilder) -> None:
    """The operand before the layout op has fewer dims than the gradient's other operand."""
    x = b.op("StaticReshape", b.op("Exp", b.input((1,))), shape=[1, 1], special_zero=False)
    b.op("AbsBackward", x, b.input((1, 1)))


def split(b: GraphBuilder) -> None:
    x = b.op("StaticReshape", b.op("MatMul", b.input((4, 5)), b.input((5, 6))), shape=[2, 2, 6], special_zero=False)
    b.op("Add", b.op("Multiply", x, b.input((2, 2, 6))), b.input((1, 1, 6)))


def phases(b: GraphBuilder) -> None:
    """Two of three layout ops could be undone for numbers per channel: the first one splits columns into phases and channels."""
    attrs = {**WINDOWS, "strides": (2, 2), "pads_end": (1, 1), "weights_format": "IOX"}
    x = b.op("ConvTranspose", b.input((2, 6, 4, 5)), b.constant((6, 16, 3, 3)), **attrs)
    b.op("Multiply", x, b.input((1, 16, 1, 1)))


BEHIND: dict[str, Build] = {
    "an operand as large": beside((2, 6, 4, 5)),
    "numbers per channel": beside((1, 6, 1, 1)),
    "numbers per row": beside((1, 1, 4, 1)),
    "behind a reshape, as large": beside((2, 6, 4, 5), kernel=1),
    "behind a reshape, per channel": beside((1, 6, 1, 1), kernel=1),
    "fewer dims": beside((4, 5)),
    "behind a reshape, fewer dims": beside((6, 1, 1), kernel=1),
    "of another product": of_another_product,
    "made of bytes": made_of_bytes,
    "read twice": read_twice,
    "read elsewhere": read_elsewhere,
    "one number, of more dims": one_number,
    "the gradient of one number": gradient_of_one_number,
    "rows that are split": split,
}
IN_FRONT: dict[str, Build] = {
    "half way": phases,
    "behind a reshape, per row": beside((1, 1, 4, 1), kernel=1),
}


@pytest.mark.parametrize("build", BEHIND.values(), ids=BEHIND)
def test_the_layout_op_comes_last(build: Build) -> None:
    assert _is_movement(kinds(build)[-1])
    assert matches_reference(build)


@pytest.mark.parametrize("build", IN_FRONT.values(), ids=IN_FRONT)
def test_an_operand_that_cannot_be_moved_back_blocks_sinking(build: Build) -> None:
    assert not _is_movement(kinds(build)[-1])
    assert matches_reference(build)


def test_operands_in_bytes_are_moved_back_in_bytes() -> None:
    """It is moved back before it is widened."""
    g = up_to(gir(made_of_bytes), "sink-layout-ops", EMULATED_DOTS)
    moved = [g.value(op.ins[0]).dtype for op in g.nodes if isinstance(op, Op) and _is_movement(op.kind)]
    assert DType.s8 in moved


def test_operands_are_moved_back_only_after_a_product() -> None:
    def build(b: GraphBuilder) -> None:
        b.op("Add", b.op("StaticTranspose", b.op("Exp", b.input((4, 8))), order=[1, 0]), b.input((8, 4)))

    assert kinds(build) == ["Exp", "StaticTranspose", "Add"]


# ---- convolutions by one position ------------------------------------------------------------------------------------


@pytest.mark.parametrize("groups", [1, 3])
@pytest.mark.parametrize("data_format", ["NCX", "NXC"])
@pytest.mark.parametrize("weights_format", ["OIX", "XIO"])
def test_a_kernel_of_one_position_has_images_for_rows(data_format: str, weights_format: str, groups: int) -> None:
    def build(b: GraphBuilder) -> None:
        src = (2, 6, 4, 5) if data_format == "NCX" else (2, 4, 5, 6)
        wei = (9, 6 // groups, 1, 1) if weights_format == "OIX" else (1, 1, 6 // groups, 9)
        attrs = {**WINDOWS, "data_format": data_format, "weights_format": weights_format, "groups": groups}
        x = b.op("Convolution", b.input(src), b.constant(wei), b.constant((9,)), **attrs)
        b.op("Add", x, b.input(x.known_shape))

    g = up_to(gir(build), "dead-op", EMULATED_DOTS)
    (dst,) = (g.value(op.outs[0]).shape for op in g.nodes if isinstance(op, Op) and spec(op.kind).lowering.is_contraction)
    assert dst in ((2, 20, 9), (1, 40, 9))  # images may be folded
    assert not any(_is_movement(op.kind) for op in g.nodes if isinstance(op, Op) and op.outs[0] not in g.outs and op.kind != "Reorder")
    assert matches_reference(build)


@pytest.mark.parametrize("windows", [{"strides": (2, 2)}, {"pads_begin": (1, 1)}, {"pads_end": (0, 1)}], ids=str)
def test_windows_that_are_not_the_elements_keep_their_dims(windows: dict[str, Shape]) -> None:
    def build(b: GraphBuilder) -> None:
        b.op("ReLU", b.op("Convolution", b.input((2, 6, 4, 5)), b.constant((9, 6, 1, 1)), **{**WINDOWS, **windows}))

    g = up_to(gir(build), "dead-op", EMULATED_DOTS)
    (dst,) = (g.value(op.outs[0]).shape for op in g.nodes if isinstance(op, Op) and spec(op.kind).lowering.is_contraction)
    assert len(dst) == 4
    assert matches_reference(build)


# ---- one movement is left --------------------------------------------------------------------------------------------


def test_ops_of_branches_that_meet_sink_together() -> None:
    def build(b: GraphBuilder) -> None:
        moved = b.op("StaticTranspose", b.op("Exp", b.input((4, 8))), order=[1, 0])
        b.op("Add", b.op("Abs", moved), moved)

    assert kinds(build) == ["Exp", "Abs", "Add", "StaticTranspose"]


@pytest.mark.parametrize("beside", [0, 1])
def test_other_readers_of_a_moved_value_keep_it(beside: int) -> None:
    """Although its only other reader is computed before the layout op, be the value moved by that layout op or by an equal one."""

    def build(b: GraphBuilder) -> None:
        made = [b.op("Add", b.op("MatMul", b.input((4, 5)), b.input((5, 4))), b.input((4,))) for _ in range(2)]
        moved = [b.op("StaticTranspose", x, order=[1, 0]) for x in made]
        b.op("Multiply", b.op("Add", *moved), b.op("Minimum", made[beside], b.input((4, 1))))

    assert matches_reference(build)


def test_a_reshape_from_another_shape_is_another_layout_op() -> None:
    """Though its attributes are the same."""

    def build(b: GraphBuilder) -> None:
        product, other = b.op("MatMul", b.input((2, 5)), b.input((5, 8))), b.input((1, 16))
        b.op("Add", *(b.op("StaticReshape", x, shape=[2, 8], special_zero=False) for x in (product, other)))

    assert matches_reference(build)


@pytest.mark.parametrize("more", ["Abs", "SoftMax"])
def test_a_layout_op_with_other_readers_stays(more: str) -> None:
    """With two results there would be two layout ops."""

    def build(b: GraphBuilder) -> None:
        moved = b.op("StaticTranspose", b.op("Exp", b.input((4, 8))), order=[1, 0])
        b.op("ReLU", moved)
        b.op(more, moved)

    assert kinds(build)[1] == "StaticTranspose"


def test_as_many_ops_sink_as_leave_one_value() -> None:
    def build(b: GraphBuilder) -> None:
        x = b.op("Abs", b.op("StaticTranspose", b.op("Exp", b.input((4, 8))), order=[1, 0]))
        b.op("Add", b.op("SoftMax", x, axis=0), b.op("ReLU", x))

    assert kinds(build)[:3] == ["Exp", "Abs", "StaticTranspose"]


def _is_movement(kind: str) -> bool:
    return isinstance(spec(kind).lowering.form, LayoutOp)


# ---- the rows' inverses ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("src", "dst", "shape", "want"),
    [
        ((2, 3, 20), (2, 3, 4, 5), (2, 3, 4, 5), (2, 3, 20)),
        ((2, 3, 20), (2, 3, 4, 5), (1, 3, 1, 1), (1, 3, 1)),
        ((2, 3, 20), (2, 3, 4, 5), (1, 3, 4, 5), (1, 3, 20)),
        ((2, 3, 20), (2, 3, 4, 5), (1, 3, 4, 1), None),
        ((4, 6), (2, 2, 6, 1), (2, 2, 1, 1), (4, 1)),
        ((4, 6, 1), (24,), (24,), (4, 6, 1)),
        ((4, 6), (8, 3), (8, 3), (4, 6)),
        ((4, 6), (8, 3), (8, 1), None),
        ((0, 6), (2, 0), (2, 1), None),
    ],
)
def test_operands_are_reshaped_back_by_whole_dims(src: Shape, dst: Shape, shape: Shape, want: Shape | None) -> None:
    how = spec("StaticReshape").lowering.form
    assert isinstance(how, LayoutOp)
    assert how.inverse is not None
    got = how.inverse(Attrs(shape=dst), src, dst, shape)
    assert (None if got is None else got.integers("shape")) == want


def test_a_transposition_is_undone() -> None:
    how = spec("StaticTranspose").lowering.form
    assert isinstance(how, LayoutOp)
    assert how.inverse is not None
    back = how.inverse(Attrs(order=(2, 0, 1)), (2, 3, 4), (4, 2, 3), (4, 1, 3))
    assert back == Attrs(order=(1, 2, 0))
    assert how.inverse(Attrs(order=()), (2, 3), (3, 2), (1, 2)) == Attrs(order=(1, 0))
