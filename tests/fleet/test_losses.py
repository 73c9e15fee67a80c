"""Which cases are blamed for lost workers: by the argument in losses.py, checked against workers that die at random."""

from __future__ import annotations

import random
from math import comb

import pytest

from benchgraph.fleet import losses
from benchgraph.fleet.losses import Attempt, Lives, chance, is_suspect, merged, verdict


def lost(began: float | None, ended: float, *, was_sole: bool = True) -> Attempt:
    return Attempt(began, ended, f"w{ended:g} left the cluster", was_sole)


def test_lives_count_deaths_and_the_time_of_workers() -> None:
    lives = Lives()
    lives.note(0.0, 4)
    lives.note(10.0, 3, died=1)
    lives.note(12.0, 3)
    lives.note(20.0, 4)
    lives.note(30.0, 2, died=2)
    assert lives.deaths([(0.0, 9.0)]) == 0
    assert lives.deaths([(0.0, 10.0), (20.0, 30.0)]) == 3
    assert lives.seconds([(0.0, 20.0)]) == 4 * 10 + 3 * 10
    assert lives.seconds([(5.0, 6.0), (25.0, 35.0)]) == 4 + 4 * 5 + 2 * 5
    assert lives.seconds([(-10.0, 0.0)]) == 0


def test_spans_are_merged() -> None:
    assert merged([(3.0, 5.0), (0.0, 1.0), (4.0, 4.5), (1.0, 2.0)]) == [(0.0, 2.0), (3.0, 5.0)]


def test_a_quiet_fleet_blames_the_third_loss() -> None:
    lives, attempts = Lives(), list[Attempt]()
    lives.note(0.0, 8)
    for n in range(1, 4):
        assert verdict(attempts, lives) == ""
        assert is_suspect(attempts) == (n > 2)
        attempts.append(lost(600.0 + n, 600.5 + n))
        lives.note(600.5 + n, 8, died=1)
    assert chance(attempts, lives) == pytest.approx((1.5 / (8 * 302.5)) ** 3)
    story = "; ".join(f"w{at} left the cluster" for at in (601.5, 602.5, 603.5))
    assert verdict(attempts, lives) == f"it was lost with 3 workers: {story}"


def test_the_more_workers_die_anyway_the_more_losses_it_takes() -> None:
    def needed(others: int) -> int:
        lives, attempts = Lives(), list[Attempt]()
        lives.note(0.0, 8)
        lives.note(599.0, 8, died=others)
        while not verdict(attempts, lives):
            now = 600.0 + len(attempts)
            attempts.append(lost(now, now + 0.5))
            lives.note(now + 0.5, 8, died=1)
        return len(attempts)

    counts = [needed(others) for others in (0, 10, 100, 1000)]
    assert counts == sorted(counts)
    assert counts[0] == 3
    assert 3 < counts[2] < counts[3] <= losses.MOST_BEGUN


def test_losses_before_the_case_began_or_beside_others_are_not_held_against_it() -> None:
    lives = Lives()
    lives.note(0.0, 8)
    waited = [lost(None, 600.0 + n) for n in range(losses.MOST - 1)]
    assert not is_suspect(waited)
    assert verdict(waited, lives) == ""
    assert "mostly before it began" in verdict([*waited, lost(None, 800.0)], lives)
    shared = [lost(600.0 + n, 600.5 + n, was_sole=False) for n in range(losses.MOST_BEGUN - 1)]
    assert is_suspect(shared)
    assert verdict(shared, lives) == ""
    assert "while others died too, and is given up" in verdict([*shared, lost(800.0, 801.0)], lives)


@pytest.mark.parametrize(("workers", "share"), [(1, 1.0), (4, 1.0), (4, 0.1), (50, 1.0), (50, 0.05)])
def test_the_chance_of_blaming_an_innocent_case_is_kept(workers: int, share: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """A case that runs for a share of the time on one of so many workers, each of which dies once a minute."""
    monkeypatch.setattr(losses, "CHANCE", 0.05)
    luck, blamed, trials = random.Random(workers), 0, 400
    for _ in range(trials):
        lives, attempts, now, is_blamed = Lives(), list[Attempt](), 0.0, False
        lives.note(now, workers)
        began = now
        while len(attempts) < 8 and not is_blamed:
            now += luck.expovariate(workers / 60.0)
            lives.note(now, workers, died=1)
            if luck.random() < 1 / workers:  # it was the worker of the case, which ran there for the last part of the time
                if luck.random() < share:
                    attempts.append(lost(now - share * (now - began), now))
                else:
                    attempts.append(Attempt(now - share * (now - began), now))
                began = now
                is_blamed = blamed_by_chance(attempts, lives)  # which deaths of other workers do not change until the next attempt
        blamed += is_blamed
    assert blamed <= 0.05 * trials + 2 * (0.05 * trials) ** 0.5


def blamed_by_chance(attempts: list[Attempt], lives: Lives) -> bool:
    said = verdict(attempts, lives)
    return bool(said) and "given up" not in said


def test_the_bound_is_that_of_the_binomial_distribution() -> None:
    """C(N, K) q^K bounds the probability that at least K of N deaths fall into a share q of the time."""
    for n, k, q in [(3, 3, 0.1), (20, 4, 0.05), (100, 5, 0.01)]:
        exact = sum(comb(n, j) * q**j * (1 - q) ** (n - j) for j in range(k, n + 1))
        assert exact <= comb(n, k) * q**k
