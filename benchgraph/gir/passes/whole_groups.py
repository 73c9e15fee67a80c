"""whole-groups: channels of which the last group of k has too few are filled up with zeros, where that costs no further copy.

%2: bf16[1,230,230,3] = _Pad(%0)   %3: f32[1,112,112,64] = Convolution(%2, %1: bf16[7,7,3,64])      k = 3, 49 taps
->
%4: bf16[1,230,230,4] = _Pad(%0)   %3: f32[1,112,112,64] = Convolution(%4, _Pad(%1))                 k = 28, 7 taps

Then the taps along a row of windows and their channels are one k of whole groups. Otherwise every tap has a group of its own to fill up,
of src and of the weights, whenever it is multiplied. First layers of networks for images are such, of three channels.
docs/measurements/whole-networks.md, Three channels
"""

from __future__ import annotations

from benchgraph.core.attrs import Attrs
from benchgraph.gir.ir import Graph
from benchgraph.gir.product import K, k_group, product
from benchgraph.gir.rewrite import Pattern, Site, rewrite
from benchgraph.gir.views import layout_form, moved_inputs, source_dims
from benchgraph.machine.target import Target
from benchgraph.ops.internal import PAD, pad_attrs


def whole_groups(g: Graph, target: Target) -> Graph:
    return rewrite(g, target, CHANNELS)


def _filled(s: Site) -> int | None:
    p, group = product(s.g, s.op), k_group(s.g, s.op)
    missing, (src, wei) = -p.reduced[-1] % group, p.operands
    if not (missing and p.batch and src[-1] == K and wei[-2] == K and p.columns == p.call.outs[0].shape[-1]):
        return None
    source = _with_channels(s, s.op.ins[0], len(src) - 1, missing)
    if source is None:
        return None
    return s.like(s.op, source, s.d.op(PAD, s.op.ins[1], attrs=_behind(len(wei), len(wei) - 2, missing)))


CHANNELS = Pattern(
    root=lambda row: row.lowering.is_contraction,
    build=_filled,
    example="""graph(%0: f32[1,3,4,4], %1: bf16[3,3,3,16]) {
      %2: f32[1,3,6,6] = _Pad(%0) {high=[0,0,1,1], interior=[0,0,0,0], low=[0,0,1,1], value=0}
      %3: f32[1,6,6,3] = StaticTranspose(%2) {order=[0,2,3,1]}    %4: bf16[1,6,6,3] = TypeCast(%3)
      %5: f32[1,4,4,16] = Convolution(%4, %1) {strides=[1,1], pads_begin=[0,0], pads_end=[0,0], dilations=[1,1], weights_format="XIO"}
      ->
      %6: f32[1,4,6,6] = _Pad(%0) {high=[0,1,1,1], interior=[0,0,0,0], low=[0,0,1,1], value=0}
      %7: f32[1,6,6,4] = StaticTranspose(%6) {order=[0,2,3,1]}    %8: bf16[1,6,6,4] = TypeCast(%7)
      %9: bf16[3,3,4,16] = _Pad(%1) {high=[0,0,1,0], interior=[0,0,0,0], low=[0,0,0,0], value=0}
      %5: f32[1,4,4,16] = Convolution(%8, %9) {strides=[1,1], pads_begin=[0,0], pads_end=[0,0], dilations=[1,1], weights_format="XIO"}
      return %5 }""",
    near_misses=(("return %5", "return %5, %4"), ("bf16", "f32")),
)


def _with_channels(s: Site, v: int, dim: int, count: int) -> int | None:
    """A value with so many more indices along a dim; None where nothing copies the value anyway."""
    op = s.g.maker(v)
    if op is None or len(s.g.consumers[v]) > 1 or v in s.g.outs:
        return None
    (src, *_), shape = op.ins, s.g.value(v).shape
    if op.kind == PAD:
        high = (*op.attrs.integers("high")[:dim], op.attrs.integers("high")[dim] + count, *op.attrs.integers("high")[dim + 1 :])
        return s.d.op(PAD, src, attrs=op.attrs.updated(high=high))
    if op.semantics.is_conversion and op.lowering.is_elementwise:
        wider = _with_channels(s, src, dim, count)
        return None if wider is None else s.d.op(op.kind, wider, attrs=op.attrs, dtype=s.g.value(v).dtype)
    if layout_form(op) is None:
        return None
    at = source_dims(s.g, op)
    is_permuted = sorted(d for d in at if d is not None) == [*range(len(s.g.value(src).shape))]
    wider = _with_channels(s, src, at[dim] or 0, count) if is_permuted else None
    if wider is not None:
        return s.d.op(op.kind, wider, attrs=op.attrs)
    return s.d.op(PAD, v, attrs=_behind(len(shape), dim, count)) if v in moved_inputs(s.g) else None


def _behind(rank: int, dim: int, count: int) -> Attrs:
    return pad_attrs((0,) * rank, tuple(count * (d == dim) for d in range(rank)))
