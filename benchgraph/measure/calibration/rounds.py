"""Samples of all loops in turns, until time is up; their minima."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from typing import Protocol

from benchgraph.core.progress import report_progress

LEAST_ROUNDS = 5


class Source(Protocol):
    def sample(self) -> float:
        """Nanoseconds of a unit."""


def minima(loops: Mapping[str, Source], budget_s: float, clock: Callable[[], float]) -> tuple[dict[str, float], int]:
    """By name the least of all samples, and their number. One sample of each in every round, in random order: frequencies, caches and
    threads are as the loop before has left them. At least LEAST_ROUNDS, and as many as begin within the budget. clock: seconds.
    """
    started, rounds, least, rng = clock(), 0, dict[str, float](), random.Random(0)
    while rounds < LEAST_ROUNDS or clock() - started < budget_s:
        for name, loop in rng.sample(list(loops.items()), len(loops)):
            report_progress("measure", min(clock() - started, budget_s), budget_s, "s")
            least[name] = min(loop.sample(), least.get(name, float("inf")))
        rounds += 1
    return least, rounds
