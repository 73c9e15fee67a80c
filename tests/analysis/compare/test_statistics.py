"""Verdicts on artificial runs whose noise is that of real ones: correlated, full of outliers, on a machine whose clock drifts."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pytest

from benchgraph.analysis.compare.statistics import CLOCKS, Pair, Run, judge, moved
from benchgraph.analysis.inference.verdicts import ALPHA, Judgement, Verdict
from benchgraph.analysis.inference.within_run import LEAST_ROUNDS, interleaved_intervals

PEAK = 1e11
CHANGED = (Verdict.regressed, Verdict.improved)


@dataclass(frozen=True)
class Machine:
    """Its noise. sample: standard deviation within a run, with correlation rho from round to round; between: of a case from run to run;
    clock: of the clock from run to run; outliers: share of samples that something interrupted.
    """

    sample: float = 0.015
    rho: float = 0.6
    between: float = 0.005
    clock: float = 0.03
    outliers: float = 0.05

    def series(self, rng: np.random.Generator, n: int, sd: float, rho: float) -> np.ndarray:
        from scipy.signal import lfilter  # a second of importing, which tests of other files need not wait for

        return lfilter([sd * np.sqrt(1 - rho**2)], [1, -rho], rng.normal(size=n), zi=[rho * sd * rng.normal()])[0]

    def late(self, rng: np.random.Generator, n: int) -> np.ndarray:
        return (rng.random(n) < self.outliers) * rng.exponential(0.5, n)


def simulate(rng: np.random.Generator, machine: Machine, cases: int, runs: int = 1, rounds: int = 20, slower: float = 0.0) -> list[Pair]:
    """Two policies per case, which share the case's rounds; the first policy of the first case is slower on side B."""
    times, shares = 10 ** rng.uniform(-4, -1, cases), rng.uniform(0.1, 0.95, cases)
    slopes = rng.uniform(shares, 1)  # how the case really follows the clock
    sides: list[list[list[Run]]] = []
    for side in range(2):
        found: list[list[Run]] = [[] for _ in range(2 * cases)]
        for _ in range(runs):
            base = rng.normal() * machine.clock
            for case in range(cases):
                clock = base + machine.series(rng, rounds, 0.02, 0.8)
                peaks = PEAK * np.exp(clock + machine.series(rng, rounds, 0.01, 0.3) - machine.late(rng, rounds))
                share = rng.normal() * machine.between
                for policy in range(2):
                    changed = np.log1p(slower) if side == 1 and case == policy == 0 else 0.0
                    noise = share + machine.series(rng, rounds, machine.sample, machine.rho) + machine.late(rng, rounds)
                    seconds = times[case] * np.exp(changed - slopes[case] * clock + noise)
                    found[2 * case + policy].append(Run(tuple(seconds), tuple(peaks)))
        sides.append(found)
    flops = np.repeat(times * shares * PEAK, 2)
    return [Pair(str(i // 2), tuple(a), tuple(b), f) for i, (a, b, f) in enumerate(zip(*sides, flops, strict=True))]


def verdicts(pairs: list[Pair], threshold: float = 0.05) -> list[Verdict]:
    return [j.verdict for j in judge(pairs, threshold)]


def steady(seconds: float, rounds: int = 20) -> Run:
    """A run of small regular noise."""
    return Run(tuple(seconds * (1 + 0.001 * np.sin(np.arange(rounds)))))


@pytest.mark.parametrize(
    ("machine", "shape"),
    [
        (Machine(), {"cases": 4}),
        (Machine(between=0.02), {"cases": 6, "rounds": 10}),
        (Machine(sample=0.05, rho=0.8), {"cases": 3}),
        (Machine(between=0.01), {"cases": 3, "runs": 2, "rounds": 10}),
    ],
    ids=["usual", "runs differ", "few cases", "two runs"],
)
def test_noise_alone_gives_no_more_false_alarms_than_promised(machine: Machine, shape: dict[str, int]) -> None:
    """At threshold 0, where nothing but the intervals keeps alarms away."""
    rng = np.random.default_rng(7)
    alarms = sum(any(v in CHANGED for v in verdicts(simulate(rng, machine, **shape), 0.0)) for _ in range(100))
    assert alarms <= ALPHA * 100


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize(("slower", "runs"), [(0.10, 3), (0.15, 1)])
def test_one_case_of_thirty_that_got_slower_is_found(slower: float, runs: int, seed: int) -> None:
    machine = Machine(sample=0.01, clock=0.01)
    found = verdicts(simulate(np.random.default_rng(seed), machine, 30, runs, rounds=30, slower=slower))
    assert found[0] is Verdict.regressed
    assert not [v for v in found[1:] if v in CHANGED]
    assert found.count(Verdict.same) > 40


@pytest.mark.parametrize(("runs", "most"), [(1, 0.2), (3, 0.1)])
def test_the_stated_power_is_reached(runs: int, most: float) -> None:
    """A case slowed down by what it says is found in about POWER of the comparisons, and by half as much beyond the threshold seldom."""
    machine, rng = Machine(sample=0.01, clock=0.01), np.random.default_rng(11)
    least = float(np.median([j.found for j in judge(simulate(rng, machine, 10, runs, rounds=30), 0.05)])) - 1
    assert 0.05 < least < most

    def share(slower: float) -> float:
        found = (verdicts(simulate(rng, machine, 10, runs, rounds=30, slower=slower))[0] for _ in range(20))
        return sum(v is Verdict.regressed for v in found) / 20

    assert 0.6 < share(least) <= 1.0
    assert share(0.05 + (least - 0.05) / 2) < 0.6


def test_a_clock_that_changed_is_not_a_regression() -> None:
    """Times grow by 10 % because the clock is slower; without the peaks that could not be told from slower code."""
    rng = np.random.default_rng(3)
    noise = [1 + 0.002 * rng.normal(size=30) for _ in range(4)]
    pairs = [
        Pair(
            str(i),
            (Run(tuple(1e-3 * noise[0]), tuple(PEAK * noise[1])),),
            (Run(tuple(1.1e-3 * noise[2]), tuple(PEAK / 1.1 * noise[3])),),
            0.95e-3 * PEAK,
        )
        for i in range(9)
    ]
    assert verdicts(pairs) == [Verdict.same] * 9
    blind = [replace(p, a=tuple(Run(r.times) for r in p.a), b=tuple(Run(r.times) for r in p.b)) for p in pairs]
    assert verdicts(blind) == [Verdict.regressed] * 9
    memory_bound = [replace(p, flops=0.0) for p in pairs]  # may follow the clock or not
    assert verdicts(memory_bound) == [Verdict.unknown] * 9


def test_a_peak_that_moved_by_more_than_a_clock_leaves_no_verdict() -> None:
    a, b = steady(1e-3), steady(2e-3)
    peaks = (PEAK,) * 20
    for factor, want in ((1.01 / CLOCKS, False), (0.99 / CLOCKS, True)):
        pair = Pair(
            "", (replace(a, peaks=peaks),), (replace(b, peaks=tuple(p * factor for p in peaks)),), PEAK
        )  # all of its time follows the clock
        assert moved(pair) is want
        (judged,) = judge([pair], 0.05)
        assert np.isnan(judged.low) == want
        assert judged.ratio == pytest.approx(2.0 if want else 2.0 * factor, rel=1e-3)


def test_the_threshold_is_a_band() -> None:
    """Without drift and nearly without noise, only ALLOWANCE is left of the interval."""
    pairs = [Pair(str(ratio), (steady(1.0),) * 3, (steady(ratio),) * 3) for ratio in (1.001, 1.02, 1.2, 1 / 1.2, 1.05)]
    same, regressed, improved, unknown = Verdict.same, Verdict.regressed, Verdict.improved, Verdict.unknown
    assert verdicts(pairs) == [same, same, regressed, improved, unknown]
    assert verdicts(pairs, 0.5) == [same] * 5
    assert verdicts(pairs, 0.0)[0] is unknown  # nothing can be proved equal to the last digit


@pytest.mark.parametrize("rounds", [1, LEAST_ROUNDS - 1])
def test_too_few_rounds_are_not_enough(rounds: int) -> None:
    pairs = [
        Pair("a", (steady(1.0, rounds),), (steady(9.0),)),
        Pair("b", (steady(1.0),), (steady(9.0, rounds),)),
        Pair("c", (), (steady(1.0),)),
    ]
    judged = judge(pairs, 0.05)
    assert [j.verdict for j in judged] == [Verdict.unknown] * 3
    assert judged[0].ratio == pytest.approx(9.0, rel=2e-3)
    assert all(np.isnan(j.low) and np.isnan(j.high) for j in judged)


def test_samples_that_scatter_are_not_enough() -> None:
    rng = np.random.default_rng(0)
    pairs = [Pair(str(i), *((Run(tuple(np.exp(rng.normal(size=6)))),) for _ in range(2))) for i in range(10)]
    assert verdicts(pairs) == [Verdict.unknown] * 10


def test_more_runs_narrow_the_interval() -> None:
    rng = np.random.default_rng(5)
    pairs = simulate(rng, Machine(), 10, runs=4)
    few = [replace(p, a=p.a[:2], b=p.b[:2]) for p in pairs]
    one, other = (np.median([np.log(j.high / j.low) for j in judge(p, 0.0)]) for p in (few, pairs))
    assert other < 0.8 * one


def test_identical_runs_are_the_same() -> None:
    pairs = [replace(p, b=p.a) for p in simulate(np.random.default_rng(1), Machine(), 30, rounds=30)]
    judged = judge(pairs, 0.05)
    assert set(judged) == {Judgement(1.0, 1.0, 1.0, Verdict.same)}


def test_runs_on_both_sides_do_not_affect_the_others() -> None:
    pairs = simulate(np.random.default_rng(8), Machine(), 6)
    assert judge([replace(pairs[0], b=pairs[0].a), *pairs], 0.05)[1:] == judge(pairs, 0.05)


def inverse(j: Judgement) -> Judgement:
    turned = {Verdict.regressed: Verdict.improved, Verdict.improved: Verdict.regressed}
    return Judgement(1 / j.ratio, 1 / j.high, 1 / j.low, turned.get(j.verdict, j.verdict))


def numbers(judged: list[Judgement]) -> list[tuple[float, float, float]]:
    return [(j.ratio, j.low, j.high) for j in judged]


@pytest.mark.parametrize("runs", [1, 3])
def test_exchanging_the_sides_inverts_everything(runs: int) -> None:
    pairs = simulate(np.random.default_rng(2), Machine(), 10, runs, slower=0.5)
    there, back = judge(pairs, 0.05), judge([replace(p, a=p.b, b=p.a) for p in pairs], 0.05)
    assert there[0].verdict is Verdict.regressed
    assert [inverse(j).verdict for j in back] == [j.verdict for j in there]
    np.testing.assert_allclose(numbers([inverse(j) for j in back]), numbers(there), rtol=1e-9)


def test_the_unit_of_time_does_not_matter() -> None:
    pairs = simulate(np.random.default_rng(4), Machine(), 10, slower=0.5)

    def scaled(r: Run) -> Run:
        return Run(tuple(1e3 * t for t in r.times), tuple(p / 1e3 for p in r.peaks))

    other = [replace(p, a=tuple(map(scaled, p.a)), b=tuple(map(scaled, p.b))) for p in pairs]
    np.testing.assert_allclose(numbers(judge(other, 0.05)), numbers(judge(pairs, 0.05)), rtol=1e-9)


def test_the_order_of_pairs_does_not_matter() -> None:
    pairs = simulate(np.random.default_rng(6), Machine(), 6, slower=0.5)
    np.testing.assert_allclose(numbers(judge(pairs[::-1], 0.0))[::-1], numbers(judge(pairs, 0.0)), rtol=1e-9)


def test_many_cases_need_more_evidence_than_one() -> None:
    """Holm: what is proved of one case alone is not proved of one that was picked among a hundred."""

    def noisy(seed: int, ratio: float) -> Run:
        return Run(tuple(ratio * np.exp(0.02 * np.random.default_rng(seed).normal(size=30))))

    slow = Pair("0", (noisy(0, 1.0),) * 2, (noisy(1, 1.075),) * 2)
    others = [Pair(str(i), (noisy(2 * i, 1.0),) * 2, (noisy(2 * i + 1, 1.0),) * 2) for i in range(1, 100)]
    alone, among = judge([replace(slow, case=str(i)) for i in range(3)], 0.05)[0], judge([slow, *others], 0.05)[0]
    assert alone.verdict is Verdict.regressed
    assert among.verdict is Verdict.unknown
    assert among.low < 1.05 < among.ratio


def test_nothing_to_judge() -> None:
    assert judge([], 0.05) == []


# ---- within one run --------------------------------------------------------------------------------------------------


def rounds(rng: np.random.Generator, ratio: float, n: int = 20, drift: float = 0.0) -> tuple[list[float], list[float]]:
    """Times of two policies in the same rounds, which a drift of that size moves together."""
    clock = np.exp(drift * rng.standard_normal(n).cumsum())
    a, b = (np.exp(0.02 * rng.standard_normal(n)) * clock for _ in range(2))
    return list(a), list(ratio * b)


def test_intervals_within_a_run_hold_the_ratio_as_often_as_they_say() -> None:
    rng = np.random.default_rng(0)
    found = interleaved_intervals([rounds(rng, 1.3) for _ in range(400)])
    held = np.mean([low <= 1.3 <= high for low, high in found])
    assert 0.92 <= held <= 0.99


def test_variation_shared_by_rounds_does_not_widen_an_interval() -> None:
    rng = np.random.default_rng(1)
    still, drifting = (interleaved_intervals([rounds(rng, 1.3, drift=drift) for _ in range(50)]) for drift in (0.0, 0.05))
    width = [np.mean([np.log(high / low) for low, high in found]) for found in (still, drifting)]
    assert width[1] < 1.3 * width[0]


def test_exchanging_policies_inverts_the_interval() -> None:
    a, b = rounds(np.random.default_rng(2), 1.3)
    ((low, high),), ((inverse_low, inverse_high),) = interleaved_intervals([(a, b)]), interleaved_intervals([(b, a)])
    assert (1 / high, 1 / low) == pytest.approx((inverse_low, inverse_high))


def test_few_or_unequal_rounds_have_no_interval() -> None:
    assert interleaved_intervals([([1.0] * 4, [1.0] * 4), ([1.0] * 6, [1.0] * 5), ([1.0] * 5, [2.0] * 5)]) == [None, None, (2.0, 2.0)]
    assert interleaved_intervals([]) == []
