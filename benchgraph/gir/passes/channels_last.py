"""channels-last: windows between products of pixels have their channels last, as products write and read them.

%2: [1,4,4,24] = MatMul(%0, %1)                                     %2: [1,4,4,24] = MatMul(%0, %1)
%3: [1,24,4,4] = StaticTranspose(%2)                         ->     %3: [1,24,4,4] = StaticTranspose(%2)
%4: [1,24,4,4] = MaxPool(%3) {data_format="NCX"}                    %7: [1,4,4,24] = StaticTranspose(%3)
%5: [1,4,4,24] = StaticTranspose(%4)                                %8: [1,4,4,24] = MaxPool(%7) {data_format="NXC"}
%6 = MatMul(%5, %w)                                                 %4: [1,24,4,4] = StaticTranspose(%8)
                                                                    %5: [1,4,4,24] = StaticTranspose(%4)   ...

The transpositions cancel as views. Otherwise the product writes each pixel across the planes of the channels, or the window reads one
operand along rows of pixels and writes its result along channels. docs/measurements/whole-networks.md, Channels first
"""

from __future__ import annotations

from dataclasses import replace

from benchgraph.core.attrs import Attrs
from benchgraph.core.errors import InvalidShape
from benchgraph.core.tensor import Shape
from benchgraph.gir.build import TRANSPOSE, Builder
from benchgraph.gir.channel_order import product_writes_along, products_read_along
from benchgraph.gir.ir import Graph, Node, Op
from benchgraph.machine.target import Target
from benchgraph.ops.spec import Window

FORMAT, FIRST, LAST = "data_format", "NCX", "NXC"
CHANNEL = 1  # the axis of channels where they come first


def channels_last(g: Graph, target: Target) -> Graph:
    for op in g.ops:
        if (moved := _with_channels_last(g, op)) is not None:
            g = _between_transpositions(g, op, moved)
    return g


def _with_channels_last(g: Graph, op: Op) -> Op | None:
    """The window, on values with channels last; None for what is no such window, or where no product would gain."""
    form = op.lowering.form
    if not isinstance(form, Window) or op.attrs.get(FORMAT) != FIRST or {*range(1, len(op.ins))} - {form.channel_weights}:
        return None
    if not (product_writes_along(g, op.ins[0], CHANNEL) and products_read_along(g, op.outs[0], CHANNEL)):
        return None
    moved = replace(op, attrs=op.attrs.updated(**{FORMAT: LAST}))
    src, *weights = (g.value(v).type for v in op.ins)
    try:
        made = moved.semantics.infer(moved.attrs, (replace(src, shape=_last(src.shape)), *weights))
    except InvalidShape:
        return None  # an attribute gives the shape of the result, with channels first
    return moved if made == tuple(_last(g.value(v).shape) for v in op.outs) else None


def _last(shape: Shape) -> Shape:
    return (shape[0], *shape[2:], shape[1])


def _between_transpositions(g: Graph, op: Op, moved: Op) -> Graph:
    d = Builder(g.values)
    rank = len(g.value(op.ins[0]).shape)
    src = d.op(TRANSPOSE, op.ins[0], attrs=Attrs(order=(0, *range(2, rank), 1)))
    (out,) = op.outs
    dst = d.new_value(g.value(out).dtype, _last(g.value(out).shape))
    window = replace(moved, ins=(src, *op.ins[1:]), outs=(dst,))
    back = Op(TRANSPOSE, (dst,), (out,), Attrs(order=(0, rank - 1, *range(1, rank - 1))))
    nodes: list[Node] = []
    for node in g.nodes:
        nodes += [*d.nodes, window, back] if node is op else [node]
    return d.graph(g, nodes)
