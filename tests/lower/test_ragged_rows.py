"""Ragged rows: each number of rows that tasks have is a branch of its own around the columns and their post-ops."""

from __future__ import annotations

from dataclasses import replace

import pytest

from benchgraph.core.dtypes import DType
from benchgraph.core.options import Forced, Options
from benchgraph.core.tensor import PropertyType
from benchgraph.graph.build import GraphBuilder
from benchgraph.graph.ir import Graph
from benchgraph.partition.ir import Partition
from benchgraph.schedule.space import Tiling
from benchgraph.tir.ir import Brgemm, Const, For, If, LoopKind
from benchgraph.tir.passes import run
from benchgraph.tir.visit import walk
from tests.support.partitions import partition_of
from tests.support.reference_check import matches_reference
from tests.support.targets import TARGET
from tests.support.tensor_ir import lowered

M, K, N = 77, 40, 130  # two tasks of 32 rows and one of 13, two panels of 64 columns and one of 2
CASES = [(dtype, constant, split) for dtype in (DType.f32, DType.bf16, DType.f16) for constant in (True, False) for split in (False, True)]


def layer(dtype: DType, constant: bool) -> Graph:
    b = GraphBuilder()
    wei = b.input((K, N), dtype, property_type=PropertyType.constant if constant else PropertyType.variable)
    b.op("ReLU", b.op("MatMul", b.input((M, K), dtype), wei))
    return b.graph()


def partition(dtype: DType, constant: bool, split: bool) -> Partition:
    p = partition_of(layer(dtype, constant))
    size = f"1x{M}x{K}x{N} {'constant' if constant else 'variable'}"
    makes_blocks = not constant and dtype is not DType.f32
    schedule = str((Tiling(32, 64, split, ns=64, ks=K, makes=True) if makes_blocks else Tiling(32, 64, split)).schedule((), ()))
    return replace(p, options=Options(forced=tuple(Forced(f"{name}:{name} {size}", schedule) for name in ("f32", "bf16"))))


@pytest.mark.parametrize(("dtype", "constant", "split"), CASES)
def test_results_are_right(dtype: DType, constant: bool, split: bool) -> None:
    assert matches_reference(layer(dtype, constant), partition(dtype, constant, split))


@pytest.mark.parametrize(("dtype", "constant", "split"), CASES)
def test_microkernels_of_full_panels_have_fused_post_ops(dtype: DType, constant: bool, split: bool) -> None:
    """One for tasks of 32 rows, and one for the task of 13."""
    body = run(lowered(partition(dtype, constant, split)).main, TARGET, lambda *_: None).body
    calls = [s for s in walk(body) if isinstance(s, Brgemm) and s.n == 64]
    assert {s.m for s in calls} == {32, 13}
    assert all(s.post_ops is not None for s in calls)


def test_columns_that_are_tasks_stay_tasks() -> None:
    """The branch is inside, where the loops of rows and columns are one."""
    body = run(lowered(partition(DType.f32, True, split=True)).main, TARGET, lambda *_: None).body
    (loop,) = (s for s in walk(body) if isinstance(s, For) and s.kind is LoopKind.parallel)
    assert loop.extent == Const(9)


def test_several_products_get_branches_around_calls_only() -> None:
    """They then contain microkernel calls only, not all columns."""
    b = GraphBuilder()
    hidden = b.op("ReLU", b.op("MatMul", b.input((M, K)), b.constant((K, N))))
    b.op("ReLU", b.op("MatMul", hidden, b.constant((N, K))))
    branches = [s for s in walk(lowered(b.graph()).main.body) if isinstance(s, If)]
    assert branches
    assert not any(isinstance(inner, For) for s in branches for inner in walk(s))
