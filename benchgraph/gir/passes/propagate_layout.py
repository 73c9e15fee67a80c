"""propagate-layout: matrix products get operands they can stream, and what flows from one to the next stays in that form.

    %2 = MatMul(%0, %1: f32[K,N] constant)      %5 = Reorder(%1)  constant, [N/64][K][64]
    %3 = ReLU(%2)                          ->   %2 = MatMul(%0, %5)  [N/64][M][64]
    %6 = MatMul(%3, %4)                         %3 = ReLU(%2)        [N/64][M][64]
                                                %6 = MatMul(%3, ...)

%3 = _Depthwise(%0: f32[N,H,W,C], %1: f32[H,W,1,C], of which C is    ->   %4: f32[H,W,1,C] = Reorder(%1)
  outermost in memory)                                                    %3 = _Depthwise(%0, %4)

%2 = Convolution(%0, %1: f32[H,W,C,O],   ->   %3: f32[C,H,W,O] = StaticTranspose(%1)
  of which H, W are innermost in memory)      %5 = Reorder(%3 as [H,W,C,O])  [H,W,O/64][C][64]
                                              %2 = Convolution(%0, %5)

Weights that are constant are packed once, by init; weights that are not are packed only when their columns are not unit stride, and where
dot products take several elements of k at a time: those then lie together, [N/64][K/4][64][4] for s8.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from math import prod

from benchgraph.core.attrs import Attrs
from benchgraph.core.dtypes import DType
from benchgraph.core.layout import Layout, plain
from benchgraph.core.target import Target
from benchgraph.gir.build import CONVERT, COPY, TRANSPOSE
from benchgraph.gir.column_blocks import column_block, result_block
from benchgraph.gir.compressed_weights import decompression, pack
from benchgraph.gir.gemv import Gemv, gemv_form
from benchgraph.gir.ir import Constness, Graph, Node, Op, Value, View
from benchgraph.gir.layouts import column_blocked, packed
from benchgraph.gir.packed_blocks import reads_rows_together
from benchgraph.gir.product import K, k_group, operand_axes, packs_src, product, stride, transposed_src_axes
from benchgraph.gir.row_blocks import has_one_matrix
from benchgraph.gir.strides import strides_of
from benchgraph.machine.table import table
from benchgraph.ops.spatial import channel_axis
from benchgraph.tir.groups import PACKED_FROM, is_widened
from benchgraph.tir.ir import Var
from benchgraph.tir.transposition import LEAST_ROWS

# Rows of several panels lie far apart in weights that are not packed, in few sets of L1, so that each register tile reads its panel from L2
# again. From how many rows on it pays to pack them at every execution: of a batch entry, whose panels stay in L2, and of a single product,
# whose packing is a parallel loop of its own, how many multiplications it must be worth. Two Cascade Lake cores that others use, f32, times
# with packing over those without, medians of 15:
#
#     entries x m x n x k    64x16x128x128 1.26, 64x32x128x128 1.01, 64x48x128x128 0.98, 64x64x128x128 0.89, 64x128x128x128 0.83,
#                            16x32x512x128 0.91, 16x96x256x64 0.76, 16x64x96x512 0.94; the paper's attention MHA_1 to 4 at batch 4, 4, 2, 2:
#                            0.97, 0.96, 0.87, 0.85
#     m x n x k              32x256x256 1.14, 64x256x256 1.02, 128x256x256 1.18, 512x128x128 0.83, 16x512x512 0.95, 32x512x512 0.74,
#                            64x192x512 0.93, 8x1024x1024 0.86, 32x1024x1024 0.50, 128x1024x1024 0.50, 1024x1024x1024 0.66
#
# Cores that keep up (Target.keeps_up) gain where the rows fall in so few sets that L1 holds less than half of a panel which it would hold
# packed, or that L2 does not hold one, and lose elsewhere. Two Zen 5 cores, times with packing over those without, minima of 12 to 60:
# MHA_1 to 4 at batch 32, 32, 16, 8 1.02, 1.05, 1.01, 0.98 (the last meets the former; medians 1.01, 1.05, 1.01, 0.98), MHA_1 on Zen 4 1.08.
# Of other products, minima of 10, by how many rows would fetch as much of a panel of which L2 held nothing, where it holds three quarters
# of what falls in its sets. ROWS_PER_LOSS: so many, for a single product, and for a batch entry or one core.
#
#     m x k x n, none       9x1500x1000 1.91, 24x1500x500 1.36, 48x512x3000 1.16, 64x2048x1000 1.14, 96x1024x384 1.05, 512x200x200 1.01
#     2 to 16               12x1024x1024 1.09, 16x1000x1536 1.19, 16x4096x512 1.14, 24x3072x896 1.09, 32x384x4096 1.09, 64x2048x896 1.10
#     24 to 48              96x1024x1280 1.07, 32x2048x1536 0.92, 48x2048x1280 0.94, 48x3072x1280 0.85, 64x1500x512 0.78, 128x256x3072 0.91
#     more                  1024x512x2560 1.04, 512x1000x768 0.89, 96x2048x1536 0.80, 1024x768x1024 0.83, 256x2048x1024 0.61
#     entries, 24 to 40     2x64x768x1536 1.19, 4x64x1024x512 1.12, 2x96x512x512 1.10, 4x96x256x1024 1.08, 2x48x1000x1024 0.85
#     more                  2x256x512x512 1.04, 8x200x384x1024 1.02, 8x128x384x3072 0.95, 4x512x768x2048 0.83, 2x200x1500x1024 0.65
#     one core, 20 to 40    48x1024x2560 1.17, 64x2048x256 0.92, 128x256x3072 0.91, 24x1500x2048 0.82
#     more                  128x768x2560 1.06, 1024x512x2560 1.02, 400x4096x500 0.88, 1024x1024x1024 0.76, 256x2048x2048 0.56
ROWS_PER_ENTRY, ROWS_AT_ALL, WORK, ROWS_PER_LOSS = 48, 8, 6_000_000, (24, 48)


def propagate_layout(g: Graph, target: Target) -> Graph:
    g = _block_activations(g, target)
    values = dict(g.by_id)
    nodes: list[Node] = []
    for op in g.nodes:
        if isinstance(op, Op) and op.lowering.is_contraction and gemv_form(g, op) is not Gemv.dot:
            src, wei = op.ins
            if operand_axes(g, op, 0) is None and not (packs_src(g.value(src).dtype, target) and transposed_src_axes(g, op)):
                src = _reordered(values, nodes, src, plain(len(g.value(src).shape)))
            panels = packed(len(g.value(wei).shape), column_block(product(g, op), target), k_group(g, op))
            if (way := decompression(g, wei)) is not None:
                wei = pack(g, values, nodes, way, wei, panels)
            elif g.value(wei).layout != panels and _is_packed(g, op, wei, target):
                if _is_converted_for(g, op, wei):
                    values[wei] = replace(values[wei], layout=panels)
                elif (narrow := _conversion_behind(g, wei)) is not None:
                    wei = _converted(values, nodes, wei, narrow, panels)
                else:
                    wei = _reordered(values, nodes, _columns_last(g, values, nodes, wei), panels)
            op = op if (src, wei) == op.ins else replace(op, ins=(src, wei))
        elif isinstance(op, Op) and (port := _across_channels(g, op)) is not None:
            wei, dtype = op.ins[port], None if g.value(op.ins[port]).dtype is DType.f32 else DType.f32
            wei = _reordered(values, nodes, wei, plain(len(g.value(wei).shape)), dtype)
            op = replace(op, ins=(*op.ins[:port], wei, *op.ins[port + 1 :]))
        nodes.append(op)
    found = replace(g, values=tuple(values.values()), nodes=tuple(nodes))
    return g if found == g else found


def _across_channels(g: Graph, op: Op) -> int | None:
    """The port of a window's weights, if channels of what it reads lie side by side, and those of a tap do not, or would be converted for
    each vector of channels."""
    if (port := op.lowering.channel_weights) is None:
        return None
    src, wei = g.value(op.ins[0]), g.value(op.ins[port])
    channel = channel_axis(op.attrs, len(src.shape))
    is_along = src.shape[channel] > 1 and _step(g, src.id, channel) == 1
    is_ready = wei.dtype is DType.f32 and _step(g, wei.id, len(wei.shape) - 1) == 1
    return port if is_along and not is_ready else None


def _step(g: Graph, id: int, axis: int) -> int | None:
    """How many elements of memory a step along an axis of a value is."""
    index = tuple(Var(f"i{a}") for a in range(len(g.value(id).shape)))
    return strides_of(g, id, index, (index[axis],))[0]


def _is_packed(g: Graph, op: Op, wei: int, target: Target) -> bool:
    """Whether a product has its weights copied into panels: constant ones, those it could not read, and where it pays."""
    if g.value(wei).is_constant or operand_axes(g, op, 1) is None:
        return True
    p = product(g, op)
    *batch, m, n = p.call.outs[0].shape
    if g.root(wei) not in g.ins or not p.is_row_wise or n <= column_block(p, target):
        return False
    if is_widened(*(g.value(v).dtype for v in op.ins)) or reads_rows_together(g, op, target):
        return False
    has_one, entries, rows = has_one_matrix(g, op), prod(p.call.ins[1].shape[:-2]), prod(batch) * m
    if not (has_one and target.is_far(g.value(wei).type.nbytes)):
        if target.keeps_up:
            met, least = rows if has_one else m, ROWS_PER_LOSS[entries >= target.cores]
            return _is_lost_as_it_lies(g, op, met, least, target)
        if entries >= target.cores:
            return m >= ROWS_PER_ENTRY
    return rows >= ROWS_AT_ALL and rows * n * prod(p.reduced) >= WORK


def _is_lost_as_it_lies(g: Graph, op: Op, rows: int, least: int, target: Target) -> bool:
    """Whether rows of src meet a panel, in weights by rows, of which caches hold too little as it lies.

    L1, for ROWS_PER_ENTRY rows: less than half, where it would hold all of it packed. L2: so little that the rows fetch what `least` rows
    do where it holds nothing.
    """
    p, wei, axes = product(g, op), op.ins[1], operand_axes(g, op, 1)
    assert axes is not None
    dtype, terms = g.value(wei).dtype, prod(p.reduced)
    apart, nbytes = dtype.nbytes(stride(g, wei, axes[0])), dtype.nbytes(column_block(p, target))
    from_l1 = 2 * target.rows_in_l1(apart, nbytes) < terms <= target.rows_in_l1(nbytes, nbytes)
    from_l2 = rows * (terms - table(target).l2_panel_share * target.rows_in_l2(apart, nbytes)) >= least * terms
    return (rows >= ROWS_PER_ENTRY and from_l1) or from_l2


def _is_converted_for(g: Graph, op: Op, wei: int) -> bool:
    """A weight that is made by a conversion, for this product alone: what converts it can pack it too."""
    maker = g.producer.get(wei)
    is_conversion = isinstance(maker, Op) and maker.semantics.is_conversion and maker.lowering.is_elementwise
    return is_conversion and g.value(wei).view is None and wei not in g.viewed and g.consumers[wei] == (op,) and wei not in g.outs


def _reordered(values: dict[int, Value], nodes: list[Node], id: int, layout: Layout, dtype: DType | None = None) -> int:
    """A copy in a layout, and in a dtype if that is given."""
    v, new = values[id], max(values) + 1
    constness = Constness.runtime if v.is_constant else Constness.variable
    values[new] = Value(new, dtype or v.dtype, v.shape, layout, constness)
    nodes.append(Op(COPY if dtype is None else CONVERT, (id,), (new,), Attrs()))
    return new


def _columns_last(g: Graph, values: dict[int, Value], nodes: list[Node], wei: int) -> int:
    """A view of a copy whose columns lie dense, of weights given at every execution whose taps do; else the weights.

    The copy turns whole matrices, which packing from taps cannot.
    """
    given, last = g.value(g.root(wei)), len(values[wei].shape) - 1
    if given.id not in g.ins or given.is_constant:
        return wei
    rows, columns = _step(g, wei, last - 1), _step(g, wei, last)
    if 1 in (rows, columns):
        return wei
    strides, rank = given.known_strides, len(given.shape)
    along = next((dim for dim in range(rank) if strides[dim] == columns), None)  # those of one element come later
    if along is None or prod(given.shape[dim] for dim in range(rank) if 0 < strides[dim] < strides[along]) < LEAST_ROWS:
        return wei
    others = sorted(set(range(rank)) - {along}, key=lambda dim: -strides[dim])
    order, copy, back = (*others, along), max(values) + 1, max(values) + 2
    shape = tuple(given.shape[dim] for dim in order)
    values[copy] = replace(given, id=copy, shape=shape, layout=plain(rank), strides=None)
    inverse = Attrs(order=[order.index(dim) for dim in range(rank)])
    view = View(copy, TRANSPOSE, inverse, shape, given.shape, inverse=False)
    values[back] = replace(values[copy], id=back, shape=given.shape, view=view)
    nodes.append(Op(TRANSPOSE, (given.id,), (copy,), Attrs(order=list(order))))
    return _through_views(values, wei, back)


def _conversion_behind(g: Graph, wei: int) -> int | None:
    """Of a view of something that is converted and that packing can convert too: what it is converted from."""
    maker = g.producer.get(g.root(wei))
    if g.value(wei).view is None or not isinstance(maker, Op) or maker.kind != CONVERT:
        return None
    (src,) = maker.ins
    is_packed_from = g.value(src).dtype in PACKED_FROM.get(g.value(wei).dtype, ())
    return src if maker.outs[0] == g.root(wei) and g.value(src).view is None and is_packed_from else None


def _converted(values: dict[int, Value], nodes: list[Node], wei: int, narrow: int, layout: Layout) -> int:
    """The narrow weights through the views of the wide ones, converted into panels."""
    return _reordered(values, nodes, _through_views(values, wei, narrow), layout, values[wei].dtype)


def _through_views(values: dict[int, Value], id: int, base: int) -> int:
    """What a value is of its root, perhaps the root itself, of another that has the root's shape."""
    chain, dtype = list[tuple[Value, View]](), values[base].dtype
    while (view := values[id].view) is not None:
        chain.append((values[id], view))
        id = view.base
    for v, view in reversed(chain):
        new = max(values) + 1
        values[new] = replace(v, id=new, dtype=dtype, view=replace(view, base=base))
        base = new
    return base


def _block_activations(g: Graph, target: Target) -> Graph:
    """Column-block every result of a MatMul that reaches the next one's src through pointwise ops only."""
    flow, blocked = _Flow(g, target), list[tuple[int, Layout]]()
    for op in g.nodes:
        if not isinstance(op, Op) or not op.lowering.is_contraction or reads_rows_together(g, op, target):
            continue
        block = result_block(product(g, op), target)
        if not block:
            continue
        layout = column_blocked(len(g.value(op.outs[0]).shape), block)
        if flow.feeds(op.outs[0], layout):
            blocked.append((op.outs[0], layout))
    return g.with_values(flow.laid_out(blocked))


@dataclass(frozen=True)
class _Flow:
    """Where results of products go through pointwise ops. A value is looked at once, however many products reach it (residual networks)."""

    g: Graph
    target: Target
    steps: dict[int, tuple[tuple[int, ...], bool] | None] = field(default_factory=dict)  # what `_step` of a value said
    known: dict[Layout, dict[int, bool | None]] = field(default_factory=dict)  # what `feeds` said, by layout and value

    def feeds(self, start: int, layout: Layout) -> bool | None:
        """Whether a value reaches the src of products, or outputs of this layout; None where something on the way cannot have it."""
        known, left = self.known.setdefault(layout, {}), [start]
        while left:
            id = left[-1]
            step, is_out = self._step(id), id in self.g.outs
            if step is None or (is_out and self.g.value(id).layout != layout):
                known[left.pop()] = None
            elif ahead := [v for v in step[0] if v not in known]:
                left += ahead
            else:
                found = [known[v] for v in step[0]]
                known[left.pop()] = None if None in found else is_out or step[1] or any(found)
        return known[start]

    def laid_out(self, starts: Sequence[tuple[int, Layout]]) -> dict[int, Value]:
        """What values become that are reached from results of products in these layouts: of two layouts the later product's."""
        changed = dict[int, Value]()
        for start, layout in reversed(starts):
            left = [start]
            while left:
                id = left.pop()
                step = self._step(id)
                if id not in changed and step is not None:  # what a changed one reaches has changed as well
                    changed[id] = replace(self.g.value(id), layout=layout)
                    left += step[0]
        return changed

    def _step(self, id: int) -> tuple[tuple[int, ...], bool] | None:
        """The results of pointwise ops that read a value, and whether products do; None where it cannot lie in blocks for its readers."""
        if id not in self.steps:
            self.steps[id] = _readers(self.g, id, self.target)
        return self.steps[id]


def _readers(g: Graph, id: int, target: Target) -> tuple[tuple[int, ...], bool] | None:
    """What `_Flow._step` says."""
    v, onwards, feeds_product = g.value(id), dict[int, None](), False
    if id in g.viewed or v.view is not None or v.is_constant:
        return None
    for user in g.consumers[id]:
        assert isinstance(user, Op)
        if user.lowering.is_contraction:
            if user.ins[1] == id or product(g, user).operands[0][-1] != K or gemv_form(g, user) is Gemv.dot:
                return None
            if target.in_tiles(v.dtype) or reads_rows_together(g, user, target):
                return None  # a tile is read row by row, wherever rows begin; a piece of k may be shorter than a block
            feeds_product = True
        elif user.lowering.is_elementwise and g.value(user.outs[0]).shape == v.shape:
            onwards[user.outs[0]] = None
        else:
            return None
    return tuple(onwards), feeds_product
