"""What nests share with those beside them: inputs block by block, where caches hold blocks but not all; loops that keep cores busy."""

from __future__ import annotations

from dataclasses import replace

import pytest

from benchgraph.core.dtypes import DType
from benchgraph.gir.ir import FusedOp
from benchgraph.graph.build import GraphBuilder
from benchgraph.machine.target import Target
from benchgraph.tir.ir import Func
from benchgraph.tir.loops import is_parallel
from benchgraph.tir.visit import statements
from tests.support.graph_ir import scheduled
from tests.support.partitions import Build
from tests.support.targets import TARGET
from tests.support.tensor_ir import before, tir


def backward(columns: int) -> Build:
    """96 rows each are tasks of the sums for gamma and beta, or less where L2 holds no so many."""

    def build(b: GraphBuilder) -> None:
        shape, stats = (16, 384, columns), (16, 384)
        ins = [b.input(s) for s in (shape, shape, stats, stats, (columns,), (columns,))]
        b.outs("LayerNormBackward", *ins, dtypes=(DType.f32,) * 3)

    return build


def sharing(target: Target, columns: int = 384) -> list[tuple[tuple[int, ...], int, bool]]:
    """Of each nest that shares inputs: which, in how many blocks, whether by rows."""
    g = scheduled(backward(columns), target)
    return [(n.shared, n.blocks, n.by_rows) for n in g.nodes if isinstance(n, FusedOp) and n.shared]


def parallel_loops(f: Func) -> int:
    return sum(map(is_parallel, statements(f.body)))


def test_what_both_nests_read_is_shared_row_by_row() -> None:
    assert sharing(TARGET) == [((0, 1), 64, True)]


@pytest.mark.parametrize(
    ("target", "columns"),
    [(replace(TARGET, l2_bytes=32 << 20), 384), (replace(TARGET, cores=8), 384), (TARGET, 32768)],
    ids=["L2 keeps it all", "tasks are few for the cores", "L2 does not hold a block"],
)
def test_nothing_is_shared_where(target: Target, columns: int) -> None:
    assert sharing(target, columns) == []


@pytest.mark.parametrize(("l1_bytes", "by_rows"), [(6144, True), (6143, False)])
def test_rows_are_shared_where_half_of_l1_holds_one_of_each_input(l1_bytes: int, by_rows: bool) -> None:
    """Of 384 columns of f32."""
    assert [rows for _, _, rows in sharing(replace(TARGET, l1_bytes=l1_bytes))] == [by_rows]


def test_loops_that_share_are_one() -> None:
    apart, one = (tir(backward(384), pipeline) for pipeline in (before("merge-blocks"), before("unroll-and-jam")))
    assert parallel_loops(one) == parallel_loops(apart) - 1


def padded(b: GraphBuilder) -> None:
    """Two images, padded by a nest of their own."""
    b.op(
        "Convolution",
        b.input((2, 56, 56, 64)),
        b.constant((3, 3, 64, 64)),
        strides=(1, 1),
        pads_begin=(1, 1),
        pads_end=(1, 1),
        dilations=(1, 1),
    )


@pytest.mark.parametrize(("cores", "loops"), [(2, 1), (16, 2)])
def test_few_images_are_no_tasks_for_many_cores(cores: int, loops: int) -> None:
    """Two cores pad an image and multiply it, one each; sixteen share the rows of all images, and wait in between."""
    target = replace(TARGET, cores=cores)
    assert scheduled(padded, target).tasks == cores
    assert parallel_loops(tir(padded, before("shrink-tensors"), target)) == loops
