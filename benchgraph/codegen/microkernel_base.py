"""What microkernels on vector registers and on tile registers share: addresses of operands, loops over the batch, prefetches."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from math import ceil
from typing import Self, TypeAlias

from benchgraph.codegen import ir
from benchgraph.codegen.building_blocks import INTO_L2, affine, loop, offset_pointer, prefetch
from benchgraph.codegen.convert import memory_type
from benchgraph.codegen.intrinsics import I8, I64
from benchgraph.codegen.kernel import BatchAxis, Kernel, PrefetchStream
from benchgraph.codegen.post_ops import PostOpEmitter
from benchgraph.machine.target import LINE_BYTES, Target

# (src, wei, carried) -> carried: values that loops carry: of each prefetch stream the next address (and the steps left of a part), then acc
ReduceEntry: TypeAlias = Callable[[ir.Value, ir.Value, list[ir.Value]], list[ir.Value]]

SRC, WEI, ACC = 0, 1, 2
ACC_BYTES = 4


@dataclass(frozen=True)
class MicrokernelEmitter:
    """sizes: those that are arguments of the function, extent and strides of the first batch axis if there is one."""

    builder: ir.IRBuilder
    kernel: Kernel
    target: Target
    sizes: Sequence[ir.Value] = ()
    post_ops: PostOpEmitter | None = None

    def bind(self, arguments: Sequence[ir.Value]) -> tuple[Self, Sequence[ir.Value], list[ir.Value]]:
        """(this emitter with its post-ops, [src, wei, acc], the state of the prefetches) from the arguments of the kernel's function."""
        kernel, prefetches_end = self.kernel, 3 + len(self.kernel.prefetches)
        operands, post_op_arguments = arguments[:3], arguments[prefetches_end:]
        starts = zip(kernel.prefetches, arguments[3:prefetches_end], strict=True)
        state = [value for p, start in starts for value in (start, I64(p.part_steps))[: p.state_values]]
        if kernel.post_ops is None:
            return self, operands, state
        return replace(self, post_ops=PostOpEmitter(self.builder, kernel.post_ops, self.target, post_op_arguments)), operands, state

    def loop_over_batch(
        self, axes: Sequence[BatchAxis], reduce_entry: ReduceEntry, src: ir.Value, wei: ir.Value, carried: list[ir.Value]
    ) -> list[ir.Value]:
        """Run `reduce` for all entries along these axes of the batch."""
        if not axes:
            return reduce_entry(src, wei, carried)
        extent, *strides = self.sizes if len(axes) == len(self.kernel.batch) else map(I64, axes[0])

        def entry(b: ir.Value, carried: list[ir.Value]) -> list[ir.Value]:
            at_src, at_wei = (self.builder.mul(b, stride) for stride in strides)
            return self.loop_over_batch(axes[1:], reduce_entry, self.address(SRC, src, at_src), self.address(WEI, wei, at_wei), carried)

        return loop(self.builder, extent, carried, entry)

    def prefetch_step(self, state: Sequence[ir.Value]) -> list[ir.Value]:
        """Prefetch one step of each stream; their next state. Prefetching past their ends is harmless."""
        values = iter(state)
        return [v for p in self.kernel.prefetches for v in self._prefetch_step(p, *islice(values, p.state_values))]

    def _prefetch_step(self, stream: PrefetchStream, at: ir.Value, steps_left: ir.Value | None = None) -> list[ir.Value]:
        b = self.builder
        lines = ceil(stream.step_bytes / LINE_BYTES)
        for line in range(lines):
            address = b.gep(at, [I64(line * stream.step_bytes // lines)], source_etype=I8)
            prefetch(b, address, INTO_L2, for_write=stream.for_write)
        following = b.gep(at, [I64(stream.step_bytes)], source_etype=I8)
        if steps_left is None:
            return [following]
        steps_left = b.sub(steps_left, I64(1))
        is_part_done = b.icmp_unsigned("==", steps_left, I64(0))
        next_part = b.gep(at, [I64(stream.step_bytes + stream.gap)], source_etype=I8)
        return [b.select(is_part_done, next_part, following), b.select(is_part_done, I64(stream.part_steps), steps_left)]

    def affine(self, index: ir.Value, scale: int, offset: int = 0) -> ir.Value:
        return affine(self.builder, index, scale, offset)

    def wei_elements(self, count: ir.Value | int) -> ir.Value | int:
        """How many elements of wei lie between columns `count` apart."""
        if self.kernel.group == 1:
            return count
        return count * self.kernel.group if isinstance(count, int) else self.builder.mul(count, I64(self.kernel.group))

    def address(self, operand: int, pointer: ir.Value, offset: ir.Value | int) -> ir.Value:
        """The address `offset` elements of the operand after the pointer."""
        return offset_pointer(self.builder, pointer, offset, memory_type(self.kernel.dtypes[operand]))
