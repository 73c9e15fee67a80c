"""Transposing copies: dst[k, n] = src[k, n], where src has unit stride along k and dst along n; s8 to u8 adds 128.

    for each vector of k, for each vector of units of n (a unit is the elements that fill 32 bits):
        load the columns of each unit, interleave them          a vector along k, of units
        transpose the tile of these vectors, store its rows     a vector along n, for each k

The last tile overlaps the one before it, if there is one, so that only short matrices need masks.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from benchgraph.codegen import ir
from benchgraph.codegen.building_blocks import affine, begin_function, load_lanes, offset_pointer, repeat, store_lanes
from benchgraph.codegen.convert import memory_type
from benchgraph.codegen.intrinsics import I32, I64, PTR, constant, poison, vector
from benchgraph.codegen.shuffles import interleaved, transposed
from benchgraph.core.dtypes import DType
from benchgraph.machine.target import Target


@dataclass(frozen=True)
class Transposition:
    """Strides are in elements: of src from column to column, of dst from row to row. dst does not overlap src."""

    k: int
    n: int
    src: DType
    dst: DType
    src_col_stride: int
    dst_row_stride: int

    @property
    def unit(self) -> int:
        """Elements in 32 bits."""
        return I32.width // self.dst.bits


def define(module: ir.Module, transposition: Transposition, target: Target) -> ir.Function:
    """The function void (src, dst), defined in the module on first use."""
    t = transposition
    name = f"turn_{t.src.value}_{t.dst.value}_{t.k}x{t.n}_s{t.src_col_stride}_d{t.dst_row_stride}".replace("-", "m")
    known = module.find(name)
    if known is not None:
        return known
    function, builder = begin_function(module, name, [PTR, PTR], ("src", "dst"))
    src, dst = function.args

    def rows(k: ir.Value, height: int, done: int) -> None:
        most = target.lanes * t.unit
        _spans(builder, t.n, most, lambda n, width, _: _tile(builder, t, target, src, dst, k, n, height, width, done))

    _spans(builder, t.k, target.lanes, rows)
    builder.ret_void()
    return function


def _spans(builder: ir.IRBuilder, total: int, most: int, body: Callable[[ir.Value, int, int], None]) -> None:
    """body(start, size, done) for spans of `most` that cover total. The last one may overlap the one before, by `done`."""
    count, rest = divmod(total, most)
    if count:
        repeat(builder, count, lambda i: body(affine(builder, i, most), most, 0))
    if rest:
        body(I64(total - most), most, most - rest) if count else body(I64(0), rest, 0)


def _tile(
    b: ir.IRBuilder,
    t: Transposition,
    target: Target,
    src: ir.Value,
    dst: ir.Value,
    k: ir.Value,
    n: ir.Value,
    height: int,
    width: int,
    done: int,
) -> None:
    """Transpose `height` of k by `width` of n, from k and n on. The first `done` rows are not stored again: each store to rows that are far
    apart loads a cache line (docs/measurements/packing.md)."""
    lanes, element, align = target.lanes, memory_type(t.dst), t.dst.bits // 8
    column, units = vector(element, lanes), vector(I32, lanes)
    first = offset_pointer(b, offset_pointer(b, src, b.mul(n, I64(t.src_col_stride)), element), k, element)

    def part(at: int) -> ir.Value:
        if at >= width:
            return constant(column, 0)
        return load_lanes(b, column, offset_pointer(b, first, at * t.src_col_stride, element), height, align)

    tile = [b.bitcast(interleaved(b, [part(at + i) for i in range(t.unit)]), units) for at in range(0, width, t.unit)]
    if t.src is not t.dst:
        tile = [b.xor(unit, constant(units, 0x80808080)) for unit in tile]
    into = offset_pointer(b, offset_pointer(b, dst, b.mul(k, I64(t.dst_row_stride)), element), n, element)
    columns = transposed(b, [*tile, *[poison(units)] * (lanes - len(tile))])
    for i in range(done, height):
        row, at = columns[i], offset_pointer(b, into, i * t.dst_row_stride, element)
        if width % t.unit:
            store_lanes(b, b.bitcast(row, vector(element, lanes * t.unit)), at, width, align)
        else:
            store_lanes(b, row, at, width // t.unit, align)
