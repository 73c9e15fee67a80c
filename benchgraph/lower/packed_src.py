"""Src that lies by columns, in dtypes whose dot products take several elements of k: each task packs its own, as wei is packed.

    acc = brgemm(src[:, k:+32], wei[k:+32])     ->     pack s[k/2, m, 2] = src[k, m]
                                                       acc = brgemm(s[k/2, :, 0:2], wei[k:+2]), 16 entries

The groups of k are a batch of products by one group each: the microkernel steps from group to group, and keeps its sums. Scores that a
nest has made row by row are such a src for the gradients of keys and values, which sum over these rows (sums.py).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import ceil
from typing import TYPE_CHECKING

from benchgraph.gir.ir import Op
from benchgraph.gir.product import Axis, columns_of_src, group_of, product
from benchgraph.lower.access import ZERO, Coord
from benchgraph.tir.build import add, floordiv, mul, seq
from benchgraph.tir.ir import Brgemm, Expr, Pack, Prefetch, Slice, Stmt, Tensor

if TYPE_CHECKING:
    from benchgraph.lower.gemm import GemmNest


@dataclass(frozen=True)
class PackedSrc:
    """axes: of k and of dst's rows in src's buffer. buffer: [.., K / group, M, group]."""

    nest: GemmNest
    op: Op
    axes: tuple[Axis, ...]
    group: int
    buffer: Tensor

    def pack(self, start: tuple[Coord, ...], rows: int, k: Coord, size: int) -> Stmt:
        """So many rows of dst from `start` on, and elements of k from k on, with which a group begins."""
        src, index = self.nest.begin(self.op, product(self.nest.g, self.op), 0, start, k)
        last = len(self.buffer.shape) - 1
        dst = Slice(self.buffer, self._place(start, k, 0), ((last - 2, 1), (last - 1, 1)))
        return Pack(Slice(src, index, self.axes), dst, size, rows)

    def reduce(
        self,
        wei: Slice,
        acc: Slice,
        start: tuple[Coord, ...],
        rows: int,
        width: int,
        k: Coord,
        size: int,
        *,
        adds: bool,
        ahead: tuple[Prefetch, ...] = (),
    ) -> Stmt:
        """The product of what is packed: of whole groups, then of what is left of k. wei: where k begins; adds: to what acc holds."""
        whole, rest = divmod(size, self.group)
        calls = []
        if whole:
            a, b = (replace(s, axes=(*s.axes, axis)) for s, axis in ((self._slice(start, k, 0), self._groups), (wei, wei.axes[0])))
            calls.append(Brgemm(a, b, acc, rows, width, self.group, (whole,), adds, ahead))
        if rest:
            dim, by = wei.axes[0]
            further = tuple(add(e, whole * by) if d == dim else e for d, e in enumerate(wei.index))
            calls.append(Brgemm(self._slice(start, k, whole), replace(wei, index=further), acc, rows, width, rest, (), adds or whole > 0))
        return seq(*calls)

    @property
    def _groups(self) -> Axis:
        return len(self.buffer.shape) - 3, 1

    def _slice(self, start: tuple[Coord, ...], k: Coord, after: int) -> Slice:
        last = len(self.buffer.shape) - 1
        return Slice(self.buffer, self._place(start, k, after), ((last - 1, 1), (last, 1)))

    def _place(self, start: tuple[Coord, ...], k: Coord, after: int) -> tuple[Expr, ...]:
        """Of the first element of the group that is so many groups after the one that k begins with."""
        p = product(self.nest.g, self.op)
        found = p.how.index(p.call, tuple(c.value for c in start), (*(ZERO,) * (len(p.over) - 1), k.value))[0]
        *batch, row, _ = (ZERO if extent == 1 else e for extent, e in zip(p.call.ins[0].shape, found, strict=True))
        begins_whole = k.inner == ZERO and k.tile % self.group == 0
        groups = mul(k.outer, k.tile // self.group) if begins_whole else floordiv(k.value, self.group)
        return (*batch, add(groups, after), row, ZERO)


def packed_src(nest: GemmNest, op: Op) -> PackedSrc | None:
    """None for a src that the microkernel reads as it lies."""
    axes = columns_of_src(nest.g, op)
    if axes is None:
        return None
    v, group = nest.g.value(op.ins[0]), group_of(nest.g, op)
    *batch, m, k = v.shape
    return PackedSrc(nest, op, axes, group, nest.storage.extra(v.dtype, (*batch, ceil(k / group), m, group)))
