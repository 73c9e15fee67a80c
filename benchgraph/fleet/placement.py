"""Which case runs where: the conventions of a fleet as a function of what runs, without any network.

A host carries as many cases at once as it has cores, worker threads, and memory for; a timed case, and a case that needs all of the memory,
is alone there. Hosts, not workers, have cores and memory: the workers of a host share them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from benchgraph.fleet.parcel import Terms

MEMORY_SHARE = 0.85  # share of the memory that a case gets which its estimate may come to, as in harness/case.py
LEAST_MEMORY = 1 << 30  # bytes that a case gets at least, as in harness/isolate.py


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

    def terms(self, need: Need) -> Terms | None:
        """On which terms a case could run here now; None if it cannot."""
        placed = self.running.values()
        if not self.free_worker or any(p.terms.is_alone for p in placed):
            return None
        if need.is_alone or need.memory > MEMORY_SHARE * self.memory:
            return None if placed else Terms(1, is_alone=True, memory=self.memory, share=None)
        memory = max(int(need.memory / MEMORY_SHARE), self.share)
        if len(placed) >= self.cases_at_once or sum(p.terms.memory for p in placed) + memory > max(self.memory, memory):
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
        for host in able:
            if self.held.get(host.id, ticket) != ticket:
                continue
            if terms := host.terms(need):
                self._release(ticket)
                host.running[ticket] = placed = Placed(host.free_worker, terms)
                return host, placed
        if self._is_alone(need, able) and ticket not in self.held.values():
            free = [host for host in able if host.id not in self.held]
            if free:
                self.held[min(free, key=lambda host: len(host.running)).id] = ticket
        return None

    @property
    def has_room(self) -> bool:
        """Whether some case might find a host now."""
        return any(
            not host.running if host.id in self.held else host.terms(Need()) is not None or (not host.running and host.free_worker)
            for host in self.hosts.values()
        )

    def end(self, ticket: int) -> None:
        """The case no longer runs, nor waits for a host."""
        self._release(ticket)
        for host in self.hosts.values():
            host.running.pop(ticket, None)

    def _release(self, ticket: int) -> None:
        self.held = {host: held for host, held in self.held.items() if held != ticket}

    def _able(self, need: Need) -> list[Host]:
        """The hosts that could carry a case when nothing else runs there, the emptiest first; if none could, that with most memory."""
        hosts = [host for host in self.hosts.values() if host.workers]
        most = max((host.memory for host in hosts), default=0)
        fit = [host for host in hosts if host.memory >= min(need.memory / MEMORY_SHARE, most)]
        return sorted(fit, key=lambda host: len(host.running) / host.cases_at_once)

    def _is_alone(self, need: Need, able: Iterable[Host]) -> bool:
        return need.is_alone or all(need.memory > MEMORY_SHARE * host.share for host in able)


def overview(hosts: Mapping[str, Host]) -> str:
    """The hosts in words, for remarks."""
    return ", ".join(f"{h.name} ({h.cores} cores, {h.memory / 2**30:.0f} GiB, {len(h.workers)} workers)" for h in hosts.values())
