"""propagate-layout: matrix products get operands that the microkernel can stream.

%2 = MatMul(%0, %1: f32[K,N] constant)                               ->   %3 = Reorder(%1)  constant, [N/64][K][64]
                                                                          %2 = MatMul(%0, %3)

%3 = _Depthwise(%0: f32[N,H,W,C], %1: f32[H,W,1,C], of which C is    ->   %4: f32[H,W,1,C] = Reorder(%1)
  outermost in memory)                                                    %3 = _Depthwise(%0, %4)

%2: f32[N,C,Y,X] = MaxPool(%0: of which C is last in memory)         ->   %2: f32[N,C,Y,X] acdb = MaxPool(%0)
%3 = _LargestTap(%0, %2)

Constant weights are packed once, by init. Weights that change are packed where their columns do not have unit stride, where dot products
take several elements of k at a time, which then are adjacent ([N/64][K/4][64][4] for s8), and where many rows pay for it. Activations
stay row-major: docs/measurements/panel-width.md, Blocked results.
"""

from __future__ import annotations

from dataclasses import replace

from benchgraph.core.dtypes import DType
from benchgraph.core.layout import Layout, plain
from benchgraph.gir.build import CONVERT, copied, through_views
from benchgraph.gir.column_blocks import column_block
from benchgraph.gir.gemv import Gemv, gemv_form, pays_as_dots
from benchgraph.gir.ir import Graph, Node, Op
from benchgraph.gir.layouts import is_packed, packed
from benchgraph.gir.packed_blocks import pays_to_pack
from benchgraph.gir.product import k_group, operand_axes, packs_src, product, transposed_src_axes
from benchgraph.gir.views import strides_by_dim
from benchgraph.gir.windows import densest_axis
from benchgraph.machine.target import Target
from benchgraph.ops.spatial import channel_axis
from benchgraph.tir.groups import PACKED_FROM, is_widened


def propagate_layout(g: Graph, target: Target) -> Graph:
    g = _between_windows(g)
    values = dict(g.by_id)
    nodes: list[Node] = []
    for op in g.ops:
        if op.lowering.is_contraction and not _is_dots(g, op, target):
            src, wei = op.ins
            if operand_axes(g, op, 0) is None and not (packs_src(g.value(src).dtype, target) and transposed_src_axes(g, op)):
                src = copied(values, nodes, src, plain(len(g.value(src).shape)))
            rank, group = len(g.value(wei).shape), k_group(g, op)
            if not is_packed(g.value(wei).layout, rank, group) and _is_packed(g, op, wei, target):
                panels = packed(rank, column_block(product(g, op), target), group)
                if _is_converted_for(g, op, wei):
                    values[wei] = replace(values[wei], layout=panels)
                elif (narrow := _conversion_behind(g, wei)) is not None:
                    views = through_views(values, wei, narrow)
                    wei = copied(values, nodes, views, panels, values[wei].dtype)
                else:
                    wei = copied(values, nodes, wei, panels)
            op = op if (src, wei) == op.ins else replace(op, ins=(src, wei))
        elif (port := _port_to_reorder(g, op)) is not None:
            wei, dtype = op.ins[port], None if g.value(op.ins[port]).dtype is DType.f32 else DType.f32
            wei = copied(values, nodes, wei, plain(len(g.value(wei).shape)), dtype)
            op = replace(op, ins=(*op.ins[:port], wei, *op.ins[port + 1 :]))
        nodes.append(op)
    propagated = replace(g, values=tuple(values.values()), nodes=tuple(nodes))
    return g if propagated == g else propagated


def _between_windows(g: Graph) -> Graph:
    """What only windows read of a window, in the order in which that reads its src."""
    for op in g.ops:
        (out, *_), (src, *_) = op.outs, op.ins
        axes = tuple(range(len(g.value(out).shape)))
        is_inside = out not in (*g.outs, *g.viewed) and all(reader.lowering.is_window for reader in g.readers(out))
        if op.lowering.is_window and is_inside and len(g.value(src).shape) == len(axes):
            x = densest_axis(g, src, axes)
            g = g.with_values({out: replace(g.value(out), layout=Layout((*(axis for axis in axes if axis != x), x)))})
    return g


def _is_dots(g: Graph, op: Op, target: Target) -> bool:
    """Whether a product is computed by dot products along k: of one column, or where that costs less than to pack weights."""
    is_legal, p = gemv_form(g, op) is Gemv.dot, product(g, op)
    return is_legal and (p.call.outs[0].shape[-1] == 1 or pays_as_dots(p, g.value(g.root(op.ins[1])).dtype, target))


def _port_to_reorder(g: Graph, op: Op) -> int | None:
    """The port of a window's weights, if channels have unit stride in its data and not in the weights, or the weights are not f32."""
    if (port := op.lowering.channel_weights) is None:
        return None
    src, wei = g.value(op.ins[0]), g.value(op.ins[port])
    channel = channel_axis(op.attrs, len(src.shape))
    is_along = src.shape[channel] > 1 and strides_by_dim(g, src.id)[channel] == 1
    is_ready = wei.dtype is DType.f32 and strides_by_dim(g, wei.id)[-1] == 1
    return port if is_along and not is_ready else None


def _is_packed(g: Graph, op: Op, wei: int, target: Target) -> bool:
    """Whether weights of a product that are not in panels are packed: constant ones, those that it cannot read, and where it pays."""
    if g.value(wei).is_constant or operand_axes(g, op, 1) is None:
        return True
    return not is_widened(*(g.value(v).dtype for v in op.ins)) and pays_to_pack(g, op, target)


def _is_converted_for(g: Graph, op: Op, wei: int) -> bool:
    """Whether weights are converted for this product alone: the conversion can pack them too."""
    maker = g.maker(wei)
    is_conversion = maker is not None and maker.semantics.is_conversion and maker.lowering.is_elementwise
    return is_conversion and g.value(wei).view is None and wei not in g.viewed and g.readers(wei) == (op,) and wei not in g.outs


def _conversion_behind(g: Graph, wei: int) -> int | None:
    """Of a view of a converted value, whose conversion packing can do too: the value before the conversion."""
    maker = g.maker(g.root(wei))
    if g.value(wei).view is None or maker is None or maker.kind != CONVERT:
        return None
    (src,) = maker.ins
    is_packed_from = g.value(src).dtype in PACKED_FROM.get(g.value(wei).dtype, ())
    return src if maker.outs[0] == g.root(wei) and g.value(src).view is None and is_packed_from else None
