"""A matrix turned: dst[k, n] = src[k, n], where src has unit stride along k and dst along n; s8 as u8, 128 more.

    for each vector of k, for each vector of units of n (as many elements as fill 32 bits):
        load the columns of each unit, interleave them          a vector of k: of each its unit
        transpose the tile of these vectors, store its rows     a vector of n, for each k

What is left over at an end is done by a tile that overlaps the one before, where there is one, so that only short matrices take masks.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from benchgraph.codegen import ir
from benchgraph.codegen.blocks import advanced, affine, begun, load_first, repeat, store_first
from benchgraph.codegen.convert import memory_type
from benchgraph.codegen.intrinsics import I32, I64, PTR, constant, poison, vector
from benchgraph.codegen.shuffles import interleaved, transposed
from benchgraph.core.dtypes import DType
from benchgraph.core.target import Target


@dataclass(frozen=True)
class Turning:
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


def define(module: ir.Module, turning: Turning, target: Target) -> ir.Function:
    """The function void (src, dst), defined in the module on first use."""
    t = turning
    name = f"turn_{t.src.value}_{t.dst.value}_{t.k}x{t.n}_s{t.src_col_stride}_d{t.dst_row_stride}".replace("-", "m")
    known = module.find(name)
    if known is not None:
        return known
    function, builder = begun(module, name, [PTR, PTR], ("src", "dst"))
    src, dst = function.args

    def rows(k: ir.Value, high: int, stored: int) -> None:
        most = target.lanes * t.unit
        _spans(builder, t.n, most, lambda n, wide, _: _tile(builder, t, target, src, dst, k, n, high, wide, stored))

    _spans(builder, t.k, target.lanes, rows)
    builder.ret_void()
    return function


def _spans(builder: ir.IRBuilder, total: int, most: int, body: Callable[[ir.Value, int, int], None]) -> None:
    """body(start, size, done) over all of total, `most` at a time; the last ones begin with some of those before, if there are any, which
    are done."""
    whole, rest = divmod(total, most)
    if whole:
        repeat(builder, whole, lambda i: body(affine(builder, i, most), most, 0))
    if rest:
        body(I64(total - most), most, most - rest) if whole else body(I64(0), rest, 0)


def _tile(
    b: ir.IRBuilder, t: Turning, target: Target, src: ir.Value, dst: ir.Value, k: ir.Value, n: ir.Value, high: int, wide: int, stored: int
) -> None:
    """The first `high` of k and `wide` of n, from k and n on. The first `stored` of k are there already: of rows that are far apart each
    store brings a line, so that those of 20 columns of 245 KB, bf16, take 0.70 of the time without (f32 0.78; one and two Zen 5 cores)."""
    lanes, element, align = target.lanes, memory_type(t.dst), t.dst.bits // 8
    column, units = vector(element, lanes), vector(I32, lanes)
    first = advanced(b, advanced(b, src, b.mul(n, I64(t.src_col_stride)), element), k, element)

    def part(at: int) -> ir.Value:
        if at >= wide:
            return constant(column, 0)
        return load_first(b, column, advanced(b, first, at * t.src_col_stride, element), high, align)

    tile = [b.bitcast(interleaved(b, [part(at + i) for i in range(t.unit)]), units) for at in range(0, wide, t.unit)]
    if t.src is not t.dst:
        tile = [b.xor(unit, constant(units, 0x80808080)) for unit in tile]
    into = advanced(b, advanced(b, dst, b.mul(k, I64(t.dst_row_stride)), element), n, element)
    turned = transposed(b, [*tile, *[poison(units)] * (lanes - len(tile))])
    for i in range(stored, high):
        row, at = turned[i], advanced(b, into, i * t.dst_row_stride, element)
        if wide % t.unit:
            store_first(b, b.bitcast(row, vector(element, lanes * t.unit)), at, wide, align)
        else:
            store_first(b, row, at, wide // t.unit, align)
