"""A bar of the times of partitions, cut into as many pieces as can be told apart."""

from __future__ import annotations

from dataclasses import dataclass

from benchgraph.results.result import PolicyTiming

MOST_PIECES = 12  # of a bar, besides the others


@dataclass(frozen=True)
class Piece:
    """A part of a bar: a partition, or the small ones together. id: the partition's, None for the others, of which there are `count`."""

    seconds: float
    id: int | None
    count: int = 1

    def name(self, *, at_most: float) -> str:
        """The longest name of so many letters; '' where none fits."""
        names = (str(self.id),) if self.id is not None else (f"others ({self.count})", f"({self.count})")
        return next((name for name in names if len(name) + 1 <= at_most), "")


def pieces(t: PolicyTiming) -> list[Piece]:
    """In order of execution; of more than MOST_PIECES the small ones are one piece, the last."""
    slowest = {p.id for p in sorted(t.partitions, key=lambda p: -p.timing.median_s)[:MOST_PIECES]}
    found = [Piece(p.timing.median_s, p.id) for p in t.partitions if p.id in slowest]
    rest = [p.timing.median_s for p in t.partitions if p.id not in slowest]
    return [*found, *([Piece(sum(rest), None, len(rest))] if rest else [])]
