"""channels-last: windows and padding between products of pixels have their channels last, as products write and read them.

The transpositions cancel as views. Otherwise the product writes each pixel across the planes of the channels, or the window reads one
operand along rows of pixels and writes its result along channels. Convolutions on channels first pad src before they transpose it: one nest
scatters pixels over planes then, and another one collects them. docs/measurements/whole-networks.md, Channels first and 8-bit integers
"""

from __future__ import annotations

from benchgraph.core.attrs import Attrs
from benchgraph.core.errors import InvalidShape
from benchgraph.gir.build import TRANSPOSE
from benchgraph.gir.channel_order import product_writes_along, products_read_along
from benchgraph.gir.ir import Graph
from benchgraph.gir.rewrite import Pattern, Site, rewrite
from benchgraph.gir.views import source_dims
from benchgraph.machine.target import Target
from benchgraph.ops.internal import PAD, pad_attrs
from benchgraph.ops.spatial import channel_axis
from benchgraph.ops.spec import LayoutOp, Window

FORMAT, FIRST, LAST = "data_format", "NCX", "NXC"


def channels_last(g: Graph, target: Target) -> Graph:
    return rewrite(rewrite(g, target, WINDOWS), target, PADDED_BEHIND)


def _with_channels_last(s: Site) -> int | None:
    """None for a window that reads more than src and weights, and where no product would gain."""
    form, (src, *weights), op = s.op.lowering.form, s.op.ins, s.op
    assert isinstance(form, Window)
    if op.attrs.get(FORMAT) != FIRST or {*range(1, len(op.ins))} - {form.channel_weights}:
        return None
    rank = len(s.d.type(src).shape)
    channel = channel_axis(op.attrs, rank)
    if not (product_writes_along(s.g, src, channel) and products_read_along(s.g, op.outs[0], channel)):
        return None
    moved = s.d.op(TRANSPOSE, src, attrs=Attrs(order=(0, *range(2, rank), channel)))
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


def _padded_behind(s: Site) -> int | None:
    """The padding after the transposition of what it pads, where that undoes another transposition."""
    pad = next(s.sole_makers(), None)
    if len(s.op.ins) != 1 or pad is None or pad.kind != PAD:
        return None
    (src,), rank = pad.ins, len(s.call.ins[0].shape)
    dims = [dim for dim in source_dims(s.g, s.op) if dim is not None]
    if sorted(dims) != [*range(rank)] or dims[-1] == rank - 1 or not product_writes_along(s.g, src, dims[-1]):
        return None
    low, high, interior = (tuple(pad.attrs.integers(name)[dim] for dim in dims) for name in ("low", "high", "interior"))
    moved = s.d.op(s.op.kind, src, attrs=s.op.attrs)
    return s.d.op(PAD, moved, attrs=pad_attrs(low, high, interior, pad.attrs.integer("value")))


PADDED_BEHIND = Pattern(
    root=lambda row: isinstance(row.lowering.form, LayoutOp),
    build=_padded_behind,
    example="""graph(%0: f32[1,4,4,8], %1: f32[1,1,8,24]) {
      %2: f32[1,4,4,24] = MatMul(%0, %1)
      %3: f32[1,24,4,4] = StaticTranspose(%2) {order=[0,3,1,2]}
      %4: f32[1,24,7,6] = _Pad(%3) {high=[0,0,2,1], interior=[0,0,0,0], low=[0,0,1,1], value=3}
      %5: f32[1,7,6,24] = StaticTranspose(%4) {order=[0,2,3,1]}
      ->
      %2: f32[1,4,4,24] = MatMul(%0, %1)
      %3: f32[1,24,4,4] = StaticTranspose(%2) {order=[0,3,1,2]}
      %6: f32[1,4,4,24] = StaticTranspose(%3) {order=[0,2,3,1]}
      %5: f32[1,7,6,24] = _Pad(%6) {high=[0,2,1,0], interior=[0,0,0,0], low=[0,1,1,0], value=3}
      return %5 }""",
    near_misses=(
        ("return %5", "return %5, %4"),
        ("StaticTranspose(%4) {order=[0,2,3,1]}", "StaticReshape(%4) {shape=[1,7,6,24], special_zero=false}"),
        ("MatMul(%0, %1)", "Add(%1, %1)"),
    ),
)
