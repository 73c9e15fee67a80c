"""What microkernels and packings read and write: their slices with how far those reach."""

from __future__ import annotations

from dataclasses import dataclass

from benchgraph.tir.ir import Brgemm, FlatSlice, Pack, Slice


@dataclass(frozen=True)
class Operand:
    """One slice of a statement. extents: of rows, columns and batch, in steps of the slice. group: elements from each step's place on."""

    piece: Slice | FlatSlice
    extents: tuple[int, ...]
    group: int = 1

    def spans(self) -> tuple[tuple[int, int], ...]:
        """How far it reaches from its first element, (least, most) along each dim."""
        p = self.piece
        axes = p.axes if isinstance(p, Slice) else tuple((0, stride) for stride in p.strides)
        rank = len(p.index) if isinstance(p, Slice) else 1
        reach = [[0, 0] for _ in range(rank)]
        for (dim, step), extent in zip(axes, self.extents, strict=True):
            reach[dim][step > 0] += (extent - 1) * step
        reach[-1][1] += self.group - 1
        return tuple((least, most) for least, most in reach)

    def stride(self, axis: int) -> int:
        """Elements between two rows (0), columns (1) or entries of an axis of the batch."""
        if isinstance(self.piece, FlatSlice):
            return self.piece.strides[axis]
        dim, step = self.piece.axes[axis]
        return self.piece.tensor.strides[dim] * step


def operands(s: Brgemm | Pack) -> tuple[Operand, ...]:
    """What is read, then what is written: src, wei and acc, or src and dst. Groups are read and written whole."""
    groups = -(-s.k // s.group)
    if isinstance(s, Pack):
        return Operand(s.src, (s.k, s.n)), Operand(s.dst, (groups, s.n), s.group)
    return Operand(s.src, (s.m, s.k, *s.batch)), Operand(s.wei, (groups, s.n, *s.batch), s.group), Operand(s.acc, (s.m, s.n))
