"""Samples: what one is, hot and cold, and how those of several sources are taken in turns."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Protocol, TypeVar

from benchgraph.core.steps import tell
from benchgraph.library.protocol import Chain

MIN_SAMPLE_S = 20e-3  # what the policy sampled before left in the caches is then a small part of a sample, and the clock's error nothing
AGREEING = 3  # samples that must last so long before the calibration believes it
LEAST_ROUNDS = 5  # benchdnn's


class Sampler(Protocol):
    """One thing to time."""

    @property
    def executions(self) -> int:
        """How many make a sample."""

    def sample(self) -> float:
        """Seconds per execution."""


def seconds(chain: Chain, times: int, clock: Callable[[], float]) -> float:
    """How long so many executions take, by the library's clock if it has one, else by ours."""
    started = clock()
    told = chain.run(times)
    return clock() - started if told is None else told


@dataclass(frozen=True)
class Hot:
    """Many executions back to back: what one leaves in the caches, the next finds. Every run of the chain is `streams` executions."""

    chain: Chain
    times: int
    clock: Callable[[], float]
    streams: int = 1

    @property
    def executions(self) -> int:
        return self.times * self.streams

    def sample(self) -> float:
        return seconds(self.chain, self.times, self.clock) / self.executions


@dataclass(frozen=True)
class Cold:
    """A single execution after an eviction, which is not timed."""

    chain: Chain
    evict: Callable[[], None]
    clock: Callable[[], float]
    executions: int = 1

    def sample(self) -> float:
        self.evict()
        return seconds(self.chain, 1, self.clock)


@dataclass(frozen=True)
class Called:
    """Executions that a Python program asks for one by one; each is all steps in order."""

    steps: Sequence[Callable[[], None]]
    times: int
    clock: Callable[[], float]

    @property
    def executions(self) -> int:
        return self.times

    def sample(self) -> float:
        started = self.clock()
        for _ in range(self.times):
            for step in self.steps:
                step()
        return (self.clock() - started) / self.times


S = TypeVar("S", Hot, Called)


def calibrate(chain: Chain, clock: Callable[[], float], streams: int = 1) -> Hot:
    """Execute once to warm up (constants are computed then), then as often as a sample of MIN_SAMPLE_S takes."""
    chain.run(1)
    return _lasting(Hot(chain, 1, clock, streams))


def called(steps: Sequence[Callable[[], None]], clock: Callable[[], float]) -> Called:
    """As `calibrate`, of calls from Python: by what they take themselves, which may be fifty times what they call.

    Samples last as long as those of native calls, or what the sample before left in the caches would count more: MLP_2 in f32 at batch 32
    and 64 by one thread of a Zen 5, whose weights lie in the third-level cache, seemed to take 6 and 13 us more from Python in samples a
    quarter as long, and 1 to 4 and 3 to 5 in these.
    """
    return _lasting(Called(steps, 1, clock))


def _lasting(sampler: S) -> S:
    """The sampler with its executions doubled until a sample lasts MIN_SAMPLE_S.

    Several samples must agree: a single long one may be a thread that took its time to wake.
    """
    while any(sampler.sample() * sampler.executions < MIN_SAMPLE_S for _ in range(AGREEING)):
        sampler = replace(sampler, times=sampler.times * 2)
    return sampler


def warmed(chain: Chain, evict: Callable[[], None], clock: Callable[[], float]) -> Cold:
    """Execute once, so that constants are computed and pages are there: cold is the cache, not the process."""
    chain.run(1)
    return Cold(chain, evict, clock)


@dataclass(frozen=True)
class Rounds:
    """When to stop: after `fixed` rounds if that is not 0, else when budget_s is spent, but not before LEAST_ROUNDS."""

    budget_s: float
    fixed: int
    clock: Callable[[], float]

    def __iter__(self) -> Iterator[int]:
        started, done = self.clock(), 0
        while done < self.fixed if self.fixed else done < LEAST_ROUNDS or self.clock() - started < self.budget_s:
            tell("measure", *((done, self.fixed) if self.fixed else (self.clock() - started, self.budget_s, "s")))
            yield done
            done += 1


def interleave(sources: Sequence[Callable[[], float]], rounds: Rounds, rng: random.Random) -> list[tuple[float, ...]]:
    """One sample of every source per round, in an order shuffled anew each time; per source, its samples in order of rounds."""
    samples: list[list[float]] = [[] for _ in sources]
    order = list(range(len(sources)))
    for _ in rounds:
        rng.shuffle(order)
        for i in order:
            samples[i].append(sources[i]())
    return [tuple(s) for s in samples]
