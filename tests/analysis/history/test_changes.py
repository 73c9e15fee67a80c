"""Change points: found where they are, and no more often than promised where there are none. The noise is made, with a seed."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pytest

from benchgraph.analysis.history.changes import ALPHA, LEAST_RUNS, Change, Series, changes


@dataclass(frozen=True)
class Noise:
    """normal: standard deviation of a run in one case; shared: of a run in all cases; wild: how often a run is 10 to 60 % too slow."""

    normal: float = 0.02
    shared: float = 0.0
    wild: float = 0.0
    heavy: bool = False


def series(rng: np.random.Generator, noise: Noise, *, cases: int = 30, runs: int = 40) -> list[Series]:
    shared = rng.normal(0, noise.shared, runs)
    found = []
    for c in range(cases):
        own = rng.standard_t(3, runs) if noise.heavy else rng.normal(0, 1, runs)
        x = np.log(1e-4 * (c + 1)) + noise.normal * own + shared
        bad = rng.random(runs) < noise.wild
        x[bad] += np.log(rng.uniform(1.1, 1.6, bad.sum()))
        found.append(Series(tuple(range(runs)), tuple(np.exp(x)), (0.0,) * runs))
    return found


def slowed(s: Series, at: int, factor: float, until: int | None = None) -> Series:
    return replace(s, times=tuple(t * factor if at <= i and (until is None or i < until) else t for i, t in enumerate(s.times)))


def where(found: list[Change]) -> list[tuple[int, int, int]]:
    return [(c.series, c.before, c.after) for c in found]


@pytest.mark.parametrize("noise", [Noise(), Noise(shared=0.01), Noise(heavy=True, normal=0.01), Noise(wild=0.03, normal=0.01)], ids=str)
def test_ten_percent_in_one_case_of_thirty_is_found_where_it_is(noise: Noise) -> None:
    exact, others = 0, 0
    for seed in range(10):
        made = series(np.random.default_rng(seed), noise)
        made[7] = slowed(made[7], 25, 1.10)
        found = changes(made, 0.05)
        (change,) = [c for c in found if c.series == 7]
        others += len(found) - 1
        assert abs(change.after - 25) <= 2
        assert change.before == change.after - 1
        assert 1.05 < change.ratio < 1.15
        assert change.low < change.ratio < change.high
        exact += change.after == 25
    assert exact >= 7
    assert others <= 1


@pytest.mark.covering(1)
@pytest.mark.parametrize("runs", [LEAST_RUNS, 12, 40])
@pytest.mark.parametrize("noise", [Noise(), Noise(heavy=True), Noise(wild=0.05), Noise(shared=0.02)], ids=str)
def test_noise_alone_raises_no_more_alarms_than_promised(noise: Noise, runs: int) -> None:
    """An alarm is any change in any of 12 cases, however small. Of n histories so many alarm that chance explains it in 99.9 %."""
    n = 60
    alarms = sum(bool(changes(series(np.random.default_rng([seed, runs]), noise, cases=12, runs=runs), 0.0)) for seed in range(n))
    assert alarms <= n * ALPHA + 3.1 * (n * ALPHA * (1 - ALPHA)) ** 0.5


def test_noise_seldom_reaches_the_threshold() -> None:
    assert sum(bool(changes(series(np.random.default_rng(seed), Noise(), cases=30), 0.05)) for seed in range(60)) <= 1


@pytest.mark.parametrize("at", [0, 1, 20, 37, 38, 39])
def test_one_bad_run_is_no_change(at: int) -> None:
    for seed in range(5):
        made = series(np.random.default_rng(seed), Noise(0.005))
        made[3] = slowed(made[3], at, 1.5, until=at + 1)
        assert changes(made, 0.02) == []


def test_a_bad_run_of_all_cases_is_no_change() -> None:
    made = [slowed(s, 38, 1.5, until=39) for s in series(np.random.default_rng(1), Noise())]
    assert changes(made, 0.05) == []


def test_the_last_three_runs_can_show_a_change_and_the_last_two_cannot() -> None:
    for runs, expected in ((3, [(7, 36, 37)]), (2, [])):
        made = series(np.random.default_rng(2), Noise(0.01))
        made[7] = slowed(made[7], 40 - runs, 1.10)
        assert where(changes(made, 0.05)) == expected


def test_few_runs_show_what_is_large() -> None:
    made = series(np.random.default_rng(3), Noise(0.005), runs=LEAST_RUNS)
    made[7] = slowed(made[7], 4, 1.10)
    assert where(changes(made, 0.05)) == [(7, 3, 4)]


def test_too_few_runs_show_nothing() -> None:
    made = series(np.random.default_rng(3), Noise(0.005), runs=LEAST_RUNS - 1)
    made[7] = slowed(made[7], 3, 2.0)
    assert changes(made, 0.05) == []


def test_everything_slower_at_once_is_found_in_every_case() -> None:
    made = [slowed(s, 25, 1.10) for s in series(np.random.default_rng(4), Noise(0.01), cases=10)]
    assert where(changes(made, 0.05)) == [(i, 24, 25) for i in range(10)]


def test_a_large_change_does_not_hide_a_small_one() -> None:
    """Eight large changes raise the level that the ninth, of 1.4 %, must exceed; once they are cut, they no longer do."""
    made = [slowed(s, 20, 1.5) if i < 8 else s for i, s in enumerate(series(np.random.default_rng(9), Noise(0.01), cases=10))]
    made[9] = slowed(made[9], 20, 1.014)
    assert where(changes(made, 0.0)) == [(i, 19, 20) for i in (*range(8), 9)]


def test_several_changes_of_one_case_and_what_was_mended() -> None:
    made = series(np.random.default_rng(5), Noise(0.01), cases=5, runs=60)
    made[2] = slowed(slowed(made[2], 15, 1.2, until=30), 45, 1.3)
    found = changes(made, 0.05)
    assert where(found) == [(2, 14, 15), (2, 29, 30), (2, 44, 45)]
    assert [round(c.ratio, 1) for c in found] == [1.2, 0.8, 1.3]
    assert [c.mended for c in found] == [None, None, None]  # it got slow again, so the first is not over
    made[2] = slowed(series(np.random.default_rng(5), Noise(0.01), cases=5, runs=60)[2], 15, 1.2, until=30)
    assert [c.mended for c in changes(made, 0.05)] == [30, None]


def test_a_change_below_the_threshold_does_not_count() -> None:
    made = series(np.random.default_rng(6), Noise(0.005))
    made[7] = slowed(made[7], 25, 1.04)
    assert changes(made, 0.05) == []
    assert where(changes(made, 0.02)) == [(7, 24, 25)]


def test_a_constant_factor_changes_nothing() -> None:
    made = series(np.random.default_rng(7), Noise())
    made[7] = slowed(made[7], 25, 1.10)
    faster = [replace(s, times=tuple(t / 3 for t in s.times)) for s in made]
    for one, other in zip(changes(made, 0.05), changes(faster, 0.05), strict=True):
        assert (one.series, one.before, one.after) == (other.series, other.before, other.after)
        assert one.ratio == pytest.approx(other.ratio)


def test_positions_are_those_of_the_history() -> None:
    """A case that other runs left out."""
    made = series(np.random.default_rng(8), Noise(0.01), cases=1, runs=20)
    sparse = replace(slowed(made[0], 10, 1.10), runs=tuple(range(0, 60, 3)))
    assert where(changes([sparse], 0.05)) == [(0, 27, 30)]


# ---- the clock -------------------------------------------------------------------------------------------------------


def test_changes_of_the_clock_are_not_reported() -> None:
    """From run 20 on the machine is 20 % slower, and so are cases that are bound by arithmetic."""
    made = series(np.random.default_rng(9), Noise(0.01), cases=5)
    peaks = tuple(1e9 if i < 20 else 1e9 / 1.2 for i in range(40))
    assert changes([replace(slowed(s, 20, 1.2), peaks=peaks, share=1.0) for s in made], 0.05) == []
    assert len(changes([replace(s, peaks=peaks, share=1.0) for s in made], 0.05)) == 5  # these ought to have got slower


def test_a_case_that_need_not_follow_the_clock_is_not_blamed_for_either() -> None:
    made = series(np.random.default_rng(9), Noise(0.01), cases=5)
    peaks = tuple(1e9 if i < 20 else 1e9 / 1.2 for i in range(40))
    for factor in (1.0, 1.1, 1.2):
        assert changes([replace(slowed(s, 20, factor), peaks=peaks, share=0.0) for s in made], 0.05) == []
    assert len(changes([replace(slowed(s, 20, 1.5), peaks=peaks, share=0.0) for s in made], 0.05)) == 5


def test_no_series_no_changes() -> None:
    assert changes([], 0.05) == []
    assert changes([Series((), (), ())], 0.05) == []


def test_times_that_never_differ_are_no_change() -> None:
    assert changes([Series(tuple(range(20)), (1.0,) * 20, (1e9,) * 20)] * 3, 0.0) == []
