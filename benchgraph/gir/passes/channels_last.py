"""channels-last: windows between products of pixels have their channels last, as products write and read them.

The transpositions cancel as views. Otherwise the product writes each pixel across the planes of the channels, or the window reads one
operand along rows of pixels and writes its result along channels. docs/measurements/whole-networks.md, Channels first
"""

from __future__ import annotations

from benchgraph.core.attrs import Attrs
from benchgraph.core.errors import InvalidShape
from benchgraph.gir.build import TRANSPOSE
from benchgraph.gir.channel_order import product_writes_along, products_read_along
from benchgraph.gir.ir import Graph
from benchgraph.gir.rewrite import Pattern, Site, rewrite
from benchgraph.machine.target import Target
from benchgraph.ops.spec import Window

FORMAT, FIRST, LAST = "data_format", "NCX", "NXC"
CHANNEL = 1  # the axis of channels where they come first


def channels_last(g: Graph, target: Target) -> Graph:
    return rewrite(g, target, WINDOWS)


def _with_channels_last(s: Site) -> int | None:
    """None for a window that reads more than src and weights, and where no product would gain."""
    form, (src, *weights), op = s.op.lowering.form, s.op.ins, s.op
    assert isinstance(form, Window)
    if op.attrs.get(FORMAT) != FIRST or {*range(1, len(op.ins))} - {form.channel_weights}:
        return None
    if not (product_writes_along(s.g, src, CHANNEL) and products_read_along(s.g, op.outs[0], CHANNEL)):
        return None
    rank = len(s.d.type(src).shape)
    moved = s.d.op(TRANSPOSE, src, attrs=Attrs(order=(0, *range(2, rank), CHANNEL)))
    try:
        window = s.d.op(op.kind, moved, *weights, attrs=op.attrs.updated(**{FORMAT: LAST}), dtype=s.d.type(op.outs[0]).dtype)
    except InvalidShape:
        return None  # an attribute gives the shape of the result, with channels first
    back = s.d.op(TRANSPOSE, window, attrs=Attrs(order=(0, rank - 1, *range(1, rank - 1))))
    return back if s.d.type(back) == s.d.type(op.outs[0]) else None


WINDOWS = Pattern(
    root=lambda row: row.lowering.is_window,
    build=_with_channels_last,
    example="""graph(%0: f32[1,4,4,16], %1: f32[16,24], %2: f32[24,8]) {
      %3: f32[1,4,4,24] = MatMul(%0, %1)
      %4: f32[1,24,4,4] = StaticTranspose(%3) {order=[0,3,1,2]}
      %5: f32[1,24,2,2] = MaxPool(%4) {kernel=[2,2], strides=[2,2], pads_begin=[0,0], pads_end=[0,0], data_format="NCX"}
      %6: f32[1,2,2,24] = StaticTranspose(%5) {order=[0,2,3,1]}
      %7: f32[1,2,2,8] = MatMul(%6, %2)
      ->
      %3: f32[1,4,4,24] = MatMul(%0, %1)
      %4: f32[1,24,4,4] = StaticTranspose(%3) {order=[0,3,1,2]}
      %8: f32[1,4,4,24] = StaticTranspose(%4) {order=[0,2,3,1]}
      %9: f32[1,2,2,24] = MaxPool(%8) {kernel=[2,2], strides=[2,2], pads_begin=[0,0], pads_end=[0,0], data_format="NXC"}
      %5: f32[1,24,2,2] = StaticTranspose(%9) {order=[0,3,1,2]}
      %6: f32[1,2,2,24] = StaticTranspose(%5) {order=[0,2,3,1]}
      %7: f32[1,2,2,8] = MatMul(%6, %2)
      return %7 }""",
    near_misses=(("return %7", "return %7, %5"), ("= MatMul(%6, %2)", "= Exp(%6)")),
)
