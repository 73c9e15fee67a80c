"""Operands of microkernels and packings, as slices with their extents, and how post-ops of a microkernel iterate."""

from __future__ import annotations

from dataclasses import dataclass

from benchgraph.tir.affine import Linear, linear
from benchgraph.tir.ir import Brgemm, Const, For, Pack, PostOps, Slice


@dataclass(frozen=True)
class Operand:
    """One slice of a statement. extents: of rows, columns and batch, in steps of the slice. group: contiguous elements at each step."""

    slice: Slice
    extents: tuple[int, ...]
    group: int = 1

    def spans(self) -> tuple[tuple[int, int], ...]:
        """Offsets from its first element, (least, most) along each dim."""
        reach = [[0, 0] for _ in self.slice.index]
        for (dim, step), extent in zip(self.slice.axes, self.extents, strict=True):
            reach[dim][step > 0] += (extent - 1) * step
        reach[-1][1] += self.group - 1
        return tuple((least, most) for least, most in reach)


def operands(s: Brgemm | Pack) -> tuple[Operand, ...]:
    """src, wei and acc, or src and dst: what is written comes last. Whole groups are read and written."""
    groups = -(-s.k // s.group)
    if isinstance(s, Pack):
        return Operand(s.src, (s.k, s.n)), Operand(s.dst, (groups, s.n), s.group)
    return Operand(s.src, (s.m, s.k, *s.batch)), Operand(s.wei, (groups, s.n, *s.batch), s.group), Operand(s.acc, (s.m, s.n))


def post_op_loops(g: Brgemm, p: PostOps) -> For:
    """The post-ops p of g as loops, in one of the orders they may run in."""
    return For(p.vector, Const(g.n // p.lanes), For(p.row, Const(g.m), p.body))


def place_in_acc(g: Brgemm, p: PostOps) -> Linear | None:
    """The offset of the current vector in g's acc; None before flatten-index. Variables of a single value are left out."""
    if not g.acc.is_flat:
        return None
    rows = Linear({p.row: g.acc.strides[0]} if g.m > 1 else {})
    return linear(g.acc.offset).plus(rows).plus(Linear({p.vector: p.lanes} if g.n > p.lanes else {}))
