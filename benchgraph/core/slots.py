"""Memory planning: values with disjoint lifetimes share a slot of memory.

Steps are numbered; a value lives from step `begin`, which writes it, to step `end`, which reads it last, both included. A value may also
take the memory of one that is last read in the step that writes it, where the step allows that (`over`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum


class Prefer(Enum):
    """Which of the free slots that are large enough is taken."""

    warmest = "the most recently used one, which is most likely in cache"
    smallest = "the smallest one, which leaves larger slots to larger values"


@dataclass(frozen=True)
class Value:
    """over: ids of the values it may overwrite, if they end where it begins."""

    id: int
    nbytes: int
    begin: int
    end: int
    over: tuple[int, ...] = ()


@dataclass(frozen=True)
class Plan:
    """slots: bytes of each slot. slot: of each value. laid_over: for a value that overwrites another one, that value."""

    slots: tuple[int, ...]
    slot: dict[int, int]
    laid_over: dict[int, int]

    @property
    def nbytes(self) -> int:
        return sum(self.slots)


def plan(values: Sequence[Value], *, prefer: Prefer = Prefer.warmest, grows: bool = True) -> Plan:
    """Take, in this order: the memory of a value that may be overwritten; a free slot that is large enough; the largest free slot, which
    is enlarged, if `grows`; a new slot. Of equal free slots, take the one that was used least recently.
    """
    sizes, slot, laid_over = list[int](), dict[int, int](), dict[int, int]()
    holder = list[Value]()  # of each slot: its last value
    by_id, order = {v.id: v for v in values}, {v.id: n for n, v in enumerate(values)}
    for v in sorted(values, key=lambda v: v.begin):
        under = next((by_id[o] for o in v.over if o in slot and _can_take(by_id[o], v, sizes[slot[o]], holder[slot[o]])), None)
        free = sorted((s for s, old in enumerate(holder) if old.end < v.begin), key=lambda s: (holder[s].end, order[holder[s].id]))
        fits = [s for s in free if sizes[s] >= v.nbytes]
        if under is not None:
            chosen = slot[under.id]
            laid_over[v.id] = under.id
        elif fits:
            chosen = fits[-1] if prefer is Prefer.warmest else min(fits, key=lambda s: sizes[s])
        elif free and grows:
            chosen = max(free, key=lambda s: sizes[s])
            sizes[chosen] = v.nbytes
        else:
            chosen = len(sizes)
            sizes.append(v.nbytes)
            holder.append(v)
        slot[v.id], holder[chosen] = chosen, v
    return Plan(tuple(sizes), slot, laid_over)


def _can_take(old: Value, new: Value, size: int, holder: Value) -> bool:
    """Whether the old value is the last of its slot, ends as the new one begins, and is large enough."""
    return holder is old and old.end == new.begin and old.begin < new.begin and new.nbytes <= size
