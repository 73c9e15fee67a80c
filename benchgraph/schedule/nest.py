"""A nest of loops as its cost sees it: operands, and the axes they move along."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from benchgraph.machine.target import crowding

F32_BYTES = 4


@dataclass(frozen=True)
class Operand:
    """An affine access. bits: of an element. dims: for each dim of the tensor, the axes that move along it, with how many elements a step
    of each moves. is_written: read and written by each step. apart: bytes from one row to the next, where rows are read in part; 0 where
    all that is read lies densely.
    """

    name: str
    bits: float
    dims: tuple[tuple[tuple[str, int], ...], ...]
    is_written: bool = False
    apart: int = 0

    @classmethod
    def dense(cls, name: str, bits: float, axes: Sequence[str], *, is_written: bool = False) -> Operand:
        """One axis moves along each dim, an element a step."""
        return cls(name, bits, tuple(((axis, 1),) for axis in axes), is_written)

    @cached_property
    def axes(self) -> frozenset[str]:
        """Those that it moves along."""
        return frozenset(axis for dim in self.dims for axis, _ in dim)

    def nbytes(self, box: Mapping[str, float]) -> float:
        """Bytes of its elements in a box of so many steps along each axis; one along axes that the box does not name.

        >>> Operand("src", 8, ((("y", 1), ("tap", 1)), (("c", 1),))).nbytes({"y": 4, "tap": 3, "c": 10})
        60.0
        """
        size, (plain, windows) = self.bits / 8, self._moves
        for axis in plain:
            size *= box.get(axis, 1)
        for dim in windows:
            size *= 1 + sum(by * (box.get(axis, 1) - 1) for axis, by in dim)
        return size

    def held_bytes(self, box: Mapping[str, float]) -> float:
        """Bytes of a cache that these take: rows that are apart may fall in few of its sets."""
        row = self.bits / 8 * box.get(self.dims[-1][0][0], 1) if self.apart else 0.0
        return self.nbytes(box) * (crowding(self.apart, row) if self.apart else 1.0)

    @cached_property
    def _moves(self) -> tuple[list[str], list[tuple[tuple[str, int], ...]]]:
        """The axes of dims along which one axis moves, an element a step, and the other dims that anything moves along."""
        is_plain = [len(dim) == 1 and dim[0][1] == 1 for dim in self.dims]
        plain = [dim[0][0] for dim, is_so in zip(self.dims, is_plain, strict=True) if is_so]
        return plain, [dim for dim, is_so in zip(self.dims, is_plain, strict=True) if dim and not is_so]


class Loop(NamedTuple):
    """trips: iterations, each of which is all loops inside; a fraction is a part of one."""

    axis: str
    trips: float
