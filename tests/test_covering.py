"""Selections of parameter combinations."""

from __future__ import annotations

from itertools import combinations, product

import pytest

from tests.support.covering import covering

SIZES = (6, 3, 2, 4)
CASES = [tuple(enumerate(map(str, values))) for values in product(*map(range, SIZES))]


@pytest.mark.parametrize(("strength", "most"), [(1, 6), (2, 28), (3, 90)])
def test_every_tuple_of_values_is_in_few_cases(strength: int, most: int) -> None:
    """A selection of strength n has at least as many cases as the n largest parameters have combinations: 6, 24 and 72."""
    chosen = covering(CASES, strength)
    wanted = {values for case in CASES for values in combinations(case, strength)}
    assert {values for case in chosen for values in combinations(case, strength)} == wanted
    assert len(chosen) <= most


def test_values_are_used_about_as_often_as_each_other() -> None:
    names_and_ways = [tuple(enumerate(values)) for values in product("abcdefgh", "xy")]
    chosen = covering(names_and_ways, 1)
    assert sorted(way for _, (_, way) in chosen) == ["x"] * 4 + ["y"] * 4


def test_a_case_that_is_run_alone_is_kept() -> None:
    assert covering(CASES[7:8], 2) == CASES[7:8]


def test_no_more_values_than_parameters_are_combined() -> None:
    assert covering([((0, "a"),), ((0, "b"),)], 2) == [((0, "a"),), ((0, "b"),)]
