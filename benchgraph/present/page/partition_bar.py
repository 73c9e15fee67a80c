"""Segments of a bar of partition times: the largest partitions, and one segment for the rest."""

from __future__ import annotations

from dataclasses import dataclass

from benchgraph.results.result import PolicyTiming

MOST_SEGMENTS = 12  # of a bar, without that of the others


@dataclass(frozen=True)
class Segment:
    """A segment: a partition, or the small ones together. id: the partition's, None for the others, of which there are `count`."""

    seconds: float
    id: int | None
    count: int = 1

    def name(self, *, at_most: float) -> str:
        """The longest name of at most so many letters; '' if none fits."""
        names = (str(self.id),) if self.id is not None else (f"others ({self.count})", f"({self.count})")
        return next((name for name in names if len(name) + 1 <= at_most), "")


def segments(t: PolicyTiming) -> list[Segment]:
    """In order of execution; of more than MOST_SEGMENTS the smallest are one segment, the last."""
    slowest = {p.id for p in sorted(t.partitions, key=lambda p: -p.timing.median_s)[:MOST_SEGMENTS]}
    segments = [Segment(p.timing.median_s, p.id) for p in t.partitions if p.id in slowest]
    others = [p.timing.median_s for p in t.partitions if p.id not in slowest]
    return [*segments, *([Segment(sum(others), None, len(others))] if others else [])]
