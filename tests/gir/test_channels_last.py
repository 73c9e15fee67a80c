"""Networks whose channels come first: which windows have them last, which layout ops cancel, and that results stay the same."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from benchgraph.core.tensor import LogicalTensor, Shape
from benchgraph.gir.ir import Graph, Op
from benchgraph.graph.build import GraphBuilder
from tests.support.graph_ir import gir, up_to
from tests.support.reference_check import matches_reference
from tests.support.targets import EMULATED_DOTS

Build = Callable[[GraphBuilder], object]
CHANNELS = 24
POINTS = {"strides": (1, 1), "pads_begin": (0, 0), "pads_end": (0, 0), "dilations": (1, 1), "data_format": "NCX", "weights_format": "OIX"}
AROUND = {**POINTS, "pads_begin": (1, 1), "pads_end": (1, 1)}
POOL = {"kernel": (3, 3), "strides": (2, 2), "pads_begin": (1, 1), "pads_end": (1, 1), "data_format": "NCX"}


def pixels(b: GraphBuilder, x: LogicalTensor) -> LogicalTensor:
    """A convolution by one position."""
    return b.op("Convolution", x, b.constant((CHANNELS, x.known_shape[1], 1, 1)), **POINTS)


def depthwise(b: GraphBuilder, x: LogicalTensor) -> LogicalTensor:
    return b.op("Convolution", x, b.constant((CHANNELS, 1, 3, 3)), groups=CHANNELS, **AROUND)


def image(b: GraphBuilder) -> LogicalTensor:
    return b.input((2, 16, 6, 7))


def inverted(b: GraphBuilder) -> None:
    """A block of MobileNet."""
    pixels(b, b.op("HardSwish", depthwise(b, b.op("HardSwish", pixels(b, image(b))))))


def excited(b: GraphBuilder) -> None:
    """The means of channels scale them."""
    x = b.op("ReLU", depthwise(b, pixels(b, image(b))))
    means = b.op("Sigmoid", pixels(b, b.op("ReduceMean", x, axes=(2, 3), keep_dims=True)))
    pixels(b, b.op("Multiply", x, means))


def pooled(b: GraphBuilder, kind: str = "MaxPool") -> None:
    pixels(b, b.op(kind, b.op("ReLU", pixels(b, image(b))), **POOL, **({"exclude_pad": True} if kind == "AvgPool" else {})))


def two_windows(b: GraphBuilder) -> None:
    pixels(b, b.op("MaxPool", depthwise(b, pixels(b, image(b))), **POOL))


def beside(b: GraphBuilder) -> None:
    """What a window reads is added later."""
    x = b.op("ReLU", pixels(b, image(b)))
    pixels(b, b.op("Add", depthwise(b, x), x))


LAST: dict[str, Build] = {
    "inverted block": inverted,
    "squeeze and excitation": excited,
    "maxima": pooled,
    "averages": lambda b: pooled(b, "AvgPool"),
    "window after window": two_windows,
    "added later": beside,
}
FIRST: dict[str, Build] = {
    "what comes in": lambda b: pixels(b, depthwise(b, b.input((2, CHANNELS, 6, 7)))),
    "what goes out": lambda b: depthwise(b, pixels(b, image(b))),
    "goes out as well": lambda b: [b.end(x := depthwise(b, pixels(b, image(b)))), pixels(b, x)],
    "normalised along rows": lambda b: pixels(b, b.op("SoftMax", depthwise(b, pixels(b, image(b))), axis=1)),
}


def windows(g: Graph) -> list[Op]:
    return [op for op in g.nodes if isinstance(op, Op) and op.lowering.is_window]


def copies(g: Graph) -> list[Op]:
    """Layout ops of values that are computed at every execution."""
    return [op for op in g.nodes if isinstance(op, Op) and op.lowering.is_layout_op and not g.value(op.outs[0]).is_constant]


@pytest.mark.parametrize("build", LAST.values(), ids=LAST)
def test_windows_between_products_have_channels_last(build: Build) -> None:
    g = up_to(gir(build), "make-views", EMULATED_DOTS)
    assert {op.attrs["data_format"] for op in windows(g)} == {"NXC"}
    assert all(_is_dense_along_channels(g, v) for op in windows(g) for v in (op.ins[0], op.outs[0]))
    assert matches_reference(build)


@pytest.mark.parametrize("build", FIRST.values(), ids=FIRST)
def test_other_windows_stay(build: Build) -> None:
    assert {op.attrs["data_format"] for op in windows(up_to(gir(build), "channels-last", EMULATED_DOTS))} == {"NCX"}
    assert matches_reference(build)


def _is_dense_along_channels(g: Graph, v: int) -> bool:
    """Whether the buffer of a value [N, H, W, C] has the channels last."""
    return g.value(g.root(v)).shape[-1] == g.value(v).shape[-1]


# ---- layout ops that cancel ------------------------------------------------------------------------------------------


def residual(b: GraphBuilder) -> None:
    x = b.op("ReLU", pixels(b, image(b)))
    pixels(b, b.op("ReLU", b.op("Add", pixels(b, b.op("ReLU", pixels(b, x))), x)))


def of_three_by_three(b: GraphBuilder) -> None:
    """From [N, H, W, C] to [N, H * W, C]."""
    x = b.op("ReLU", b.op("Convolution", image(b), b.constant((CHANNELS, 16, 3, 3)), **AROUND))
    pixels(b, b.op("Add", pixels(b, x), x))


@pytest.mark.parametrize("build", [residual, of_three_by_three])
def test_values_between_products_are_not_copied(build: Build) -> None:
    g = up_to(gir(build), "make-views", EMULATED_DOTS)
    at_borders = {*g.ins, *g.outs}
    assert not [op for op in copies(g) if not at_borders & {g.root(op.ins[0]), g.root(op.outs[0])}]
    assert matches_reference(build)


def there_and_back(b: GraphBuilder, order: Shape, back: Shape) -> None:
    x = b.op("StaticTranspose", b.op("StaticTranspose", b.op("Exp", b.input((2, 3, 4))), order=order), order=back)
    b.op("SoftMax", x, axis=-1)


@pytest.mark.parametrize(("order", "back", "left"), [((1, 2, 0), (2, 0, 1), 0), ((1, 2, 0), (1, 2, 0), 2)])
def test_transpositions_cancel_only_if_they_are_inverse(order: Shape, back: Shape, left: int) -> None:
    def build(b: GraphBuilder) -> None:
        there_and_back(b, order, back)

    g = up_to(gir(build), "cancel-layout-ops", EMULATED_DOTS)
    assert len(copies(g)) == left
    assert matches_reference(build)


def test_an_output_of_the_graph_is_written() -> None:
    """What moves elements back is the output itself."""

    def build(b: GraphBuilder) -> None:
        x = b.op("Exp", b.input((2, 12)))
        b.op("Tanh", x)
        b.op("StaticReshape", b.op("StaticReshape", x, shape=(4, 6), special_zero=False), shape=(2, 12), special_zero=False)

    assert len(copies(up_to(gir(build), "cancel-layout-ops", EMULATED_DOTS))) == 1
    assert matches_reference(build)
