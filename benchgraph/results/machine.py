"""The machines that results come from. Free of numpy, which `benchgraph --help` must not import."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from benchgraph.core.formats import unit

HARDWARE = ("cpuid", "caches", "hypervisor", "topology")  # of Machine.identity; new ones go to the end, see Machine.former_names
CLOCKS = 1.5  # largest ratio of a server's clocks, between wide vectors on all cores and the highest


@dataclass(frozen=True)
class Machine:
    """A machine that results come from.

    peak_flops: arithmetic -> operations/s of all threads, peak_flops_1_thread: of one; microkernel: the single-thread rate of our GEMM
    microkernel on microkernel_shape; memory_bandwidth: bytes/s of all threads reading from memory; all measured, and empty or 0 when
    nothing was timed. host: its name, '' when unknown. identity: what tells it from others whose CPU has the same name
    (machine/identity.py); table: the machine table that our compiler used; both empty in reports of early versions.
    """

    cpu: str
    cores: int
    isa: str
    versions: dict[str, str]
    threads: int = 0
    peak_flops: dict[str, float] = field(default_factory=dict)
    peak_flops_1_thread: dict[str, float] = field(default_factory=dict)
    microkernel: dict[str, float] = field(default_factory=dict)
    microkernel_shape: str = "256x256x256"
    memory_bandwidth: float = 0.0
    host: str = ""
    identity: dict[str, str] = field(default_factory=dict)
    table: str = ""

    @cached_property
    def key(self) -> str:
        """Its name in a document: a digest of all that was not measured, so that a machine has one key in all runs of one code there."""
        told = [self.host, self.cpu, self.cores, self.threads, self.isa, sorted(self.versions.items()), sorted(self.identity.items())]
        return hashlib.sha256(json.dumps(told).encode()).hexdigest()[:12]

    @property
    def hardware(self) -> dict[str, str]:
        """The part of the identity that stays when the system is updated."""
        return {name: text for name, text in self.identity.items() if name in HARDWARE}

    @property
    def system(self) -> dict[str, str]:
        """The other part: microcode and kernel."""
        return {name: text for name, text in self.identity.items() if name not in HARDWARE}

    @property
    def former_names(self) -> tuple[str, ...]:
        """Its full name, and those under which it was known before one or more parts of the hardware were: the longest first."""
        facts = [self.hardware[name] for name in HARDWARE if name in self.hardware]
        return tuple(f"{self.cpu} ({', '.join(facts[:n])})" if n else self.cpu for n in range(len(facts), -1, -1))

    @property
    def full_name(self) -> str:
        """The CPU's name, and what tells it from others of that name."""
        return self.former_names[0]

    def differences(self, other: Machine) -> dict[str, tuple[str, str]]:
        """Why times of the two can neither be put together nor compared: what it is, here and there. What one of them does not know makes
        no difference. Peaks tell hosts apart that a hypervisor calls the same; on one host they only say that other programs ran.
        """
        ours, others = ({**m._plain, **m.hardware} for m in (self, other))
        told = {what: (ours[what], others[what]) for what in ours if what in others and ours[what] != others[what]}
        return told or ({} if self.host == other.host else self._other_peaks(other))

    def _other_peaks(self, other: Machine) -> dict[str, tuple[str, str]]:
        """The peaks of one thread that differ by more than a clock does."""
        both = {
            name: (one, other.peak_flops_1_thread[name])
            for name, one in self.peak_flops_1_thread.items()
            if name in other.peak_flops_1_thread
        }
        apart = {name: pair for name, pair in both.items() if max(pair) > CLOCKS * min(pair)}
        return {f"{name} peak of a thread": (_rate(ours, name), _rate(theirs, name)) for name, (ours, theirs) in apart.items()}

    def difference(self, other: Machine) -> str:
        """The differences as text, `what this and other`; '' without any."""
        return ", ".join(f"{what} {ours} and {theirs}" for what, (ours, theirs) in self.differences(other).items())

    @property
    def _plain(self) -> dict[str, str]:
        return {"CPU": self.cpu, "cores": str(self.cores), "threads": str(self.threads), "instruction set": self.isa}


def _rate(rate: float, arithmetic: str) -> str:
    return f"{rate / 1e9:.3g} {unit(arithmetic)}"


def united(machines: Iterable[Machine]) -> dict[str, Machine]:
    """By key. One that was measured several times has the best of its rates, as one that was measured once has that of its samples."""
    by_key = dict[str, list[Machine]]()
    for m in machines:
        if m not in (known := by_key.setdefault(m.key, [])):
            known.append(m)
    return {key: measured[0] if len(measured) == 1 else as_one(measured) for key, measured in by_key.items()}


def kinds(machines: Iterable[Machine]) -> list[tuple[Machine, ...]]:
    """Machines whose times can be put together, for each kind in the order in which they come."""
    groups = list[list[Machine]]()
    for m in machines:
        of_its_kind = next((group for group in groups if not group[0].difference(m)), None)
        if of_its_kind is None:
            groups.append([m])
        else:
            of_its_kind.append(m)
    return [tuple(group) for group in groups]


def as_one(machines: Sequence[Machine]) -> Machine:
    """For reports, the machines of a kind as one: their names joined, the best of their rates. machines: at least one."""
    first, *others = machines
    if not others:
        return first
    return replace(
        first,
        cpu=_joined(m.cpu for m in machines),
        isa=_joined(m.isa for m in machines),
        versions=_joined_by_name(m.versions for m in machines),
        peak_flops=_best(m.peak_flops for m in machines),
        peak_flops_1_thread=_best(m.peak_flops_1_thread for m in machines),
        microkernel=_best(m.microkernel for m in machines),
        memory_bandwidth=max(m.memory_bandwidth for m in machines),
        host=_joined(m.host for m in machines),
        identity=_joined_by_name(m.identity for m in machines),
        table=_joined(m.table for m in machines),
    )


def _best(rates: Iterable[dict[str, float]]) -> dict[str, float]:
    best = dict[str, float]()
    for of_one in rates:
        best |= {name: max(rate, best.get(name, 0.0)) for name, rate in of_one.items()}
    return best


def _joined(texts: Iterable[str]) -> str:
    """The text that all have, or all of them."""
    return " + ".join(dict.fromkeys(texts))


def _joined_by_name(texts: Iterable[dict[str, str]]) -> dict[str, str]:
    all_texts = list(texts)
    return {name: _joined(of_one.get(name, "none") for of_one in all_texts) for name in dict.fromkeys(n for t in all_texts for n in t)}
