"""Whether a case is to blame for the workers that were lost while it ran, or whether workers die anyway: `verdict` decides.

A worker says when a case begins there: before that (its call is under way, or waits for the host's lock) a loss is no sign of anything.
After SUSPECT losses a case runs alone on its host, and last, so that neither another case nor a bad time for the whole fleet explains the
next one. From LEAST losses on, it is blamed once chance is no explanation.

The argument: suppose that deaths have nothing to do with the case. Then each of the N workers that died around that time was the one that
ran it with probability q, the case's share of the time that all workers were in use. So at least K of them were with probability at most
C(N, K) q^K. A case is blamed when that is below CHANCE, halved with every further loss, so that all the verdicts on it together are wrong
with probability CHANCE at most. Where workers die often, or the case runs for long, more losses are needed; MOST_BEGUN end it in any case.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from math import comb, inf

SUSPECT = 2  # losses after which a case runs alone
LEAST = 3  # losses without which no case is blamed
CHANCE = 1e-6  # of blaming a case that has nothing to do with the deaths
MOST_BEGUN = 20  # losses that end a case in any event; one that is lost every second time gets there with probability CHANCE
MOST = 100  # and of attempts that may not have begun, so that whatever happens ends
NEAR_S = 300.0  # how long before a loss the deaths of other workers are compared with it

Span = tuple[float, float]


@dataclass(frozen=True)
class Attempt:
    """An attempt at a case that gave no result. began: when its worker said so, None if it did not; ended: both by the client's clock.

    how: how it was lost with its worker, '' if it ended otherwise. was_sole: no other case had begun on that worker.
    """

    began: float | None
    ended: float
    how: str = ""
    was_sole: bool = False

    @property
    def is_loss(self) -> bool:
        """Whether the case was running when its worker was lost."""
        return bool(self.how) and self.began is not None

    @property
    def ran_s(self) -> float:
        return self.ended - self.began if self.began is not None else 0.0


@dataclass
class Lives:
    """How many workers of a fleet were in use, from when on; and when workers in use died, or fell silent."""

    _counts: list[tuple[float, int]] = field(default_factory=list)
    _deaths: list[float] = field(default_factory=list)

    def note(self, now: float, in_use: int, died: int = 0) -> None:
        self._deaths += [now] * died
        if not self._counts or self._counts[-1][1] != in_use:
            self._counts.append((now, in_use))

    def deaths(self, spans: Sequence[Span]) -> int:
        return sum(any(first <= at <= last for first, last in spans) for at in self._deaths)

    def seconds(self, spans: Sequence[Span]) -> float:
        """Of all workers together."""
        steps = pairwise([*self._counts, (inf, 0)])
        return sum(n * max(min(b, last) - max(a, first), 0.0) for (a, n), (b, _) in steps for first, last in spans)


def is_suspect(attempts: Iterable[Attempt]) -> bool:
    return sum(attempt.is_loss for attempt in attempts) >= SUSPECT


def verdict(attempts: Sequence[Attempt], lives: Lives) -> str:
    """Why a case is not run again; '' if it is."""
    losses = [attempt for attempt in attempts if attempt.is_loss]
    sole, lost = [a for a in losses if a.was_sole], [a for a in attempts if a.how]
    if len(sole) >= LEAST and chance(attempts, lives) < CHANCE / 2 ** (len(sole) - SUSPECT):
        return f"it was lost with {len(losses)} workers: {_story(losses)}"
    if len(losses) >= MOST_BEGUN:
        return f"it was lost with {len(losses)} workers, while others died too, and is given up: {_story(losses)}"
    if len(lost) >= MOST:
        return f"{len(lost)} workers were lost before it could end, mostly before it began, and it is given up: {_story(lost)}"
    return ""


def chance(attempts: Sequence[Attempt], lives: Lives) -> float:
    """At most how likely it is that so many workers died while a case ran alone on them, if that has nothing to do with the case."""
    sole = [a for a in attempts if a.is_loss and a.was_sole]
    near = merged((a.ended - a.ran_s - NEAR_S, a.ended) for a in sole)
    ran_s = sum(a.ran_s for a in attempts)
    share = ran_s / max(lives.seconds(near), ran_s) if ran_s else 0.0
    return min(comb(max(lives.deaths(near), len(sole)), len(sole)) * share ** len(sole), 1.0)


def merged(spans: Iterable[Span]) -> list[Span]:
    """The same times in spans that do not overlap."""
    found = list[Span]()
    for first, last in sorted(spans):
        if found and first <= found[-1][1]:
            found[-1] = found[-1][0], max(found[-1][1], last)
        else:
            found.append((first, last))
    return found


def _story(attempts: Sequence[Attempt], most: int = 5) -> str:
    more = [f"and {len(attempts) - most} more"] if len(attempts) > most else []
    return "; ".join([*(attempt.how for attempt in attempts[:most]), *more])
