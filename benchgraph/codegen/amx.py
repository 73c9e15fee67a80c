"""The microkernel on tile registers (AMX): eight of them, each of up to 16 rows of 64 bytes.

    for each run of column tiles, for each run of row tiles      one loop each, of blocks of up to four acc tiles
        acc tiles <- zeros, or memory
        for b in batch: for each 64 bytes of k: load src tiles and wei tiles, add the products of each pair
        acc tiles -> memory, or to a buffer from where post-ops take them, row by row

A tile of src is 16 rows as they lie, of 64 bytes along k; a tile of wei is 16 groups of k by 16 columns, as panels hold them: nothing is
repacked. One step (tdpbf16ps, tdpbusd) adds a tile of products to an acc tile, in as many cycles as src has rows; a load takes about eight.
So acc tiles stand in a square where they can, each operand's tile serves two of them, and loads take half as long as steps. What is loaded
from L2 takes longer than the steps do. Wei that is more than L1 can keep is loaded past it (tileloaddt1), for src to stay.

Rows are cut evenly, so that the tiles of a run have one shape, and k is, where it comes out even. What is left of k otherwise is copied,
with zeros after it, and multiplied like the rest: nothing beyond k is read. Shapes of tiles are a register too (ldtilecfg). It is set where
they change, and given back at the end: a thread that has tiles in use is slower to switch to and from. It takes 45 ns, as two steps of four
products and their loads do, so a task sets it once for all kernels in it that can do with the same (calls.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from math import ceil

from benchgraph.codegen import ir
from benchgraph.codegen.blocks import advanced, loop, repeat
from benchgraph.codegen.convert import memory_type
from benchgraph.codegen.intrinsics import I1, I8, I32, I64, call, constant, mangled, stack, vector
from benchgraph.codegen.kernel import Kernel
from benchgraph.codegen.reduction import ACC, ACC_BYTES, SRC, WEI, Reduction, fills_half_of_l1
from benchgraph.codegen.tile_registers import LANES, ROW, ROW_BYTES, TILE_ROWS, UNIT_BYTES, Shapes, configure, do, release
from benchgraph.codegen.tiles import even_split
from benchgraph.core.dtypes import DType
from benchgraph.core.target import Target

ACC_TILES = range(4)
MOST_LINES = 16  # of a stream in one step of the K loop, in which 64 lines are loaded
MOST_COPIED = 2048  # bytes of a row of src: two tiles of rows are 64 KiB of stack
STEPS = {DType.bf16: "tdpbf16ps", DType.u8: "tdpbusd"}


def takes(kernel: Kernel, target: Target) -> bool:
    """Whether tile registers do the work of a kernel.

    A single group of u8 is left to vectors, which multiply one in every lane: a step would multiply fifteen of zeros beside it. 3x3 windows
    of 3 channels, 56 x 56, 64 columns, one thread of a Granite Rapids, us: u8 83 by vectors, 194 by tiles; of 8 99, 65; bf16, 3: 311, 180.
    """
    return target.in_tiles(kernel.dtypes[SRC]) and not (kernel.group > 2 and kernel.k <= kernel.group)


@dataclass(frozen=True)
class Run:
    """`count` blocks one after the other, from `first` on, each of `tiles` tiles side by side that have `size` rows or columns."""

    first: int
    count: int
    tiles: int
    size: int


def runs(sizes: Sequence[tuple[int, int]], most: int) -> tuple[Run, ...]:
    """Tiles, given as runs of (count, size), in blocks of at most `most`.

    >>> runs(((3, 16),), 2)
    (Run(first=0, count=1, tiles=2, size=16), Run(first=32, count=1, tiles=1, size=16))
    """
    found, first = list[Run](), 0
    for count, size in sizes:
        for blocks, tiles in ((count // most, most), (1, count % most)):
            if blocks and tiles:
                found.append(Run(first, blocks, tiles, size))
                first += blocks * tiles * size
    return tuple(found)


@dataclass(frozen=True)
class Plan:
    """How a kernel goes in tiles.

    rows, columns: blocks of acc. src, wei: the registers that their tiles pass through. k is `steps` steps of `groups` groups, and `rest`
    elements. lines: of each row of src in a copy that a block makes of its rows first; 0 where it makes none.
    """

    rows: tuple[Run, ...]
    columns: tuple[Run, ...]
    src: range
    wei: range
    groups: int
    steps: int
    rest: int
    lines: int


def plan(kernel: Kernel) -> Plan:
    """Rows of src that begin within cache lines are copied where more than one block of columns reads them."""
    rows = even_split(kernel.m, TILE_ROWS)
    columns = tuple(part for part in ((kernel.n // LANES, LANES), (1, kernel.n % LANES)) if all(part))
    high, wide = (sum(count for count, _ in sizes) for sizes in (rows, columns))
    most, src = ((1, 4), range(4, 5)) if high == 1 else ((4, 1), range(4, 7)) if wide == 1 else ((2, 2), range(4, 6))
    whole, odd = divmod(kernel.k, kernel.group)
    steps = ceil(whole / TILE_ROWS)
    groups = TILE_ROWS if odd or whole % steps else whole // steps
    steps = whole // groups
    nbytes = kernel.dtypes[SRC].nbytes
    is_apart = nbytes(kernel.src_row_stride) % ROW_BYTES and wide > most[1] and not kernel.batch
    lines = ceil(nbytes(kernel.k) / ROW_BYTES) if is_apart and nbytes(kernel.k) <= MOST_COPIED else 0
    rest = kernel.k - steps * groups * kernel.group
    return Plan(runs(rows, most[0]), runs(columns, most[1]), src, range(src.stop, 8), groups, steps, rest, lines)


def shapes(kernel: Kernel) -> Shapes | None:
    """What the tile registers are to be like all the time, None where they change."""
    p = plan(kernel)
    found = {block_shapes(p, Block(row, column)) for row in p.rows for column in p.columns}
    return found.pop() if len(found) == 1 else None


def block_shapes(p: Plan, block: Block) -> Shapes:
    """Tiles of one operand have one shape in a block."""
    rows, columns = block.rows.size, block.columns.size
    return (*((rows, columns) for _ in ACC_TILES), *((rows, p.groups) for _ in p.src), *((p.groups, columns) for _ in p.wei))


def streams_wei(kernel: Kernel, target: Target) -> bool:
    """Whether wei, half of L1 or more, is kept out of it, for src to stay there until it has met all columns."""
    return fills_half_of_l1(kernel, kernel.n, target)


def steps(kernel: Kernel) -> int:
    """Steps of K loops that one entry of the batch takes."""
    p = plan(kernel)
    return (p.steps + bool(p.rest)) * sum(row.count for row in p.rows) * sum(column.count for column in p.columns)


@dataclass(frozen=True)
class Block:
    """A rectangle of acc tiles."""

    rows: Run
    columns: Run

    @property
    def acc(self) -> dict[tuple[int, int], int]:
        """The register of the tile in each row and column of tiles."""
        places = [(r, c) for r in range(self.rows.tiles) for c in range(self.columns.tiles)]
        return dict(zip(places, ACC_TILES, strict=False))


@dataclass(frozen=True)
class Tiles(Reduction):
    """Sums in tile registers.

    results: memory for the acc tiles that post-ops take. copy: for a block's rows of src. rest: for the rest of k, of src and of wei.
    """

    results: tuple[ir.Value, ...] = ()
    copy: tuple[ir.Value, ...] = ()
    rest: tuple[ir.Value, ...] = ()

    @cached_property
    def plan(self) -> Plan:
        return plan(self.kernel)

    def emit(self, arguments: Sequence[ir.Value]) -> None:
        """arguments: those of the kernel."""
        opened, operands, streams = self.opened(arguments)
        self = opened.with_memory()
        if not self.kernel.is_configured and (common := shapes(self.kernel)) is not None:
            configure(self.builder, common)
        for rows in self.plan.rows:
            streams = loop(self.builder, rows.count, streams, partial(self.rows, rows, [*operands]))
        if not self.kernel.is_configured:
            release(self.builder)

    def with_memory(self) -> Tiles:
        """What the blocks need of it, with zeros where the rest of k of wei does not come."""
        b, p = self.builder, self.plan
        high, wide = (max(run.tiles for run in runs) for runs in (p.rows, p.columns))
        results = () if self.after is None else (self.memory(high * wide * TILE_ROWS),)
        copy = (self.memory(high * TILE_ROWS * p.lines),) if p.lines else ()
        if not p.rest:
            return replace(self, results=results, copy=copy)
        wei = self.memory(wide * TILE_ROWS)
        repeat(b, wide * TILE_ROWS, lambda i: b.store(constant(ROW, 0), advanced(b, wei, i, ROW)))
        return replace(self, results=results, copy=copy, rest=(self.memory(high * TILE_ROWS), wei))

    def memory(self, rows: int) -> ir.Value:
        return stack(self.builder, ir.ArrayType(ROW, rows))

    def rows(self, rows: Run, operands: Sequence[ir.Value], i: ir.Value, streams: list[ir.Value]) -> list[ir.Value]:
        """All columns of the i-th block of a run of rows; where the streams are then."""
        (src, wei, acc), kernel = operands, self.kernel
        row = self.affine(i, rows.tiles * rows.size, rows.first)
        src = self.element(SRC, src, self.affine(row, kernel.src_row_stride))
        acc = self.element(ACC, acc, self.affine(row, kernel.acc_row_stride))
        if self.copy:
            src = self.copied(rows, src)
        for columns in self.plan.columns:
            block = Block(rows, columns)
            if shapes(kernel) is None:
                configure(self.builder, block_shapes(self.plan, block))
            streams = loop(self.builder, columns.count, streams, partial(self.block, block, row, src, wei, acc))
        return streams

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
        self, block: Block, row: ir.Value, src: ir.Value, wei: ir.Value, acc: ir.Value, j: ir.Value, streams: list[ir.Value]
    ) -> list[ir.Value]:
        """The j-th block of a run of columns, all of batch and K. row: where it starts."""
        kernel, rows = self.kernel, block.rows
        column = self.affine(j, block.columns.tiles * block.columns.size, block.columns.first)
        wei, acc = self.element(WEI, wei, self.columns(column)), self.element(ACC, acc, column)
        places = {at: self.element(ACC, acc, at[0] * rows.size * kernel.acc_row_stride + at[1] * LANES) for at in block.acc}
        for at, register in block.acc.items():
            if kernel.accumulate:
                self.do("tileloadd64", I8(register), places[at], I64(kernel.acc_row_stride * ACC_BYTES))
            else:
                self.do("tilezero", I8(register))
        streams = self.batch(kernel.batch, partial(self.reduce, block), src, wei, streams)
        if self.after is not None:
            self.finish(block, row, column)
            return streams
        for at, register in block.acc.items():
            self.do("tilestored64", I8(register), places[at], I64(kernel.acc_row_stride * ACC_BYTES))
        return streams

    def finish(self, block: Block, row: ir.Value, column: ir.Value) -> None:
        """The post-ops of a block: row by row, for every tile of acc."""
        b, after, (results,) = self.builder, self.after, self.results
        assert after is not None
        for register in block.acc.values():
            self.do("tilestored64", I8(register), advanced(b, results, register * TILE_ROWS, ROW), I64(ROW_BYTES))
        first, type = b.lshr(column, I64(LANES.bit_length() - 1)), vector(memory_type(self.kernel.dtypes[ACC]), LANES)

        def one_row(i: ir.Value) -> None:
            for (r, c), register in block.acc.items():
                at = advanced(b, results, self.affine(i, 1, register * TILE_ROWS), ROW)
                total = b.load(at, typ=type)
                after.write(total, b.add(self.affine(i, 1, r * block.rows.size), row), b.add(first, I64(c)))

        repeat(b, block.rows.size, one_row)

    def reduce(self, block: Block, src: ir.Value, wei: ir.Value, streams: list[ir.Value]) -> list[ir.Value]:
        """One batch entry: all of K."""
        kernel, p = self.kernel, self.plan
        strides = p.lines * ROW_BYTES or kernel.dtypes[SRC].nbytes(kernel.src_row_stride), kernel.dtypes[WEI].nbytes(kernel.wei_row_stride)

        def place(i: ir.Value) -> tuple[ir.Value, ir.Value]:
            by = p.groups * kernel.group, p.groups * kernel.wei_row_stride
            return self.element(SRC, src, self.affine(i, by[0])), self.element(WEI, wei, self.affine(i, by[1]))

        def step(i: ir.Value, streams: list[ir.Value]) -> list[ir.Value]:
            self.step(block, *place(i), strides)
            return self.fetched(streams)

        if p.steps:
            streams = loop(self.builder, p.steps, streams, step)
        if p.rest:
            at_src, at_wei = place(I64(p.steps))
            self.copy_wei_rest(block, at_wei)
            if not p.lines:
                at_src = self.copied_rest(block, at_src)
            self.step(block, at_src, self.rest[WEI], (strides[SRC] if p.lines else ROW_BYTES, ROW_BYTES), is_rest=True)
            streams = self.fetched(streams)
        return streams

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

    def copy_wei_rest(self, block: Block, wei: ir.Value) -> None:
        """The rest of k of a block's columns, tile after tile; zeros come after it already."""
        b, kernel, rest, at_wei = self.builder, self.kernel, self.plan.rest, self.rest[WEI]
        whole, odd = divmod(rest, kernel.group)
        for c in range(block.columns.tiles):

            def group(g: ir.Value, c: int = c) -> ir.Value:
                at = self.element(WEI, wei, self.affine(g, kernel.wei_row_stride, c * LANES * kernel.group))
                return self.first_bytes(at, block.columns.size * UNIT_BYTES)

            def copied(g: ir.Value, c: int = c) -> None:
                b.store(group(g, c), advanced(b, at_wei, self.affine(g, 1, c * TILE_ROWS), ROW))

            if whole:
                repeat(b, whole, copied)
            if odd:
                units = b.bitcast(group(I64(whole)), vector(I32, LANES))
                counted = constant(units.type, (1 << odd * kernel.dtypes[WEI].bits) - 1)  # the others may be NaN
                b.store(b.and_(units, counted), advanced(b, at_wei, c * TILE_ROWS + whole, ROW))

    def first_bytes(self, at: ir.Value, count: int) -> ir.Value:
        """The first `count` bytes from there on, and zeros."""
        mask = ir.Constant(vector(I1, ROW_BYTES), [int(i < count) for i in range(ROW_BYTES)])
        args = [at, I32(1), mask, constant(ROW, 0)]
        return call(self.builder, f"llvm.masked.load.{mangled(ROW)}.p0", ROW, args, ir.ANYWHERE)

    def do(self, what: str, *args: ir.Value) -> None:
        do(self.builder, what, *args)
