"""What microkernels on vector registers and on tile registers share: where operands are, loops over the batch, streams fetched ahead."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from math import ceil, prod
from typing import Self, TypeAlias

from benchgraph.codegen import ir
from benchgraph.codegen.blocks import SECOND_LEVEL, advanced, affine, loop, prefetch
from benchgraph.codegen.convert import memory_type
from benchgraph.codegen.intrinsics import I8, I64
from benchgraph.codegen.kernel import Ahead, BatchAxis, Kernel
from benchgraph.codegen.post_ops import Writer
from benchgraph.core.target import LINE_BYTES, Target

# (src, wei, carried) -> carried: where the streams are that are fetched ahead, then what else the loops carry
Reduce: TypeAlias = Callable[[ir.Value, ir.Value, list[ir.Value]], list[ir.Value]]

SRC, WEI, ACC = 0, 1, 2
ACC_BYTES = 4


def fills_half_of_l1(kernel: Kernel, columns: int, target: Target) -> bool:
    """Whether what so many columns read of wei, along all of batch and K, is half of L1 or more."""
    elements = columns * kernel.k * prod(extent for extent, _, _ in kernel.batch)
    return kernel.dtypes[WEI].nbytes(elements) >= target.l1_bytes // 2


@dataclass(frozen=True)
class Reduction:
    """first: extent and strides of the first axis of the batch, if it has one. after: writes the kernel's post-ops."""

    builder: ir.IRBuilder
    kernel: Kernel
    target: Target
    first: Sequence[ir.Value] = ()
    after: Writer | None = None

    def opened(self, arguments: Sequence[ir.Value]) -> tuple[Self, Sequence[ir.Value], list[ir.Value]]:
        """The same with post-ops that know what they are given; src, wei and acc; the streams. arguments: those of the kernel."""
        kernel, streams_end = self.kernel, 3 + len(self.kernel.ahead)
        operands, given = arguments[:3], arguments[streams_end:]
        begins = zip(kernel.ahead, arguments[3:streams_end], strict=True)
        streams = [value for a, begin in begins for value in (begin, I64(a.steps))[: a.values]]
        if kernel.post_ops is None:
            return self, operands, streams
        return replace(self, after=Writer(self.builder, kernel.post_ops, self.target, given)), operands, streams

    def batch(self, axes: Sequence[BatchAxis], tile: Reduce, src: ir.Value, wei: ir.Value, carried: list[ir.Value]) -> list[ir.Value]:
        """All entries along these axes of the batch, by `tile` each."""
        if not axes:
            return tile(src, wei, carried)
        extent, *strides = self.first if len(axes) == len(self.kernel.batch) else map(I64, axes[0])

        def entry(b: ir.Value, carried: list[ir.Value]) -> list[ir.Value]:
            at_src, at_wei = (self.builder.mul(b, stride) for stride in strides)
            return self.batch(axes[1:], tile, self.element(SRC, src, at_src), self.element(WEI, wei, at_wei), carried)

        return loop(self.builder, extent, carried, entry)

    def fetched(self, streams: Sequence[ir.Value]) -> list[ir.Value]:
        """One step of each stream; where they are then. What lies beyond their ends is harmless."""
        values = iter(streams)
        return [v for a in self.kernel.ahead for v in self._fetched(a, *islice(values, a.values))]

    def _fetched(self, ahead: Ahead, at: ir.Value, left: ir.Value | None = None) -> list[ir.Value]:
        """left: steps to the end of a run."""
        b = self.builder
        lines = ceil(ahead.pace / LINE_BYTES)
        for line in range(lines):
            where = b.gep(at, [I64(line * ahead.pace // lines)], source_etype=I8)
            prefetch(b, where, SECOND_LEVEL, is_store=ahead.is_store)
        following = b.gep(at, [I64(ahead.pace)], source_etype=I8)
        if left is None:
            return [following]
        left = b.sub(left, I64(1))
        is_over = b.icmp_unsigned("==", left, I64(0))
        behind = b.gep(at, [I64(ahead.pace + ahead.gap)], source_etype=I8)
        return [b.select(is_over, behind, following), b.select(is_over, I64(ahead.steps), left)]

    def affine(self, index: ir.Value, scale: int, offset: int = 0) -> ir.Value:
        return affine(self.builder, index, scale, offset)

    def columns(self, count: ir.Value | int) -> ir.Value | int:
        """How many elements of wei so many columns are."""
        if self.kernel.group == 1:
            return count
        return count * self.kernel.group if isinstance(count, int) else self.builder.mul(count, I64(self.kernel.group))

    def element(self, operand: int, pointer: ir.Value, offset: ir.Value | int) -> ir.Value:
        """The address this many elements of the operand further on."""
        return advanced(self.builder, pointer, offset, memory_type(self.kernel.dtypes[operand]))
