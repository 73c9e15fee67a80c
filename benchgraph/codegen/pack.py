"""Packing of a matrix in groups along k, as the microkernel reads wei: dst[k // g][n][k % g] = convert(src[k, n]).

A group fills the 32 bits of a lane, so both ways make vectors of lanes:

    rows of src dense        g rows are loaded, converted and interleaved      a vector is one group of neighbouring columns
    columns of src dense     groups lie ready in it, tiles are transposed      a vector is a column, then one group of the tile's columns

GB/s of dst written, beside a loop that copies as many bytes, vector by vector; best of 25 samples of 0.4 ms, interleaved, warm, on one core
of a Cascade Lake server (about 3 GHz, L1d 32 KiB, L2 1 MiB) that others use too:

    dst of 64 columns            copy   s8   u8->s8   bf16   f32->bf16   f16->f32   f32   f8_e4m3->bf16
    k=64, rows dense, AVX-512     111   35       25     58          22         78   102              17
    k=64, columns dense                 42       41     42          12         33    37              11
    k=512, rows dense              35   25       22     34          12         32    19              15
    k=512, columns dense                27       28     24           9         23    24              10
    k=64, rows dense, AVX2         44   24       19     32          12         54    86               6
    k=64, columns dense                 33       33     32           8         28    30               8
    k=64, rows dense, portable     22   11       10     12           3          6    59               2
    k=64, columns dense                 17       15     16           5          5    21               2

Interleaving 512 bits by shuffles instead: s8 24, bf16 53. Interleaving 256 bits by widening: s8 14, bf16 19; 128 bits: s8 4, bf16 14.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass
from functools import partial

from benchgraph.codegen import ir
from benchgraph.codegen.blocks import advanced, affine, load_first, repeat, store_first
from benchgraph.codegen.convert import cast, memory_type
from benchgraph.codegen.intrinsics import I16, I32, I64, PTR, VOID, constant, lanes_of, poison, same_lanes, shuffled, stack, vector
from benchgraph.core.dtypes import DType
from benchgraph.core.target import Target

WIDE = 16  # lanes of the vectors that are interleaved by shifts: four widening loads there are faster than shuffles across 512 bits


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

    @property
    def name(self) -> str:
        """Unique among packings, valid as a symbol."""
        strides = f"s{self.src_row_stride}_{self.src_col_stride}_d{self.dst_row_stride}"
        return f"pack_{self.src.value}_{self.dst.value}_{self.k}x{self.n}_{strides}".replace("-", "m")


def define(module: ir.Module, packing: Packing, target: Target) -> ir.Function:
    """The function void (ptr src, ptr dst) for this packing, internal to the module; defined on first use."""
    known = module.functions.get(packing.name)
    if known is not None:
        return known
    function = ir.Function(module, ir.FunctionType(VOID, [PTR, PTR]), packing.name)
    function.linkage = "internal"
    function.attributes.add("noinline")
    function.attributes.add("nounwind")
    for argument, name in zip(function.args, ("src", "dst"), strict=True):
        argument.name = name
        argument.add_attribute("noalias")
    builder = ir.IRBuilder(function.append_basic_block("entry"))
    emitter = _Emitter(builder, packing, target)
    (emitter.dense_rows if packing.src_col_stride == 1 else emitter.dense_columns)(*function.args)
    builder.ret_void()
    return function


@dataclass(frozen=True)
class _Emitter:
    builder: ir.IRBuilder
    packing: Packing
    target: Target

    def place(self, src: ir.Value, dst: ir.Value, k: ir.Value | int, n: ir.Value | int) -> tuple[ir.Value, ir.Value]:
        """Where src and dst hold the group `k` groups and the column `n` columns further on."""
        p = self.packing
        src = self.at_src(self.at_src(src, self.times(k, p.group * p.src_row_stride)), self.times(n, p.src_col_stride))
        return src, self.at_dst(self.at_dst(dst, self.times(k, p.dst_row_stride)), self.times(n, p.group))

    def in_vectors(self, count: int, body: Callable[[ir.Value, int], None]) -> None:
        """body(start, size) for each whole vector of `count` things, and for what is left."""
        lanes = self.target.lanes
        whole, rest = divmod(count, lanes)
        if whole:
            repeat(self.builder, whole, lambda i: body(affine(self.builder, i, lanes), lanes))
        if rest:
            body(I64(whole * lanes), rest)

    # ---- rows of src are dense

    def dense_rows(self, src: ir.Value, dst: ir.Value) -> None:
        def group(rows: int, k: ir.Value) -> None:
            self.in_vectors(self.packing.n, lambda n, used: self.interleaved(*self.place(src, dst, k, n), rows, used))

        groups, rest = divmod(self.packing.k, self.packing.group)
        if groups:
            repeat(self.builder, groups, partial(group, self.packing.group))
        if rest:
            group(rest, I64(groups))

    def interleaved(self, src: ir.Value, dst: ir.Value, rows: int, used: int) -> None:
        """One group of the first `used` columns, of which src has so many rows."""
        row_stride = self.packing.src_row_stride
        parts = [self.converted(self.at_src(src, row * row_stride), used, self.target.lanes) for row in range(rows)]
        zero = constant(parts[0].type, 0)
        units = interleaved(self.builder, [*parts, *[zero] * (self.packing.group - rows)])
        self.store(units, dst, used)

    # ---- columns of src are dense

    def dense_columns(self, src: ir.Value, dst: ir.Value) -> None:
        self.in_vectors(self.packing.n, lambda n, columns: self.columns(*self.place(src, dst, 0, n), columns))

    def columns(self, src: ir.Value, dst: ir.Value, columns: int) -> None:
        """All of k for the first `columns` columns."""
        groups, rest = divmod(self.packing.k, self.packing.group)
        if groups:
            self.in_vectors(groups, lambda k, count: self.transposed(*self.place(src, dst, k, 0), columns, count))
        if rest:
            repeat(self.builder, columns, lambda n: self.last_group(*self.place(src, dst, groups, n), rest))

    def transposed(self, src: ir.Value, dst: ir.Value, columns: int, groups: int) -> None:
        """A tile of so many columns and groups."""
        lanes, group = self.target.lanes, self.packing.group
        tile = self.by_columns(src, columns, lambda at: self.as_units(self.converted(at, groups * group, lanes * group)))
        tile = transposed(self.builder, [*tile, *[poison(tile[0].type)] * (lanes - columns)])
        for k in range(groups):
            self.store(tile[k], self.place(src, dst, k, 0)[1], columns)

    def by_columns(self, src: ir.Value, columns: int, vector_at: Callable[[ir.Value], ir.Value]) -> list[ir.Value]:
        """A vector for each column. Conversions are long: they run in a loop, and their results pass through memory."""
        packing, b = self.packing, self.builder
        if packing.src.bits == packing.dst.bits:
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
        if source is DType.u8:
            return self.builder.xor(loaded, constant(loaded.type, 0x80))  # less 128
        if dtype is DType.bf16 and source.bits == 8:  # exact: the upper half of the f32
            single = self.builder.bitcast(cast(self.builder, loaded, source, DType.f32, isa), same_lanes(loaded, I32))
            return self.builder.trunc(self.builder.lshr(single, constant(single.type, 16)), same_lanes(loaded, I16))
        return cast(self.builder, loaded, source, dtype, isa)

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

    def times(self, count: ir.Value | int, size: int) -> ir.Value | int:
        return count * size if isinstance(count, int) else self.builder.mul(count, I64(size))

    def at_src(self, pointer: ir.Value, offset: ir.Value | int) -> ir.Value:
        return advanced(self.builder, pointer, offset, memory_type(self.packing.src))

    def at_dst(self, pointer: ir.Value, offset: ir.Value | int) -> ir.Value:
        return advanced(self.builder, pointer, offset, memory_type(self.packing.dst))


def interleaved(builder: ir.IRBuilder, parts: Sequence[ir.Value]) -> ir.Value:
    """Element 0 of each part, then element 1 of each ... One, two or four parts whose elements together have 32 bits."""
    if len(parts) == 1:
        return parts[0]
    count = lanes_of(parts[0])
    if count == WIDE:
        wide = [builder.zext(part, same_lanes(part, I32)) for part in parts]
        total = wide[0]
        for i, part in enumerate(wide[1:], 1):
            total = builder.or_(total, builder.shl(part, constant(part.type, i * 32 // len(parts))))
        return total
    if len(parts) == 4:
        pairs = [builder.bitcast(interleaved(builder, pair), vector(I16, count)) for pair in (parts[:2], parts[2:])]
        return interleaved(builder, pairs)
    return shuffled(builder, parts[0], parts[1], [i // 2 + count * (i % 2) for i in range(2 * count)])


def transposed(builder: ir.IRBuilder, rows: Sequence[ir.Value]) -> list[ir.Value]:
    """The columns of a square tile.

    Each step merges rows `distance` apart: that bit of a row's number becomes one of the lane's, and one of the lane's comes in its
    place. The first two steps are unpacks within 128 bits, the others exchange 128 bits as a whole.
    """
    rows, lanes = list(rows), len(rows)
    for distance in (d for d in (2, 1, 4, 8) if d < lanes):
        halves = [_unpack(lanes, half) if distance < 4 else _exchange(lanes, half) for half in (0, 1)]
        for first in (r for r in range(lanes) if not r & distance):
            pair = rows[first], rows[first + distance]
            rows[first], rows[first + distance] = (shuffled(builder, *pair, half) for half in halves)
    return rows


def _unpack(lanes: int, half: int) -> list[int]:
    """Lanes of two vectors in turn, from the lower or the upper half of each 128 bits."""
    return [side * lanes + block + 2 * half + i for block in range(0, lanes, 4) for i in (0, 1) for side in (0, 1)]


def _exchange(lanes: int, half: int) -> list[int]:
    """Of two vectors, every other 128 bits of the first and then of the second."""
    return [side * lanes + block + i for side in (0, 1) for block in range(4 * half, lanes, 8) for i in range(4)]
