"""A nest of loops as its cost sees it: operands, and the axes they move along."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod


@dataclass(frozen=True)
class Operand:
    """bits: of an element. axes: those that it moves along, one element a step. is_written: read and written by each step."""

    name: str
    bits: int
    axes: tuple[str, ...]
    is_written: bool = False

    def nbytes(self, box: Mapping[str, int]) -> float:
        """Bytes of its elements in a box of so many steps along each axis; one along axes that the box does not name."""
        return self.bits / 8 * prod(box.get(axis, 1) for axis in self.axes)


@dataclass(frozen=True)
class Loop:
    """trips: iterations, each of which is all loops inside."""

    axis: str
    trips: int


def boxes(loops: Sequence[Loop]) -> list[dict[str, int]]:
    """For each depth, outermost first, the steps along each axis that the loops from there on take; the last one is a point.

    >>> boxes([Loop("m", 2), Loop("k", 5), Loop("m", 3)])
    [{'m': 6, 'k': 5}, {'m': 3, 'k': 5}, {'m': 3}, {}]
    """
    found: list[dict[str, int]] = [{}]
    for loop in reversed(loops):
        inner = found[0]
        outer = {axis: inner.get(axis, 1) * (loop.trips if axis == loop.axis else 1) for axis in {loop.axis: 1, **inner}}
        found.insert(0, outer)
    return found
