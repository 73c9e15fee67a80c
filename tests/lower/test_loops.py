"""Nests without a tunable op: how their loops come out."""

from __future__ import annotations

import pytest

from benchgraph.core.dtypes import DType
from benchgraph.core.tensor import Shape
from benchgraph.graph.build import GraphBuilder
from benchgraph.partition.ir import Policy
from benchgraph.partition.partitioner import partitions
from benchgraph.tir import passes
from benchgraph.tir.build import type_of
from benchgraph.tir.ir import Load, Scope, Store
from benchgraph.tir.visit import loads, walk
from tests.lower.test_meaning import TARGET, lowered


@pytest.mark.parametrize("shape", [(4096,), (5, 7, 33), (2, 3, 3, 16), (5, 6, 33, 33), (3, 2, 5, 7, 96), (64, 2, 3, 32)])
def test_a_dense_pointwise_nest_of_any_rank_runs_in_vectors(shape: Shape) -> None:
    b = GraphBuilder()
    b.op("Add", b.op("Exp", b.input(shape)), b.input(shape))
    (p,) = partitions(b.graph(), Policy.fused)
    main = passes.run(lowered(p).module, TARGET).main
    stores = [Load(s.tensor, s.index) for s in walk(main.body) if isinstance(s, Store)]
    found = [type_of(x) for x in (*stores, *loads(main.body)) if x.tensor.scope is Scope.param]
    assert found
    assert all(lanes == TARGET.lanes for _, lanes in found)


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_an_index_nest_runs_in_vectors(axis: int) -> None:
    b = GraphBuilder()
    b.op("GenIndex", b.input((5, 7, 48)), axis=axis)
    (p,) = partitions(b.graph(), Policy.fused)
    main = passes.run(lowered(p).module, TARGET).main
    stores = [s for s in walk(main.body) if isinstance(s, Store)]
    assert stores
    assert all(type_of(s.value) == (DType.s32, TARGET.lanes) for s in stores)
    assert not list(loads(main.body)), "of src only the shape matters"
