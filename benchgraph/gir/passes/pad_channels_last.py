"""pad-channels-last: what products write along channels is padded there, not between transpositions.

%2: [1,24,6,6] = _Pad(%1: [1,24,4,4])  low=[0,0,1,1]            %4: [1,4,4,24] = StaticTranspose(%1)
%3: [1,6,6,24] = StaticTranspose(%2)                     ->     %3: [1,6,6,24] = _Pad(%4)  low=[0,1,1,0]

Convolutions on channels first pad src before they transpose it. Where a product has made it, the transpositions cancel; otherwise one nest
scatters each pixel over planes of channels, and another one collects them. docs/measurements/whole-networks.md, 8-bit integers
"""

from __future__ import annotations

from benchgraph.gir.channel_order import product_writes_along
from benchgraph.gir.ir import Graph
from benchgraph.gir.rewrite import Pattern, Site, rewrite
from benchgraph.machine.target import Target
from benchgraph.ops.internal import PAD, pad_attrs
from benchgraph.ops.spec import LayoutOp
from benchgraph.ops.unit_steps import unit_steps


def pad_channels_last(g: Graph, target: Target) -> Graph:
    return rewrite(g, target, PADDED_BEHIND)


def _padded_behind(s: Site) -> int | None:
    """The padding after the transposition of what it pads, where that undoes another transposition."""
    pad = next(s.sole_makers(), None)
    if len(s.op.ins) != 1 or pad is None or pad.kind != PAD:
        return None
    (src,), rank = pad.ins, len(s.call.ins[0].shape)
    order = unit_steps(s.op.kind, s.op.attrs, s.call.ins[0].shape, s.call.outs[0].shape, inverse=False)
    dims = [dim for dim in order if dim is not None]
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
