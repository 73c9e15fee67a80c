"""Operands of microkernels and packings: slices with their extents."""

from __future__ import annotations

from dataclasses import dataclass

from benchgraph.tir.ir import Brgemm, FlatSlice, Pack, Slice


@dataclass(frozen=True)
class Operand:
    """One slice of a statement. extents: of rows, columns and batch, in steps of the slice. group: contiguous elements at each step."""

    slice: Slice | FlatSlice
    extents: tuple[int, ...]
    group: int = 1

    def spans(self) -> tuple[tuple[int, int], ...]:
        """Offsets from its first element, (least, most) along each dim."""
        p = self.slice
        axes = p.axes if isinstance(p, Slice) else tuple((0, stride) for stride in p.strides)
        rank = len(p.index) if isinstance(p, Slice) else 1
        reach = [[0, 0] for _ in range(rank)]
        for (dim, step), extent in zip(axes, self.extents, strict=True):
            reach[dim][step > 0] += (extent - 1) * step
        reach[-1][1] += self.group - 1
        return tuple((least, most) for least, most in reach)

    def stride(self, axis: int) -> int:
        """Elements between two rows (0), columns (1) or entries of an axis of the batch."""
        if isinstance(self.slice, FlatSlice):
            return self.slice.strides[axis]
        dim, step = self.slice.axes[axis]
        return self.slice.tensor.strides[dim] * step


def operands(s: Brgemm | Pack) -> tuple[Operand, ...]:
    """src, wei and acc, or src and dst: what is written comes last. Whole groups are read and written."""
    groups = -(-s.k // s.group)
    if isinstance(s, Pack):
        return Operand(s.src, (s.k, s.n)), Operand(s.dst, (groups, s.n), s.group)
    return Operand(s.src, (s.m, s.k, *s.batch)), Operand(s.wei, (groups, s.n, *s.batch), s.group), Operand(s.acc, (s.m, s.n))
