"""The batch-reduce GEMM microkernel: acc[m, n] (+)= sum over batch b and k of src_b[m, k] * wei_b[k, n].

    for each panel of columns (a few vectors wide)         one loop for each panel width
        for each tile of rows                              one loop for each tile height
            acc tile -> registers (or zeros)
            for b in batch: for each group of k: load wei vectors, broadcast src, dot
            registers -> acc tile, or through post-ops to where these store (post_ops.py)

The accumulators are phi nodes of the K loop, so they stay in registers. The loop holds only dot products (dot.py: FMAs for f32), loads of
wei, broadcasts of src, its counter, and prefetches. Wei of bf16 or f16 for src of f32 is widened after each load. All extents are known at
compile time. A partial vector at the end of n uses masked loads and stores. Of a group that k ends in, src is read up to k only, and what
wei holds beyond k counts as zero.

docs/measurements/microkernel.md has the measurements behind the sizes. In short: panels of `Target.panel_width` columns, accumulators in
three quarters of the registers, K unrolled by two, no blocking of K here. Wei is prefetched into L1 where the schedule says so
(`wei_ahead`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from math import ceil, prod

from benchgraph.codegen import amx, ir, tile_plan
from benchgraph.codegen.building_blocks import INTO_L1, begin_function, load_lanes, loop, prefetch, store_lanes
from benchgraph.codegen.convert import cast, memory_type
from benchgraph.codegen.dot import dot, is_native, lane_type, splits_groups
from benchgraph.codegen.intrinsics import I32, I64, constant, splat, vector
from benchgraph.codegen.kernel import Kernel, PrefetchStream, canonicalise
from benchgraph.codegen.microkernel_base import ACC, ACC_BYTES, SRC, WEI, MicrokernelEmitter
from benchgraph.codegen.post_ops import PostOpEmitter
from benchgraph.codegen.register_tiles import Panels, register_tiles
from benchgraph.core.divisors import even_split
from benchgraph.core.dtypes import DType
from benchgraph.machine.target import LINE_BYTES, Target
from benchgraph.tir.groups import SIDE_BY_SIDE, is_widened
from benchgraph.tir.ir import Prefetch

UNROLL = 2  # groups of k in one step of a long K loop
# Of code that kernels share (docs/measurements/microkernel.md): steps of its K loop, as a call leads to it, and vectors that a row of src
# is multiplied by, as the address of each row is computed in each step.
LEAST_STEPS, LEAST_VECTORS = 4, 3
LINES_PER_STEP, LINES_PER_TILE_STEP = 4, 16
"""Cache lines that a step of a K loop prefetches of a stream at most, beside its own loads: 8 of wei, on tile registers 64 in all
(docs/measurements/prefetch.md, Weight panels)."""


def define(module: ir.Module, kernel: Kernel, target: Target) -> ir.Function:
    """The function void (`Kernel.arguments`) for this kernel, defined in the module on first use."""
    kernel, target = canonicalise(kernel), target.narrowed(kernel.n)
    known = module.find(kernel.name)
    if known is not None:
        return known
    function, builder = _new_function(module, kernel.name, kernel)
    if sizes := _sizes(kernel, target):
        builder.call(_define_shared(module, kernel, target), [*function.args, *map(I64, sizes)], tail=True)
    else:
        _emitter(kernel, target)(builder, kernel, target).emit(function.args)
    builder.ret_void()
    return function


def _emitter(kernel: Kernel, target: Target) -> type[amx.TileEmitter | _VectorEmitter]:
    return amx.TileEmitter if amx.uses_tiles(kernel, target) else _VectorEmitter


def prefetch_stream(kernel: Kernel, memory: Prefetch, target: Target) -> PrefetchStream | None:
    """How the K loop of a kernel prefetches this memory, None where it has too few steps for that."""
    kernel = canonicalise(kernel)
    part_steps = k_steps(kernel, target) // memory.count
    limit = LINES_PER_TILE_STEP if amx.uses_tiles(kernel, target) else LINES_PER_STEP
    if not 0 < memory.lines <= part_steps * limit:
        return None
    step_bytes = ceil(memory.lines * LINE_BYTES / part_steps)
    if memory.count == 1:
        return PrefetchStream(step_bytes, memory.for_write)
    return PrefetchStream(step_bytes, memory.for_write, part_steps, memory.tensor.dtype.nbytes(memory.stride) - step_bytes * part_steps)


def k_steps(kernel: Kernel, target: Target) -> int:
    """How many steps its K loops take in one call of the kernel."""
    kernel, target = canonicalise(kernel), target.narrowed(kernel.n)
    entries, groups = prod(extent for extent, _, _ in kernel.batch), kernel.k // kernel.group
    if amx.uses_tiles(kernel, target):
        return entries * tile_plan.k_steps(kernel)
    tiles = ((panels, panels.count * count) for panels in _panels(kernel, target) for count, _ in even_split(kernel.m, panels.rows))
    return sum(count * entries * (groups // _unroll_factor(kernel, panels, target)) for panels, count in tiles)


def _unroll_factor(kernel: Kernel, panels: Panels, target: Target) -> int:
    """Groups of k in one step of the K loop."""
    groups = kernel.k // kernel.group
    has_short_steps = bool(target.isa.needs) and not splits_groups(kernel.dtypes, target.isa)  # longer ones copy registers, or spill
    if panels.vectors == 1 or not has_short_steps:
        return 1
    return max(groups if kernel.m <= panels.rows and groups <= SIDE_BY_SIDE else min(groups, UNROLL), 1)


def code_name(kernel: Kernel, target: Target) -> str:
    """The name of a kernel's code, which others that differ in `_sizes` alone share."""
    kernel, target = canonicalise(kernel), target.narrowed(kernel.n)
    if not (sizes := _sizes(kernel, target)):
        return kernel.name
    if kernel.batch:
        return f"{replace(kernel, batch=kernel.batch[1:]).name}_bn"
    one_step = kernel.k - (sizes[0] - 1) * UNROLL * kernel.group
    return f"{replace(kernel, k=one_step, src_row_stride=0).name}_kn"


def _sizes(kernel: Kernel, target: Target) -> tuple[int, ...]:
    """The arguments of the code that a kernel shares, () if that is its own: the first axis of the batch; without a batch, the steps of the
    K loop and the stride of src's rows.

    The layers of a network often differ in these alone, and LLVM takes as long for a kernel as for all the code around it. In short K
    loops, and for tiles a vector or two wide, they are constants. Wider tiles have too few rows for their stride to matter to `_panels`.
    """
    if kernel.batch:
        return kernel.batch[0]
    panels, steps = _panels(kernel, target), kernel.k // kernel.group // UNROLL
    are_wide = all(p.vectors >= LEAST_VECTORS and _unroll_factor(kernel, p, target) == UNROLL for p in panels)
    is_shared = are_wide and steps >= LEAST_STEPS and is_native(kernel.dtypes, target.isa) and not amx.uses_tiles(kernel, target)
    return (steps, kernel.src_row_stride) if is_shared else ()


def _define_shared(module: ir.Module, kernel: Kernel, target: Target) -> ir.Function:
    """The function void (`Kernel.arguments`, i64 for each of `_sizes`) of this kernel and others."""
    name = code_name(kernel, target)
    known = module.find(name)
    if known is not None:
        return known
    count = len(_sizes(kernel, target))
    function, builder = _new_function(module, name, kernel, *[I64] * count)
    _emitter(kernel, target)(builder, kernel, target, function.args[-count:]).emit(function.args[:-count])
    builder.ret_void()
    return function


def _panels(kernel: Kernel, target: Target) -> tuple[Panels, ...]:
    return register_tiles(
        kernel.n, target, kernel.dtypes, m=kernel.m, src_row_stride=kernel.src_row_stride, reloads_wei=kernel.wei_ahead > 0
    )


def _new_function(module: ir.Module, name: str, kernel: Kernel, *more: ir.Type) -> tuple[ir.Function, ir.IRBuilder]:
    """A function of the kernel's arguments and `more`, and a builder at its entry."""
    return begin_function(module, name, [*kernel.arguments, *more], ("src", "wei", "acc"))


class _VectorEmitter(MicrokernelEmitter):
    """Accumulators in vector registers."""

    def emit(self, arguments: Sequence[ir.Value]) -> None:
        """arguments: those of the kernel's function."""
        kernel, column = self.kernel, 0
        self, (src, wei, acc), prefetches = self.bind(arguments)
        for panels in _panels(kernel, self.target):
            prefetches = loop(self.builder, panels.count, prefetches, partial(self.panel, panels, column, src, wei, acc))
            column += panels.count * panels.columns

    def panel(
        self, panels: Panels, first: int, src: ir.Value, wei: ir.Value, acc: ir.Value, i: ir.Value, prefetches: list[ir.Value]
    ) -> list[ir.Value]:
        """All rows of panel i of these panels, which start at column `first`. Takes and returns the state of the prefetches."""
        column = self.affine(i, panels.columns, first)
        row = 0
        for count, rows in even_split(self.kernel.m, panels.rows):
            operands = src, self.address(WEI, wei, self.wei_elements(column)), self.address(ACC, acc, column)
            prefetches = loop(self.builder, count, prefetches, partial(self.tile, panels, rows, row, column, *operands))
            row += count * rows
        return prefetches

    def tile(
        self,
        panels: Panels,
        rows: int,
        first: int,
        column: ir.Value,
        src: ir.Value,
        wei: ir.Value,
        acc: ir.Value,
        i: ir.Value,
        prefetches: list[ir.Value],
    ) -> list[ir.Value]:
        """Register tile i of these tiles, which start at row `first`, for all of batch and K. column: the first one of its panel."""
        row = self.affine(i, rows, first)
        src = self.address(SRC, src, self.builder.mul(row, self.src_row_stride))
        acc = self.address(ACC, acc, self.affine(row, self.kernel.acc_row_stride))
        vectors = [(v * self.target.lanes, self.used_lanes(panels, v)) for v in range(panels.vectors)]
        type = vector(memory_type(self.kernel.dtypes[ACC]), self.target.lanes)
        sums: list[ir.Value] = [constant(type, 0)] * (rows * panels.vectors)
        tile: list[tuple[ir.Value, int]] = []  # of acc: address and used lanes of each vector
        if self.post_ops is None or self.kernel.accumulate:
            offsets = ((r * self.kernel.acc_row_stride + column, used) for r in range(rows) for column, used in vectors)
            tile = [(self.address(ACC, acc, offset), used) for offset, used in offsets]
        if self.kernel.accumulate:
            sums = [load_lanes(self.builder, type, *part, ACC_BYTES) for part in tile]
        carried = self.loop_over_batch(self.kernel.batch, partial(self.reduce, panels, rows), src, wei, [*prefetches, *sums])
        prefetches, sums = carried[: len(prefetches)], carried[len(prefetches) :]
        if self.post_ops is not None:
            self.emit_post_ops(self.post_ops, panels, row, column, sums)
            return prefetches
        for total, part in zip(sums, tile, strict=True):
            store_lanes(self.builder, total, *part, ACC_BYTES)
        return prefetches

    def emit_post_ops(self, post_ops: PostOpEmitter, panels: Panels, row: ir.Value, column: ir.Value, sums: Sequence[ir.Value]) -> None:
        """The post-ops of a tile, column by column of vectors, so that operands of one row are loaded once."""
        first = self.builder.lshr(column, I64(self.target.lanes.bit_length() - 1))
        for v in range(panels.vectors):
            for r, total in enumerate(sums[v :: panels.vectors]):
                post_ops.emit(total, self.builder.add(row, I64(r)), self.builder.add(first, I64(v)))

    def reduce(self, panels: Panels, rows: int, src: ir.Value, wei: ir.Value, carried: list[ir.Value]) -> list[ir.Value]:
        """One batch entry: all of K."""
        kernel, group = self.kernel, self.kernel.group
        groups, rest = divmod(kernel.k, group)
        split = kernel.prefetch_values
        unroll = _unroll_factor(kernel, panels, self.target)

        def steps(sizes: Sequence[int], i: ir.Value, sums: list[ir.Value]) -> list[ir.Value]:
            first = self.affine(i, unroll)
            strides = {SRC: group * kernel.src_col_stride, WEI: kernel.wei_row_stride}
            starts = [self.address(operand, p, self.affine(first, strides[operand])) for operand, p in ((SRC, src), (WEI, wei))]
            for k, size in enumerate(sizes):
                at_src, at_wei = (self.address(operand, p, k * strides[operand]) for operand, p in zip((SRC, WEI), starts, strict=True))
                if kernel.wei_ahead:
                    self.prefetch_wei(panels, at_wei)
                sums = self.step(panels, rows, size, at_src, at_wei, sums)
            return sums

        def iteration(i: ir.Value, carried: list[ir.Value]) -> list[ir.Value]:
            return [*self.prefetch_step(carried[:split]), *steps([group] * unroll, i, carried[split:])]

        iterations, remainder = divmod(groups, unroll) if groups else (0, 0)
        count = self.sizes[0] if self.has_shared_k else iterations
        if iterations:
            carried = loop(self.builder, count, carried, iteration)
        end = I64(count) if isinstance(count, int) else count
        sums = steps([group] * remainder + [rest] * bool(rest), end, carried[split:])
        return [*carried[:split], *sums]

    def prefetch_wei(self, panels: Panels, wei: ir.Value) -> None:
        """Prefetch a row further on into L1. Prefetching past the last row is harmless."""
        for v in range(panels.vectors):
            at = self.address(WEI, wei, self.kernel.wei_ahead * self.kernel.wei_row_stride + v * self.target.lanes * self.kernel.group)
            prefetch(self.builder, at, INTO_L1)

    def step(self, panels: Panels, rows: int, size: int, src: ir.Value, wei: ir.Value, sums: list[ir.Value]) -> list[ir.Value]:
        """sums[r, v] += src[r] . wei[v], for the first `size` elements of one group of k."""
        lanes = self.target.lanes
        dtype = self.kernel.dtypes[WEI]
        widens = is_widened(self.kernel.dtypes[SRC], dtype)
        type = vector(memory_type(dtype) if widens else lane_type(self.kernel.dtypes), lanes)
        parts = ((self.address(WEI, wei, self.wei_elements(v * lanes)), self.used_lanes(panels, v)) for v in range(panels.vectors))
        columns = [load_lanes(self.builder, type, *part, dtype.bits // 8) for part in parts]
        if widens:
            columns = [cast(self.builder, column, dtype, DType.f32, self.target.isa) for column in columns]
        if size < self.kernel.group:
            counted = constant(type, (1 << size * dtype.bits) - 1)
            columns = [self.builder.and_(column, counted) for column in columns]  # other elements may be NaN
        totals = iter(sums)
        out: list[ir.Value] = []
        src_dtype, isa = self.kernel.dtypes[SRC], self.target.isa
        for r in range(rows):
            at = self.address(SRC, src, self.builder.mul(self.src_row_stride, I64(r)))
            row = splat(self.builder, self.load_group(at, size), lanes)
            out += [dot(self.builder, src_dtype, row, column, next(totals), isa) for column in columns]
        return out

    def load_group(self, src: ir.Value, size: int) -> ir.Value:
        """The first `size` elements of a group of src, then zeros, or anything if src may be read past k: wei is zero there."""
        type, dtype = lane_type(self.kernel.dtypes), self.kernel.dtypes[SRC]
        if size == self.kernel.group or self.kernel.reads_past_k:
            return self.builder.load(src, typ=type, align=dtype.bits // 8)
        group: ir.Value = I32(0)
        for i in range(size):
            element = self.builder.load(self.address(SRC, src, i), typ=memory_type(dtype), align=dtype.bits // 8)
            group = self.builder.or_(group, self.builder.shl(self.builder.zext(element, I32), I32(i * dtype.bits)))
        return group

    @property
    def has_shared_k(self) -> bool:
        """Whether the steps of the K loop, and the stride of src's rows, are arguments."""
        return bool(self.sizes) and not self.kernel.batch

    @property
    def src_row_stride(self) -> ir.Value:
        return self.sizes[1] if self.has_shared_k else I64(self.kernel.src_row_stride)

    def used_lanes(self, panels: Panels, v: int) -> int:
        """How many lanes of vector v of a panel hold columns."""
        return min(self.target.lanes, panels.columns - v * self.target.lanes)
