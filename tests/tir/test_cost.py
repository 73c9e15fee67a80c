"""What is too short to be shared out among threads, and that it is not."""

from __future__ import annotations

from dataclasses import replace

import pytest

from benchgraph.codegen.emit import PARALLEL, emit
from benchgraph.core.config import override
from benchgraph.core.dtypes import DType
from benchgraph.machine.table import table
from benchgraph.machine.target import current
from benchgraph.tir.build import f32
from benchgraph.tir.cost import nanoseconds, pays_in_parallel
from benchgraph.tir.ir import Cast, Const, For, Func, LoopKind, Random, Scope, Store, Tensor, Var
from benchgraph.tir.passes.serialise_short_loops import serialise_short_loops
from benchgraph.tir.visit import walk
from tests.support.targets import TARGET

# Stores of a constant that two threads and one take equally long for.
EVEN = int(2 * table(TARGET).fork_join_ns / table(TARGET).vector_step_ns)


def loop(extent: int) -> For:
    i = Var("i")
    return For(i, Const(extent), Store(filled(extent), (i,), f32(1.0)), LoopKind.parallel)


def filled(extent: int) -> Tensor:
    return Tensor("dst", DType.f32, (extent,), (1,), Scope.param)


def test_time_grows_with_extents() -> None:
    assert nanoseconds(loop(200), TARGET) == pytest.approx(100 * nanoseconds(loop(2), TARGET))
    assert nanoseconds(replace(loop(2), extent=Var("n")), TARGET) == float("inf")


def test_a_random_number_costs_its_rounds() -> None:
    store, place = Store(filled(8), (Const(0),), f32(1.0)), Const(3)
    drawn = replace(store, value=Cast(Random(place, place, place), DType.f32))
    assert nanoseconds(drawn, TARGET) > 100 * nanoseconds(store, TARGET)


@pytest.mark.parametrize(("extent", "cores", "pays"), [(EVEN - 1, 2, False), (EVEN + 1, 2, True), (EVEN - 1, 4, True), (10**9, 1, False)])
def test_a_loop_is_parallelised_where_that_saves_time(extent: int, cores: int, pays: bool) -> None:
    assert pays_in_parallel(loop(extent), replace(TARGET, cores=cores)) is pays


def test_tests_parallelise_every_loop() -> None:
    assert current().shares_all
    with override(parallel="auto"):
        assert not current().shares_all
    assert pays_in_parallel(loop(1), replace(TARGET, shares_all=True))


@pytest.mark.parametrize(("extent", "kind", "calls"), [(8, LoopKind.outlined, 0), (2 * EVEN, LoopKind.parallel, 1)])
def test_a_loop_that_is_not_parallelised_needs_no_threads(extent: int, kind: LoopKind, calls: int) -> None:
    func = serialise_short_loops(Func("main", (filled(extent),), loop(extent)), TARGET)
    assert [s.kind for s in walk(func.body) if isinstance(s, For)] == [kind]
    text = "".join(emit([func], TARGET))
    assert text.count(f'call void @"{PARALLEL}"(') == calls
    assert text.count("define internal void") == 1
