"""vectorise-random: numbers that loops use side by side are drawn before them, and no others."""

from __future__ import annotations

from dataclasses import replace

import pytest

from benchgraph.core.dtypes import DType
from benchgraph.machine.table import table
from benchgraph.tir.build import add, cast, minimum, mul, sub
from benchgraph.tir.ir import Alloc, Const, Expr, For, Func, If, InplacePair, LoopKind, Random, Scope, Select
from benchgraph.tir.passes.plan_buffers import plan_buffers
from benchgraph.tir.passes.vectorise_random import vectorise_random
from benchgraph.tir.visit import tensors, walk
from tests.support.tir_programs import TARGET, ZERO, assert_same, at, i, j, k, loop, param, put

MOST = table(TARGET).generated_numbers

SEED = param("seed", 1, dtype=DType.s64)
Y = param("y", 2 * MOST)


def number(place: Expr, seed: Expr | None = None, offset: Expr = ZERO) -> Expr:
    return cast(Random(place, at(SEED, 0) if seed is None else seed, offset), DType.f32)


def of(body: For) -> Func:
    return Func("numbers", (SEED, Y), body)


def drawn(f: Func) -> list[Alloc]:
    """What the pass adds; what it makes of the function computes the same."""
    after = vectorise_random(f, TARGET)
    assert_same(after, f)
    found = [s for s in walk(after.body) if isinstance(s, Alloc)]
    assert found or after is f
    return found


def line(count: int, *, first: int = 0, step: int = 1) -> Func:
    return of(loop(j, count, put(Y, j, value=number(add(mul(j, step), first)))))


def rows(wide: int, *, apart: int, begin: int = 0) -> Func:
    """Columns of 4 rows that begin so many places one after the other."""
    place = add(add(mul(i, apart), j), begin)
    return of(loop(i, 4, loop(j, wide, put(Y, add(mul(j, 4), i), value=number(place)))))


def test_rows_that_follow_one_another_are_drawn_together() -> None:
    f = rows(24, apart=24, begin=8)
    (found,) = drawn(f)
    assert found.tensor.shape == (128,)


def test_columns_of_rows_are_drawn_as_rows() -> None:
    (found,) = drawn(of(loop(j, 24, loop(i, 4, put(Y, add(mul(j, 4), i), value=number(add(mul(i, 24), j)))))))
    assert found.tensor.shape == (128,)


def test_rows_with_gaps_are_drawn_one_by_one() -> None:
    (found,) = drawn(rows(40, apart=44))
    assert found.tensor.shape == (64,)


@pytest.mark.parametrize(("count", "is_drawn"), [(31, False), (32, True), (64, True), (65, True), (MOST, True), (MOST + 1, False)])
def test_loops_are_drawn_ahead_between_the_least_and_the_largest_count(count: int, is_drawn: bool) -> None:
    assert [a.tensor.shape for a in drawn(line(count))] == [(-(-count // 64) * 64,)] * is_drawn


@pytest.mark.parametrize(("first", "step"), [(2, 1), (0, 2), (256, -1)])
def test_numbers_that_begin_within_a_block_or_have_gaps_are_not_drawn_ahead(first: int, step: int) -> None:
    assert not drawn(line(64, first=first, step=step))


@pytest.mark.parametrize("step", [50, 52])
def test_every_iteration_must_begin_with_a_block(step: int) -> None:
    f = of(loop(i, 3, loop(j, 48, put(Y, add(mul(i, 48), j), value=number(add(mul(i, step), j))))))
    assert len(drawn(f)) == (step == 52)


def test_a_last_block_is_drawn_completely() -> None:
    place = add(mul(k, 64), j)
    (found,) = drawn(of(loop(k, 3, loop(j, minimum(64, sub(152, mul(k, 64))), put(Y, place, value=number(place))))))
    assert found.tensor.shape == (3 * 64,)


def test_numbers_of_inner_loops_are_drawn_there() -> None:
    inner = loop(j, 64, put(Y, add(mul(i, 64), j), value=number(add(mul(i, 64), j))))
    (found,) = drawn(of(loop(i, 2, put(Y, 200, value=Const(1.0, DType.f32)), inner)))
    assert found.tensor.shape == (64,)


def test_inner_loops_and_conditions_are_allowed() -> None:
    under_condition = If(Const(1, DType.boolean), put(Y, j, value=number(j)), put(Y, j, value=Const(0.0, DType.f32)))
    twice = loop(j, 64, loop(k, 2, put(Y, add(j, mul(k, 64)), value=number(j))))
    assert len(drawn(of(twice))) == len(drawn(of(loop(j, 64, under_condition)))) == 1


def test_equal_numbers_are_drawn_once_and_different_ones_apart() -> None:
    same = loop(j, 64, put(Y, j, value=Select(Const(1, DType.boolean), number(j), number(j))))
    other = loop(j, 64, put(Y, j, value=number(j)), put(Y, add(j, 64), value=number(j, offset=Const(7))))
    assert len(drawn(of(same))) == 1
    assert len({a.tensor.name for a in drawn(of(other))}) == 2


def test_numbers_of_a_stream_that_changes_are_not_drawn_ahead() -> None:
    """No seed that the loop changes, or that changes with it, or that an output may lie over."""
    assert not drawn(of(loop(j, 64, put(Y, j, value=number(j)), put(SEED, 0, value=j))))
    assert not drawn(of(loop(j, 64, put(Y, j, value=number(j, seed=j)))))
    assert not drawn(of(loop(j, 64, put(Y, j, value=number(j, offset=mul(j, 2))))))
    words = param("words", 64, dtype=DType.s64)
    over = Func("over", (SEED, words), loop(j, 64, put(words, j, value=cast(number(j), DType.s64))))
    assert len(drawn(over)) == 1
    bound = replace(over, inplace=(InplacePair("words", "seed"),))
    assert vectorise_random(bound, TARGET) is bound


@pytest.mark.parametrize(("kind", "scope"), [(LoopKind.serial, Scope.shared), (LoopKind.parallel, Scope.thread)])
def test_each_thread_draws_into_a_private_buffer(kind: LoopKind, scope: Scope) -> None:
    place = add(mul(i, 72), j)
    f = vectorise_random(of(For(i, Const(3), loop(j, 64, put(Y, place, value=number(place))), kind)), TARGET)
    assert {t.scope for t in tensors(plan_buffers(f, TARGET).body) if t.name == "drawn"} == {scope}


def test_parallel_iterations_share_no_drawn_numbers() -> None:
    assert not drawn(of(For(j, Const(64), put(Y, j, value=number(j)), LoopKind.parallel)))
