"""Packing of a matrix in groups along k, as the microkernel reads wei: dst[k // g][n][k % g] = convert(src[k, n]).

A group fills the 32 bits of a lane, so both ways make vectors of lanes:

    rows of src dense        g rows are loaded, converted and interleaved      a vector is one group of neighbouring columns
    columns of src dense     groups lie ready in it, tiles are transposed      a vector is a column, then one group of the tile's columns

Shuffles are what there is least of: one port of many processors has them. So elements that keep their width are loaded side by side, where
an insertion from memory takes none, and permuted as they are; of a tile, one step of the transposition is done by the loads.

GB/s of dst written, beside a loop that copies as many bytes, vector by vector; best of 56 samples of 1.1 ms, interleaved, warm, on one core
of a Cascade Lake server (about 3 GHz, L1d 32 KiB, L2 1 MiB) that others use too:

    dst of 64 columns            copy   s8   u8->s8   bf16   f32->bf16   f16->f32   f32   f8_e4m3->bf16
    k=64, rows dense, AVX-512     109   66       51     60          22         82    99              15
    k=64, columns dense                 56       51     57          13         33    56              10
    k=512, rows dense              39   36       35     38          20         36    38              17
    k=512, columns dense                30       30     29          12         22    28              11
    k=64, rows dense, AVX2         73   33       33     49          10         55    73               6
    k=64, columns dense                 48       45     49           9         26    49               7
    k=512, rows dense              38   32       31     39           9         37    41               7
    k=512, columns dense                22       21     19           8         12    18               8
    k=64, rows dense, portable     45   25       25     43           5          2    42               1
    k=64, columns dense                 25       25     25           5          2    25               1

Rows by widening and shifts, AVX-512: s8 34, u8->s8 26. Rows interleaved before they fill a vector: s8 21, bf16 33 for AVX2, 16 and 16 for
portable. Tiles loaded column by column: 43 for AVX-512, 33 for AVX2.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import KW_ONLY, dataclass, replace
from functools import partial

from benchgraph.codegen import ir
from benchgraph.codegen.blocks import advanced, affine, begun, load_first, repeat, store_first
from benchgraph.codegen.convert import cast, memory_type
from benchgraph.codegen.intrinsics import I16, I32, I64, PTR, constant, poison, same_lanes, stack, vector
from benchgraph.codegen.shuffles import WIDE, grouped, interleaved, joined, transposed
from benchgraph.core.dtypes import DType
from benchgraph.core.target import Target


@dataclass(frozen=True)
class Packing:
    """dst[k // group][n][k % group] = convert(src[k, n]), zeros in the last group beyond k.

    Strides are in elements; one of those of src is 1, dst's leads from group to group. dst does not overlap src.
    """

    k: int
    n: int
    _: KW_ONLY
    src: DType
    dst: DType
    group: int
    src_row_stride: int
    src_col_stride: int
    dst_row_stride: int


@dataclass(frozen=True)
class Part:
    """A call of a packing: function(src + src_offset, dst + dst_offset, numbers), offsets in elements."""

    function: ir.Function
    src_offset: int = 0
    dst_offset: int = 0
    numbers: tuple[int, ...] = ()


def define(module: ir.Module, packing: Packing, target: Target, *, runs_once: bool = False) -> tuple[Part, ...]:
    """What packs, with its functions, each defined in the module on first use.

    Packings of dense columns share the code for a vector of them, and take the number of vectors as an argument: the last panel may have
    fewer. runs_once: those of dense rows take k and src's stride, so that weights of all layers share the code. It is slower by up to a
    third where rows are short (96x64 of s8 in L1: 141 ns, 108 with constants), and keys are packed at every execution.
    """
    functions = _Functions(module, packing, target)
    return tuple(_of_rows(functions, runs_once=runs_once) if packing.src_col_stride == 1 else _of_columns(functions))


def _of_rows(functions: _Functions, *, runs_once: bool) -> Iterator[Part]:
    p = functions.packing
    groups, rest = divmod(p.k, p.group)
    if groups:
        yield functions.part(_Emitter.dense_rows, "rows", p.src_row_stride, groups, arguments=2 * runs_once)
    if rest:
        part = functions.part(_Emitter.last_rows, f"row{rest}", p.src_row_stride, arguments=runs_once)
        yield replace(part, src_offset=groups * p.group * p.src_row_stride, dst_offset=groups * p.dst_row_stride)


def _of_columns(functions: _Functions) -> Iterator[Part]:
    p, lanes = functions.packing, functions.target.lanes
    whole, rest = divmod(p.n, lanes)
    what = f"{p.k}_c{p.src_col_stride}"
    if whole:
        yield replace(functions, packing=replace(p, n=lanes)).part(_Emitter.dense_columns, what, p.src_row_stride, whole, arguments=1)
    if rest:
        part = replace(functions, packing=replace(p, n=rest)).part(_Emitter.columns, what, p.src_row_stride, arguments=0)
        yield replace(part, src_offset=whole * lanes * p.src_col_stride, dst_offset=whole * lanes * p.group)


@dataclass(frozen=True)
class _Functions:
    module: ir.Module
    packing: Packing
    target: Target

    def part(self, body: Callable[..., None], what: str, *sizes: int, arguments: int) -> Part:
        """A call of the function that body(emitter, src, dst, further sizes) writes on first use.

        what: tells it apart from others of such a packing, and so do sizes that are no arguments. sizes: src's row stride, more. arguments:
        how many of them are arguments of the function, from the last one on.
        """
        p = self.packing
        fixed, given = sizes[: len(sizes) - arguments], sizes[len(sizes) - arguments :]
        own = "_".join((what, *map(str, fixed)))
        name = f"pack_{p.src.value}_{p.dst.value}_{p.n}_d{p.dst_row_stride}_{own}".replace("-", "m")
        function = self.module.find(name)
        if function is None:
            function, inside = begun(self.module, name, [PTR, PTR, *[I64] * len(given)], ("src", "dst"))
            values = [*map(I64, fixed), *function.args[2:]]
            body(_Emitter(inside, p, self.target, values[0]), *function.args[:2], *values[1:])
            inside.ret_void()
        return Part(function, numbers=given)


@dataclass(frozen=True)
class _Emitter:
    """row_stride: of src, perhaps one that several packings have."""

    builder: ir.IRBuilder
    packing: Packing
    target: Target
    row_stride: ir.Value

    def place(self, src: ir.Value, dst: ir.Value, k: ir.Value | int, n: ir.Value | int) -> tuple[ir.Value, ir.Value]:
        """Where src and dst hold the group `k` groups and the column `n` columns further on."""
        p = self.packing
        src = self.at_src(self.at_src(src, self.times(self.times(k, p.group), self.row_stride)), self.times(n, p.src_col_stride))
        return src, self.at_dst(self.at_dst(dst, self.times(k, p.dst_row_stride)), self.times(n, p.group))

    def in_vectors(self, count: int, body: Callable[[ir.Value, int], None], *more: int) -> None:
        """body(start, size) for `count` things: as often as it goes for each size in `more`, for a vector, and for what is left."""
        start = 0
        for size in (*more, self.target.lanes):
            whole = (count - start) // size
            if whole:
                repeat(self.builder, whole, partial(self.step, body, start, size))
            start += whole * size
        if start < count:
            body(I64(start), count - start)

    def step(self, body: Callable[[ir.Value, int], None], start: int, size: int, i: ir.Value) -> None:
        body(affine(self.builder, i, size, start), size)

    @property
    def is_quick(self) -> bool:
        """Whether elements are stored as they were loaded, less 128, or as words: one instruction at most."""
        return self.packing.src is self.packing.dst or self.packing.dst in (DType.s8, DType.s16)

    # ---- rows of src are dense

    def dense_rows(self, src: ir.Value, dst: ir.Value, groups: ir.Value) -> None:
        def group(k: ir.Value) -> None:
            def columns(n: ir.Value, used: int) -> None:
                if used in self.widths:
                    self.moved(*self.place(src, dst, k, n), used)
                else:
                    self.interleaved(*self.place(src, dst, k, n), self.packing.group, used)

            self.in_vectors(self.packing.n, columns, *self.widths)

        repeat(self.builder, groups, group)

    def last_rows(self, src: ir.Value, dst: ir.Value) -> None:
        """The group that k ends in."""
        rows = self.packing.k % self.packing.group
        self.in_vectors(self.packing.n, lambda n, used: self.interleaved(*self.place(src, dst, 0, n), rows, used))

    @property
    def widths(self) -> tuple[int, ...]:
        """How many columns `moved` may take, most first. () where it is no faster than `interleaved`."""
        lanes, group = self.target.lanes, self.packing.group
        if not self.is_quick or group == 1 or (lanes == WIDE and group == 2):
            return ()
        if lanes == WIDE:
            return (2 * lanes, lanes)
        return tuple(columns for columns in (group * lanes, group * lanes // 2) if columns * self.packing.dst.bits >= 128)

    def moved(self, src: ir.Value, dst: ir.Value, used: int) -> None:
        """One whole group of the first `used` columns, by vectors of a row."""
        p, lanes = self.packing, self.target.lanes
        rows = [self.read(self.at_src(src, self.times(r, self.row_stride)), used) for r in range(p.group)]
        for i, elements in enumerate(grouped(self.builder, rows, lanes)):
            self.store(self.recentred(elements), self.at_dst(dst, i * lanes * p.group), lanes)

    def interleaved(self, src: ir.Value, dst: ir.Value, rows: int, used: int) -> None:
        """One group of the first `used` columns, of which src has so many rows."""
        parts = [self.converted(self.at_src(src, self.times(row, self.row_stride)), used, self.target.lanes) for row in range(rows)]
        zero = constant(parts[0].type, 0)
        units = interleaved(self.builder, [*parts, *[zero] * (self.packing.group - rows)])
        self.store(units, dst, used)

    # ---- columns of src are dense

    def dense_columns(self, src: ir.Value, dst: ir.Value, count: ir.Value) -> None:
        """As many times the packing's columns."""
        repeat(self.builder, count, lambda i: self.columns(*self.place(src, dst, 0, self.times(i, self.packing.n))))

    def columns(self, src: ir.Value, dst: ir.Value) -> None:
        """All of k for a vector of columns, or for fewer."""
        groups, rest = divmod(self.packing.k, self.packing.group)
        if groups:
            self.in_vectors(groups, lambda k, count: self.transposed(*self.place(src, dst, k, 0), self.packing.n, count))
        if rest:
            repeat(self.builder, self.packing.n, lambda n: self.last_group(*self.place(src, dst, groups, n), rest))

    def transposed(self, src: ir.Value, dst: ir.Value, columns: int, groups: int) -> None:
        """A tile of so many columns and groups."""
        lanes, group = self.target.lanes, self.packing.group
        if self.is_quick and groups == lanes > 4:
            tile = transposed(self.builder, self.in_halves(src, columns), exchanged=True)
        else:
            tile = self.by_columns(src, columns, lambda at: self.as_units(self.converted(at, groups * group, lanes * group)))
            tile = transposed(self.builder, [*tile, *[poison(tile[0].type)] * (lanes - columns)])
        for k in range(groups):
            self.store(tile[k], self.place(src, dst, k, 0)[1], columns)

    def in_halves(self, src: ir.Value, columns: int) -> list[ir.Value]:
        """A vector for each column of a tile of whole ones, halves of those four apart exchanged."""
        b, p = self.builder, self.packing
        half = self.target.lanes * p.group // 2

        def part(column: int, side: int) -> ir.Value:
            if column >= columns:
                return poison(vector(memory_type(p.dst), half))
            return self.read(self.at_src(src, column * p.src_col_stride + side * half), half)

        pairs = ((part(n & ~4, n // 4 % 2), part(n | 4, n // 4 % 2)) for n in range(self.target.lanes))
        return [self.as_units(self.recentred(joined(b, *pair))) for pair in pairs]

    def by_columns(self, src: ir.Value, columns: int, vector_at: Callable[[ir.Value], ir.Value]) -> list[ir.Value]:
        """A vector for each column. Conversions are long: they run in a loop, and their results pass through memory."""
        packing, b = self.packing, self.builder
        if self.is_quick:
            return [vector_at(self.at_src(src, n * packing.src_col_stride)) for n in range(columns)]
        units = vector(I32, self.target.lanes)
        held = stack(b, ir.ArrayType(units, columns))
        repeat(
            b, columns, lambda n: b.store(vector_at(self.at_src(src, self.times(n, packing.src_col_stride))), advanced(b, held, n, units))
        )
        return [b.load(advanced(b, held, n, units), typ=units) for n in range(columns)]

    def last_group(self, src: ir.Value, dst: ir.Value, size: int) -> None:
        """The first `size` elements of a group of one column, zeros after them."""
        for i in range(self.packing.group):
            value = self.converted(self.at_src(src, i), 1, 1) if i < size else constant(memory_type(self.packing.dst), 0)
            self.builder.store(value, self.at_dst(dst, i), align=self.packing.dst.bits // 8)

    # ---- elements

    def converted(self, at: ir.Value, used: int, lanes: int) -> ir.Value:
        """Elements of dst's dtype made of the first `used` ones here, and anything in the other lanes."""
        source, dtype, isa = self.packing.src, self.packing.dst, self.target.isa
        loaded = self.load(vector(memory_type(source), lanes), at, used)
        if self.recentres:
            return self.recentred(loaded)
        if dtype is DType.bf16 and source.bits == 8:  # exact: the upper half of the f32
            single = self.builder.bitcast(cast(self.builder, loaded, source, DType.f32, isa), same_lanes(loaded, I32))
            return self.builder.trunc(self.builder.lshr(single, constant(single.type, 16)), same_lanes(loaded, I16))
        return cast(self.builder, loaded, source, dtype, isa)

    def read(self, at: ir.Value, count: int) -> ir.Value:
        """So many elements, where that is quick; what is left to do is done by `recentred`, when they are side by side."""
        p = self.packing
        loaded = self.builder.load(at, typ=vector(memory_type(p.src), count), align=p.src.bits // 8)
        return loaded if self.recentres else cast(self.builder, loaded, p.src, p.dst, self.target.isa)

    @property
    def recentres(self) -> bool:
        return self.packing.src is DType.u8 and self.packing.dst is DType.s8

    def recentred(self, elements: ir.Value) -> ir.Value:
        """u8 less 128, where that is to be s8; others as they are."""
        return self.builder.xor(elements, constant(elements.type, 0x80)) if self.recentres else elements

    def load(self, type: ir.Type, at: ir.Value, used: int) -> ir.Value:
        """Elements that fill whole lanes are loaded as those, for which every level has masks."""
        align, group = self.packing.src.bits // 8, self.packing.group
        if not isinstance(type, ir.VectorType):
            return self.builder.load(at, typ=type, align=align)
        if used < type.count and used % group == 0 and self.packing.src.bits * group == I32.width:
            units = load_first(self.builder, vector(I32, type.count // group), at, used // group, align)
            return self.builder.bitcast(units, type)
        return load_first(self.builder, type, at, used, align)

    def store(self, units: ir.Value, at: ir.Value, used: int) -> None:
        store_first(self.builder, self.as_units(units), at, used, self.packing.dst.bits // 8)

    def as_units(self, value: ir.Value) -> ir.Value:
        return self.builder.bitcast(value, vector(I32, self.target.lanes))

    def times(self, count: ir.Value | int, size: ir.Value | int) -> ir.Value | int:
        if isinstance(count, int) and isinstance(size, int):
            return count * size
        a, b = (I64(factor) if isinstance(factor, int) else factor for factor in (count, size))
        return self.builder.mul(a, b)

    def at_src(self, pointer: ir.Value, offset: ir.Value | int) -> ir.Value:
        return advanced(self.builder, pointer, offset, memory_type(self.packing.src))

    def at_dst(self, pointer: ir.Value, offset: ir.Value | int) -> ir.Value:
        return advanced(self.builder, pointer, offset, memory_type(self.packing.dst))
