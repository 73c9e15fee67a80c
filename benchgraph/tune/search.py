"""Finds the fastest of many choices: all are measured in groups, the best of all groups once more together.

Samples are interleaved. A group is small enough for its packed weights to fit into memory. Its times are relative to that of the schedule's
own choice, which every group includes, in case the machine is slower during one group. The fastest of many noisy samples looks better than
it is, so only the times of the last comparison are reported.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from math import ceil
from statistics import median
from typing import TypeVar

from benchgraph.core.options import Forced
from benchgraph.core.progress import report_progress
from benchgraph.library.protocol import Chain
from benchgraph.measure.sampling import Rounds, interleave, seconds

GROUP, BEST = 24, 6
GROUP_ROUNDS = 3
GROUP_SAMPLE_S, LAST_SAMPLE_S = 2e-3, 10e-3
T = TypeVar("T")


@dataclass(frozen=True)
class Measured:
    """A choice and its samples in the last comparison: seconds per execution."""

    choice: Forced
    samples: tuple[float, ...]

    @property
    def min_s(self) -> float:
        return min(self.samples)

    @property
    def median_s(self) -> float:
        return median(self.samples)


@dataclass(frozen=True)
class SearchResult:
    """chosen: the schedule's choice. cheapest: the choice of least cost. best: of all, by the minimum; one of these
    two if nothing is faster. tried: how many, including these two. peaks: FLOP/s, sampled interleaved with the last comparison.
    """

    chosen: Measured
    cheapest: Measured
    best: Measured
    tried: int
    peaks: tuple[float, ...] = ()

    @property
    def ratio(self) -> float:
        """The schedule's choice over the best, by minima."""
        return self.chosen.min_s / self.best.min_s

    @property
    def cheapest_ratio(self) -> float:
        """The choice of least cost over the best, by minima."""
        return self.cheapest.min_s / self.best.min_s

    @property
    def is_sure(self) -> bool:
        """Whether the best, if it is another choice, is also faster by the median: else its minimum may be luck."""
        return self.best == self.chosen or self.median_ratio > 1

    @property
    def median_ratio(self) -> float:
        return self.chosen.median_s / self.best.median_s


@dataclass(frozen=True)
class Searcher:
    """chain: compiles a choice. clock: seconds. peak: the machine's present FLOP/s. rounds: of the last comparison."""

    chain: Callable[[Forced], Chain]
    clock: Callable[[], float]
    peak: Callable[[], float]
    rng: random.Random
    rounds: int

    def search(self, chosen: Forced, cheapest: Forced, legal: Sequence[Forced]) -> SearchResult:
        others = [c for c in legal if c not in (chosen, cheapest)]
        self.rng.shuffle(others)
        scores = dict[Forced, float]()
        groups = list(_chunks(others, GROUP))
        for number, group in enumerate(groups, 1):
            scores |= self._measure_group(chosen, group, f"group {number} of {len(groups)}")
        known = list(dict.fromkeys((chosen, cheapest)))
        best = [*known, *sorted(scores, key=lambda c: scores[c])[:BEST]]
        *samples, peaks = self._samples(best, LAST_SAMPLE_S, self.rounds, "the best", [self.peak])
        measured = {c: Measured(c, s) for c, s in zip(best, samples, strict=True)}
        fastest = min(measured.values(), key=lambda m: m.min_s)
        return SearchResult(measured[chosen], measured[cheapest], fastest, len(others) + len(known), peaks)

    def _measure_group(self, chosen: Forced, group: Sequence[Forced], name: str) -> dict[Forced, float]:
        """Minima relative to that of the schedule's choice."""
        own, *rest = self._samples([chosen, *group], GROUP_SAMPLE_S, GROUP_ROUNDS, name)
        return {c: min(samples) / min(own) for c, samples in zip(group, rest, strict=True)}

    def _samples(
        self, choices: Sequence[Forced], lasting_s: float, rounds: int, name: str, more: Sequence[Callable[[], float]] = ()
    ) -> list[tuple[float, ...]]:
        sources = list[Callable[[], float]]()
        for c in choices:
            sources.append(self._source(self.chain(c), lasting_s))
            report_progress(f"{name}, compile", len(sources), len(choices))
        return interleave([*sources, *more], Rounds(0.0, rounds, self.clock), self.rng)

    def _source(self, chain: Chain, lasting_s: float) -> Callable[[], float]:
        """A sample: one execution that warms the caches, then as many as take so long."""
        chain.run(1)  # computes the constants
        once = max(min(seconds(chain, 1, self.clock) for _ in range(2)), 1e-9)
        times = max(1, ceil(lasting_s / once))

        def sample() -> float:
            chain.run(1)
            return seconds(chain, times, self.clock) / times

        return sample


def _chunks(items: Sequence[T], size: int) -> Iterator[Sequence[T]]:
    """The items in parts of sizes as equal as possible, none larger than size."""
    parts = ceil(len(items) / size)
    for i in range(parts):
        yield items[i * len(items) // parts : (i + 1) * len(items) // parts]
