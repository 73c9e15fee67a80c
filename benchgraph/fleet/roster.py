"""The workers of a run: who they are, who answers, and on which hosts.

unknown worker  ->  greeted  ->  of other code, or not picked: never used
                             ->  its host is surveyed, once  ->  cannot run these cases: never used
                                                             ->  in use while it answers
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from benchgraph.fleet.engine import Member
from benchgraph.fleet.parcel import SurveyReply, WorkerFacts
from benchgraph.fleet.placement import Host
from benchgraph.fleet.selection import Condition, mismatch, picks
from benchgraph.results.machine import Machine

SILENT_S = 30.0  # a worker of which the scheduler has not heard for so long gets no cases, and loses those it has


@dataclass
class KnownWorker:
    """last_seen, heard: the scheduler's word of it, and when we first got that. facts: None until greeted; refused: why it is not used."""

    threads: int
    last_seen: float
    heard: float
    facts: WorkerFacts | None = None
    refused: str = ""
    is_greeted: bool = False

    def is_silent(self, now: float) -> bool:
        return now - self.heard > SILENT_S


@dataclass
class Roster:
    """hosts: those in use, for the placement. machines: by host, as surveyed; refusals: why hosts cannot run these cases."""

    where: Sequence[Condition]
    hosts: dict[str, Host]
    clock: Callable[[], float] = time.monotonic
    workers: dict[str, KnownWorker] = field(default_factory=dict)
    machines: dict[str, Machine] = field(default_factory=dict)
    refusals: dict[str, str] = field(default_factory=dict)

    def update(self, members: Mapping[str, Member]) -> dict[str, str]:
        """Take note of who is there. Returns the workers that have gone, or are silent now, with the reason in words."""
        now, lost, in_use = self.clock(), dict[str, str](), self.in_use
        for address in self.workers.keys() - members.keys():
            lost[address] = f"{self.name_of(address)} left the cluster"
            del self.workers[address]
        for address, member in members.items():
            known = self.workers.setdefault(address, KnownWorker(member.threads, member.last_seen, now))
            was_in_use = address in in_use
            if member.last_seen != known.last_seen:
                known.last_seen, known.heard = member.last_seen, now
            if known.is_silent(now) and was_in_use:
                lost[address] = f"{self.name_of(address)} has not been heard of for {SILENT_S:g} s"
        self._put_to_use()
        return lost

    def to_greet(self) -> list[str]:
        """Workers of which nothing is known, each once."""
        new = [address for address, worker in self.workers.items() if not worker.is_greeted]
        for address in new:
            self.workers[address].is_greeted = True
        return new

    def forget_greeting(self, address: str) -> None:
        """A worker's answer was lost on the way."""
        if worker := self.workers.get(address):
            worker.is_greeted = worker.facts is not None

    def greeted(self, address: str, answer: object) -> None:
        """A worker's answer to greet(), or why there is none, as text."""
        if (worker := self.workers.get(address)) is None:
            return
        if not isinstance(answer, Mapping):
            worker.refused = f"it cannot run benchgraph ({answer})"
        elif why := mismatch(answer):
            worker.refused = why
        else:
            worker.facts = WorkerFacts.read(answer)
        self._put_to_use()

    def to_survey(self) -> dict[str, str]:
        """A worker for each host that has not been surveyed."""
        found = dict[str, str]()
        for address, worker in self.workers.items():
            if (facts := self._picked(worker)) and facts.host not in self.machines and facts.host not in self.refusals:
                found.setdefault(facts.host, address)
        return found

    def surveyed(self, host: str, reply: SurveyReply) -> None:
        if reply.machine is not None:
            self.machines[host] = reply.machine
        else:
            self.refusals[host] = reply.refusal
        self._put_to_use()

    @property
    def is_settled(self) -> bool:
        """Whether there are workers, and all that answer have been greeted and surveyed."""
        now = self.clock()
        is_met = all(w.facts or w.refused or w.is_silent(now) for w in self.workers.values())
        return bool(self.workers) and is_met and not self.to_survey()

    @property
    def of_other_code(self) -> list[tuple[str, str]]:
        return [(address, worker.refused) for address, worker in self.workers.items() if worker.refused]

    @property
    def picked(self) -> list[WorkerFacts]:
        return [facts for worker in self.workers.values() if (facts := self._picked(worker))]

    @property
    def known(self) -> list[WorkerFacts]:
        return [worker.facts for worker in self.workers.values() if worker.facts is not None]

    def name_of(self, address: str) -> str:
        worker = self.workers.get(address)
        return f"{address} on {worker.facts.name}" if worker and worker.facts else address

    @property
    def in_use(self) -> set[str]:
        return {address for host in self.hosts.values() for address in host.workers}

    def _picked(self, worker: KnownWorker) -> WorkerFacts | None:
        return worker.facts if worker.facts is not None and picks(self.where, worker.facts) else None

    def _put_to_use(self) -> None:
        """Let the hosts have the workers that may run cases now."""
        now, by_host = self.clock(), dict[str, dict[str, int]]()
        for address, worker in self.workers.items():
            facts = self._picked(worker)
            if facts is None or facts.host not in self.machines or worker.is_silent(now):
                continue
            by_host.setdefault(facts.host, {})[address] = worker.threads
            if facts.host not in self.hosts:
                self.hosts[facts.host] = Host(facts.host, facts.name, facts.machine.cores, facts.memory)
        for id, host in self.hosts.items():
            host.workers = by_host.get(id, {})
