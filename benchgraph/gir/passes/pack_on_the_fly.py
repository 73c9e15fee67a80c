"""pack-on-the-fly: weights that are converted or packed at every execution are so by the product that reads them, block by block.

    %2: f32[K,N] = nest0 { TypeCast(%1: f16[K,N]) }         %3 = nest1 { %2: f32[K,N] = TypeCast(%1)   panel
    %3 = nest1 { MatMul(%0, %2) }                      ->               MatMul(%0, %2) }

A temporary of one block replaces a matrix that goes to memory and back, and one parallel loop replaces two. The conversion joins as a stage
at the panel anchor (gir/on_the_fly_packing.py), and so do the ops that make its scales and zero points. Every task of a nest of several
products converts again, where that costs less than to convert once.

Legal for one product, all of whose batch entries are one, and for conversions without reductions that no other op reads.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod

from benchgraph.gir.column_blocks import columns_per_call
from benchgraph.gir.domain import domain_of
from benchgraph.gir.flash_attention import flash_attention
from benchgraph.gir.gemv import gemv_form
from benchgraph.gir.ir import Anchor, FusedOp, Graph, Stage
from benchgraph.gir.nest_graph import NestGraph, merge_pairs, nest_of
from benchgraph.gir.nest_schedule import nests_ns
from benchgraph.gir.on_the_fly_packing import Cuts, Reader, cuts_of, product_after
from benchgraph.gir.packed_blocks import making_ns
from benchgraph.gir.product import product, transposed_src_axes
from benchgraph.machine.target import Target


def pack_on_the_fly(g: Graph, target: Target) -> Graph:
    nests = merge_pairs(g, g.nests, lambda nests, i, j: _merged(g, nests, i, j, target))
    return g if len(nests.order) == len(g.nests) else replace(g, nodes=tuple(nests.nodes))


def _merged(g: Graph, nests: NestGraph, i: int, j: int, target: Target) -> FusedOp | None:
    """Nest j, which reads something of i, with i as a stage at its panel anchor; None if that is not legal or does not pay."""
    first, second = nests[i], nests[j]
    shared = set(first.outs) & set(second.ins)
    if len(first.stages) > 1 or g.is_init(first) or first.stages[0].is_product:
        return None
    if nests.is_used_beyond(first.outs, (i, j)):
        return None
    readers = [Reader(s, op, port) for s in second.stages for op in s.ops for port, v in enumerate(op.ins) if g.root(v) in shared]
    if not all(reader.stage.is_packing or _is_wei(g, reader) for reader in readers):
        return None
    kernels = {id(product_after(second, reader.stage)): product_after(second, reader.stage) for reader in readers}
    (maker,) = first.stages
    cuts = cuts_of(g, maker, readers)
    if cuts is None or len(kernels) > 1 or flash_attention(g, second) is not None:
        return None
    (kernel,) = kernels.values()
    if not _is_worth_blocks(g, kernel, maker, cuts, target):
        return None
    at = second.stages.index(readers[0].stage)
    stage = replace(maker, anchors=(Anchor.panel,) * len(maker.ops), cuts=cuts)
    one = nest_of(g, (*second.stages[:at], stage, *second.stages[at:]))
    is_alone = sum(s.is_product for s in second.stages) == 1
    return replace(second, stages=one.stages) if is_alone or _pays(g, (first, second), one, maker, target) else None


def _is_wei(g: Graph, reader: Reader) -> bool:
    """Whether the operand is wei of a product without batch entries and taps."""
    if reader.stage.reduces_rows or reader.port != 1 or not reader.op.lowering.is_contraction:
        return False
    if gemv_form(g, reader.op) is not None:
        return False
    p = product(g, reader.op)
    *batch, _, n = p.call.outs[0].shape
    return prod(batch) == 1 and p.is_matrix_product and p.columns == n and transposed_src_axes(g, reader.op) is None


def _is_worth_blocks(g: Graph, kernel: Stage, maker: Stage, cuts: Cuts, target: Target) -> bool:
    """Whether what is made anew for each block, of what has no cut along a loop, is no more than a block has."""
    by_k, by_n = cuts
    p, nb = product(g, kernel.ops[0]), columns_per_call(g, kernel.ops[0], target)
    if by_n is not None and nb % by_n.unit:
        return False
    return prod(domain_of(g, maker.ops).extents) <= (p.reduced[-1] if by_k is not None else nb) * (p.columns if by_n is not None else nb)


def _pays(g: Graph, apart: Sequence[FusedOp], one: FusedOp, maker: Stage, target: Target) -> bool:
    """Whether one nest, in which each task makes the blocks that it reads, costs less than two, of which the first makes all weights."""
    as_one, in_sequence = (nests_ns(g, nests, target) for nests in ((one,), apart))
    return as_one <= in_sequence + making_ns(g, maker, target)
