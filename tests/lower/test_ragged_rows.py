"""Ragged rows: each number of rows that tasks have is a branch of its own around the columns and their post-ops."""

from __future__ import annotations

from dataclasses import replace

import pytest

from benchgraph.candidates import candidates
from benchgraph.core.dtypes import DType
from benchgraph.core.options import Options
from benchgraph.core.tensor import PropertyType
from benchgraph.graph.build import GraphBuilder
from benchgraph.graph.ir import Graph
from benchgraph.machine.target import Target, current
from benchgraph.partition.ir import Partition
from benchgraph.schedule.space import Tiling
from benchgraph.tir.ir import Brgemm, Const, For, If, LoopKind
from benchgraph.tir.passes import run
from benchgraph.tir.visit import walk
from tests.support.partitions import partition_of
from tests.support.reference_check import matches_reference
from tests.support.targets import TARGET
from tests.support.tensor_ir import lowered

M, K, N = 77, 40, 130
MB, NB = 39, 48  # tasks of 39 and 38 rows, two panels of 48 columns and one of 34
CASES = [(dtype, constant, split) for dtype in (DType.f32, DType.bf16, DType.f16) for constant in (True, False) for split in (False, True)]


def layer(dtype: DType, constant: bool) -> Graph:
    b = GraphBuilder()
    wei = b.input((K, N), dtype, property_type=PropertyType.constant if constant else PropertyType.variable)
    b.op("ReLU", b.op("MatMul", b.input((M, K), dtype), wei))
    return b.graph()


def partition(dtype: DType, constant: bool, split: bool, target: Target) -> Partition:
    """split: columns are tasks, where they can be."""
    p = partition_of(layer(dtype, constant))
    (found,) = candidates(p, target)
    forms = Tiling(MB, NB, split), Tiling(MB, NB), Tiling(MB, NB, ns=NB, ks=K, makes=True)
    schedules = [str(form.schedule((), ())) for form in forms]
    return replace(p, options=Options(forced=(next(f for schedule in schedules for f in found.legal if f.schedule == schedule),)))


@pytest.mark.parametrize(("dtype", "constant", "split"), CASES)
def test_results_are_right(dtype: DType, constant: bool, split: bool) -> None:
    assert matches_reference(layer(dtype, constant), partition(dtype, constant, split, current()))


@pytest.mark.parametrize(("dtype", "constant", "split"), CASES)
def test_microkernels_of_full_panels_have_fused_post_ops(dtype: DType, constant: bool, split: bool) -> None:
    """One for the task of 39 rows, and one for that of 38."""
    body = run(lowered(partition(dtype, constant, split, TARGET)).main, TARGET, lambda *_: None).body
    calls = [s for s in walk(body) if isinstance(s, Brgemm) and s.n == NB]
    assert {s.m for s in calls} == {39, 38}
    assert all(s.post_ops is not None for s in calls)


def test_columns_that_are_tasks_stay_tasks() -> None:
    """The branch is inside, where the loops of rows and columns are one."""
    body = run(lowered(partition(DType.f32, True, True, TARGET)).main, TARGET, lambda *_: None).body
    (loop,) = (s for s in walk(body) if isinstance(s, For) and s.kind is LoopKind.parallel)
    assert loop.extent == Const(6)


def test_several_products_get_branches_around_calls_only() -> None:
    """They then contain microkernel calls only, not all columns."""
    b = GraphBuilder()
    hidden = b.op("ReLU", b.op("MatMul", b.input((M, K)), b.constant((K, N))))
    b.op("ReLU", b.op("MatMul", hidden, b.constant((N, K))))
    branches = [s for s in walk(lowered(b.graph()).main.body) if isinstance(s, If)]
    assert branches
    assert not any(isinstance(inner, For) for s in branches for inner in walk(s))
