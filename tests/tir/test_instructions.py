"""How many instructions statements execute."""

from __future__ import annotations

from dataclasses import replace

from benchgraph.core.dtypes import DType
from benchgraph.tir.build import f32
from benchgraph.tir.instructions import executed, instructions
from benchgraph.tir.ir import Cast, Const, For, LoopKind, Random, Scope, Store, Tensor, Var

PLACE = Const(3)
STORE = Store(Tensor("dst", DType.f32, (8,), (1,), Scope.param), (PLACE,), f32(1.0))


def test_a_loop_executes_its_body_in_each_iteration() -> None:
    loop = For(Var("i"), Const(200), STORE, LoopKind.parallel)
    assert executed(loop) == 200 * instructions(STORE) > 0
    assert executed(replace(loop, extent=Var("n"))) == float("inf")


def test_a_random_number_costs_its_rounds() -> None:
    drawn = replace(STORE, value=Cast(Random(PLACE, PLACE, PLACE), DType.f32))
    assert instructions(drawn) > 100 * instructions(STORE)
