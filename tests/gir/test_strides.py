"""Strides of elements along loops, through views."""

from __future__ import annotations

import pytest

from benchgraph.core.tensor import Shape
from benchgraph.gir.views import strides_of
from benchgraph.graph.build import GraphBuilder
from benchgraph.tir.ir import Var
from tests.support.graph_ir import scheduled


@pytest.mark.parametrize(
    ("strides", "shape", "steps"),
    [
        ((1440, 240, 48, 12, 2), (2, 6, 60), (1440, 240, None)),  # gaps between rows: 5 * 48 is 240, 4 * 12 is 48, 3 * 2 is not 12
        ((720, 1, 144, 36, 6), (2, 6, 60), (720, 1, None)),
        ((360, 1, 72, 18, 6), (2, 6, 60), (360, 1, 6)),
        ((360, 60, 12, 3, 1), (2, 6, 60), (360, 60, 1)),
        ((360, 60, 12, 3, 1), (2, 3, 2, 60), (360, 120, 60, 1)),
    ],
    ids=["gaps", "gaps, channels last", "channels last", "dense", "groups"],
)
def test_axes_that_a_view_splits_have_a_stride_where_they_are_even(strides: Shape, shape: Shape, steps: tuple[int | None, ...]) -> None:
    def build(b: GraphBuilder) -> None:
        b.op("Exp", b.op("StaticReshape", b.input((2, 6, 5, 4, 3), strides=strides), shape=shape, special_zero=False))

    g = scheduled(build)
    (view,) = (v for v in g.values if v.view is not None)
    variables = tuple(Var(f"i{axis}") for axis in range(len(shape)))
    assert strides_of(g, view.id, variables, variables) == steps
