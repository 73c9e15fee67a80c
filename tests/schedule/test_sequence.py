"""What the time of nests one after the other must be like, whatever the machine."""

from __future__ import annotations

from dataclasses import replace
from math import prod

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchgraph.core.dtypes import DType
from benchgraph.core.isa import ISAS
from benchgraph.machine.table import rates
from benchgraph.machine.target import Target
from benchgraph.schedule.gemm import dense
from benchgraph.schedule.nest import Loop
from benchgraph.schedule.sequence import Data, Nest, Step, fetched, missing, of_one_core, sequence_ns

MACHINES = ("zen3", "zen4", "zen5", "cascade_lake", "granite_rapids")
KIB = 1024
ROWS, COLUMNS, TERMS = 8, 64, 4 * KIB  # of a call; its wei is 1 MiB
CALL_BYTES = 4 * COLUMNS * TERMS


def target(machine: str = "zen4", l2_bytes: int = 2 << 20, cores: int = 1) -> Target:
    return Target(ISAS["avx2" if machine == "zen3" else "avx512_core"], 32 << 10, l2_bytes, cores, machine=machine)


def ns(*nests: Nest, at: Target | None = None) -> float:
    at = at or target()
    return sequence_ns(nests, at, rates(at))


def step(name: str, panels: int, *, src: str = "x", inner: bool = True, waits: bool = False) -> Step:
    """8 rows by 64 columns a call, of a product of so many panels of 1 MiB."""
    gemm = dense(1, ROWS, COLUMNS * panels, TERMS, DType.f32, DType.f32, target())
    data = (
        Data(src, 4 * ROWS, ("batch",)),
        Data(f"{name}.wei", CALL_BYTES, ("n",), waits=waits),
        Data(f"{name}.dst", 4 * ROWS * COLUMNS, ("batch", "n"), is_written=True),
    )
    return Step(gemm, ROWS, COLUMNS, (Loop("n", panels),) if inner else (), data)


def by_rows(*steps: Step, entries: int = 7) -> Nest:
    return Nest((Loop("batch", entries),), 1, steps)


def panels_first(name: str, panels: int, entries: int = 7) -> Nest:
    return Nest((Loop("n", panels), Loop("batch", entries)), 1, (step(name, panels, inner=False),))


@pytest.mark.parametrize("machine", MACHINES)
def test_one_nest_is_slower_where_each_task_would_read_weights_that_an_order_of_loops_keeps_in_l2(machine: str) -> None:
    at = target(machine)
    one, apart = by_rows(step("big", 8), step("small", 1)), (panels_first("big", 8), by_rows(step("small", 1)))
    assert ns(*apart, at=at) < 0.95 * ns(one, at=at)


@pytest.mark.parametrize("machine", MACHINES)
def test_one_nest_is_as_fast_where_l2_holds_all_weights(machine: str) -> None:
    at = target(machine, l2_bytes=64 << 20, cores=2)
    one = replace(by_rows(step("a", 8), step("b", 1, src="a.dst")), cores=2)
    apart = replace(by_rows(step("a", 8)), cores=2), replace(by_rows(step("b", 1, src="a.dst")), cores=2)
    assert ns(one, at=at) < ns(*apart, at=at)  # fork and join, and what is left for the second


def test_weights_that_nothing_fetches_ahead_take_longer() -> None:
    assert ns(by_rows(step("a", 8, waits=True))) > ns(by_rows(step("a", 8)))


def test_a_reader_with_other_tasks_fetches_lines_from_other_cores() -> None:
    at = target(l2_bytes=64 << 20, cores=2)
    maker, reader = replace(by_rows(step("a", 1)), cores=2), by_rows(step("b", 1, src="a.dst"))
    split = replace(reader, tasks=(Loop("batch", 7), Loop("n", 1)))
    assert ns(maker, split, at=at) > ns(maker, reader, at=at)


@given(st.floats(0, 1e9), st.floats(0, 1e9), st.integers(1, 1 << 25))
def test_more_bytes_are_missed_more(some: float, more: float, cache_bytes: int) -> None:
    assert 0 <= missing(some, cache_bytes) <= missing(some + more, cache_bytes) <= 1


loops = st.lists(st.tuples(st.sampled_from(["batch", "m", "n"]), st.integers(1, 9)), max_size=4)
tensors = st.lists(st.tuples(st.integers(1, 10**5), st.sets(st.sampled_from(["batch", "m", "n"])), st.booleans()), max_size=3)


@given(loops, tensors, st.integers(1, 1 << 20), st.integers(0, 1 << 20))
def test_a_larger_cache_fetches_no_more_and_each_tensor_at_least_once(
    around: list[tuple[str, int]], operands: list[tuple[int, set[str], bool]], cache_bytes: int, more: int
) -> None:
    nest = [Loop(axis, trips) for axis, trips in around]
    data = [Data(str(i), nbytes, tuple(axes), is_written) for i, (nbytes, axes, is_written) in enumerate(operands)]
    least, some = (fetched(nest, data, size) for size in (cache_bytes + more, cache_bytes))
    for d in data:
        assert (1 + d.is_written) * d.within(nest) <= least[d.name] * (1 + 1e-9)
        assert least[d.name] <= (1 + d.is_written) * d.nbytes * prod(trips for _, trips in around) * (1 + 1e-9)
    assert sum(least.values()) <= sum(some.values()) * (1 + 1e-9)


def test_a_tensor_stays_while_inner_loops_do_not_move_it() -> None:
    nest = [Loop("n", 4), Loop("batch", 10), Loop("m", 3)]
    moved = fetched(nest, [Data("wei", 1000, ("n",)), Data("src", 10, ("batch", "m"))], 1100)
    assert moved == {"wei": 4000, "src": 1200}


@given(loops, st.integers(1, 9))
def test_parts_of_cores_cover_all_iterations(around: list[tuple[str, int]], cores: int) -> None:
    parallel = [Loop(axis, trips) for axis, trips in around]
    assert prod(loop.trips for loop in of_one_core(parallel, cores)) * cores >= prod(loop.trips for loop in parallel)
