"""The kinds of machines that a comparison's times come from, which are never put together."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from benchgraph.core.formats import computer
from benchgraph.results.machine import Machine, as_one, kinds, united


@dataclass(frozen=True)
class Kinds:
    """machines: a kind each (machine.as_one). numbers: of the kind, by the key of a machine."""

    machines: tuple[Machine, ...]
    numbers: dict[str, int]

    @classmethod
    def of(cls, machines: Iterable[Machine]) -> Kinds:
        groups = kinds(united(machines).values())
        return cls(tuple(map(as_one, groups)), {m.key: number for number, group in enumerate(groups) for m in group})

    def __len__(self) -> int:
        return len(self.machines)

    def number(self, machine: Machine | None) -> int:
        """0 for a machine that is none of these: then kinds do not matter."""
        return 0 if machine is None else self.numbers.get(machine.key, 0)

    def name(self, number: int) -> str:
        m = self.machines[number]
        return computer(m.full_name, m.cores, m.isa, m.threads)
