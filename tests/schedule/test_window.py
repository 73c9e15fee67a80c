"""Parts of an axis of windows, and what schedules of windows cost."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import pytest

from benchgraph.core.dtypes import DType
from benchgraph.core.tensor import Shape
from benchgraph.schedule.primitives import parse
from benchgraph.schedule.window import Neighbours, Passed, Read, WindowNest, parts, space
from benchgraph.schedule.window_cost import WindowCosts, choose_window
from tests.support.targets import TARGET

SRC, WEI = Read(0, DType.f32, 1 << 18, 1, 1, (1, 1)), Read(1, DType.f32, 9 << 10, 1, 0, (1, 1))
DEPTHWISE = WindowNest((1, 56, 56, 64), (3, 3), 3, 1, 64, 0.93, 1, (SRC, WEI), DType.f32, Neighbours(2, (1,), 1, (1, 55), 0.96))


@pytest.mark.parametrize("step", [1, 2, 3])
def test_parts_are_an_axis(step: int) -> None:
    """Each index is in one part, and whole blocks are in the interior."""
    for size, first, last, count in product((1, 5, 16, 33), (0, 1, 4), (0, 1, 3), (1, 2, 4)):
        block = count * step
        head, whole, tail = parts(size, (first, max(size - last, first)), block, step)
        begin = head[-1].stop if head else 0
        middle = range(begin, begin + whole * block)
        assert [i for part in (*head, middle, *tail) for i in part] == [*range(size)]
        assert all(len(part) <= block for part in (*head, *tail))
        assert not whole or (begin % step == 0 and first <= begin and middle.stop <= size - last)


def test_schedules_are_text() -> None:
    every = list(space(DEPTHWISE, TARGET.isa.registers))
    assert len(every) == len(set(every)) == 4 * 5
    assert [parse(str(schedule)) for schedule in every] == every
    assert [s.parallel for s in every[-4:]] == [(), ("d0",), ("d0", "d1"), ("d0", "d1", "d2")]
    assert str(every[-1]) == "unroll_jam d2 by 2; unroll t0, t1; order d0, d1, d2, d3, t0, t1; parallel d0, d1, d2; vectorize d3"


def test_fewer_registers_jam_fewer_windows() -> None:
    assert {s.jam.count for s in space(DEPTHWISE, 16)} == {1, 2, 4}


def test_neighbours_pay_where_they_share() -> None:
    """Windows two steps apart share one row of taps of three, windows of one row of taps only weights."""
    costs = [WindowCosts(nest, TARGET) for nest in (DEPTHWISE, replace(DEPTHWISE, reads=(replace(SRC, along_y=2), WEI)))]
    one, eight = (parse(str(s)) for s in space(DEPTHWISE, TARGET.isa.registers) if not s.parallel and s.unrolled and s.jam.count in (1, 8))
    near, apart = (cost(eight).vectors / cost(one).vectors for cost in costs)
    assert near < apart < 1


def test_many_windows_at_a_time_read_memory_slowly() -> None:
    """Here and there. What caches hold is as fast as for one."""
    target = replace(TARGET, llc_bytes=1 << 25)
    every = {s.jam.count: s for s in space(DEPTHWISE, TARGET.isa.registers) if s.unrolled}
    for nbytes, is_slower in ((1 << 18, False), (1 << 28, True)):
        cost = WindowCosts(replace(DEPTHWISE, reads=(replace(SRC, nbytes=nbytes), WEI)), target)
        assert (cost(every[8]).memory > cost(every[1]).memory) is is_slower


def test_the_reason_names_the_next() -> None:
    choice = choose_window(DEPTHWISE, TARGET)
    assert choice.why.startswith(f"{choice.schedule}: least cost, ")
    assert choice.other is not None
    assert f"; next {choice.other[0]}: " in choice.why
    assert choice.cost.total <= choice.other[1].total


@pytest.mark.parametrize(
    ("cores", "shape", "loops"), [(1, (8, 56, 56, 64), 0), (2, (8, 56, 56, 64), 1), (2, (1, 56, 56, 64), 2), (5, (4, 57, 56, 64), 2)]
)
def test_as_few_loops_are_parallel_as_give_each_core_its_share(cores: int, shape: Shape, loops: int) -> None:
    """They become one, whose index tasks divide."""
    assert len(choose_window(replace(DEPTHWISE, shape=shape), replace(TARGET, cores=cores)).schedule.parallel) == loops


def test_short_loops_run_on_one_thread() -> None:
    """Unless tests want all loops on several."""
    short, target = replace(DEPTHWISE, shape=(1, 2, 4, 16)), replace(TARGET, cores=8)
    assert choose_window(DEPTHWISE, target).schedule.parallel
    assert not choose_window(short, target).schedule.parallel
    assert choose_window(short, replace(target, shares_all=True)).schedule.parallel


@pytest.mark.parametrize(("nbytes", "outer", "loops"), [(1 << 20, 2, 2), (1 << 20, 1, 0), (1 << 24, 2, 0)])
def test_loops_are_parallel_where_l1_then_holds_what_they_pass_on(nbytes: int, outer: int, loops: int) -> None:
    """On one core: 8 KB of 1 MB are for each of 2x64 iterations, but 512 KB for each of 2."""
    nest = replace(DEPTHWISE, shape=(2, 64, 64, 64), reads=(replace(SRC, nbytes=nbytes),), passed=(Passed(nbytes, outer),))
    assert len(choose_window(nest, replace(TARGET, cores=1, l1_bytes=1 << 15)).schedule.parallel) == loops
