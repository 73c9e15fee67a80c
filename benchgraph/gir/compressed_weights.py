"""Compressed weights (weight-only quantisation): init packs them in panels of their own dtype, and the product decompresses them.

%3: f32[K,N] = TypeCast(%1: s8[K,N] constant)           %5: s8[K,N] Ba64b = Reorder(%1)  constant
%4 = MatMul(%0, %3)                              ->     %3: f32[K,N] Ba64b = TypeCast(%5)
                                                        %4 = MatMul(%0, %3)

gir/passes/keep_compressed.py decides which weights stay compressed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import prod

from benchgraph.core.attrs import Attrs
from benchgraph.core.dtypes import DType
from benchgraph.core.layout import Layout
from benchgraph.core.target import Target
from benchgraph.gir.build import CONVERT, COPY
from benchgraph.gir.ir import Constness, Graph, Node, Op, Value
from benchgraph.gir.layouts import F32_BYTES
from benchgraph.gir.product import Product
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
    at = next(i for i, node in enumerate(nodes) if node == chain.first)
    if g.value(wei).view is not None:
        return _pack_transposed(g, values, nodes, at, chain, wei, panels)
    src = chain.first.ins[0]
    copy = _copied(values, nodes, at, g.root(src), panels)
    nodes[at + 1] = replace(chain.first, ins=(_same_views(values, src, copy), *chain.first.ins[1:]))
    for v in (g.root(wei), *chain.made):
        if values[v].view is None and values[v].shape == values[g.root(wei)].shape:
            values[v] = replace(values[v], layout=panels)
    return wei


def _pack_transposed(g: Graph, values: dict[int, Value], nodes: list[Node], at: int, chain: Decompression, wei: int, panels: Layout) -> int:
    """The same for a conversion that the product reads through a transposition, which the copy does then."""
    compressed = _same_views(values, wei, chain.first.ins[0], values[chain.first.ins[0]].dtype)
    copy = _copied(values, nodes, at, compressed, panels)
    new = max(values) + 1
    values[new] = replace(values[g.root(wei)], id=new, shape=values[wei].shape, layout=panels)
    nodes[at + 1] = Op(CONVERT, (copy,), (new,), Attrs())
    return new


def _copied(values: dict[int, Value], nodes: list[Node], at: int, src: int, layout: Layout) -> int:
    """A constant copy in this layout, made before node `at`."""
    v, new = values[src], max(values) + 1
    values[new] = Value(new, _WRITTEN.get(v.dtype, v.dtype), v.shape, layout, Constness.runtime)
    nodes.insert(at, Op(CONVERT if v.dtype in _WRITTEN else COPY, (src,), (new,), Attrs()))
    return new


def _same_views(values: dict[int, Value], id: int, base: int, dtype: DType | None = None) -> int:
    """Another buffer through the views of a value; the buffer itself where there are none."""
    for v in reversed(tuple(_views(values, id))):
        assert v.view is not None
        new = max(values) + 1
        values[new] = replace(v, id=new, dtype=dtype or values[base].dtype, constness=Constness.runtime, view=replace(v.view, base=base))
        base = new
    return base


def _views(values: dict[int, Value], id: int) -> Iterator[Value]:
    while (view := values[id].view) is not None:
        yield values[id]
        id = view.base
