"""Packing of a column-major src, for dtypes whose dot products take groups of k: each task packs its rows as weights are packed.

    acc = brgemm(src[:, k:+32], wei[k:+32])     ->     pack s[k/2, m, 2] = src[k, m]
                                                       acc = brgemm(s[k/2, :, 0:2], wei[k:+2]), batch 16

Each group of k is a batch entry of the microkernel, which keeps its sums in registers over the whole batch. An example of such a src are
attention scores, which a nest has made row by row, in the gradients of keys and values, which reduce over these rows (split_k.py).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import ceil

from benchgraph.gir.ir import Op
from benchgraph.gir.product import Axis, k_group, transposed_src_axes
from benchgraph.gir.views import zeroed
from benchgraph.lower.gemm_task import GemmTask
from benchgraph.lower.storage import ZERO, Coord, Coords
from benchgraph.tir.build import add, floordiv, mul, seq
from benchgraph.tir.ir import Brgemm, Expr, Pack, Prefetch, Slice, Stmt, Tensor


@dataclass(frozen=True)
class PackedSrc:
    """axes: of k and of dst's rows in src's buffer. buffer: [.., K / group, M, group]."""

    task: GemmTask
    op: Op
    axes: tuple[Axis, ...]
    group: int
    buffer: Tensor

    @classmethod
    def of(cls, task: GemmTask, op: Op) -> PackedSrc | None:
        """None for a src that the microkernel reads unpacked."""
        axes = transposed_src_axes(task.g, op)
        if axes is None:
            return None
        v, group = task.g.value(op.ins[0]), k_group(task.g, op)
        *batch, m, k = v.shape
        return cls(task, op, axes, group, task.storage.temporary(v.dtype, (*batch, ceil(k / group), m, group)))

    def pack(self, start: Coords, rows: int, k: Coord, size: int) -> Stmt:
        """Pack `rows` rows of dst from `start` on, and `size` elements of k from k on, which is the start of a group."""
        last = len(self.buffer.shape) - 1
        dst = Slice(self.buffer, self._index(start, k, 0), ((last - 2, 1), (last - 1, 1)))
        return Pack(Slice(*self.task.address(self.op, 0, start, k), self.axes), dst, size, rows)

    def multiply(
        self,
        wei: Slice,
        acc: Slice,
        start: Coords,
        rows: int,
        width: int,
        k: Coord,
        size: int,
        *,
        accumulate: bool,
        prefetches: tuple[Prefetch, ...] = (),
    ) -> Stmt:
        """The product of packed rows: one call for the whole groups of k, one for the rest. wei: from k on."""
        (groups, rest), ahead = divmod(size, self.group), self.task.parameters(self.op).wei_ahead
        calls = []
        if groups:
            group_axis = len(self.buffer.shape) - 3, 1
            a, b = (replace(s, axes=(*s.axes, axis)) for s, axis in ((self._slice(start, k, 0), group_axis), (wei, wei.axes[0])))
            calls.append(Brgemm(a, b, acc, rows, width, self.group, (groups,), accumulate, prefetches, wei_ahead=ahead))
        if rest:
            dim, step = wei.axes[0]
            index = tuple(add(e, groups * step) if d == dim else e for d, e in enumerate(wei.index))
            a, b = self._slice(start, k, groups), replace(wei, index=index)
            calls.append(Brgemm(a, b, acc, rows, width, rest, (), accumulate or groups > 0, wei_ahead=ahead))
        return seq(*calls)

    def _slice(self, start: Coords, k: Coord, groups: int) -> Slice:
        last = len(self.buffer.shape) - 1
        return Slice(self.buffer, self._index(start, k, groups), ((last - 1, 1), (last, 1)))

    def _index(self, start: Coords, k: Coord, groups: int) -> tuple[Expr, ...]:
        """The first element of the group that is `groups` groups after the one that begins at k."""
        at = self.task.coords(self.op, 0, start, k)
        *batch, row, _ = zeroed(self.task.g.value(self.op.ins[0]).shape, tuple(c.value for c in at))
        is_tile_start = k.inner == ZERO and k.tile % self.group == 0
        first = mul(k.outer, k.tile // self.group) if is_tile_start else floordiv(k.value, self.group)
        return (*batch, add(first, groups), row, ZERO)
