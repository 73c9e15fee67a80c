"""Static memory planning: values that do not live at the same time share memory.

Steps are numbered; a value is written in step `begin` and last read in step `end`, and both count as life. A value may also be laid over
one that is last read in the step that writes it, where the step allows that (`over`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


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
    """slots: bytes of each piece of memory. slot: value -> the piece it lives in. laid_over: value -> the one whose memory it took."""

    slots: tuple[int, ...]
    slot: dict[int, int]
    laid_over: dict[int, int]

    @property
    def nbytes(self) -> int:
        return sum(self.slots)


def plan(values: Sequence[Value]) -> Plan:
    """First the memory of a value it may overwrite; else the smallest free slot that is large enough; else the largest free one, grown."""
    sizes, slot, laid_over = list[int](), dict[int, int](), dict[int, int]()
    holder = dict[int, Value]()  # slot -> the value that was put there last
    by_id = {v.id: v for v in values}
    for v in sorted(values, key=lambda v: v.begin):
        under = next((by_id[o] for o in v.over if o in slot and _can_take(by_id[o], v, sizes[slot[o]], holder[slot[o]])), None)
        if under is not None:
            chosen = slot[under.id]
            laid_over[v.id] = under.id
        else:
            free = [s for s in range(len(sizes)) if holder[s].end < v.begin]
            fits = [s for s in free if sizes[s] >= v.nbytes]
            if not free:
                sizes.append(v.nbytes)
            chosen = min(fits, key=lambda s: sizes[s]) if fits else max(free, key=lambda s: sizes[s]) if free else len(sizes) - 1
            sizes[chosen] = max(sizes[chosen], v.nbytes)
        slot[v.id], holder[chosen] = chosen, v
    return Plan(tuple(sizes), slot, laid_over)


def _can_take(old: Value, new: Value, size: int, holder: Value) -> bool:
    """Whether the old value is the last in its slot, ends as the new one begins, and leaves room for it."""
    return holder is old and old.end == new.begin and old.begin < new.begin and new.nbytes <= size
