"""What a library ran: its implementations of primitives, by the names it gives them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TypeAlias

WHOLE = "partition"  # the primitive of a library that has one implementation for all partitions


@dataclass(frozen=True)
class Implementation:
    """primitive: its kind, as matmul. name: as brg_matmul:avx512_core. count: how many such primitives. why: of a reference implementation,
    which others were tried, and why the library could not take them; '' if it does not tell.
    """

    primitive: str
    name: str
    count: int = 1
    why: str = field(default="", compare=False)

    @property
    def is_reference(self) -> bool:
        """Whether it is a plain, slow one: benchdnn's --check-ref-impl looks for the same letters."""
        return "ref" in self.name

    def __str__(self) -> str:
        return f"{self.primitive} {self.name}" + (f" x{self.count}" if self.count > 1 else "")


ByPartition: TypeAlias = tuple[tuple[Implementation, ...], ...]


def counted(pairs: Iterable[tuple[str, str]]) -> tuple[Implementation, ...]:
    """One per (primitive, name), in order of first use."""
    return tuple(Implementation(*pair, n) for pair, n in Counter(pairs).items())


def names(implementations: Iterable[Implementation]) -> str:
    """As text, for a line: in order of first use, joined by +."""
    total = Counter[tuple[str, str]]()
    for i in implementations:
        total[i.primitive, i.name] += i.count
    return " + ".join(str(Implementation(*pair, n)) for pair, n in total.items())
