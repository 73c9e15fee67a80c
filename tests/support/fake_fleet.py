"""A fleet without a network: an engine whose workers answer, die, fall silent and come back as told, by a clock of its own."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from benchgraph.core.config import config
from benchgraph.core.version import __version__
from benchgraph.fleet.driver import Driver, Endpoint
from benchgraph.fleet.engine import Answered, Begun, Connected, Disconnected, Event, Failed, Forgotten, Member, Members
from benchgraph.fleet.parcel import PROTOCOL, Interval, Parcel, Reply, SurveyReply, WorkerFacts
from benchgraph.fleet.roster import Roster
from benchgraph.harness.worker import Setup
from benchgraph.options.argv import parse
from benchgraph.options.knobs import Globals
from benchgraph.options.problem import Problem
from benchgraph.results.json_report import source
from benchgraph.results.result import CaseResult, FinishedCase, Machine, Result, Status
from tests.support.misbehaving_library import BENCH

TICK_S = 0.1
GIB = 1 << 30
ISAS_HERE = ("avx512_core_bf16", "avx512_core_vnni", "avx512_core", "avx2", "portable")


def facts(host: str, cores: int = 4, memory: int = 8 * GIB, **machine: Any) -> WorkerFacts:
    made = Machine(
        **{"cpu": "AMD EPYC 9354", "cores": cores, "isa": "avx512_core_bf16", "versions": {"numpy": "2.1.3"}, "host": host, **machine}
    )
    return WorkerFacts(PROTOCOL, __version__, source(), f"boot-{host}", host, memory, ISAS_HERE, made)


def answer(given: WorkerFacts) -> dict[str, Any]:
    return asdict(given)


def finished(problem: Problem, status: Status = Status.PASSED, **result: Any) -> FinishedCase:
    return FinishedCase(CaseResult(problem.index, problem.repro, 0.1, Result(status, **result)))


def problems(count: int, *words: str) -> list[Problem]:
    return list(parse([f"--seed={','.join(map(str, range(count)))}", *words, "--graph", "--case=good.json"]).problems)


def greet() -> None: ...
def survey() -> None: ...
def serve() -> None: ...


@dataclass
class FakeWorker:
    """A worker with its facts. takes_s: how long a case takes; a silent one neither answers nor is heard of.

    is_held: others have the lock of its host, so that cases wait there and do not begin.
    """

    facts: WorkerFacts
    threads: int = 1
    takes_s: float = 0.3
    is_silent: bool = False
    is_held: bool = False
    heard: float = 0.0


@dataclass
class FakeEngine:
    """reply: of a worker to a parcel. now: the clock, which moves by TICK_S with every wait. survey_s: how long a survey takes."""

    workers: dict[str, FakeWorker] = field(default_factory=dict)
    reply: Callable[[Problem, Parcel], Reply] = lambda problem, parcel: Reply(finished(problem), interval=Interval(0.0, 0.0))
    now: float = 0.0
    is_up: bool = True
    pending: dict[int, tuple[float, str, Callable[[], object]]] = field(default_factory=dict)
    told: list[Event] = field(default_factory=lambda: [Connected("fake")])
    running: dict[int, tuple[str, Problem]] = field(default_factory=dict)
    each_tick: Callable[[], None] = lambda: None
    is_closed: bool = False
    survey_s: float = 0.0

    def call(self, ticket: int, worker: str, function: Callable[..., Any], *arguments: Any) -> None:
        if function is greet:
            self.pending[ticket] = self.now, worker, lambda: answer(self.workers[worker].facts)
        elif function is survey:
            self.pending[ticket] = self.now + self.survey_s, worker, lambda: SurveyReply(self.workers[worker].facts.machine)
        else:
            (parcel,) = arguments
            problem: Problem = pickle.loads(parcel.problem)
            takes_s = self.workers[worker].takes_s if worker in self.workers else 0.0
            self.running[ticket] = worker, problem
            self.pending[ticket] = self.now + takes_s, worker, lambda: self.reply(problem, parcel)
            if worker in self.workers and not self.workers[worker].is_held:
                self.told.append(Begun(ticket))

    def forget(self, ticket: int) -> None:
        """The answer comes all the same, as if it had been under way."""

    def events(self, within_s: float) -> Sequence[Event]:
        self.now += TICK_S
        self.each_tick()
        if self.is_up:
            for worker in self.workers.values():
                worker.heard = worker.heard if worker.is_silent else self.now
            self.told.append(Members({name: Member(w.threads, w.heard) for name, w in self.workers.items()}))
            for ticket, (at, name, value) in list(self.pending.items()):
                if at <= self.now and self._answers(name, ticket):
                    del self.pending[ticket]
                    self.running.pop(ticket, None)
                    self.told.append(Answered(ticket, value()))
        told, self.told = self.told, []
        return told

    def _answers(self, name: str, ticket: int) -> bool:
        worker = self.workers.get(name)
        return worker is not None and not worker.is_silent and not (worker.is_held and ticket in self.running)

    def close(self) -> None:
        self.is_closed = True

    # ---- what happens to the fleet ----

    def kill(self, name: str) -> None:
        """The worker is gone, and what it did."""
        del self.workers[name]
        self.pending = {t: call for t, call in self.pending.items() if call[1] != name}
        self.running = {t: ran for t, ran in self.running.items() if ran[0] != name}

    def fail(self, ticket: int, why: str) -> None:
        self.pending.pop(ticket)
        self.running.pop(ticket, None)
        self.told.append(Failed(ticket, why))

    def lose_call(self, ticket: int) -> None:
        """The scheduler forgets a call."""
        self.pending.pop(ticket)
        self.running.pop(ticket, None)
        self.told.append(Forgotten(ticket))

    def lose_scheduler(self) -> None:
        self.is_up = False
        self.pending.clear()
        self.running.clear()
        self.told.append(Disconnected("it is gone"))

    def find_scheduler(self) -> None:
        self.is_up = True
        self.told.append(Connected("fake"))


def driver(engine: FakeEngine, planned: Sequence[Problem], where: Sequence[tuple[str, str]] = ()) -> Driver:
    roster = Roster(where, {}, clock=lambda: engine.now)
    return Driver(engine, roster, Globals(), Setup(BENCH, config()), planned, Endpoint(greet, survey, serve), clock=lambda: engine.now)


def results(made: Driver, planned: Sequence[Problem]) -> Iterator[CaseResult]:
    return (ran.done.case for ran in made.run(planned))
