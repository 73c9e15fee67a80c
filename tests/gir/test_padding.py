"""Which zeros around a product's src are known, and which taps read only zeros."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import pytest

from benchgraph.core.tensor import Shape
from benchgraph.gir.ir import FusedOp, Graph, Op
from benchgraph.gir.padding import RowsByTap, TapsByEntry, _span, rows_by_tap, taps_by_entry, zero_border
from benchgraph.graph.build import GraphBuilder
from tests.support.graph_ir import scheduled


def convolution(data_format: str = "NXC", pads: Shape = (1, 2), images: int = 2, **attrs: object) -> tuple[Graph, Op]:
    def build(b: GraphBuilder) -> None:
        src = b.input((images, 7, 9, 16) if data_format == "NXC" else (images, 16, 7, 9))
        given = {"strides": (1, 1), "dilations": (1, 1), "pads_begin": pads, "pads_end": (0, 1), "weights_format": "XIO", **attrs}
        b.op("Convolution", src, b.constant((3, 5, 16, 16)), data_format=data_format, **given)

    g = scheduled(build)
    (op,) = (op for node in g.nodes if isinstance(node, FusedOp) for op in node.ops if op.kind == "Convolution")
    return g, op


@pytest.mark.parametrize("data_format", ["NXC", "NCX"])
@pytest.mark.parametrize("images", [1, 2])
def test_zeros_that_padding_makes_are_known(data_format: str, images: int) -> None:
    g, op = convolution(data_format, images=images)
    assert zero_border(g, op.ins[0]) == ((0, 0), (1, 0), (2, 1), (0, 0))


def test_inputs_have_no_known_zeros() -> None:
    g, op = convolution(pads=(0, 0), pads_end=(0, 0))
    assert zero_border(g, op.ins[0]) == ((0, 0),) * 4
    assert taps_by_entry(g, op) is None
    assert rows_by_tap(g, op) is None


def test_values_with_several_makers_have_no_known_zeros() -> None:
    """Padded data may be a part of a tensor, as a source of a Concat."""
    g, op = convolution("NCX")
    root = g.value(g.root(op.ins[0]))
    larger = g.with_values({root.id: replace(root, shape=(3, *root.shape[1:]))})
    assert zero_border(larger, op.ins[0]) == ((0, 0),) * 4


def test_batch_entries_sum_over_an_interval_of_taps() -> None:
    assert taps_by_entry(*convolution()) == TapsByEntry(1, 0, ((1, (1, 3)), (6, (0, 3))))


def test_taps_apply_to_an_interval_of_rows() -> None:
    """5 taps, 2 zeros in front and 1 behind: 8 results, of which the first sums over 3 taps, the second and the last over 4."""
    g, op = convolution()
    groups = (((2, 4), (0, 8)), ((0, 1), (2, 8)), ((1, 2), (1, 8)), ((4, 5), (0, 7)))
    assert rows_by_tap(g, op) == RowsByTap(1, groups)


@pytest.mark.parametrize("step", [-3, -1, 1, 2])
def test_spans_equal_those_found_by_enumeration(step: int) -> None:
    for first, low, end, count in product(range(-6, 7), range(3), range(2, 8), (1, 4, 9)):
        inside = [i for i in range(count) if first + step * i in range(low, end)]
        assert _span(first, step, (low, end), count) == ((inside[0], inside[-1] + 1) if inside else (0, 0))
