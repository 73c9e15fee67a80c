"""Which of many choices is fastest: all of them in heats, the best of these in a final, everything in turns.

A heat holds few enough that their packed weights fit into memory, and the schedule's own choice, to which all are compared: a machine that
is slower in one heat than in another changes nothing. The winner of many noisy heats looks better than it is, so what is told comes from
the final alone.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from math import ceil
from statistics import median
from typing import TypeVar

from benchgraph.core.options import Forced
from benchgraph.core.steps import tell
from benchgraph.library.protocol import Chain
from benchgraph.measure.sampling import Rounds, interleave, seconds

HEAT, FINALISTS = 24, 6
HEAT_ROUNDS = 3
HEAT_SAMPLE_S, FINAL_SAMPLE_S = 2e-3, 10e-3
T = TypeVar("T")


@dataclass(frozen=True)
class Measured:
    """A choice and its samples in the final: seconds per execution."""

    choice: Forced
    samples: tuple[float, ...]

    @property
    def min_s(self) -> float:
        return min(self.samples)

    @property
    def median_s(self) -> float:
        return median(self.samples)


@dataclass(frozen=True)
class Found:
    """chosen: by the schedule. best: of all, by the minimum; chosen itself where nothing is faster. tried: how many, chosen included.

    peaks: FLOP/s, sampled in turns with the final.
    """

    chosen: Measured
    best: Measured
    tried: int
    peaks: tuple[float, ...] = ()

    @property
    def ratio(self) -> float:
        """Of minima: how many times as long the schedule's choice takes."""
        return self.chosen.min_s / self.best.min_s

    @property
    def is_sure(self) -> bool:
        """Whether the best is faster than the schedule's choice, where it is another, by the median too: else its minimum may be luck."""
        return self.best == self.chosen or self.median_ratio > 1

    @property
    def median_ratio(self) -> float:
        return self.chosen.median_s / self.best.median_s


@dataclass(frozen=True)
class Searcher:
    """chain: a choice, ready to run. clock: seconds. peak: FLOP/s of the machine at this moment. rounds: of the final."""

    chain: Callable[[Forced], Chain]
    clock: Callable[[], float]
    peak: Callable[[], float]
    rng: random.Random
    rounds: int

    def search(self, chosen: Forced, legal: Sequence[Forced]) -> Found:
        others = [c for c in legal if c != chosen]
        self.rng.shuffle(others)
        scores = dict[Forced, float]()
        heats = list(_chunks(others, HEAT))
        for number, heat in enumerate(heats, 1):
            scores |= self._heat(chosen, heat, f"heat {number} of {len(heats)}")
        finalists = sorted(scores, key=lambda c: scores[c])[:FINALISTS]
        *measured, peaks = self._samples([chosen, *finalists], FINAL_SAMPLE_S, self.rounds, "the final", [self.peak])
        found = [Measured(c, s) for c, s in zip([chosen, *finalists], measured, strict=True)]
        return Found(found[0], min(found, key=lambda m: m.min_s), len(others) + 1, peaks)

    def _heat(self, chosen: Forced, heat: Sequence[Forced], name: str) -> dict[Forced, float]:
        """Minima over that of the schedule's choice."""
        own, *rest = self._samples([chosen, *heat], HEAT_SAMPLE_S, HEAT_ROUNDS, name)
        return {c: min(samples) / min(own) for c, samples in zip(heat, rest, strict=True)}

    def _samples(
        self, choices: Sequence[Forced], lasting_s: float, rounds: int, name: str, more: Sequence[Callable[[], float]] = ()
    ) -> list[tuple[float, ...]]:
        sources = list[Callable[[], float]]()
        for c in choices:
            sources.append(self._source(self.chain(c), lasting_s))
            tell(f"{name}, compile", len(sources), len(choices))
        return interleave([*sources, *more], Rounds(0.0, rounds, self.clock), self.rng)

    def _source(self, chain: Chain, lasting_s: float) -> Callable[[], float]:
        """A sample: one execution that brings the data back into the caches, then as many as last so long."""
        chain.run(1)  # computes the constants
        once = max(min(seconds(chain, 1, self.clock) for _ in range(2)), 1e-9)
        times = max(1, ceil(lasting_s / once))

        def sample() -> float:
            chain.run(1)
            return seconds(chain, times, self.clock) / times

        return sample


def _chunks(items: Sequence[T], size: int) -> Iterator[Sequence[T]]:
    """As even as may be, none larger than size."""
    parts = ceil(len(items) / size)
    for i in range(parts):
        yield items[i * len(items) // parts : (i + 1) * len(items) // parts]
