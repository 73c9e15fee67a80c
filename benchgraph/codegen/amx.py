"""The microkernel on tile registers (AMX): eight of them, each of up to 16 rows of 64 bytes.

    for each range of row blocks, for each range of column blocks      two loops, over blocks of up to four acc tiles
        acc tiles <- zeros, or memory
        for b in batch: for each 64 bytes of k: load src tiles and wei tiles, add the products of each pair
                                                a few rows of the previous block -> through its post-ops
        acc tiles -> memory, or to a buffer from where post-ops take them

A tile of src is 16 rows of 64 bytes along k, loaded from where src is stored; a tile of wei is 16 groups of k by 16 columns, as column
panels hold them. One instruction (tdpbf16ps, tdpbusd) adds a tile of products to an acc tile. Acc tiles form a square where they can: each
loaded tile then serves two of them, which halves the loads. Wei that does not fit in L1 is loaded past it (tileloaddt1), so that src stays.

Rows are split evenly, so that all tiles of a range have one shape, and so is k where possible. Otherwise the remainder of k is copied,
padded with zeros, and multiplied like the rest: nothing beyond k is read. The shapes of tiles are a register too (ldtilecfg). It is slow to
set, so this is done where shapes change, and once per task for all kernels that share their shapes (calls.py).

Post-ops of a block run interleaved with the sums of the next one, because tile registers and vector registers have separate units. Both
use the same load and store units, and a tile load waits for earlier stores, so copies are made early, and seldom.
docs/measurements/microkernel.md has the measurements.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from math import ceil, prod

from benchgraph.codegen import ir
from benchgraph.codegen.building_blocks import loop, offset_pointer, repeat, repeat_between
from benchgraph.codegen.convert import memory_type
from benchgraph.codegen.intrinsics import I1, I8, I32, I64, call, constant, mangled, vector
from benchgraph.codegen.kernel import Kernel
from benchgraph.codegen.microkernel_base import ACC, ACC_BYTES, SRC, WEI, MicrokernelEmitter
from benchgraph.codegen.tile_plan import Block, BlockRange, TilePlan, block_shapes, common_shapes, plan
from benchgraph.codegen.tile_registers import LANES, ROW, ROW_BYTES, TILE_ROWS, UNIT_BYTES, configure, release, tile_instruction
from benchgraph.core.dtypes import DType
from benchgraph.machine.target import Target

MAX_REMAINDER_COLUMNS = 512  # of wei whose remainder of k is copied at once, into 32 KiB of stack
PRODUCTS = {DType.bf16: "tdpbf16ps", DType.u8: "tdpbusd"}


def uses_tiles(kernel: Kernel, target: Target) -> bool:
    """Whether a kernel runs on tile registers. A single group of u8 along k is faster on vectors: a tile would hold fifteen groups of zeros
    beside it."""
    return target.in_tiles(kernel.dtypes[SRC]) and not (kernel.group > 2 and kernel.k <= kernel.group)


@dataclass(frozen=True)
class TileEmitter(MicrokernelEmitter):
    """Accumulators in tile registers.

    Stack memory: results, for the acc tiles that post-ops read; copy, for a block's rows of src; remainders, for the remainder of k of src
    and of wei. rows_per_step: how many rows of the previous block go through its post-ops in each step of k, None if there is no such
    block. Loops then carry, after the prefetches: the next of these rows, and the row and column where the block starts.
    """

    results: tuple[ir.Value, ...] = ()
    copy: tuple[ir.Value, ...] = ()
    remainders: tuple[ir.Value, ...] = ()
    rows_per_step: ir.Value | None = None

    @cached_property
    def plan(self) -> TilePlan:
        return plan(self.kernel)

    def emit(self, arguments: Sequence[ir.Value]) -> None:
        """arguments: those of the kernel's function."""
        bound, operands, prefetches = self.bind(arguments)
        self = bound.with_buffers()
        shapes = common_shapes(self.kernel)
        if not self.kernel.tiles_configured and shapes is not None:
            configure(self.builder, shapes)
        if self.plan.remainder and self.shares_wei_remainder:
            self.copy_wei_remainder(self.plan.columns, operands[WEI])
        for block in (Block(rows, columns) for rows in self.plan.rows for columns in self.plan.columns):
            if shapes is None:
                configure(self.builder, block_shapes(self.plan, block))
            prefetches = self.nest(block, [*operands], prefetches)
        if not self.kernel.tiles_configured:
            release(self.builder)

    def with_buffers(self) -> TileEmitter:
        """This emitter with the stack memory that its blocks need."""
        p = self.plan
        row_tiles, column_tiles = (max(r.tiles for r in ranges) for ranges in (p.rows, p.columns))
        results = () if self.post_ops is None else (self.buffer(row_tiles * column_tiles * TILE_ROWS),)
        copy = (self.buffer(row_tiles * TILE_ROWS * p.copied_lines),) if p.copied_lines else ()
        if not p.remainder:
            return replace(self, results=results, copy=copy)
        tiles = ceil(self.kernel.n / LANES) if self.shares_wei_remainder else column_tiles
        remainders = self.buffer(row_tiles * TILE_ROWS), self.buffer(tiles * TILE_ROWS)
        return replace(self, results=results, copy=copy, remainders=remainders)

    @property
    def shares_wei_remainder(self) -> bool:
        """Whether the remainder of k of wei is copied once, for all blocks."""
        return not self.kernel.batch and self.kernel.n <= MAX_REMAINDER_COLUMNS

    def buffer(self, rows: int) -> ir.Value:
        return self.builder.alloca(ir.ArrayType(ROW, rows))

    def nest(self, block: Block, operands: Sequence[ir.Value], prefetches: list[ir.Value]) -> list[ir.Value]:
        """All blocks of a range of rows and a range of columns. Takes and returns the state of the prefetches."""
        rows, pending = block.rows, list[ir.Value]()
        if self.post_ops is not None and rows.count * block.columns.count > 1:
            pending = [I64(rows.size), I64(0), I64(0)]
            self = replace(self, rows_per_step=self.count_rows_per_step(rows))
        carried = loop(self.builder, rows.count, [*prefetches, *pending], partial(self.rows, block, operands))
        prefetches, pending = carried[: len(prefetches)], carried[len(prefetches) :]
        if pending:
            self.emit_post_ops(block, *pending)
        return prefetches

    def count_rows_per_step(self, rows: BlockRange) -> ir.Value:
        """The fewest rows that finish a block within the steps of the next one, not counting the step of a remainder of k."""
        steps = max(self.plan.steps, 1) * prod(extent for extent, _, _ in self.kernel.batch[1:])
        if not self.sizes:
            return I64(ceil(rows.size / steps))
        b = self.builder
        all_steps = b.mul(self.sizes[0], I64(steps))
        return b.sdiv(b.add(all_steps, I64(rows.size - 1)), all_steps)

    def rows(self, block: Block, operands: Sequence[ir.Value], i: ir.Value, carried: list[ir.Value]) -> list[ir.Value]:
        """All columns of the i-th block of a range of rows."""
        (src, wei, acc), kernel, rows = operands, self.kernel, block.rows
        row = self.affine(i, rows.tiles * rows.size, rows.first)
        src = self.address(SRC, src, self.affine(row, kernel.src_row_stride))
        acc = self.address(ACC, acc, self.affine(row, kernel.acc_row_stride))
        if self.copy:
            src = self.copy_src(rows, src)
        return loop(self.builder, block.columns.count, carried, partial(self.block, block, row, src, wei, acc))

    def copy_src(self, rows: BlockRange, src: ir.Value) -> ir.Value:
        """A copy of a block's rows of src, each aligned to a cache line and padded with zeros to a whole line."""
        b, kernel, lines, (copy,) = self.builder, self.kernel, self.plan.copied_lines, self.copy
        last = kernel.dtypes[SRC].nbytes(kernel.k) - (lines - 1) * ROW_BYTES

        def row(i: ir.Value) -> None:
            start, begin = self.address(SRC, src, self.affine(i, kernel.src_row_stride)), self.affine(i, lines)

            def line(j: ir.Value, count: int = ROW_BYTES) -> None:
                b.store(self.load_bytes(offset_pointer(b, start, j, ROW), count), offset_pointer(b, copy, b.add(begin, j), ROW))

            if lines > 1:
                repeat(b, lines - 1, line)
            line(I64(lines - 1), last)

        repeat(b, rows.tiles * rows.size, row)
        return copy

    def block(
        self, block: Block, row: ir.Value, src: ir.Value, wei: ir.Value, acc: ir.Value, j: ir.Value, carried: list[ir.Value]
    ) -> list[ir.Value]:
        """The j-th block of a range of columns, for all of batch and K, while post-ops of the previous block run. row: its first row."""
        kernel, rows = self.kernel, block.rows
        column = self.affine(j, block.columns.tiles * block.columns.size, block.columns.first)
        wei, acc = self.address(WEI, wei, self.wei_elements(column)), self.address(ACC, acc, column)
        tiles = {at: self.address(ACC, acc, at[0] * rows.size * kernel.acc_row_stride + at[1] * LANES) for at in block.acc}
        for at, register in block.acc.items():
            if kernel.accumulate:
                self.tile_instruction("tileloadd64", I8(register), tiles[at], I64(kernel.acc_row_stride * ACC_BYTES))
            else:
                self.tile_instruction("tilezero", I8(register))
        carried = self.loop_over_batch(kernel.batch, partial(self.reduce, block, column), src, wei, carried)
        for at, register in block.acc.items():
            if self.post_ops is None:
                self.tile_instruction("tilestored64", I8(register), tiles[at], I64(kernel.acc_row_stride * ACC_BYTES))
            else:
                result = offset_pointer(self.builder, self.results[0], register * TILE_ROWS, ROW)
                self.tile_instruction("tilestored64", I8(register), result, I64(ROW_BYTES))
        if self.rows_per_step is not None:
            return [*carried[: kernel.prefetch_values], I64(0), row, column]
        if self.post_ops is not None:
            self.emit_post_ops(block, I64(0), row, column)
        return carried

    def interleaved_work(self, block: Block, carried: list[ir.Value], *, has_post_ops: bool) -> list[ir.Value]:
        """What a step of k does besides products: prefetches, and, with has_post_ops, post-ops of some rows of the previous block."""
        prefetches, pending = carried[: self.kernel.prefetch_values], carried[self.kernel.prefetch_values :]
        prefetches = self.prefetch_step(prefetches)
        if self.rows_per_step is None or not has_post_ops:
            return [*prefetches, *pending]
        b, (next, *start), size = self.builder, pending, I64(block.rows.size)
        end = b.add(next, self.rows_per_step)
        end = b.select(b.icmp_unsigned("<", end, size), end, size)
        self.emit_post_ops(block, next, *start, end=end)
        return [*prefetches, end, *start]

    def emit_post_ops(self, block: Block, begin: ir.Value, row: ir.Value, column: ir.Value, *, end: ir.Value | None = None) -> None:
        """The post-ops of a block for rows begin to end - 1 of its tiles, all by default. row, column: where the block starts."""
        b, post_ops, (results,) = self.builder, self.post_ops, self.results
        assert post_ops is not None
        first = b.lshr(column, I64(LANES.bit_length() - 1))
        type = vector(memory_type(self.kernel.dtypes[ACC]), post_ops.post_ops.acc.lanes)  # less than a row of the tile for few columns

        def one_row(i: ir.Value) -> None:
            for (r, c), register in block.acc.items():
                at = offset_pointer(b, results, self.affine(i, 1, register * TILE_ROWS), ROW)
                total = b.load(at, typ=type)
                post_ops.emit(total, b.add(self.affine(i, 1, r * block.rows.size), row), b.add(first, I64(c)))

        repeat_between(b, begin, I64(block.rows.size) if end is None else end, one_row)

    def reduce(self, block: Block, column: ir.Value, src: ir.Value, wei: ir.Value, carried: list[ir.Value]) -> list[ir.Value]:
        """One batch entry: all of K."""
        kernel, p = self.kernel, self.plan
        strides = (
            p.copied_lines * ROW_BYTES or kernel.dtypes[SRC].nbytes(kernel.src_row_stride),
            kernel.dtypes[WEI].nbytes(kernel.wei_row_stride),
        )

        def operands(i: ir.Value) -> tuple[ir.Value, ir.Value]:
            steps = p.groups * kernel.group, p.groups * kernel.wei_row_stride
            return self.address(SRC, src, self.affine(i, steps[0])), self.address(WEI, wei, self.affine(i, steps[1]))

        def step(i: ir.Value, carried: list[ir.Value]) -> list[ir.Value]:
            self.step(block, *operands(i), strides)
            return self.interleaved_work(block, carried, has_post_ops=True)

        if p.steps:
            carried = loop(self.builder, p.steps, carried, step)
        if p.remainder:
            (at_src, _), at_wei = operands(I64(p.steps)), self.remainders[WEI]
            if self.shares_wei_remainder:
                at_wei = offset_pointer(self.builder, at_wei, column, ROW)  # tiles have as many rows as columns
            else:
                self.copy_wei_remainder((replace(block.columns, first=0, count=1),), wei)
            if not p.copied_lines:
                at_src = self.copy_src_remainder(block, at_src)
            self.step(block, at_src, at_wei, (strides[SRC] if p.copied_lines else ROW_BYTES, ROW_BYTES), is_remainder=True)
            carried = self.interleaved_work(block, carried, has_post_ops=not p.steps)
        return carried

    def step(self, block: Block, src: ir.Value, wei: ir.Value, strides: tuple[int, int], *, is_remainder: bool = False) -> None:
        """All products of one step of k. strides: between rows, in bytes. is_remainder: wei is stored tile after tile."""
        b, p = self.builder, self.plan
        tile_bytes = {SRC: block.rows.size * strides[SRC], WEI: TILE_ROWS * ROW_BYTES if is_remainder else ROW_BYTES}
        start, registers = {SRC: src, WEI: wei}, {SRC: p.src, WEI: p.wei}
        loads = {SRC: "tileloadd64", WEI: "tileloaddt164" if self.kernel.wei_ahead and not is_remainder else "tileloadd64"}  # past L1

        def load(operand: int, i: int) -> int:
            register = registers[operand][i % len(registers[operand])]
            at = b.gep(start[operand], [I64(i * tile_bytes[operand])], source_etype=I8)
            self.tile_instruction(loads[operand], I8(register), at, I64(strides[operand]))
            return register

        def add(r: int, c: int, src_tile: int, wei_tile: int) -> None:
            self.tile_instruction(PRODUCTS[self.kernel.dtypes[SRC]], *map(I8, (block.acc[r, c], src_tile, wei_tile)))

        column_tiles = block.columns.tiles
        if column_tiles <= len(p.wei):
            columns = [load(WEI, c) for c in range(column_tiles)]
            rows = (load(SRC, r) for r in range(block.rows.tiles))
            for r, src_tile in enumerate(rows if column_tiles == 1 else [*rows]):
                for c, wei_tile in enumerate(columns):
                    add(r, c, src_tile, wei_tile)
        else:
            src_tile = load(SRC, 0)
            for c in range(column_tiles):
                add(0, c, src_tile, load(WEI, c))

    def copy_src_remainder(self, block: Block, src: ir.Value) -> ir.Value:
        """A copy of the remainder of k of a block's rows, padded with zeros."""
        b, kernel, copy = self.builder, self.kernel, self.remainders[SRC]
        nbytes = kernel.dtypes[SRC].nbytes(self.plan.remainder)

        def row(i: ir.Value) -> None:
            bytes = self.load_bytes(self.address(SRC, src, self.affine(i, kernel.src_row_stride)), nbytes)
            b.store(bytes, offset_pointer(b, copy, i, ROW))

        repeat(b, block.rows.tiles * block.rows.size, row)
        return copy

    def copy_wei_remainder(self, columns: Sequence[BlockRange], wei: ir.Value) -> None:
        """Copy the remainder of k of these columns, tile after tile, padded with zeros. wei: at k = 0."""
        b, kernel, p, copy = self.builder, self.kernel, self.plan, self.remainders[WEI]
        wei = self.address(WEI, wei, p.steps * p.groups * kernel.wei_row_stride)
        groups, odd = divmod(p.remainder, kernel.group)
        counted = constant(vector(I32, LANES), (1 << odd * kernel.dtypes[WEI].bits) - 1)  # other elements of a group may be NaN

        def tile(blocks: BlockRange, i: ir.Value) -> None:
            first = self.affine(i, LANES, blocks.first)
            start = self.address(WEI, wei, self.wei_elements(first))

            def group(g: ir.Value) -> ir.Value:
                return self.load_bytes(self.address(WEI, start, self.affine(g, kernel.wei_row_stride)), blocks.size * UNIT_BYTES)

            def put(g: ir.Value, row: ir.Value) -> None:
                b.store(row, offset_pointer(b, copy, b.add(first, g), ROW))

            if groups:
                repeat(b, groups, lambda g: put(g, group(g)))
            if odd:
                units = b.bitcast(group(I64(groups)), vector(I32, LANES))
                put(I64(groups), b.and_(units, counted))
            if padding := p.groups - groups - bool(odd):
                repeat(b, padding, lambda g: put(self.affine(g, 1, p.groups - padding), constant(ROW, 0)))

        for blocks in columns:
            repeat(b, blocks.count * blocks.tiles, partial(tile, blocks))

    def load_bytes(self, at: ir.Value, count: int) -> ir.Value:
        """`count` bytes from an address on, then zeros."""
        mask = ir.Constant(vector(I1, ROW_BYTES), [int(i < count) for i in range(ROW_BYTES)])
        args = [at, I32(1), mask, constant(ROW, 0)]
        return call(self.builder, f"llvm.masked.load.{mangled(ROW)}.p0", ROW, args, ir.ANYWHERE)

    def tile_instruction(self, name: str, *args: ir.Value) -> None:
        tile_instruction(self.builder, name, *args)
