"""Packing of a matrix in groups along k, as the microkernel reads wei: dst[k // g][n][k % g] = convert(src[k, n]).

A group fills the 32 bits of a lane, so vectors of lanes are made in two ways:

    rows of src dense        g rows are loaded, converted and interleaved             a vector is one group of neighbouring columns
    columns of src dense     groups are contiguous, tiles of groups are transposed    a vector is a column, then one group of all columns

Shuffles limit the speed, as many processors have one port for them. So elements that keep their width are loaded in pairs, where insertion
from memory needs no shuffle, and permuted unconverted; loads also do one step of the transposition. docs/measurements/packing.md has the
measurements.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import KW_ONLY, dataclass, replace
from functools import partial

from benchgraph.codegen import ir
from benchgraph.codegen.building_blocks import affine, begin_function, load_lanes, offset_pointer, repeat, store_lanes
from benchgraph.codegen.convert import cast, memory_type
from benchgraph.codegen.intrinsics import I16, I32, I64, PTR, constant, poison, same_lanes, vector
from benchgraph.codegen.shuffles import WIDE, concatenated, grouped, interleaved, transposed
from benchgraph.core.dtypes import DType
from benchgraph.machine.target import Target


@dataclass(frozen=True)
class Packing:
    """dst[k // group][n][k % group] = convert(src[k, n]), zeros in the last group beyond k.

    Strides are in elements; one of the two of src is 1; dst_row_stride is between groups. dst does not overlap src.
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
    """A call of packing code: function(src + src_offset, dst + dst_offset, *sizes), offsets in elements."""

    function: ir.Function
    src_offset: int = 0
    dst_offset: int = 0
    sizes: tuple[int, ...] = ()


def define(module: ir.Module, packing: Packing, target: Target, *, runs_once: bool = False) -> tuple[Part, ...]:
    """The calls that do a packing. Their functions are defined in the module on first use.

    Packings of dense columns share the code for a vector of columns, and take the number of vectors as an argument, as the last panel may
    have fewer. runs_once: those of dense rows take k and src's stride as arguments, so that the weights of all layers share the code, which
    is up to a third slower.
    """
    functions = _Functions(module, packing, target)
    return tuple(_pack_rows(functions, runs_once=runs_once) if packing.src_col_stride == 1 else _pack_columns(functions))


def _pack_rows(functions: _Functions, *, runs_once: bool) -> Iterator[Part]:
    p = functions.packing
    groups, rest = divmod(p.k, p.group)
    if groups:
        yield functions.part(_Emitter.dense_rows, "rows", p.src_row_stride, groups, arguments=2 * runs_once)
    if rest:
        part = functions.part(_Emitter.last_rows, f"row{rest}", p.src_row_stride, arguments=runs_once)
        yield replace(part, src_offset=groups * p.group * p.src_row_stride, dst_offset=groups * p.dst_row_stride)


def _pack_columns(functions: _Functions) -> Iterator[Part]:
    p, lanes = functions.packing, functions.target.lanes
    vectors, rest = divmod(p.n, lanes)
    label = f"{p.k}_c{p.src_col_stride}"
    if vectors:
        yield replace(functions, packing=replace(p, n=lanes)).part(_Emitter.dense_columns, label, p.src_row_stride, vectors, arguments=1)
    if rest:
        part = replace(functions, packing=replace(p, n=rest)).part(_Emitter.columns, label, p.src_row_stride, arguments=0)
        yield replace(part, src_offset=vectors * lanes * p.src_col_stride, dst_offset=vectors * lanes * p.group)


@dataclass(frozen=True)
class _Functions:
    module: ir.Module
    packing: Packing
    target: Target

    def part(self, body: Callable[..., None], label: str, *sizes: int, arguments: int) -> Part:
        """A call of the function that body(emitter, src, dst, *sizes[1:]) emits on first use.

        label: makes its name unique, together with the packing and the constant sizes. sizes: src's row stride, and others. arguments: how
        many of the last sizes are arguments of the function; the others are constants.
        """
        p = self.packing
        fixed, variable = sizes[: len(sizes) - arguments], sizes[len(sizes) - arguments :]
        suffix = "_".join((label, *map(str, fixed)))
        name = f"pack_{p.src.value}_{p.dst.value}_{p.n}_d{p.dst_row_stride}_{suffix}".replace("-", "m")
        function = self.module.find(name)
        if function is None:
            function, builder = begin_function(self.module, name, [PTR, PTR, *[I64] * len(variable)], ("src", "dst"))
            values = [*map(I64, fixed), *function.args[2:]]
            body(_Emitter(builder, p, self.target, values[0]), *function.args[:2], *values[1:])
            builder.ret_void()
        return Part(function, sizes=variable)


@dataclass(frozen=True)
class _Emitter:
    """row_stride: of src, a constant or an argument of the function."""

    builder: ir.IRBuilder
    packing: Packing
    target: Target
    row_stride: ir.Value

    def group_at(self, src: ir.Value, dst: ir.Value, k: ir.Value | int, n: ir.Value | int) -> tuple[ir.Value, ir.Value]:
        """The addresses in src and dst of the group `k` groups and `n` columns further on."""
        p = self.packing
        src = self.at_src(self.at_src(src, self.times(self.times(k, p.group), self.row_stride)), self.times(n, p.src_col_stride))
        return src, self.at_dst(self.at_dst(dst, self.times(k, p.dst_row_stride)), self.times(n, p.group))

    def in_vectors(self, count: int, body: Callable[[ir.Value, int], None], *larger: int) -> None:
        """body(start, size) for parts of `count`: as many as fit of each size in `larger`, then of a vector's lanes, then the rest."""
        start = 0
        for size in (*larger, self.target.lanes):
            parts = (count - start) // size
            if parts:
                repeat(self.builder, parts, partial(self.step, body, start, size))
            start += parts * size
        if start < count:
            body(I64(start), count - start)

    def step(self, body: Callable[[ir.Value, int], None], start: int, size: int, i: ir.Value) -> None:
        body(affine(self.builder, i, size, start), size)

    @property
    def is_cheap(self) -> bool:
        """Whether converting a vector takes at most one instruction: a copy, u8 to s8, or widening to s16."""
        return self.packing.src is self.packing.dst or self.packing.dst in (DType.s8, DType.s16)

    # ---- rows of src are dense

    def dense_rows(self, src: ir.Value, dst: ir.Value, groups: ir.Value) -> None:
        def group(k: ir.Value) -> None:
            def columns(n: ir.Value, used: int) -> None:
                if used in self.widths:
                    self.permute(*self.group_at(src, dst, k, n), used)
                else:
                    self.interleave(*self.group_at(src, dst, k, n), self.packing.group, used)

            self.in_vectors(self.packing.n, columns, *self.widths)

        repeat(self.builder, groups, group)

    def last_rows(self, src: ir.Value, dst: ir.Value) -> None:
        """The incomplete last group of k."""
        rows = self.packing.k % self.packing.group
        self.in_vectors(self.packing.n, lambda n, used: self.interleave(*self.group_at(src, dst, 0, n), rows, used))

    @property
    def widths(self) -> tuple[int, ...]:
        """Numbers of columns that `permute` takes, largest first; () where it is no faster than `interleave`."""
        lanes, group = self.target.lanes, self.packing.group
        if not self.is_cheap or group == 1 or (lanes == WIDE and group == 2):
            return ()
        if lanes == WIDE:
            return (2 * lanes, lanes)
        return tuple(columns for columns in (group * lanes, group * lanes // 2) if columns * self.packing.dst.bits >= 128)

    def permute(self, src: ir.Value, dst: ir.Value, used: int) -> None:
        """One complete group of the first `used` columns, by vectors along rows."""
        p, lanes = self.packing, self.target.lanes
        rows = [self.read(self.at_src(src, self.times(r, self.row_stride)), used) for r in range(p.group)]
        for i, elements in enumerate(grouped(self.builder, rows, lanes)):
            self.store(self.recentred(elements), self.at_dst(dst, i * lanes * p.group), lanes)

    def interleave(self, src: ir.Value, dst: ir.Value, rows: int, used: int) -> None:
        """One group of the first `used` columns, of which src has `rows` rows."""
        parts = [self.converted(self.at_src(src, self.times(row, self.row_stride)), used, self.target.lanes) for row in range(rows)]
        zero = constant(parts[0].type, 0)
        units = interleaved(self.builder, [*parts, *[zero] * (self.packing.group - rows)])
        self.store(units, dst, used)

    # ---- columns of src are dense

    def dense_columns(self, src: ir.Value, dst: ir.Value, count: ir.Value) -> None:
        """`count` times the packing's columns."""
        repeat(self.builder, count, lambda i: self.columns(*self.group_at(src, dst, 0, self.times(i, self.packing.n))))

    def columns(self, src: ir.Value, dst: ir.Value) -> None:
        """All of k for a vector of columns, or for fewer."""
        groups, rest = divmod(self.packing.k, self.packing.group)
        if groups:
            self.in_vectors(groups, lambda k, count: self.transpose(*self.group_at(src, dst, k, 0), self.packing.n, count))
        if rest:
            repeat(self.builder, self.packing.n, lambda n: self.last_group(*self.group_at(src, dst, groups, n), rest))

    def transpose(self, src: ir.Value, dst: ir.Value, columns: int, groups: int) -> None:
        """A tile of `columns` columns and `groups` groups."""
        lanes, group = self.target.lanes, self.packing.group
        if self.is_cheap and groups == lanes > 4:
            tile = transposed(self.builder, self.load_exchanged_halves(src, columns), halves_exchanged=True)
        else:
            tile = self.load_columns(src, columns, lambda at: self.as_units(self.converted(at, groups * group, lanes * group)))
            tile = transposed(self.builder, [*tile, *[poison(tile[0].type)] * (lanes - columns)])
        for k in range(groups):
            self.store(tile[k], self.group_at(src, dst, k, 0)[1], columns)

    def load_exchanged_halves(self, src: ir.Value, columns: int) -> list[ir.Value]:
        """A vector for each column of a tile, with halves of columns four apart exchanged (shuffles.transposed)."""
        b, p = self.builder, self.packing
        half = self.target.lanes * p.group // 2

        def part(column: int, side: int) -> ir.Value:
            if column >= columns:
                return poison(vector(memory_type(p.dst), half))
            return self.read(self.at_src(src, column * p.src_col_stride + side * half), half)

        pairs = ((part(n & ~4, n // 4 % 2), part(n | 4, n // 4 % 2)) for n in range(self.target.lanes))
        return [self.as_units(self.recentred(concatenated(b, *pair))) for pair in pairs]

    def load_columns(self, src: ir.Value, columns: int, vector_at: Callable[[ir.Value], ir.Value]) -> list[ir.Value]:
        """A vector for each column. Long conversions run in a loop, and their results pass through memory."""
        packing, b = self.packing, self.builder
        if self.is_cheap:
            return [vector_at(self.at_src(src, n * packing.src_col_stride)) for n in range(columns)]
        units = vector(I32, self.target.lanes)
        buffer = b.alloca(ir.ArrayType(units, columns))

        def column(n: ir.Value) -> None:
            b.store(vector_at(self.at_src(src, self.times(n, packing.src_col_stride))), offset_pointer(b, buffer, n, units))

        repeat(b, columns, column)
        return [b.load(offset_pointer(b, buffer, n, units), typ=units) for n in range(columns)]

    def last_group(self, src: ir.Value, dst: ir.Value, size: int) -> None:
        """The first `size` elements of a group of one column, then zeros."""
        for i in range(self.packing.group):
            value = self.converted(self.at_src(src, i), 1, 1) if i < size else constant(memory_type(self.packing.dst), 0)
            self.builder.store(value, self.at_dst(dst, i), align=self.packing.dst.bits // 8)

    # ---- elements

    def converted(self, at: ir.Value, used: int, lanes: int) -> ir.Value:
        """The first `used` elements at an address, converted to dst's dtype; other lanes are undefined."""
        source, dtype, isa = self.packing.src, self.packing.dst, self.target.isa
        loaded = self.load(vector(memory_type(source), lanes), at, used)
        if self.recentres:
            return self.recentred(loaded)
        if dtype is DType.bf16 and source.bits == 8:  # exact: the upper half of the f32
            single = self.builder.bitcast(cast(self.builder, loaded, source, DType.f32, isa), same_lanes(loaded, I32))
            return self.builder.trunc(self.builder.lshr(single, constant(single.type, 16)), same_lanes(loaded, I16))
        return cast(self.builder, loaded, source, dtype, isa)

    def read(self, at: ir.Value, count: int) -> ir.Value:
        """`count` elements, where conversion is cheap. u8 to s8 is left to `recentred`, once vectors are concatenated."""
        p = self.packing
        loaded = self.builder.load(at, typ=vector(memory_type(p.src), count), align=p.src.bits // 8)
        return loaded if self.recentres else cast(self.builder, loaded, p.src, p.dst, self.target.isa)

    @property
    def recentres(self) -> bool:
        return self.packing.src is DType.u8 and self.packing.dst is DType.s8

    def recentred(self, elements: ir.Value) -> ir.Value:
        """u8 minus 128, for dst of s8; other elements unchanged."""
        return self.builder.xor(elements, constant(elements.type, 0x80)) if self.recentres else elements

    def load(self, type: ir.Type, at: ir.Value, used: int) -> ir.Value:
        """The first `used` elements at an address, as 32-bit lanes if they fill them, for which every ISA level has masks."""
        align, group = self.packing.src.bits // 8, self.packing.group
        if not isinstance(type, ir.VectorType):
            return self.builder.load(at, typ=type, align=align)
        if used < type.count and used % group == 0 and self.packing.src.bits * group == I32.width:
            units = load_lanes(self.builder, vector(I32, type.count // group), at, used // group, align)
            return self.builder.bitcast(units, type)
        return load_lanes(self.builder, type, at, used, align)

    def store(self, units: ir.Value, at: ir.Value, used: int) -> None:
        store_lanes(self.builder, self.as_units(units), at, used, self.packing.dst.bits // 8)

    def as_units(self, value: ir.Value) -> ir.Value:
        return self.builder.bitcast(value, vector(I32, self.target.lanes))

    def times(self, count: ir.Value | int, size: ir.Value | int) -> ir.Value | int:
        if isinstance(count, int) and isinstance(size, int):
            return count * size
        a, b = (I64(factor) if isinstance(factor, int) else factor for factor in (count, size))
        return self.builder.mul(a, b)

    def at_src(self, pointer: ir.Value, offset: ir.Value | int) -> ir.Value:
        return offset_pointer(self.builder, pointer, offset, memory_type(self.packing.src))

    def at_dst(self, pointer: ir.Value, offset: ir.Value | int) -> ir.Value:
        return offset_pointer(self.builder, pointer, offset, memory_type(self.packing.dst))
