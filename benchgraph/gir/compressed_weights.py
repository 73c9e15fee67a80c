"""Compressed weights (weight-only quantisation): init packs them in panels of their own dtype (s4 and u4 as s8
and u8), and the product decompresses them.

%3: f32[K,N] = TypeCast(%1: s8[K,N] constant)           %5: s8[K,N] Ba64b = Reorder(%1)  constant
%4 = MatMul(%0, %3)                              ->     %3: f32[K,N] Ba64b = TypeCast(%5)
                                                        %4 = MatMul(%0, %3)

gir/passes/keep_compressed.py decides which weights stay compressed.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod

from benchgraph.core.dtypes import DType
from benchgraph.core.layout import Layout
from benchgraph.gir.build import CONVERT, copied, through_views
from benchgraph.gir.ir import Constness, Graph, Node, Op, Value
from benchgraph.gir.layouts import F32_BYTES
from benchgraph.gir.product import Product
from benchgraph.machine.target import Target
from benchgraph.ops.spec import Elementwise

_WRITTEN = {DType.s4: DType.s8, DType.u4: DType.u8}  # packed two to a byte, they cannot be written one by one


def is_one_large_matrix(p: Product, target: Target) -> bool:
    """Whether all rows of a product share one matrix of several columns, which in f32 does not fit the cores' L2 caches."""
    *batch, _, n = p.call.outs[0].shape
    is_plain = prod(batch) == 1 and p.is_matrix_product and p.columns == n > 1
    return is_plain and p.call.ins[1].elements * F32_BYTES > target.cores * target.l2_bytes


@dataclass(frozen=True)
class Decompression:
    """The first op of the chain from compressed constants to weights, and all values that the chain makes."""

    first: Op
    made: tuple[int, ...]


def decompression(g: Graph, wei: int) -> Decompression | None:
    """How f32 weights that are not constant are computed from compressed constants alone; None when they are not, or cannot be packed."""
    id, made, wide = wei, list[int](), g.value(g.root(wei))
    first: Op | None = None
    while not g.value(g.root(id)).is_constant:
        makers = [op for op in g.nodes if isinstance(op, Op) and any(g.root(v) == g.root(id) for v in op.outs)]
        if len(makers) != 1 or not isinstance(makers[0].lowering.form, Elementwise):
            return None
        (first,) = makers
        if not all(g.value(g.root(v)).is_constant for v in first.ins[1:]):
            return None
        made.append(first.outs[0])
        if g.root(made[-1]) in g.outs:  # not constant for that reason, and its layout is the user's
            return None
        id = first.ins[0]
    src = g.value(g.root(id))
    if first is None or wide.dtype is not DType.f32 or src.dtype.bits >= DType.f32.bits or src.shape != wide.shape:
        return None
    can_pack = g.value(wei).view is None or (len(made) == 1 and first.kind == CONVERT and id == src.id)
    return Decompression(first, tuple(made)) if can_pack else None


def pack(g: Graph, values: dict[int, Value], nodes: list[Node], chain: Decompression, wei: int, panels: Layout) -> int:
    """The weights in panels, computed from a compressed copy in panels. Changes values, and nodes, which contain the chain already."""
    at, src = next(i for i, node in enumerate(nodes) if node == chain.first), chain.first.ins[0]
    is_transposed = g.value(wei).view is not None  # of a conversion, which the product reads through a transposition: the copy does that
    source = through_views(values, wei, src, dtype=values[src].dtype, constness=Constness.runtime) if is_transposed else g.root(src)
    copy = copied(values, nodes, source, panels, _WRITTEN.get(values[source].dtype), at)
    if is_transposed:
        new = max(values) + 1
        values[new] = replace(values[g.root(wei)], id=new, shape=values[wei].shape, layout=panels)
        nodes[at + 1] = Op(CONVERT, (copy,), (new,))
        return new
    viewed = through_views(values, src, copy, dtype=values[copy].dtype, constness=Constness.runtime)
    nodes[at + 1] = replace(chain.first, ins=(viewed, *chain.first.ins[1:]))
    for v in (g.root(wei), *chain.made):
        if values[v].view is None and values[v].shape == values[g.root(wei)].shape:
            values[v] = replace(values[v], layout=panels)
    return wei
