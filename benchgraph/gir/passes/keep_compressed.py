"""keep-compressed: large constant weights stay compressed, where few rows are multiplied by them.

If init decompressed weights that no cache holds, every execution would load four bytes for what are one or two. So init packs the
compressed weights in panels, s4 and u4 as s8 and u8, since nothing writes two numbers to a byte, and every execution decompresses them:
pack-on-the-fly makes that a part of the product. Init still prepares scales and zero points. Measurements:
docs/measurements/compressed-weights.md, Compressed or widened by init.

Left alone: f16 and bf16 that few rows widen as they load it (low-precision), weights with other readers, products with so many blocks of
rows that pack-on-the-fly would not take the conversion, and products that init computes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from benchgraph.core.dtypes import DType
from benchgraph.gir.build import CONVERT, COPY
from benchgraph.gir.column_blocks import column_block
from benchgraph.gir.ir import Constness, Graph, Op
from benchgraph.gir.layouts import packed
from benchgraph.gir.packed_blocks import is_one_large_matrix
from benchgraph.gir.product import k_group, product
from benchgraph.gir.rewrite import Pattern, Site, rewrite
from benchgraph.gir.views import source_dims
from benchgraph.machine.target import Target
from benchgraph.ops.spec import Elementwise, LayoutOp
from benchgraph.schedule.limits import stays_compressed

_WRITTEN = {DType.s4: DType.s8, DType.u4: DType.u8}  # packed two to a byte, they cannot be written one by one


def keep_compressed(g: Graph, target: Target) -> Graph:
    return rewrite(g, target, WEIGHTS)


def _compressed(s: Site) -> int | None:
    if not _is_worth_it(s):
        return None
    wei, chain = s.g.value(s.op.ins[1]), list[Op]()
    for maker in s.sole_makers(1):
        chain.insert(0, maker)
    source = s.g.value(chain[0].ins[0]) if chain else wei
    has_other_readers = source.id in s.g.outs or len(s.g.readers(source.id)) > 1
    if not source.is_constant or has_other_readers or source.dtype.bits >= DType.f32.bits:
        return None
    if not all(isinstance(op.lowering.form, Elementwise | LayoutOp) and len(op.outs) == 1 for op in chain):
        return None
    if source.shape == wei.shape and _keep_columns(s, chain):
        return _by_packed(s, source.id, chain)
    is_conversion = [op.semantics.is_conversion for op in chain]
    if is_conversion != [True, False] or not chain[1].lowering.is_layout_op or source.type.elements != wei.type.elements:
        return None
    moved = s.d.op(chain[1].kind, source.id, attrs=chain[1].attrs)
    s.d.values[moved] = replace(s.d.values[moved], constness=Constness.runtime)
    return _by_packed(s, moved, chain[:1])


def _by_packed(s: Site, compressed: int, chain: Sequence[Op]) -> int:
    """The product of what a chain of ops computes from a packed copy of compressed weights."""
    p, source = replace(product(s.g, s.op), has_constant_wei=False), s.d.type(compressed)
    panels = packed(len(source.shape), column_block(p, s.target), k_group(s.g, s.op))
    written = _WRITTEN.get(source.dtype)
    value = s.d.op(COPY if written is None else CONVERT, compressed, dtype=written)
    s.d.values[value] = replace(s.d.values[value], layout=panels, constness=Constness.runtime)
    for op in chain:
        dtype = None if op.lowering.is_layout_op else s.d.type(op.outs[0]).dtype
        value = s.d.op(op.kind, value, *op.ins[1:], attrs=op.attrs, dtype=dtype)
        if s.d.type(value).shape == source.shape:
            s.d.values[value] = replace(s.d.values[value], layout=panels)
    return s.like(s.op, s.op.ins[0], value)


WEIGHTS = Pattern(
    root=lambda row: row.lowering.is_contraction,
    build=_compressed,
    example="""graph(%0: f32[2,1024], %1: s8[1024,1024] constant, %2: f32[1024] constant) {
      %3: f32[1024,1024] constant = TypeCast(%1)    %4: f32[1024,1024] constant = Multiply(%3, %2)
      %5: f32[2,1024] = MatMul(%0, %4)
      ->
      %6: s8[1024,1024] Ba64b constant = Reorder(%1)    %3: f32[1024,1024] Ba64b = TypeCast(%6)
      %4: f32[1024,1024] Ba64b = Multiply(%3, %2)
      %5: f32[2,1024] = MatMul(%0, %4)
      return %5 }""",
    near_misses=(("[2,", "[640,"), ("%1: s8", "%1: f32"), ("return %5", "return %5, %3")),
)


def _is_worth_it(s: Site) -> bool:
    """One large matrix of constant f32 weights, and few rows, for which few cores convert all weights."""
    wei = s.g.value(s.op.ins[1])
    if not wei.is_constant or wei.dtype is not DType.f32 or s.g.is_init(s.op):
        return False
    return stays_compressed(s.call.outs[0].shape[-2], s.target) and is_one_large_matrix(product(s.g, s.op), s.target)


def _keep_columns(s: Site, chain: Sequence[Op]) -> bool:
    """Whether elements next to each other in a row of compressed weights are so in the weights."""
    return all(source_dims(s.g, op)[-1] == len(s.g.value(op.ins[0]).shape) - 1 for op in chain if op.lowering.is_layout_op)
