"""Deconvolutions as products: no more of them than the result has."""

from __future__ import annotations

from math import prod

import pytest

from benchgraph.core.tensor import Shape
from benchgraph.graph.build import GraphBuilder
from benchgraph.graph.ir import Graph
from benchgraph.partition.ir import Policy
from benchgraph.partition.partitioner import partitions
from benchgraph.tir import passes
from benchgraph.tir.build import constant
from benchgraph.tir.ir import Brgemm, For, Func, Seq, Stmt
from benchgraph.tir.visit import walk
from tests.lower.test_meaning import TARGET, lowered

SPATIAL, OUT = (9, 7), 20  # of src, and the result's channels


def deconvolution(kernel: Shape, strides: Shape, begin: Shape, end: Shape) -> Graph:
    b = GraphBuilder()
    src, wei = b.input((1, *SPATIAL, 16)), b.input((*kernel, OUT, 16))
    b.op(
        "ConvTranspose",
        src,
        wei,
        strides=strides,
        pads_begin=begin,
        pads_end=end,
        dilations=(1, 1),
        data_format="NXC",
        weights_format="XOI",
    )
    return b.graph()


def before_flattening(graph: Graph) -> Func:
    (p,) = partitions(graph, Policy.fused)
    return passes.run(lowered(p).module, TARGET, pipeline=passes.PIPELINE[:1]).main


def multiplications(s: Stmt, times: int = 1) -> int:
    """Of all microkernel calls, each as often as the loops around it run."""
    if isinstance(s, Brgemm):
        return times * s.m * s.n * s.k * prod(s.batch)
    if isinstance(s, For):
        inside = multiplications(s.body, times)
        return inside * int(constant(s.extent) or 0) if inside else 0
    return sum(multiplications(c, times) for c in s.stmts) if isinstance(s, Seq) else 0


@pytest.mark.parametrize(
    ("begin", "end", "windows"),
    [((0, 0), (0, 0), (9, 7)), ((0, 0), (10, 8), (4, 3)), ((5, 0), (3, 9), (6, 3))],
    ids=["all", "cut behind", "cut on both sides"],
)
def test_windows_that_the_result_has_not_are_not_multiplied(begin: Shape, end: Shape, windows: Shape) -> None:
    main = before_flattening(deconvolution((2, 2), (2, 2), begin, end))
    assert multiplications(main.body) == prod(windows) * 4 * OUT * 16


@pytest.mark.parametrize(
    ("kernel", "strides", "phases"),
    [((1, 1), (2, 3), 1), ((1, 2), (2, 2), 2), ((2, 1), (3, 2), 2), ((1, 3), (2, 2), 2)],
    ids=["one", "two of four", "two of six", "two, one of them half empty"],
)
def test_phases_that_no_tap_meets_are_not_multiplied(kernel: Shape, strides: Shape, phases: int) -> None:
    main = before_flattening(deconvolution(kernel, strides, (0, 0), (0, 0)))
    assert {s.n for s in walk(main.body) if isinstance(s, Brgemm)} == {phases * OUT}


@pytest.mark.parametrize(
    ("kernel", "begin", "end", "windows", "taps"),
    [(3, 1, 0, (9, 7), 2), (4, 1, 1, (10, 8), 2), (5, 2, 1, (9, 7), 3), (5, 1, 2, (9, 7), 3)],
    ids=["an odd kernel", "an even one, where zeros ahead would cost a tap", "even padding", "more taps"],
)
def test_the_result_begins_with_the_first_phase_where_no_tap_pays_for_it(
    kernel: int, begin: int, end: int, windows: Shape, taps: int
) -> None:
    """Of a result twice as large as src no more is computed than it has."""
    main = before_flattening(deconvolution((kernel, kernel), (2, 2), (begin, begin), (end, end)))
    assert multiplications(main.body) == prod(windows) * taps * taps * 4 * OUT * 16
