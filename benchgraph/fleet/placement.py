"""Which case runs where: the conventions of a fleet as a function of what runs, without any network.

A host carries as many cases at once as it has cores, worker threads, and memory for; a timed case, and a case that needs all of the memory,
is alone there. Hosts, not workers, have cores and memory: the workers of a host share them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from benchgraph.fleet.parcel import Terms
from benchgraph.harness.bench import MEMORY_SHARE
from benchgraph.harness.isolate import LEAST_MEMORY


@dataclass(frozen=True)
class Need:
    """is_alone: it needs a host for itself. memory: bytes by its estimate; 0: unknown, and a share of the host's memory will do."""

    is_alone: bool = False
    memory: int = 0


@dataclass(frozen=True)
class Placed:
    worker: str
    terms: Terms


@dataclass
class Host:
    """A machine with workers. workers: address -> threads, of those that answer; running: cases by ticket, also on workers that do not."""

    id: str
    name: str
    cores: int
    memory: int
    workers: dict[str, int] = field(default_factory=dict)
    running: dict[int, Placed] = field(default_factory=dict)

    @property
    def cases_at_once(self) -> int:
        return max(min(self.cores, sum(self.workers.values())), 1)

    @property
    def share(self) -> int:
        """Bytes for each of the cases that run at once."""
        return max(self.memory // self.cases_at_once, LEAST_MEMORY)

    @property
    def free_worker(self) -> str:
        """The worker with most free threads; '' if there is none."""
        used = [placed.worker for placed in self.running.values()]
        free = {address: threads - used.count(address) for address, threads in self.workers.items()}
        best = max(free, key=lambda address: free[address], default="")
        return best if best and free[best] > 0 else ""

    @property
    def is_full(self) -> bool:
        """Whether no further case can begin here. Asked of every host for every case, so it is quick."""
        if len(self.running) == 1 and next(iter(self.running.values())).terms.is_alone:
            return True
        return not self.workers or len(self.running) >= self.cases_at_once

    def terms(self, need: Need) -> Terms | None:
        """On which terms a case could run here now; None if it cannot."""
        placed = self.running.values()
        if self.is_full or not self.free_worker:
            return None
        if need.is_alone or need.memory > MEMORY_SHARE * self.memory:
            return None if placed else Terms(1, is_alone=True, memory=self.memory, share=None)
        memory = max(int(need.memory / MEMORY_SHARE), self.share)
        if sum(p.terms.memory for p in placed) + memory > max(self.memory, memory):
            return None
        return Terms(self.cases_at_once, is_alone=False, memory=memory, share=max(int(MEMORY_SHARE * memory), need.memory))


@dataclass
class Placement:
    """The hosts of a run. held: hosts -> tickets of cases that wait until nothing else runs there, and which nothing overtakes."""

    hosts: dict[str, Host] = field(default_factory=dict)
    held: dict[str, int] = field(default_factory=dict)

    def place(self, ticket: int, need: Need) -> tuple[Host, Placed] | None:
        """Find a host for a case and record it there; None if none is free. Call it for waiting cases in their order."""
        able = self._able(need)
        free = [host for host in able if not host.is_full and self.held.get(host.id, ticket) == ticket]
        for host in sorted(free, key=lambda host: len(host.running) / host.cases_at_once):
            if terms := host.terms(need):
                self._release(ticket)
                host.running[ticket] = placed = Placed(host.free_worker, terms)
                return host, placed
        if self._is_alone(need, able) and ticket not in {held for id, held in self.held.items() if self.hosts[id].workers}:
            self._hold([host for host in able if host.id not in self.held], ticket)
        return None

    def _hold(self, hosts: Sequence[Host], ticket: int) -> None:
        """Keep the emptiest host for a case."""
        if hosts:
            self.held[min(hosts, key=lambda host: len(host.running)).id] = ticket

    @property
    def has_room(self) -> bool:
        """Whether some case might find a host now."""
        return any(not host.is_full and (host.id not in self.held or not host.running) for host in self.hosts.values())

    def end(self, ticket: int) -> None:
        """The case no longer runs, nor waits for a host."""
        self._release(ticket)
        for host in self.hosts.values():
            host.running.pop(ticket, None)

    def _release(self, ticket: int) -> None:
        self.held = {host: held for host, held in self.held.items() if held != ticket}

    def _able(self, need: Need) -> list[Host]:
        """The hosts that could carry a case when nothing else runs there; if none could, those with most memory."""
        hosts = [host for host in self.hosts.values() if host.workers]
        most = max((host.memory for host in hosts), default=0)
        return [host for host in hosts if host.memory >= min(need.memory / MEMORY_SHARE, most)]

    def _is_alone(self, need: Need, able: Iterable[Host]) -> bool:
        return need.is_alone or all(need.memory > MEMORY_SHARE * host.share for host in able)
