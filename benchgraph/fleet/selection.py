"""Which workers a run may use: those of the client's own code, and those that --where picks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from benchgraph.core.errors import InvalidArguments
from benchgraph.core.printable import listed
from benchgraph.core.version import __version__
from benchgraph.fleet.parcel import PROTOCOL, WorkerFacts
from benchgraph.results.json_report import source

Condition = tuple[str, str]


MATCHES: dict[str, Callable[[WorkerFacts, str], bool]] = {
    "isa": lambda facts, value: value in facts.isas,
    "cpu": lambda facts, value: value.casefold() in facts.machine.cpu.casefold(),
    "cores": lambda facts, value: facts.machine.cores >= int(value),
    "memory": lambda facts, value: facts.memory >= int(value) << 30,
    "host": lambda facts, value: facts.name == value,
}


def picks(where: Sequence[Condition], facts: WorkerFacts) -> bool:
    """Whether a worker fulfils all conditions. Those that are none of MATCHES name a library or package: its version begins so."""
    return all(_fulfils(facts, name, value) for name, value in where)


def _fulfils(facts: WorkerFacts, name: str, value: str) -> bool:
    if match := MATCHES.get(name):
        return match(facts, value)
    version = facts.machine.versions.get(name, "")
    return version == value or version.startswith(f"{value}.")


def mismatch(answer: Mapping[str, object]) -> str:
    """How a worker's answer to greet() shows other code than the client's; '' for the same."""
    pairs = {"the protocol": (answer.get("protocol"), PROTOCOL), "benchgraph": (answer.get("version"), __version__)}
    pairs |= {"its source": (answer.get("source"), source())}
    return next((f"{what} is {there} there, {here} here" for what, (there, here) in pairs.items() if there != here), "")


def refusal_of_code(workers: Iterable[tuple[str, str]]) -> InvalidArguments:
    """workers: (name, mismatch)."""
    what = "other code on workers: " + listed((f"{name}: {why}" for name, why in workers), 5)
    fix = f"install this benchgraph ({__version__}, source {source()}) there and restart these workers, or run the client from theirs"
    return InvalidArguments(what, where="--cluster", fix=fix)


def refusal_of_where(where: Sequence[Condition], workers: Iterable[WorkerFacts]) -> InvalidArguments:
    """None of these workers fulfils --where."""
    kinds = dict.fromkeys(map(_described, workers))
    given = ",".join(f"{name}={value}" for name, value in where)
    return InvalidArguments(f"no worker is so; there are: {listed(kinds)}", where=f"--where={given}", fix="ask for one of these")


def _described(facts: WorkerFacts) -> str:
    m = facts.machine
    versions = " ".join(f"{name}={version}" for name, version in m.versions.items())
    return f"[host={facts.name} cpu='{m.cpu}' isa={m.isa} cores={m.cores} memory={facts.memory >> 30} {versions}]"
