"""What a microkernel call reads and writes: its slices with how far they reach."""

from __future__ import annotations

from dataclasses import dataclass

from benchgraph.tir.ir import Brgemm, Flat, Slice


@dataclass(frozen=True)
class Operand:
    """A microkernel's operand. extents: of rows, columns and batch, in steps of the slice. group: elements from each step's place on."""

    piece: Slice | Flat
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


def operands(s: Brgemm) -> tuple[Operand, Operand, Operand]:
    """src, wei and acc. wei is read in whole groups."""
    wei = Operand(s.wei, (-(-s.k // s.group), s.n, *s.batch), s.group)
    return Operand(s.src, (s.m, s.k, *s.batch)), wei, Operand(s.acc, (s.m, s.n))
