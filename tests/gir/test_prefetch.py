"""prefetch: rows of inputs beyond L2 that several loops go through, where these leave no room in L1; nothing else."""

from __future__ import annotations

from dataclasses import replace
from math import ceil

import pytest

from benchgraph.core.dtypes import DType
from benchgraph.gir.ir import FusedOp
from benchgraph.graph.build import GraphBuilder
from benchgraph.machine.target import Target
from benchgraph.schedule.traffic import HELD
from tests.support.graph_ir import scheduled
from tests.support.targets import TARGET

ROWS, COLUMNS = 256, 4096
ROW_BYTES = 4 * COLUMNS
LARGE = replace(TARGET, l1_bytes=2 * ROW_BYTES, l2_bytes=ROWS * ROW_BYTES - 1)


def prefetched(kind: str = "SoftMax", target: Target = LARGE, dtype: DType = DType.f32, **attrs: object) -> list[int]:
    """How many inputs each nest prefetches."""
    b = GraphBuilder()
    b.op(kind, b.input((ROWS, COLUMNS), dtype), **attrs)
    return [len(node.prefetched) for node in scheduled(b.graph(), target).nodes if isinstance(node, FusedOp)]


@pytest.mark.parametrize("dtype", [DType.f32, DType.bf16])
def test_rows_beyond_l2_are_prefetched(dtype: DType) -> None:
    large = replace(LARGE, l1_bytes=dtype.nbytes(2 * COLUMNS), l2_bytes=dtype.nbytes(ROWS * COLUMNS))
    assert prefetched(axis=1, target=large, dtype=dtype) == [1]
    assert prefetched(axis=1, target=replace(large, l2_bytes=ceil(large.l2_bytes / HELD)), dtype=dtype) == [0]


def test_rows_that_l1_does_not_hold_are_not_prefetched() -> None:
    assert prefetched(axis=1, target=replace(LARGE, l1_bytes=ROW_BYTES)) == [1]
    assert prefetched(axis=1, target=replace(LARGE, l1_bytes=ROW_BYTES - 64)) == [0]


def test_rows_whose_loops_access_little_memory_are_not_prefetched() -> None:
    assert prefetched(axis=1, target=replace(LARGE, l1_bytes=8 * ROW_BYTES)) == [0]


@pytest.mark.parametrize(("kind", "attrs"), [("ReLU", {}), ("ReduceSum", {"axes": [1]}), ("SoftMax", {"axis": 0})])
def test_a_single_loop_does_not_prefetch(kind: str, attrs: dict[str, object]) -> None:
    """Nor do loops over columns."""
    assert prefetched(kind, **attrs) == [0]
