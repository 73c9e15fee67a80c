"""The cases of a run, from waiting to finished: each has one result, however often it was begun.

    waiting  ->  begun on a worker (an attempt, with a ticket of its own)  ->  finished
       ^                             |
       '---- the attempt was lost ---'   a third time: FAILED, with the story of all three

An answer counts only while its ticket is the case's latest: that of a worker that was given up, and comes back, is dropped.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import islice

from benchgraph.fleet.placement import Need
from benchgraph.harness.case import MEMORY_SHARE
from benchgraph.options.problem import Problem
from benchgraph.results.result import CaseResult, FinishedCase, Result, Status

MOST_LOST = 3  # attempts that may be lost with their workers before the case itself is taken for the reason


@dataclass
class Case:
    """story: how attempts were lost."""

    problem: Problem
    need: Need
    story: list[str] = field(default_factory=list)


@dataclass
class CaseBook:
    """Cases by ticket: waiting ones, those that were begun before first; and begun ones."""

    _waiting: OrderedDict[int, Case] = field(default_factory=OrderedDict)
    _begun: dict[int, Case] = field(default_factory=dict)
    _last: int = 0

    @classmethod
    def of(cls, problems: Sequence[Problem], after: int = 0) -> CaseBook:
        """after: the last ticket that has been given already, whose answer may still come."""
        book = cls(_last=after)
        for problem in problems:
            book._waiting[book.new_ticket()] = Case(problem, Need(is_alone=problem.globals.mode.is_timed))
        return book

    @property
    def is_done(self) -> bool:
        return not self._waiting and not self._begun

    @property
    def begun(self) -> tuple[int, ...]:
        return tuple(self._begun)

    @property
    def last_ticket(self) -> int:
        return self._last

    def new_ticket(self) -> int:
        """Also for calls that run no case."""
        self._last += 1
        return self._last

    def waiting(self, most: int) -> list[tuple[int, Case]]:
        """So many tickets with their cases, in the order in which they are to begin."""
        return list(islice(self._waiting.items(), most))

    def is_begun(self, ticket: int) -> bool:
        return ticket in self._begun

    def begin(self, ticket: int) -> None:
        self._begun[ticket] = self._waiting.pop(ticket)

    def finish(self, ticket: int) -> Case:
        return self._begun.pop(ticket)

    def again(self, ticket: int, need: Need | None = None) -> None:
        """The attempt came to nothing, through no fault of the case. need: what it needs by now."""
        case = self._begun.pop(ticket)
        self._wait(case if need is None else replace(case, need=need))

    def lost(self, ticket: int, how: str) -> FinishedCase | None:
        """The attempt was lost. Returns a result if the case does not run again."""
        case = self._begun.pop(ticket)
        case.story.append(how)
        if len(case.story) < MOST_LOST:
            self._wait(case)
            return None
        reason = f"it was lost with {MOST_LOST} workers: {'; '.join(case.story)}"
        return FinishedCase(CaseResult(case.problem.index, case.problem.repro, 0.0, Result(Status.FAILED, reason)))

    def _wait(self, case: Case) -> None:
        ticket = self.new_ticket()
        self._waiting[ticket] = case
        self._waiting.move_to_end(ticket, last=False)


def more_memory(had: int, needed: int) -> Need:
    """What a case needs that did not fit into `had` bytes. needed: by its estimate, 0 if unknown; then twice as much is tried."""
    return Need(memory=needed or int(2 * had * MEMORY_SHARE) + 1)
