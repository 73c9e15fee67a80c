"""The microkernel on tile registers (AMX): eight of them, each of up to 16 rows of 64 bytes.

    for each run of column tiles, for each run of row tiles      one loop each, of blocks of up to four acc tiles
        acc tiles <- zeros, or memory
        for b in batch: for each 64 bytes of k: load src tiles and wei tiles, add the products of each pair
                                                a few rows of the block before -> through its post-ops
        acc tiles -> memory, or to a buffer from where post-ops take them

A tile of src is 16 rows as they lie, of 64 bytes along k; a tile of wei is 16 groups of k by 16 columns, as panels hold them: nothing is
repacked. One step (tdpbf16ps, tdpbusd) adds a tile of products to an acc tile, in as many cycles as src has rows; a load takes about eight.
So acc tiles stand in a square where they can, each operand's tile serves two of them, and loads take half as long as steps. What is loaded
from L2 takes longer than the steps do. Wei that is more than L1 can keep is loaded past it (tileloaddt1), for src to stay.

Rows are cut evenly, so that the tiles of a run have one shape, and k is, where it comes out even. What is left of k otherwise is copied,
with zeros after it, and multiplied like the rest: nothing beyond k is read. Shapes of tiles are a register too (ldtilecfg). It is set where
they change, and given back at the end: a thread that has tiles in use is slower to switch to and from. It takes 45 ns, as two steps of four
products and their loads do, so a task sets it once for all kernels in it that can do with the same (calls.py).

Post-ops of a block go on while the next one is summed: tile registers and vector registers have units of their own, which a processor keeps
busy together if their instructions stand side by side. A register loop takes 20 ns for four products alone and with 64 fmas in between;
what they share is loads and stores. A tile that is loaded waits for what was stored before, so copies are made early, and seldom. One
thread of a Granite Rapids, 512 rows, times with both over those of blocks one after the other, minima: bf16 13x512 1.00, 256x128 0.90,
512x256 0.89, 479x1024 0.93, 1024x1024 0.80, u8 0.93, 0.95, 0.91, 1.06, 0.85.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from math import ceil, prod

from benchgraph.codegen import ir
from benchgraph.codegen.blocks import advanced, between, loop, repeat
from benchgraph.codegen.convert import memory_type
from benchgraph.codegen.intrinsics import I1, I8, I32, I64, call, constant, mangled, stack, vector
from benchgraph.codegen.kernel import Kernel
from benchgraph.codegen.reduction import ACC, ACC_BYTES, SRC, WEI, Reduction, fills_half_of_l1
from benchgraph.codegen.tile_plan import Block, Plan, Run, block_shapes, plan, shapes
from benchgraph.codegen.tile_registers import LANES, ROW, ROW_BYTES, TILE_ROWS, UNIT_BYTES, configure, do, release
from benchgraph.core.dtypes import DType
from benchgraph.core.target import Target

MOST_COLUMNS = 512  # whose rest of k is copied at once, into 32 KiB of stack
MOST_LINES = 16  # of a stream in one step of the K loop, in which 64 lines are loaded
STEPS = {DType.bf16: "tdpbf16ps", DType.u8: "tdpbusd"}


def takes(kernel: Kernel, target: Target) -> bool:
    """Whether tile registers do the work of a kernel.

    A single group of u8 is left to vectors, which multiply one in every lane: a step would multiply fifteen of zeros beside it. 3x3 windows
    of 3 channels, 56 x 56, 64 columns, one thread of a Granite Rapids, us: u8 83 by vectors, 194 by tiles; of 8 99, 65; bf16, 3: 311, 180.
    """
    return target.in_tiles(kernel.dtypes[SRC]) and not (kernel.group > 2 and kernel.k <= kernel.group)


def streams_wei(kernel: Kernel, target: Target) -> bool:
    """Whether wei, half of L1 or more, is kept out of it, for src to stay there until it has met all columns."""
    return fills_half_of_l1(kernel, kernel.n, target)


@dataclass(frozen=True)
class Tiles(Reduction):
    """Sums in tile registers.

    results: memory for the acc tiles that post-ops take. copy: for a block's rows of src. rest: for the rest of k, of src and of wei.
    per_step: how many rows of the tiles of the block before each step of k finishes, if one is left to be finished. Loops then carry, after
    the streams: its next row, and where it starts.
    """

    results: tuple[ir.Value, ...] = ()
    copy: tuple[ir.Value, ...] = ()
    rest: tuple[ir.Value, ...] = ()
    per_step: ir.Value | None = None

    @cached_property
    def plan(self) -> Plan:
        return plan(self.kernel)

    def emit(self, arguments: Sequence[ir.Value]) -> None:
        """arguments: those of the kernel."""
        opened, operands, streams = self.opened(arguments)
        self = opened.with_memory()
        common = shapes(self.kernel)
        if not self.kernel.is_configured and common is not None:
            configure(self.builder, common)
        if self.plan.rest and self.has_one_rest:
            self.copy_wei_rest(self.plan.columns, operands[WEI])
        for block in (Block(rows, columns) for rows in self.plan.rows for columns in self.plan.columns):
            if common is None:
                configure(self.builder, block_shapes(self.plan, block))
            streams = self.nest(block, [*operands], streams)
        if not self.kernel.is_configured:
            release(self.builder)

    def with_memory(self) -> Tiles:
        """With what the blocks need of it."""
        p = self.plan
        high, wide = (max(run.tiles for run in runs) for runs in (p.rows, p.columns))
        results = () if self.after is None else (self.memory(high * wide * TILE_ROWS),)
        copy = (self.memory(high * TILE_ROWS * p.lines),) if p.lines else ()
        if not p.rest:
            return replace(self, results=results, copy=copy)
        tiles = ceil(self.kernel.n / LANES) if self.has_one_rest else wide
        rest = self.memory(high * TILE_ROWS), self.memory(tiles * TILE_ROWS)
        return replace(self, results=results, copy=copy, rest=rest)

    @property
    def has_one_rest(self) -> bool:
        """Whether the rest of k of wei is copied once, for all blocks."""
        return not self.kernel.batch and self.kernel.n <= MOST_COLUMNS

    def memory(self, rows: int) -> ir.Value:
        return stack(self.builder, ir.ArrayType(ROW, rows))

    def nest(self, block: Block, operands: Sequence[ir.Value], streams: list[ir.Value]) -> list[ir.Value]:
        """All blocks of a run of rows and a run of columns; where the streams are then."""
        rows, left = block.rows, list[ir.Value]()
        if self.after is not None and rows.count * block.columns.count > 1:
            left = [I64(rows.size), I64(0), I64(0)]
            self = replace(self, per_step=self.rows_per_step(rows))
        carried = loop(self.builder, rows.count, [*streams, *left], partial(self.rows, block, operands))
        streams, left = carried[: len(streams)], carried[len(streams) :]
        if left:
            self.finish(block, *left)
        return streams

    def rows_per_step(self, rows: Run) -> ir.Value:
        """As many as finish a block within the steps of the next one. Those of a rest of k come behind."""
        steps = max(self.plan.steps, 1) * prod(extent for extent, _, _ in self.kernel.batch[1:])
        if not self.first:
            return I64(ceil(rows.size / steps))
        b = self.builder
        in_all = b.mul(self.first[0], I64(steps))
        return b.sdiv(b.add(in_all, I64(rows.size - 1)), in_all)

    def rows(self, block: Block, operands: Sequence[ir.Value], i: ir.Value, carried: list[ir.Value]) -> list[ir.Value]:
        """All columns of the i-th block of a run of rows."""
        (src, wei, acc), kernel, rows = operands, self.kernel, block.rows
        row = self.affine(i, rows.tiles * rows.size, rows.first)
        src = self.element(SRC, src, self.affine(row, kernel.src_row_stride))
        acc = self.element(ACC, acc, self.affine(row, kernel.acc_row_stride))
        if self.copy:
            src = self.copied(rows, src)
        return loop(self.builder, block.columns.count, carried, partial(self.block, block, row, src, wei, acc))

    def copied(self, rows: Run, src: ir.Value) -> ir.Value:
        """A block's rows of src, each from a cache line on, with zeros up to its end."""
        b, kernel, lines, (copy,) = self.builder, self.kernel, self.plan.lines, self.copy
        last = kernel.dtypes[SRC].nbytes(kernel.k) - (lines - 1) * ROW_BYTES

        def row(i: ir.Value) -> None:
            start, begin = self.element(SRC, src, self.affine(i, kernel.src_row_stride)), self.affine(i, lines)

            def line(j: ir.Value, count: int = ROW_BYTES) -> None:
                b.store(self.first_bytes(advanced(b, start, j, ROW), count), advanced(b, copy, b.add(begin, j), ROW))

            if lines > 1:
                repeat(b, lines - 1, line)
            line(I64(lines - 1), last)

        repeat(b, rows.tiles * rows.size, row)
        return copy

    def block(
        self, block: Block, row: ir.Value, src: ir.Value, wei: ir.Value, acc: ir.Value, j: ir.Value, carried: list[ir.Value]
    ) -> list[ir.Value]:
        """The j-th block of a run of columns, all of batch and K, while the block before is finished. row: where it starts."""
        kernel, rows = self.kernel, block.rows
        column = self.affine(j, block.columns.tiles * block.columns.size, block.columns.first)
        wei, acc = self.element(WEI, wei, self.columns(column)), self.element(ACC, acc, column)
        places = {at: self.element(ACC, acc, at[0] * rows.size * kernel.acc_row_stride + at[1] * LANES) for at in block.acc}
        for at, register in block.acc.items():
            if kernel.accumulate:
                self.do("tileloadd64", I8(register), places[at], I64(kernel.acc_row_stride * ACC_BYTES))
            else:
                self.do("tilezero", I8(register))
        carried = self.batch(kernel.batch, partial(self.reduce, block, column), src, wei, carried)
        for at, register in block.acc.items():
            if self.after is None:
                self.do("tilestored64", I8(register), places[at], I64(kernel.acc_row_stride * ACC_BYTES))
            else:
                self.do("tilestored64", I8(register), advanced(self.builder, self.results[0], register * TILE_ROWS, ROW), I64(ROW_BYTES))
        if self.per_step is not None:
            return [*carried[: kernel.streamed], I64(0), row, column]
        if self.after is not None:
            self.finish(block, I64(0), row, column)
        return carried

    def meanwhile(self, block: Block, carried: list[ir.Value], *, finishes: bool) -> list[ir.Value]:
        """What else is done in a step of k: streams are fetched, and rows of the block before finished, if it is one that finishes some."""
        streams, left = carried[: self.kernel.streamed], carried[self.kernel.streamed :]
        streams = self.fetched(streams)
        if self.per_step is None or not finishes:
            return [*streams, *left]
        b, (next, *place), size = self.builder, left, I64(block.rows.size)
        end = b.add(next, self.per_step)
        end = b.select(b.icmp_unsigned("<", end, size), end, size)
        self.finish(block, next, *place, end=end)
        return [*streams, end, *place]

    def finish(self, block: Block, next: ir.Value, row: ir.Value, column: ir.Value, *, end: ir.Value | None = None) -> None:
        """The post-ops of a block from one row of its tiles to another, or all of them. row, column: where it starts."""
        b, after, (results,) = self.builder, self.after, self.results
        assert after is not None
        first = b.lshr(column, I64(LANES.bit_length() - 1))
        type = vector(memory_type(self.kernel.dtypes[ACC]), after.post_ops.acc.lanes)  # fewer than a row has, where there are fewer columns

        def one_row(i: ir.Value) -> None:
            for (r, c), register in block.acc.items():
                at = advanced(b, results, self.affine(i, 1, register * TILE_ROWS), ROW)
                total = b.load(at, typ=type)
                after.write(total, b.add(self.affine(i, 1, r * block.rows.size), row), b.add(first, I64(c)))

        between(b, next, I64(block.rows.size) if end is None else end, one_row)

    def reduce(self, block: Block, column: ir.Value, src: ir.Value, wei: ir.Value, carried: list[ir.Value]) -> list[ir.Value]:
        """One batch entry: all of K."""
        kernel, p = self.kernel, self.plan
        strides = p.lines * ROW_BYTES or kernel.dtypes[SRC].nbytes(kernel.src_row_stride), kernel.dtypes[WEI].nbytes(kernel.wei_row_stride)

        def place(i: ir.Value) -> tuple[ir.Value, ir.Value]:
            by = p.groups * kernel.group, p.groups * kernel.wei_row_stride
            return self.element(SRC, src, self.affine(i, by[0])), self.element(WEI, wei, self.affine(i, by[1]))

        def step(i: ir.Value, carried: list[ir.Value]) -> list[ir.Value]:
            self.step(block, *place(i), strides)
            return self.meanwhile(block, carried, finishes=True)

        if p.steps:
            carried = loop(self.builder, p.steps, carried, step)
        if p.rest:
            (at_src, _), at_wei = place(I64(p.steps)), self.rest[WEI]
            if self.has_one_rest:
                at_wei = advanced(self.builder, at_wei, column, ROW)  # tiles have as many rows as columns
            else:
                self.copy_wei_rest((replace(block.columns, first=0, count=1),), wei)
            if not p.lines:
                at_src = self.copied_rest(block, at_src)
            self.step(block, at_src, at_wei, (strides[SRC] if p.lines else ROW_BYTES, ROW_BYTES), is_rest=True)
            carried = self.meanwhile(block, carried, finishes=not p.steps)
        return carried

    def step(self, block: Block, src: ir.Value, wei: ir.Value, strides: tuple[int, int], *, is_rest: bool = False) -> None:
        """All products of one step of k. strides: from row to row, in bytes. is_rest: wei is there tile after tile."""
        b, p = self.builder, self.plan
        apart = {SRC: block.rows.size * strides[SRC], WEI: TILE_ROWS * ROW_BYTES if is_rest else ROW_BYTES}
        begin, registers = {SRC: src, WEI: wei}, {SRC: p.src, WEI: p.wei}
        loads = {SRC: "tileloadd64", WEI: "tileloaddt164" if streams_wei(self.kernel, self.target) and not is_rest else "tileloadd64"}

        def load(operand: int, i: int) -> int:
            register = registers[operand][i % len(registers[operand])]
            at = b.gep(begin[operand], [I64(i * apart[operand])], source_etype=I8)
            self.do(loads[operand], I8(register), at, I64(strides[operand]))
            return register

        def add(r: int, c: int, at_src: int, at_wei: int) -> None:
            self.do(STEPS[self.kernel.dtypes[SRC]], *map(I8, (block.acc[r, c], at_src, at_wei)))

        high, wide = block.rows.tiles, block.columns.tiles
        if wide <= len(p.wei):
            columns = [load(WEI, c) for c in range(wide)]
            rows = (load(SRC, r) for r in range(high))
            for r, at_src in enumerate(rows if wide == 1 else [*rows]):
                for c, at_wei in enumerate(columns):
                    add(r, c, at_src, at_wei)
        else:
            only = load(SRC, 0)
            for c in range(wide):
                add(0, c, only, load(WEI, c))

    def copied_rest(self, block: Block, src: ir.Value) -> ir.Value:
        """The rest of k of a block's rows, with zeros after it."""
        b, kernel, at = self.builder, self.kernel, self.rest[SRC]
        nbytes = kernel.dtypes[SRC].nbytes(self.plan.rest)

        def row(i: ir.Value) -> None:
            found = self.first_bytes(self.element(SRC, src, self.affine(i, kernel.src_row_stride)), nbytes)
            b.store(found, advanced(b, at, i, ROW))

        repeat(b, block.rows.tiles * block.rows.size, row)
        return at

    def copy_wei_rest(self, columns: Sequence[Run], wei: ir.Value) -> None:
        """The rest of k of these columns, tile after tile, with zeros after it. wei: where k begins."""
        b, kernel, p, to = self.builder, self.kernel, self.plan, self.rest[WEI]
        wei = self.element(WEI, wei, p.steps * p.groups * kernel.wei_row_stride)
        whole, odd = divmod(p.rest, kernel.group)
        counted = constant(vector(I32, LANES), (1 << odd * kernel.dtypes[WEI].bits) - 1)  # the others of a group may be NaN

        def tile(run: Run, i: ir.Value) -> None:
            first = self.affine(i, LANES, run.first)
            start = self.element(WEI, wei, self.columns(first))

            def group(g: ir.Value) -> ir.Value:
                return self.first_bytes(self.element(WEI, start, self.affine(g, kernel.wei_row_stride)), run.size * UNIT_BYTES)

            def put(g: ir.Value, row: ir.Value) -> None:
                b.store(row, advanced(b, to, b.add(first, g), ROW))

            if whole:
                repeat(b, whole, lambda g: put(g, group(g)))
            if odd:
                units = b.bitcast(group(I64(whole)), vector(I32, LANES))
                put(I64(whole), b.and_(units, counted))
            if after := p.groups - whole - bool(odd):
                repeat(b, after, lambda g: put(self.affine(g, 1, p.groups - after), constant(ROW, 0)))

        for run in columns:
            repeat(b, run.count * run.tiles, partial(tile, run))

    def first_bytes(self, at: ir.Value, count: int) -> ir.Value:
        """The first `count` bytes from there on, and zeros."""
        mask = ir.Constant(vector(I1, ROW_BYTES), [int(i < count) for i in range(ROW_BYTES)])
        args = [at, I32(1), mask, constant(ROW, 0)]
        return call(self.builder, f"llvm.masked.load.{mangled(ROW)}.p0", ROW, args, ir.ANYWHERE)

    def do(self, what: str, *args: ir.Value) -> None:
        do(self.builder, what, *args)
