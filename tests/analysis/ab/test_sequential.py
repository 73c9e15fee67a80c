"""A search with as many launches as it needs: its answers, its errors, and what it does with commits that cannot be tested."""

from __future__ import annotations

import math

import numpy as np
import pytest

from benchgraph.analysis.ab.bisection import Answer, first_bad
from benchgraph.analysis.ab.sequential import FEWEST, Search


def row(bad: int, skipped: frozenset[int] = frozenset()) -> tuple[list[int], object]:
    tried = list[int]()

    def test(at: int) -> Answer:
        tried.append(at)
        return Answer.skipped if at in skipped else Answer.bad if at >= bad else Answer.good

    return tried, test


@pytest.mark.parametrize("count", [1, 2, 3, 8, 31, 32, 33])
def test_the_first_bad_commit_is_found_in_as_many_steps_as_halving_takes(count: int) -> None:
    for bad in range(count):
        tried, test = row(bad)
        assert first_bad(count, test) == range(bad, bad + 1)  # type: ignore[arg-type]
        assert len(tried) == len(set(tried)) <= math.ceil(math.log2(count))


def test_what_was_skipped_before_the_first_bad_commit_stays_open() -> None:
    assert first_bad(32, row(20, frozenset({18, 19}))[1]) == range(18, 21)  # type: ignore[arg-type]
    assert first_bad(32, row(20, frozenset({15, 16, 25}))[1]) == range(20, 21)  # type: ignore[arg-type]
    assert first_bad(4, row(2, frozenset(range(3)))[1]) == range(4)  # type: ignore[arg-type]


def decide(search: Search, rng: np.random.Generator, effect: float, noise: float, boundary: float, most: int = 200) -> tuple[bool, int]:
    """Whether the test calls the candidate slow, and after how many launches."""
    search.begin()
    for n in range(1, most + 1):
        search.observe(math.exp(effect + noise * rng.normal()))
        look = search.look(boundary)
        assert (look is None) is (n < FEWEST)
        if look is not None and look.is_above is not None:
            return look.is_above, n
    raise AssertionError("undecided")


def test_wrong_answers_are_as_rare_as_promised() -> None:
    """Effects are at 0 or 10 %, the boundary is halfway, and the noise of a launch is as large as the distance."""
    rng, wrong, boundary = np.random.default_rng(0), 0, 1.1**0.5
    for _ in range(60):
        search = Search()
        answers = [decide(search, rng, slow * math.log(1.1), 0.05, boundary)[0] is bool(slow) for slow in (1, 0, 1, 1, 0, 0)]
        wrong += not all(answers)
    assert wrong <= 0.05 * 60


def test_more_noise_takes_more_launches_and_what_is_known_of_it_spares_some() -> None:
    rng = np.random.default_rng(1)

    def launches(noise: float) -> tuple[float, float]:
        """Of the first test of a search, and of the fourth."""
        counts = []
        for _ in range(20):
            search = Search()
            counts.append([decide(search, rng, math.log(1.1), noise, 1.05)[1] for _ in range(4)])
            assert search.launches == sum(counts[-1])
        first, *_, last = np.mean(counts, axis=0)
        return float(first), float(last)

    (quiet, quiet_last), (loud, _) = launches(0.01), launches(0.04)
    assert quiet_last == FEWEST <= quiet < loud


def test_a_fast_version_is_below_and_launches_without_noise_decide_at_once() -> None:
    rng = np.random.default_rng(2)
    assert decide(Search(), rng, math.log(0.5), 0.0, 1.05) == (False, FEWEST)
    assert decide(Search(), rng, math.log(1.5), 0.0, 1.05) == (True, FEWEST)
