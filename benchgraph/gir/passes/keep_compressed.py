"""keep-compressed: large constant weights stay compressed, where few rows are multiplied by them.

%2: f32[K,N] = TypeCast(%1: s8[K,N] constant)  constant            %2: f32[K,N] = TypeCast(%1)
%3: f32[K,N] = Multiply(%2, %s: f32[N])        constant     ->     %3: f32[K,N] = Multiply(%2, %s)
%4 = MatMul(%0, %3)                                                %4 = MatMul(%0, %3)

If init decompressed weights that no cache holds, every execution would load four bytes for what are one or two. So every execution
decompresses them: pack-on-the-fly makes that a part of the product, and propagate-layout packs the compressed weights by init, s4 and u4 as
s8 and u8, since nothing writes two numbers to a byte. Init still prepares scales and zero points. Measurements:
docs/measurements/compressed-weights.md, Compressed or widened by init.

Left alone: f16 and bf16 that few rows widen as they load it (low-precision), weights with other readers, products with so many blocks of
rows that pack-on-the-fly would not take the conversion, and products that init computes.
"""

from __future__ import annotations

from dataclasses import replace

from benchgraph.core.dtypes import DType
from benchgraph.gir.compressed_weights import is_one_large_matrix
from benchgraph.gir.ir import Constness, Graph, Op
from benchgraph.gir.packed_blocks import conversions
from benchgraph.gir.product import product
from benchgraph.machine.table import table
from benchgraph.machine.target import Target
from benchgraph.ops.spec import Elementwise, LayoutOp
from benchgraph.ops.unit_steps import unit_steps


def keep_compressed(g: Graph, target: Target) -> Graph:
    chains = [chain for op in g.ops if (chain := _decompression(g, op, target)) is not None]
    wide = {v for chain in chains for op in chain for v in op.outs}
    return g.with_values({v: replace(g.value(v), constness=Constness.variable) for v in wide})


def _decompression(g: Graph, op: Op, target: Target) -> tuple[Op, ...] | None:
    """The ops from compressed constants to the weights of a product, in order; None where they should not stay compressed."""
    if not op.lowering.is_contraction or not _is_worth_it(g, op, target):
        return None
    wei = g.value(op.ins[1])
    ops: list[Op] = []
    id, reader = wei.id, op
    while isinstance(maker := g.producer.get(id), Op):
        is_alone = g.consumers[id] == (reader,) and reader.ins.count(id) == 1 and id not in g.outs and len(maker.outs) == 1
        keeps_size = g.value(maker.ins[0]).type.elements == wei.type.elements
        if not (is_alone and keeps_size and isinstance(maker.lowering.form, Elementwise | LayoutOp)):
            return None
        ops.insert(0, maker)
        id, reader = maker.ins[0], maker
    src = g.value(id)
    if not (ops and src.is_constant and src.dtype.bits < DType.f32.bits and g.consumers[id] == (reader,)):
        return None
    return tuple(ops) if _can_be_packed(g, ops, keeps_shape=src.shape == wei.shape) else None


def _is_worth_it(g: Graph, op: Op, target: Target) -> bool:
    """One large matrix of constant f32 weights, and few rows."""
    p, wei = product(g, op), g.value(op.ins[1])
    m, machine = p.call.outs[0].shape[-2], table(target)
    has_few_rows = m <= machine.compressed_rows and conversions(m, target) <= machine.repeated_conversions
    is_main = wei.is_constant and not g.value(op.outs[0]).is_constant
    return is_main and wei.dtype is DType.f32 and has_few_rows and is_one_large_matrix(p, target)


def _can_be_packed(g: Graph, ops: list[Op], *, keeps_shape: bool) -> bool:
    """Whether rows of the weights are rows of the compressed ones; or whether the ops are one conversion and a transposition."""
    layout_ops = [op for op in ops if op.lowering.is_layout_op]
    shapes = [(g.value(op.ins[0]).shape, g.value(op.outs[0]).shape) for op in layout_ops]
    last_dims = [unit_steps(op.kind, op.attrs, *s, inverse=False)[-1] for op, s in zip(layout_ops, shapes, strict=True)]
    keep_columns = all(dim == len(src) - 1 for dim, (src, _) in zip(last_dims, shapes, strict=True))
    return (keeps_shape and keep_columns) or (len(ops) == 2 and layout_ops == ops[1:] and ops[0].semantics.is_conversion)
