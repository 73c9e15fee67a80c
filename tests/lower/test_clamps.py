"""Where minima and maxima of indices are known."""

from __future__ import annotations

import re
from itertools import product

import pytest

from benchgraph.graph.build import GraphBuilder
from benchgraph.lower.window_rows import known_interval
from benchgraph.tir.build import add, binary, floordiv, index, mul, sub
from benchgraph.tir.ir import BinOp, Expr, Var
from benchgraph.tir.text import print_tir
from tests.lower.depthwise import middle
from tests.support.tensor_ir import before, tir
from tests.support.tir_programs import i, j

TAP = Var("k")
RANGES = {"i": (0, 49), "j": (0, 49), "k": (0, 1)}


def window(at: Expr, size: int) -> Expr:
    """The elements of a row in a window of six from 4 * at - 1 on."""
    begin = sub(mul(at, 4), 1)
    inside = sub(binary(BinOp.min, add(begin, 6), index(size)), binary(BinOp.max, begin, index(0)))
    return binary(BinOp.max, inside, index(0))


@pytest.mark.parametrize(
    ("e", "stretch"),
    [
        (window(i, 200), (1, 49)),
        (window(i, 300), (1, 50)),
        (window(add(i, 1), 300), (0, 50)),
        (window(sub(floordiv(i, 2), TAP), 100), (4, 48)),
        (window(i, 90), (23, 50)),
        (mul(window(i, 200), window(j, 90)), (1, 49)),
        (binary(BinOp.max, mul(window(i, 200), window(j, 90)), index(1)), (1, 49)),
        (mul(i, j), (0, 50)),
    ],
    ids=["both ends", "begin", "nowhere", "of windows two further back", "beyond the end", "another axis", "of both axes", "no clamp"],
)
def test_known_interval(e: Expr, stretch: tuple[int, int]) -> None:
    assert known_interval(e, i, frozenset("j"), RANGES) == stretch


@pytest.mark.parametrize(("extent", "size", "first"), list(product((1, 2, 3, 7, 64), (30, 100, 258), (0, 1, 5))))
def test_interval_has_maximal_length(extent: int, size: int, first: int) -> None:
    """Around the middle, as far as windows are cut off in the same way."""
    begins = [4 * (at + first) - 1 for at in range(extent)]
    cut = [(begin < 0, begin + 6 > size, begin > size) for begin in begins]
    middle = cut[extent // 2]
    want = cut.index(middle), extent - cut[::-1].index(middle)
    assert known_interval(window(add(i, first), size), i, frozenset(), {"i": (0, extent - 1)}) == want


@pytest.mark.parametrize("exclude_pad", [True, False])
def test_averages_divide_by_a_constant_away_from_borders(exclude_pad: bool) -> None:
    """The nest of a gradient is written twice, and one of them divides."""
    b = GraphBuilder()
    attrs = {"kernel": (3, 3), "strides": (2, 2), "pads_begin": (1, 1), "pads_end": (1, 0), "src_shape": (2, 40, 41, 16)}
    b.op("AvgPoolBackward", b.input((2, 20, 20, 16)), exclude_pad=exclude_pad, **attrs)
    f = tir(b.graph(), before("merge-parallel"))
    assert set(re.findall(r"0\.11111111|1\.0 / f32\(", print_tir(middle(f)))) == {"0.11111111"}
    assert ("1.0 / f32(" in print_tir(f)) is exclude_pad
