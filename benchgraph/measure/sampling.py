"""Samples: hot, cold, or called from Python; interleaved sampling of several sources."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Protocol, TypeVar

from benchgraph.core.progress import report_progress
from benchgraph.library.protocol import Chain

MIN_SAMPLE_S = 20e-3  # long enough to make cache contents left by other samplers, and the clock's resolution, negligible
AGREEING = 3  # consecutive samples that must each last MIN_SAMPLE_S to end the calibration
LEAST_ROUNDS = 5  # benchdnn's


class Sampler(Protocol):
    @property
    def executions(self) -> int:
        """The number in one sample."""

    def sample(self) -> float:
        """Seconds per execution."""


def seconds(chain: Chain, times: int, clock: Callable[[], float]) -> float:
    """The time of so many executions, by the library's clock if it has one, else by ours."""
    started = clock()
    measured = chain.run(times)
    return clock() - started if measured is None else measured


@dataclass(frozen=True)
class Hot:
    """Many executions back to back, on caches left by the one before. Every run of the chain is `streams` executions."""

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
    """A single execution after an untimed eviction."""

    chain: Chain
    evict: Callable[[], None]
    clock: Callable[[], float]
    executions: int = 1

    def sample(self) -> float:
        self.evict()
        return seconds(self.chain, 1, self.clock)


@dataclass(frozen=True)
class Called:
    """Executions called one by one from Python; each is all steps in order."""

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
    """Execute once to warm up (which computes constants), then double the executions of a sample until it lasts MIN_SAMPLE_S."""
    chain.run(1)
    return _lasting(Hot(chain, 1, clock, streams))


def called(steps: Sequence[Callable[[], None]], clock: Callable[[], float]) -> Called:
    """As `calibrate`, for calls from Python: calibrated by their own time, which may be fifty times that of the native call.

    Samples must last as long as those of native calls, to give cache contents left by other samplers the same weight
    (docs/measurements/sampling.md).
    """
    return _lasting(Called(steps, 1, clock))


def _lasting(sampler: S) -> S:
    """The sampler with its executions doubled until a sample lasts MIN_SAMPLE_S.

    Several samples must agree: a single long one may be due to a thread that woke up late.
    """
    while any(sampler.sample() * sampler.executions < MIN_SAMPLE_S for _ in range(AGREEING)):
        sampler = replace(sampler, times=sampler.times * 2)
    return sampler


def warmed(chain: Chain, evict: Callable[[], None], clock: Callable[[], float]) -> Cold:
    """Execute once, so that constants are computed and pages mapped: only the caches are cold."""
    chain.run(1)
    return Cold(chain, evict, clock)


@dataclass(frozen=True)
class Rounds:
    """Ends after `fixed` rounds if that is not 0, else when budget_s is spent, but not before LEAST_ROUNDS."""

    budget_s: float
    fixed: int
    clock: Callable[[], float]

    def __iter__(self) -> Iterator[int]:
        started, done = self.clock(), 0
        while done < self.fixed if self.fixed else done < LEAST_ROUNDS or self.clock() - started < self.budget_s:
            report_progress("measure", *((done, self.fixed) if self.fixed else (self.clock() - started, self.budget_s, "s")))
            yield done
            done += 1


def interleave(sources: Sequence[Callable[[], float]], rounds: Rounds, rng: random.Random) -> list[tuple[float, ...]]:
    """One sample of every source per round, in random order; per source, its samples in order of rounds."""
    samples: list[list[float]] = [[] for _ in sources]
    order = list(range(len(sources)))
    for _ in rounds:
        rng.shuffle(order)
        for i in order:
            samples[i].append(sources[i]())
    return [tuple(s) for s in samples]
