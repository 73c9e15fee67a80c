"""Runs the cases of a batch on the workers of a fleet: `Driver.run` is the loop.

waiting cases (case_book.py)  ->  a host for each (placement.py)  ->  calls (engine.py)  ->  answers  ->  finished cases
workers come and go (roster.py), and so does the scheduler: what was lost with them waits again
"""

from __future__ import annotations

import pickle
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

from benchgraph.core.errors import BenchgraphError
from benchgraph.core.files import make_folder
from benchgraph.core.formats import counted
from benchgraph.core.progress import begin_item
from benchgraph.core.remarks import remark
from benchgraph.fleet import at_worker
from benchgraph.fleet.case_book import MOST_ERRORS, CaseBook, failed, more_memory
from benchgraph.fleet.content import Contents
from benchgraph.fleet.engine import Answered, Begun, Connected, Disconnected, Engine, Event, Failed, Forgotten, Member, Members
from benchgraph.fleet.parcel import Interval, Parcel, Reply, SentFile, SurveyReply, SurveyRequest
from benchgraph.fleet.placement import Host, Placed, Placement
from benchgraph.fleet.roster import Roster
from benchgraph.harness.worker import Setup
from benchgraph.options.knobs import Globals
from benchgraph.options.problem import Problem
from benchgraph.results.result import FinishedCase

TICK_S = 0.5  # how long the loop waits for events
ABSENCE_S = 600.0  # how long a run that has begun waits while there is no scheduler, or no worker that it may use
NOTICE_S = 10.0  # and after how long it says so
AHEAD = 100  # waiting cases that are considered, so that a long batch costs no more than a short one


@dataclass(frozen=True)
class RanCase:
    """A finished case; where and when it ran, None if it did not."""

    done: FinishedCase
    host: Host | None = None
    interval: Interval | None = None
    is_alone: bool = False


@dataclass(frozen=True)
class Endpoint:
    """The functions of workers; the simulation has others."""

    greet: Callable[..., object] = at_worker.greet
    survey: Callable[..., object] = at_worker.survey
    serve: Callable[..., object] = at_worker.serve


@dataclass(frozen=True)
class _Call:
    """A call that runs no case. host: that is surveyed, '' for a greeting."""

    worker: str
    host: str = ""


@dataclass
class Driver:
    """settings: of the whole run; setup: of the processes that run cases; problems: all of the run, for surveys."""

    engine: Engine
    roster: Roster
    settings: Globals
    setup: Setup
    problems: Sequence[Problem]
    endpoint: Endpoint = Endpoint()
    clock: Callable[[], float] = time.monotonic
    book: CaseBook = field(default_factory=CaseBook)
    contents: Contents = field(default_factory=Contents)

    def __post_init__(self) -> None:
        self.placement = Placement(self.roster.hosts)
        self.setup_bytes = pickle.dumps(self.setup)
        self._placed = dict[int, tuple[Host, Placed]]()  # by ticket of the sent case
        self._calls = dict[int, _Call]()
        self._failed_surveys = Counter[str]()  # by host
        self._owned = dict[str, set[str]]()  # host -> digests that it has; only hosts that do not see the client's files
        self._since, self._is_noticed = self.clock(), False
        self.is_connected, self.broken = False, ""  # broken: why the scheduler does not answer
        self.at_once = 1  # so many cases have been on workers at the same time

    def run(self, problems: Sequence[Problem]) -> Iterator[RanCase]:
        """Run these cases; yields each when it has finished, exactly once. Raises BenchgraphError if nobody can run them for long."""
        self.book = CaseBook.of(problems, after=self.book)  # a greeting may still be under way
        self._since = self.clock()
        while not self.book.is_done:
            self._send_cases()
            finished = list(self.step())
            self._send_cases()  # before the caller does its part, so that hosts do not wait for it
            yield from finished
            self._need_somebody()

    def step(self) -> Iterator[RanCase]:
        """React to what has happened, or wait a little for something to happen."""
        for event in self.engine.events(TICK_S):
            yield from self._react(event)
        self._meet()

    # ---- what happens ----

    def _react(self, event: Event) -> Iterator[RanCase]:
        match event:
            case Begun(ticket) if self.book.is_sent(ticket):
                self.book.begin(ticket, self.clock())
            case Answered(ticket, value) if self.book.is_sent(ticket):
                yield from self._take(ticket, value)
            case Answered(ticket, value) if ticket in self._calls:
                self._met(ticket, value)
            case Failed(ticket, why) if self.book.is_sent(ticket):
                _, placed = self._end(ticket)
                if done := self.book.erred(ticket, self.clock(), f"{self.roster.name_of(placed.worker)}: {why}"):
                    yield RanCase(done)
            case Failed(ticket, why) if ticket in self._calls:
                self._met(ticket, why)
            case Forgotten(ticket) if self.book.is_sent(ticket):
                self._void(ticket)
            case Forgotten(ticket) if ticket in self._calls:
                self.roster.forget_greeting(self._calls.pop(ticket).worker)
            case Members(by_address):
                yield from self._lose_workers(by_address)
            case Connected():
                self.is_connected, self.broken = True, ""
            case Disconnected(why):
                self._disconnect(why)
            case _:
                pass  # an answer that nobody waits for any more

    def _disconnect(self, why: str) -> None:
        """What ran is void: it waits again, and no case is to blame."""
        self.is_connected, self.broken = False, why
        for ticket in self.book.sent:
            self._void(ticket)
        self._calls.clear()
        self.roster.update({})
        self.book.lives.note(self.clock(), 0)

    def _void(self, ticket: int) -> None:
        """A case waits again, since its attempt came to nothing through no fault of its own."""
        self._end(ticket)
        self.book.again(ticket, self.clock())

    def _take(self, ticket: int, reply: Reply) -> Iterator[RanCase]:
        """A worker's reply to a case."""
        host, placed = self._end(ticket)
        for text in reply.remarks:
            remark(text)
        self._note_missing(host.id, reply.missing)
        if gone := [digest for digest in reply.missing if self.contents.bytes_of(digest) is None]:
            why = f"{self.contents.name_of(gone[0])} has gone or changed while the run lasts; run the case again"
            yield RanCase(failed(self.book.finish(ticket).problem, why))
            return
        if reply.done is None:
            self.book.again(ticket, self.clock())
            return
        result = reply.done.case.result
        if result.no_memory and not placed.terms.is_alone:
            self.book.again(ticket, self.clock(), more_memory(placed.terms.memory, result.memory_needed))
            return
        write_there(self.book.finish(ticket).problem, reply.wrote)
        yield RanCase(reply.done, host, reply.interval, placed.terms.is_alone)

    def _lose_workers(self, members: Mapping[str, Member]) -> Iterator[RanCase]:
        """Take note of who is there; what ran on workers that are not is lost."""
        were = self.roster.in_use
        lost = self.roster.update(members)
        self.book.lives.note(self.clock(), len(self.roster.in_use), died=len(were & lost.keys()))
        for address, how in lost.items():
            yield from self._lose_worker(address, how)

    def _lose_worker(self, address: str, how: str) -> Iterator[RanCase]:
        tickets = [t for t, (_, placed) in self._placed.items() if placed.worker == address]
        if tickets:
            remark(f"--cluster: {how}; what it ran begins anew: {counted(len(tickets), 'case')}")
        was_sole = sum(map(self.book.has_begun, tickets)) == 1
        for ticket in tickets:
            self._end(ticket)
            self.engine.forget(ticket)
            if done := self.book.lost(ticket, self.clock(), how, was_sole=was_sole):
                yield RanCase(done)
        for ticket in [t for t, call in self._calls.items() if call.worker == address]:
            self._met(ticket, how)

    def _end(self, ticket: int) -> tuple[Host, Placed]:
        self.placement.end(ticket)
        return self._placed.pop(ticket)

    # ---- cases go out ----

    def _send_cases(self) -> None:
        for ticket, case in self.book.waiting(AHEAD):
            if not self.placement.has_room:
                return
            if found := self.placement.place(ticket, case.need):
                self.book.send(ticket)
                self._placed[ticket] = found
                self.at_once = max(self.at_once, len(self._placed))
                self._send(ticket, case.problem, *found)

    def _send(self, ticket: int, problem: Problem, host: Host, placed: Placed) -> None:
        begin_item(problem.description)
        files = self.contents.files_of(problem)
        parcel = Parcel(problem.driver.name, pickle.dumps(problem), self.setup_bytes, placed.terms, files, self._lacking(host.id, files))
        self.engine.call(ticket, placed.worker, self.endpoint.serve, parcel)

    def _lacking(self, host: str, files: Sequence[SentFile]) -> dict[str, bytes]:
        """The contents that a host has to be sent. It is sent none until it has missed one."""
        if host not in self._owned:
            return {}
        new = {digest for sent in files for _, digest in sent.contents} - self._owned[host]
        self._owned[host] |= new
        found = {digest: self.contents.bytes_of(digest) for digest in new}
        return {digest: content for digest, content in found.items() if content is not None}

    def _note_missing(self, host: str, digests: Sequence[str]) -> None:
        if digests:
            self._owned.setdefault(host, set()).difference_update(digests)

    # ---- workers are met ----

    def _meet(self) -> None:
        """Greet new workers, and survey new hosts."""
        for address in self.roster.to_greet() if self.is_connected else ():
            self._call(_Call(address), self.endpoint.greet)
        under_way = {call.host for call in self._calls.values()}
        for host, address in self.roster.to_survey().items() if self.is_connected else ():
            if host not in under_way:
                files = tuple(dict.fromkeys(sent for p in self._samples for sent in self.contents.files_of(replace(p, file=None))))
                cases = tuple((p.driver.name, pickle.dumps(p)) for p in self._samples)
                request = SurveyRequest(self.settings, self.setup_bytes, cases, files, self._lacking(host, files))
                self._call(_Call(address, host), self.endpoint.survey, request)

    @cached_property
    def _samples(self) -> list[Problem]:
        """A case for each set of global options."""
        return list({p.globals: p for p in self.problems}.values())

    def _call(self, call: _Call, function: Callable[..., object], *arguments: object) -> None:
        ticket = self.book.new_ticket()
        self._calls[ticket] = call
        self.engine.call(ticket, call.worker, function, *arguments)

    def _met(self, ticket: int, answer: object) -> None:
        """answer: of the call; text: why there is none."""
        call = self._calls.pop(ticket)
        if not call.host:
            self.roster.greeted(call.worker, answer)
            if not self.book.is_done and (why := self.roster.workers[call.worker].refused if call.worker in self.roster.workers else ""):
                remark(f"--cluster: {call.worker} is left out: {why}")
        elif isinstance(answer, SurveyReply) and (answer.busy or answer.missing):
            self._note_missing(call.host, answer.missing)
        elif isinstance(answer, SurveyReply):
            self.roster.surveyed(call.host, answer)
        else:
            self._failed_surveys[call.host] += 1
            if self._failed_surveys[call.host] >= MOST_ERRORS:
                self.roster.surveyed(call.host, SurveyReply(refusal=str(answer)))

    def _need_somebody(self) -> None:
        """Raise BenchgraphError where nobody could run a case for too long; before that, say so once."""
        now = self.clock()
        if any(host.workers for host in self.roster.hosts.values()):
            self._since, self._is_noticed = now, False
            return
        lack = f"the scheduler does not answer ({self.broken})" if self.broken else "no worker is left that may run these cases"
        if now - self._since > ABSENCE_S:
            fix = "see that scheduler and workers run; with --resume=FILE what has finished is kept, and the rest runs"
            raise BenchgraphError(f"{lack}, for {ABSENCE_S:g} s", where="--cluster", fix=fix)
        if now - self._since > NOTICE_S and not self._is_noticed:
            self._is_noticed = True
            remark(f"--cluster: {lack}; waiting for up to {ABSENCE_S:g} s")


def write_there(problem: Problem, wrote: Mapping[tuple[str, str], bytes]) -> None:
    """Write the files of a case, from its worker, under the folders that the options name."""
    for (option, inside), content in wrote.items():
        path = Path(getattr(problem.globals, option)) / inside
        try:
            make_folder(path.parent)
            path.write_bytes(content)
        except OSError as bad:
            remark(f"--{option.replace('_', '-')}: {path} cannot be written: {bad.strerror}")
