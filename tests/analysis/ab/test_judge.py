"""Verdicts on simulated launches, whose noise is that of real ones: shared by a round, correlated, full of outliers, drifting."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pytest

from benchgraph.analysis.ab.judge import Launch, Plan, Timed, judge, mean_ratio
from benchgraph.analysis.inference.verdicts import ALPHA, Judgement, Verdict

CHANGED = (Verdict.regressed, Verdict.improved)


@dataclass(frozen=True)
class Noise:
    """Standard deviations of logarithms. sample: of one version, with correlation rho from round to round; shared: of both in a round;
    drift: of both over a launch; between: of a case's ratio from launch to launch, which itself differs by a factor of exp(spread); late:
    the share of samples that something interrupted.
    """

    sample: float = 0.015
    rho: float = 0.5
    shared: float = 0.03
    drift: float = 0.05
    between: float = 0.005
    spread: float = 0.4
    late: float = 0.05

    def series(self, rng: np.random.Generator, shape: tuple[int, int], sd: float, rho: float) -> np.ndarray:
        from scipy.signal import lfilter  # a second of importing, which tests of other files need not wait for

        return lfilter([sd * np.sqrt(1 - rho**2)], [1, -rho], rng.normal(size=shape), axis=1)

    def batch(
        self, rng: np.random.Generator, cases: int, launches: int, rounds: int = 15, slower: dict[int, float] | None = None
    ) -> list[Timed]:
        """slower: case -> factor by which NEW is slower."""
        shape, widths = (cases, rounds), self.between * np.exp(self.spread * rng.normal(size=cases))
        effect = np.zeros(cases)
        for case, factor in (slower or {}).items():
            effect[case] = np.log(factor)
        found: list[list[Launch]] = [[] for _ in range(cases)]
        for number in range(launches):
            common = self.series(rng, shape, self.shared, 0.8) + np.linspace(0, self.drift, rounds)
            old, new = (
                common + self.series(rng, shape, self.sample, self.rho) + (rng.random(shape) < self.late) * rng.exponential(0.5, shape)
                for _ in range(2)
            )
            new += (effect + widths * rng.normal(size=cases))[:, None]
            for case in range(cases):
                found[case].append(Launch(number, tuple(1e-3 * np.exp(old[case])), tuple(1e-3 * np.exp(new[case]))))
        return [Timed(str(i), tuple(each)) for i, each in enumerate(found)]


def exchanged(timed: list[Timed]) -> list[Timed]:
    return [replace(t, launches=tuple(Launch(x.number, x.new, x.old) for x in t.launches)) for t in timed]


def scaled(timed: list[Timed], factor: float) -> list[Timed]:
    def times(samples: tuple[float, ...]) -> tuple[float, ...]:
        return tuple(factor * s for s in samples)

    return [replace(t, launches=tuple(Launch(x.number, times(x.old), times(x.new)) for x in t.launches)) for t in timed]


@pytest.fixture(scope="module")
def batch() -> list[Timed]:
    return Noise().batch(np.random.default_rng(0), 12, 4, slower={0: 1.3, 1: 0.7})


def test_exchanging_the_versions_inverts_every_ratio(batch: list[Timed]) -> None:
    forth, back = judge(batch, 0.02, Plan(4, 4)), judge(exchanged(batch), 0.02, Plan(4, 4))
    opposite = {Verdict.regressed: Verdict.improved, Verdict.improved: Verdict.regressed}
    for a, b in zip(forth, back, strict=True):
        np.testing.assert_allclose((a.ratio, a.low, a.high), (1 / b.ratio, 1 / b.high, 1 / b.low), rtol=1e-9)
        assert b.verdict is opposite.get(a.verdict, a.verdict)
    assert [j.verdict for j in forth[:2]] == list(CHANGED)


def test_the_unit_of_time_does_not_matter(batch: list[Timed]) -> None:
    for a, b in zip(judge(batch, 0.02, Plan(4, 4)), judge(scaled(batch, 1e6), 0.02, Plan(4, 4)), strict=True):
        np.testing.assert_allclose((a.ratio, a.low, a.high), (b.ratio, b.low, b.high), rtol=1e-9)


def test_what_a_round_shares_cancels(batch: list[Timed]) -> None:
    """A neighbour that slows both versions down tenfold in some rounds changes nothing."""
    busy = np.where(np.arange(15) % 4 == 0, 10.0, 1.0)
    slowed = [replace(t, launches=tuple(Launch(x.number, tuple(busy * x.old), tuple(busy * x.new)) for x in t.launches)) for t in batch]
    for a, b in zip(judge(batch, 0.02, Plan(4, 4)), judge(slowed, 0.02, Plan(4, 4)), strict=True):
        np.testing.assert_allclose((a.ratio, a.low, a.high), (b.ratio, b.low, b.high), rtol=1e-9)


@pytest.mark.parametrize(
    ("noise", "plan", "threshold", "cases"),
    [
        (Noise(), Plan(3, 3), 0.0, 200),
        (Noise(sample=0.05, between=0.03), Plan(3, 3), 0.02, 50),
        (Noise(between=0.01), Plan(2, 6), 0.0, 50),
    ],
    ids=["usual", "noisy", "three looks"],
)
def test_a_batch_without_changes_has_no_more_false_alarms_than_promised(noise: Noise, plan: Plan, threshold: float, cases: int) -> None:
    """At thresholds where little but the intervals keeps alarms away."""
    rng = np.random.default_rng(5)
    alarms = sum(any(j.verdict in CHANGED for j in judge(noise.batch(rng, cases, plan.most, 10), threshold, plan)) for _ in range(10))
    assert alarms <= ALPHA * 10


def test_a_kernel_that_became_5_percent_slower_is_found_at_usual_noise() -> None:
    noise, rng, plan, found = Noise(sample=0.01), np.random.default_rng(3), Plan(5, 5), list[list[Judgement]]()
    for _ in range(10):
        found.append(judge(noise.batch(rng, 50, plan.most, 20, {0: 1.05}), 0.02, plan))
    assert sum(first.verdict is Verdict.regressed for first, *_ in found) >= 8
    assert np.mean([sum(j.verdict is Verdict.same for j in others) for _, *others in found]) > 40


def test_further_launches_decide_what_the_first_cannot() -> None:
    noise, rng = Noise(sample=0.03, between=0.02), np.random.default_rng(3)
    timed = noise.batch(rng, 30, 12, 15, {0: 1.07})
    assert judge(timed, 0.02, Plan(3, 3))[0].verdict is Verdict.unknown
    assert judge(timed, 0.02, Plan(3, 12))[0].verdict is Verdict.regressed


def test_a_verdict_is_final() -> None:
    """Launches after the look that decided a case are not looked at, and need not be there."""
    timed = Noise().batch(np.random.default_rng(1), 20, 6, slower={0: 1.4})
    first, *others = timed
    contrary = replace(first, launches=(*first.launches[:3], *exchanged([first])[0].launches[3:]))
    for changed in (contrary, replace(first, launches=first.launches[:3])):
        assert judge([changed, *others], 0.02, Plan(3, 6))[0].verdict is Verdict.regressed


def test_one_launch_is_judged_by_the_spread_of_all_cases() -> None:
    found = judge(Noise().batch(np.random.default_rng(2), 60, 1, 20, {0: 1.5}), 0.02, Plan(1, 1))
    assert found[0].verdict is Verdict.regressed
    assert not [j for j in found[1:] if j.verdict in CHANGED]


def test_too_few_rounds_tell_nothing() -> None:
    few = Timed("0", (Launch(0, (1.0,) * 4, (2.0,) * 4),))
    (j,) = judge([few], 0.05, Plan())
    assert (j.ratio, j.verdict, np.isnan(j.low)) == (pytest.approx(2), Verdict.unknown, True)
    assert judge([], 0.05, Plan()) == []


def test_the_mean_of_a_group_goes_by_launches() -> None:
    """Its error is that from launch to launch, even where all cases move together."""
    rng = np.random.default_rng(0)
    timed = Noise(between=0.0).batch(rng, 40, 5)
    ratio, low, high = mean_ratio(timed, 5)
    assert low < 1 < high < 1.02
    factors = (0.9, 0.95, 1.0, 1.05, 1.1)
    moved = [
        replace(t, launches=tuple(Launch(x.number, x.old, tuple(f * s for s in x.new)) for x, f in zip(t.launches, factors, strict=True)))
        for t in timed
    ]
    _, wide_low, wide_high = mean_ratio(moved, 5)
    assert wide_high / wide_low > 1.15
    np.testing.assert_allclose(mean_ratio(exchanged(timed), 5), (1 / ratio, 1 / high, 1 / low))
    assert np.isnan(mean_ratio(timed, 1)[1])
    assert np.isnan(mean_ratio([], 3)[0])
