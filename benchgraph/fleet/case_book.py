"""The cases of a run, from waiting to finished: each has one result, however often it was sent to a worker.

    waiting  ->  sent to a worker (an attempt, with a ticket of its own)  ->  begun there  ->  finished
       ^                             |                                          |
       '---------------- the attempt came to nothing ---------------------------'   until losses.py blames the case: FAILED, with its story

An answer counts only while its ticket is the case's latest: that of a worker that was given up, and comes back, is dropped.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import islice

from benchgraph.fleet.losses import Attempt, Lives, is_suspect, verdict
from benchgraph.fleet.placement import Need
from benchgraph.harness.bench import MEMORY_SHARE
from benchgraph.options.problem import Problem
from benchgraph.results.result import CaseResult, FinishedCase, Result, Status

MOST_ERRORS = 3  # attempts that may end with an error of the worker's or the engine's


@dataclass
class Case:
    """began: when its worker said so, None before; attempts: the earlier ones; errors: how some of these ended."""

    problem: Problem
    need: Need
    began: float | None = None
    attempts: list[Attempt] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)


@dataclass
class CaseBook:
    """Cases by ticket: waiting ones, in the order in which they are to be sent; and sent ones. lives: of the fleet's workers."""

    lives: Lives = field(default_factory=Lives)
    _waiting: OrderedDict[int, Case] = field(default_factory=OrderedDict)
    _sent: dict[int, Case] = field(default_factory=dict)
    _last: int = 0

    @classmethod
    def of(cls, problems: Sequence[Problem], after: CaseBook | None = None) -> CaseBook:
        """after: an earlier book, whose tickets may still be answered."""
        book = cls(after.lives, _last=after._last) if after else cls()
        for problem in problems:
            book._waiting[book.new_ticket()] = Case(problem, Need(is_alone=problem.globals.mode.is_timed))
        return book

    @property
    def is_done(self) -> bool:
        return not self._waiting and not self._sent

    @property
    def sent(self) -> tuple[int, ...]:
        return tuple(self._sent)

    def new_ticket(self) -> int:
        """Also for calls that run no case."""
        self._last += 1
        return self._last

    def waiting(self, most: int) -> list[tuple[int, Case]]:
        """So many tickets with their cases, in order."""
        return list(islice(self._waiting.items(), most))

    def is_sent(self, ticket: int) -> bool:
        return ticket in self._sent

    def has_begun(self, ticket: int) -> bool:
        return self._sent[ticket].began is not None

    def send(self, ticket: int) -> None:
        self._sent[ticket] = self._waiting.pop(ticket)

    def begin(self, ticket: int, now: float) -> None:
        self._sent[ticket].began = now

    def finish(self, ticket: int) -> Case:
        return self._sent.pop(ticket)

    def again(self, ticket: int, now: float, need: Need | None = None) -> None:
        """The attempt came to nothing, through no fault of the case. need: what it needs by now."""
        case = self._end(ticket, now)
        self._wait(case if need is None else replace(case, need=need))

    def lost(self, ticket: int, now: float, how: str, *, was_sole: bool) -> FinishedCase | None:
        """The attempt was lost with its worker, as Attempt says. Returns a result if the case does not run again."""
        case = self._end(ticket, now, how, was_sole=was_sole)
        if why := verdict(case.attempts, self.lives):
            return failed(case.problem, why)
        self._wait(case)
        return None

    def erred(self, ticket: int, now: float, how: str) -> FinishedCase | None:
        """The attempt ended with an error outside of the case. Returns a result if the case does not run again."""
        case = self._end(ticket, now)
        case.errors.append(how)
        if len(case.errors) >= MOST_ERRORS:
            return failed(case.problem, f"{MOST_ERRORS} workers could not run it: {'; '.join(case.errors)}")
        self._wait(case)
        return None

    def _end(self, ticket: int, now: float, how: str = "", *, was_sole: bool = False) -> Case:
        case = self._sent.pop(ticket)
        case.attempts.append(Attempt(case.began, now, how, was_sole))
        case.began = None
        return case

    def _wait(self, case: Case) -> None:
        """First, before cases that have not been sent; a suspect last, and alone."""
        ticket, is_last = self.new_ticket(), is_suspect(case.attempts)
        self._waiting[ticket] = replace(case, need=replace(case.need, is_alone=True)) if is_last else case
        self._waiting.move_to_end(ticket, last=is_last)


def failed(problem: Problem, why: str) -> FinishedCase:
    """The result of a case that no worker could run."""
    return FinishedCase(CaseResult(problem.index, problem.repro, 0.0, Result(Status.FAILED, why)))


def more_memory(had: int, needed: int) -> Need:
    """What a case needs that did not fit into `had` bytes. needed: by its estimate, 0 if unknown; then twice as much is tried."""
    return Need(memory=needed or int(2 * had * MEMORY_SHARE) + 1)
