"""The schedules of a product: each once, with text that parses, the cheapest of them taken."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchgraph.core.divisors import divisors
from benchgraph.core.dtypes import DType
from benchgraph.core.errors import ParseError
from benchgraph.schedule.choose import ALIKE, choose
from benchgraph.schedule.cost import Costs
from benchgraph.schedule.gemm import Gemm
from benchgraph.schedule.primitives import parse
from benchgraph.schedule.space import panel_widths, space, spaced
from benchgraph.schedule.steps import alone, share
from tests.support.gemms import dense
from tests.support.targets import TARGET

sizes = st.integers(1, 600)


def gemm(m: int, n: int, k: int = 64, batch: int = 1) -> Gemm:
    return dense(batch, m, n, k, DType.f32, DType.f32, TARGET)


@given(sizes, sizes, st.integers(1, 4))
def test_each_schedule_is_there_once_and_its_text_parses(m: int, n: int, batch: int) -> None:
    every = list(space(alone(gemm(m, n, batch=batch)), panel_widths(n, TARGET.lanes)[:3], TARGET, may_spread=True))
    assert len(set(every)) == len(every)
    assert [parse(str(s)) for s in every] == every


@given(sizes, sizes)
def test_rows_and_columns_may_stay_whole_or_be_cut_to_the_last(m: int, n: int) -> None:
    every = list(space(alone(gemm(m, n)), panel_widths(n, TARGET.lanes), TARGET, may_spread=True))
    all_columns = panel_widths(n, TARGET.lanes)[0]
    assert n <= all_columns < n + TARGET.lanes
    assert {(s.sizes("m")[0], s.sizes("n")[-1]) for s in every} >= {(1, all_columns), (m, all_columns), (m, min(n, TARGET.lanes))}


def test_columns_that_may_not_be_tasks_are_the_inner_loop() -> None:
    assert all(s.parallel == ("b0", "m.0") for s in space(alone(gemm(8, 640)), (64,), TARGET, may_spread=False))


@given(st.integers(1, 10**6))
def test_blocks_that_are_nearly_alike_are_not_told_apart(total: int) -> None:
    found = list(spaced(total))
    assert found[0] == total
    assert found[-1] == 1
    assert len(found) < 140 + len(divisors(total))


@given(sizes, sizes, st.integers(1, 2000), st.integers(1, 8), st.integers(1, 16))
def test_no_other_schedule_costs_less(m: int, n: int, k: int, batch: int, cores: int) -> None:
    g, target = gemm(m, n, k, batch), replace(TARGET, cores=cores)
    found, costs = choose(alone(g), (64,), target, may_spread=True), Costs(alone(g), target)
    others = [costs(s).total for s in space(alone(g), (64,), target, may_spread=True)]
    assert found.cost.total == costs(found.schedule).total <= (1 + ALIKE) * min(others)
    assert found.other is None or found.other[1].total >= found.cost.total / (1 + ALIKE)


@pytest.mark.parametrize(("m", "n", "k"), [(32, 1024, 479), (32, 1024, 1024), (16, 4096, 1024)])
def test_few_rows_by_many_columns_have_their_columns_spread(m: int, n: int, k: int) -> None:
    assert choose(alone(gemm(m, n, k)), (64,), replace(TARGET, cores=4), may_spread=True).schedule.parallel.count("n.0") == 1


def test_many_rows_are_tasks_with_all_columns() -> None:
    assert choose(alone(gemm(4096, 64, 1024)), (64,), replace(TARGET, cores=4), may_spread=True).schedule.parallel == ("b0", "m.0")


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("tile m by", "not a primitive of a schedule"),
        ("tile m by 64; skew m.1", "not a primitive of a schedule"),
        ("order b0, m.0; parallel m.0", "parallel loops are not the outermost ones"),
    ],
)
def test_what_is_no_schedule_is_refused(text: str, what: str) -> None:
    with pytest.raises(ParseError, match=what):
        parse(text)


@pytest.mark.parametrize("m", [32, 64, 128, 512])
def test_short_sums_leave_rows_to_one_core(m: int) -> None:
    """A core that writes some columns of each row fetches the others' lines; long sums hide that."""
    schedule = choose(alone(gemm(m, 512, 13)), (64,), TARGET, may_spread=True).schedule
    assert "n" not in share({"b0": 1, "m": m, "n": 512, "k": 13}, schedule, TARGET.cores).parts
