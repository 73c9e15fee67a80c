"""Blocks of weights as the cost of a product sees them: those that stages before it convert or pack, and those that it reads in place.

    stages { %2: f32[K,N] = TypeCast(%1: f16[K,N])  panel; MatMul(%0, %2) }     blocks of f32, made row by row from 16 bits an element

A block is made right before it is read (gir/on_the_fly_packing.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import lcm, prod

from benchgraph.core.dtypes import DType
from benchgraph.core.memoise import memoised_within
from benchgraph.gir.column_blocks import column_block
from benchgraph.gir.gemm_nest import gemm_nest, packed_from
from benchgraph.gir.gemv import gemv_form, is_input_for_rows
from benchgraph.gir.ir import FusedOp, Graph, Op, Stage, Value
from benchgraph.gir.on_the_fly_packing import packing_stages
from benchgraph.gir.product import Product, is_row_major, k_group, operand_axes, product, stride
from benchgraph.machine.table import rates
from benchgraph.machine.target import Target
from benchgraph.schedule.choose import choose, whole_entries
from benchgraph.schedule.gemm import Blocks, Gemm, Source
from benchgraph.schedule.limits import is_summed_in_l1, unrolled_columns
from benchgraph.schedule.nest import F32_BYTES
from benchgraph.schedule.steps import alone
from benchgraph.schedule.traffic import beyond_all_l2
from benchgraph.tir.groups import PACKED_FROM, SIDE_BY_SIDE


def stage_nest(g: Graph, node: FusedOp, stage: Stage, target: Target) -> Gemm:
    """The nest of the product that a stage of a fused op begins with; results that are not stored by rows wait: the sums, and these
    transposed."""
    return _stage_nest(g, stage, packing_stages(node, stage), target)


@memoised_within
def _stage_nest(g: Graph, stage: Stage, makers: tuple[Stage, ...], target: Target) -> Gemm:
    by_rows = all(is_row_major(g, v) for op in stage.ops for v in op.outs)
    gemm = gemm_nest(product(g, stage.ops[0]), target)
    return _in_blocks(g, stage.ops[0], makers, gemm if by_rows else replace(gemm, waiting_bytes=2 * F32_BYTES), target)


def _in_blocks(g: Graph, op: Op, makers: Sequence[Stage], gemm: Gemm, target: Target) -> Gemm:
    """The product of a stage with the blocks of its weights, if it reads such, and bits of what they are made from."""
    if gemv_form(g, op) is not None:
        columns = unrolled_columns(gemm.m, g.value(op.ins[1]).dtype.nbytes(gemm.k), target) if gemm.n > 1 else 1
        return replace(gemm, kernel=replace(gemm.kernel, dots=columns))
    wei = g.value(op.ins[1])
    units = (cut.unit for maker in makers if (cut := maker.cuts[0]) is not None)
    unit = lcm(k_group(g, op), *units)
    if not makers:
        return _in_place(g, op, gemm, target) if _may_read_in_place(g, op, target) else gemm
    sources = _sources(g, makers)
    first = max(sources, key=lambda v: v.type.nbytes)
    where = Source.panels if first.layout.blocks else Source.rows if is_row_major(g, first.id) else Source.columns
    cycles = sum(_cycles(g, maker.ops, gemm.n * gemm.k, where, target) for maker in makers)
    packs = len(makers) == 1 and _packs(g, makers[0])
    may_fetch = packs and g.root(first.id) in g.ins and not target.in_tiles(g.value(op.ins[0]).dtype)  # which multiply too fast
    src, read, dst = gemm.operands
    operands = src, replace(read, bits=8 * sum(v.type.nbytes for v in sources) / (gemm.n * gemm.k)), dst
    blocks = Blocks(wei.dtype.bits, unit, SIDE_BY_SIDE if packs else 1, where, cycles, may_fetch)
    return replace(gemm, operands=operands, blocks=blocks)


def _sources(g: Graph, makers: Sequence[Stage]) -> list[Value]:
    """What these stages read and do not make, each once."""
    made = {g.root(v) for maker in makers for op in maker.ops for v in op.outs}
    read = dict.fromkeys(v for maker in makers for op in maker.ops for v in op.ins if g.root(v) not in made)
    return [g.value(v) for v in read]


def _cycles(g: Graph, ops: Sequence[Op], elements: int, where: Source, target: Target) -> float:
    """What a chain of ops takes for a vector of so many weights, which are its own elements or more: one is loaded and one stored, and each
    op converts, moves or computes."""
    vector, total = rates(target).vector, 0.0
    for op in ops:
        src, dst = g.value(op.ins[0]), g.value(op.outs[0])
        moved = (where is Source.columns) * vector.transpose_cycles + (dst.dtype.bits < DType.f32.bits) * vector.shuffle_cycles
        computed = vector.conversion_cycles(src.dtype, dst.dtype) or (moved if op.lowering.is_layout_op else vector.simple_cycles)
        total += dst.type.elements / elements * computed
    return total + 2 * vector.simple_cycles * g.value(ops[-1].outs[0]).type.elements / elements


def making_ns(g: Graph, maker: Stage, target: Target) -> float:
    """Of a stage, without what it reads and writes."""
    elements = g.value(maker.ops[-1].outs[0]).type.elements
    return rates(target).ns(_cycles(g, maker.ops, elements, Source.rows, target) * elements / target.lanes)


def is_one_large_matrix(p: Product, target: Target) -> bool:
    """Whether all rows of a product share one matrix of several columns, which in f32 does not fit the cores' L2 caches."""
    *batch, _, n = p.call.outs[0].shape
    is_plain = prod(batch) == 1 and p.is_matrix_product and p.columns == n > 1
    return is_plain and beyond_all_l2(p.call.ins[1].elements * F32_BYTES, target)


def _may_read_in_place(g: Graph, op: Op, target: Target) -> bool:
    """Whether a microkernel reads several panels of weights that change, stored by rows, as they are."""
    if not is_input_for_rows(g, op, op.ins[1]) or operand_axes(g, op, 1) is None:
        return False
    p = product(g, op)
    return p.columns > column_block(p, target)


def pays_to_pack(g: Graph, op: Op, target: Target) -> bool:
    """Whether it costs more to read weights where they are, rows side by side or panel by panel, than from blocks that are packed: each
    right before it is read, or with several batch entries all of an entry. docs/measurements/weight-packing.md"""
    if not _may_read_in_place(g, op, target) or _is_summed_in_l1(product(g, op), target):
        return False
    p, dtype = product(g, op), g.value(op.ins[1]).dtype
    gemm, nb = gemm_nest(p, target), column_block(p, target)
    packed = alone(packed_from(gemm, dtype, dtype, Source.rows, target))
    in_place = choose(alone(_in_place(g, op, gemm, target)), (nb,), target, may_spread=True).cost
    is_one = prod(gemm.batch) == 1
    best = choose(packed, (nb,), target, may_spread=True).cost if is_one else whole_entries(packed, nb, target)
    return in_place.total > best.total


def _in_place(g: Graph, op: Op, gemm: Gemm, target: Target) -> Gemm:
    """The product of weights that are read where they are."""
    wei, axes = op.ins[1], operand_axes(g, op, 1)
    assert axes is not None
    dtype, (src, read, dst) = g.value(wei).dtype, gemm.operands
    blocks = Blocks(dtype.bits, 1, 1 if _is_summed_in_l1(product(g, op), target) else SIDE_BY_SIDE)
    apart = dtype.nbytes(stride(g, wei, axes[0]))
    return replace(gemm, operands=(src, replace(read, apart=apart), dst), blocks=blocks)


def _is_summed_in_l1(p: Product, target: Target) -> bool:
    """Whether the one row of a product is summed in L1, row by row of narrow weights."""
    (*batch, m, n), wei = p.call.outs[0].shape, p.call.ins[1]
    return m == 1 and wei.dtype is not DType.f32 and is_summed_in_l1(prod(batch), n, wei.nbytes, target)


def _packs(g: Graph, maker: Stage) -> bool:
    """Whether a stage only packs."""
    src, dst = g.value(maker.ops[0].ins[0]), g.value(maker.ops[-1].outs[0])
    is_packing = len(maker.ops) == 1 and bool(dst.layout.blocks) and src.dtype in PACKED_FROM.get(dst.dtype, ())
    return is_packing and not g.value(g.root(src.id)).layout.blocks
