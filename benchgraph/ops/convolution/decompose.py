"""Convolutions as products that the batch-reduce GEMM takes: channels last, weights as XIO, f32, padding laid out beforehand.

forward      Convolution of the padded source: kernel positions are the batch, a row of windows the rows of the product
by data      Convolution of the padded gradient by the flipped weights, their channels exchanged. Under a stride s, the kernel positions
             that contribute to an element depend on its position modulo s: each of the s phases has its own output channels and taps
             (phases.py), and the results interleave
by weights   partial sums over blocks of windows of the padded source: weights_in_parts.py

Depthwise convolutions have no matrix products; they become windows (depthwise.py).
"""

from __future__ import annotations

from dataclasses import replace
from math import prod

from benchgraph.core.attrs import Attrs
from benchgraph.core.dtypes import DType
from benchgraph.core.tensor import Shape
from benchgraph.ops.convolution import weights_in_parts
from benchgraph.ops.convolution.depthwise import is_depthwise, positions
from benchgraph.ops.convolution.phases import Phases, taps_of_phases
from benchgraph.ops.convolution.problem import Problem, channel, has_kernel_last
from benchgraph.ops.internal import pad_attrs, zeros
from benchgraph.ops.spatial import beside_channel, channel_axis
from benchgraph.ops.spec import Call, Decomposer, Indices
from benchgraph.ops.steps import as_dtype, reshaped


def is_canonical(call: Call, p: Problem) -> bool:
    """Whether the GEMM template takes the call as it is."""
    attrs = call.attrs
    plain = attrs.get("data_format") == "NXC" and attrs.get("weights_format") == "XIO"
    unpadded = not any((*p.windows.pads_begin, *p.windows.pads_end))
    f32 = all(t.dtype is DType.f32 for t in (*call.ins, *call.outs))
    empty = 0 in (*p.src, *p.wei, *p.dst)
    return plain and unpadded and f32 and len(call.ins) == 2 and not empty and not is_depthwise(p)


def forward_contraction(p: Problem, at: Indices, over: Indices) -> tuple[Indices, Indices]:
    """dst[n, o, c] = sum over t, k of src[n, o*s + t*d, k] * wei[t, k, c]."""
    n, *o, c = at
    *t, k = over
    return (n, *positions(p, tuple(o), tuple(t)), channel(p, c, k)), (*t, k, c)


# ---- decompositions --------------------------------------------------------------------------------------------------


def forward(d: Decomposer, call: Call, p: Problem, src: int, wei: int, bias: tuple[int, ...]) -> int:
    """src, wei: those of the problem. bias: none or one."""
    if is_depthwise(p):
        return _depthwise(d, call, p, "_Depthwise", src, wei, bias)
    if 0 in (*p.src, *p.wei):
        dst = zeros(d, src, p.dst)
    elif _joins_positions(p):
        return _by_positions(d, call, p, src, wei, bias)
    else:
        source, weights = _source(d, call, p, src), _as_xio(d, call, as_dtype(d, wei, DType.f32))
        dst = _convolution(d, source, weights, p.windows.strides, p.windows.dilations, p.groups)
    return _finished(d, call, dst, bias)


def _joins_positions(p: Problem) -> bool:
    """Whether windows are single elements of src, so that its spatial dims can be merged into one."""
    w = p.windows
    return len(p.kernel) > 1 and prod((*p.kernel, *w.strides)) == 1 and not any((*w.pads_begin, *w.pads_end))


def _by_positions(d: Decomposer, call: Call, p: Problem, src: int, wei: int, bias: tuple[int, ...]) -> int:
    """The convolution with its spatial dims merged: all positions of an image are rows of one product, contiguous with channels first.

    Tasks then have complete register tiles and cache lines of dst; see docs/measurements/convolution.md.
    """
    count = prod(p.src[1:-1])
    shape = (p.src[0], p.src[-1], count) if channel_axis(call.attrs, len(p.src)) == 1 else (p.src[0], count, p.src[-1])
    source = _unformatted(d, call, as_dtype(d, reshaped(d, src, shape), DType.f32))
    *_, group_in, out = p.wei
    weights = reshaped(d, wei, (out, group_in, 1) if has_kernel_last(call.attrs) else (1, group_in, out))
    weights = _as_xio(d, call, as_dtype(d, weights, DType.f32))
    return reshaped(d, _finished(d, call, _convolution(d, source, weights, (1,), (1,), p.groups), bias), call.outs[0].shape)


def by_data(d: Decomposer, call: Call, p: Problem, dst: int, wei: int, bias: tuple[int, ...]) -> int:
    """dst, wei: those of the problem. bias: none or one."""
    has_many_phases = prod(p.windows.strides) >= MANY_PHASES and channel_axis(call.attrs, len(p.src)) == 1
    if is_depthwise(p) and not has_many_phases:
        return _depthwise(d, call, p, "_DepthwiseBackwardData", dst, wei, bias)
    if 0 in (*p.src, *p.wei, *p.dst):
        return _finished(d, call, zeros(d, dst, p.src), bias)
    gradient, weights = _unformatted(d, call, as_dtype(d, dst, DType.f32)), _as_xio(d, call, as_dtype(d, wei, DType.f32))
    src = _by_strides(d, p, gradient, weights) if max(p.windows.strides) > 1 else _by_dilations(d, p, gradient, weights)
    return _finished(d, call, src, bias)


# Phases of a depthwise convolution from which on a product with a column for each phase is faster than windows, if channels come first: the
# condition on a tap holds for one phase only. See docs/measurements/convolution.md.
MANY_PHASES = 64


def by_weights(d: Decomposer, call: Call, p: Problem, src: int, dst: int) -> int:
    """src, dst: those of the problem."""
    if 0 in (*p.src, *p.dst):
        wei = zeros(d, src, p.wei)
    elif is_depthwise(p):
        wei = _in_parts(d, p, p, "_DepthwisePartialWeights", (src, dst), _depthwise_attrs(call, p))
    else:
        is_narrow = all(d.type(v).dtype is DType.bf16 for v in (src, dst))
        wei = _by_products(d, p, _source(d, call, p, src), _unformatted(d, call, as_dtype(d, dst, DType.f32)), is_narrow=is_narrow)
    if has_kernel_last(call.attrs):
        rank = len(p.wei)
        wei = _transposed(d, wei, (rank - 1, rank - 2, *range(rank - 2)))
    return as_dtype(d, wei, call.outs[0].dtype)


def _by_products(d: Decomposer, p: Problem, source: int, gradient: int, *, is_narrow: bool) -> int:
    """source: padded; both with channels last, in f32. is_narrow: their values are those of bf16."""
    none = (0,) * len(p.kernel)
    q = replace(p, src=d.type(source).shape, windows=replace(p.windows, pads_begin=none, pads_end=none))
    if weights_in_parts.joins_taps(q):
        steps = (q.windows.strides[-1], q.windows.dilations[-1], q.kernel[-1])
        q = weights_in_parts.joined(q)
        source = reshaped(d, d.op("_Unfold", source, attrs=Attrs(steps=steps)), q.src)
    attrs = _plain_attrs(q.windows.strides, q.windows.dilations, p.groups)
    if not is_narrow:
        return _in_parts(d, p, q, "_PartialWeights", (source, gradient), attrs)
    size, split, order = weights_in_parts.transposed_layout(q)
    source = _transposed(d, reshaped(d, _boxed(d, source, (0,) * len(size), size), split), order)
    return _in_parts(d, p, q, "_TransposedPartialWeights", (source, gradient), attrs)


def _in_parts(d: Decomposer, p: Problem, q: Problem, kind: str, ins: tuple[int, int], attrs: Attrs) -> int:
    """The sum of parts, each over a block of windows. q: the problem with these operands' shapes."""
    sizes = weights_in_parts.blocks(q)
    count, parts = prod(weights_in_parts.counts(q, sizes)), weights_in_parts.parts_shape(q, sizes)
    value = d.op(kind, *ins, attrs=attrs.updated(weights_shape=q.wei, blocks=sizes), shape=parts, dtype=DType.f32)
    if count > 1:
        value = d.op("ReduceSum", reshaped(d, value, (count, prod(p.wei))), attrs=Attrs(axes=(0,), keep_dims=False))
    return reshaped(d, value, p.wei)


def _depthwise(d: Decomposer, call: Call, p: Problem, kind: str, data: int, wei: int, bias: tuple[int, ...]) -> int:
    out = call.outs[0]
    dtype = DType.f32 if bias else out.dtype
    value = d.op(kind, data, _as_xio(d, call, wei), attrs=_depthwise_attrs(call, p).updated(zero=0.0), shape=out.shape, dtype=dtype)
    for v in bias:
        value = d.op("Add", value, reshaped(d, as_dtype(d, v, DType.f32), beside_channel(call.attrs, out.shape)))
    return as_dtype(d, value, out.dtype)


def _depthwise_attrs(call: Call, p: Problem) -> Attrs:
    """Data in the call's format, weights as XIO."""
    w = p.windows
    return _plain_attrs(w.strides, w.dilations, p.groups).updated(
        pads_begin=w.pads_begin, pads_end=w.pads_end, data_format=call.attrs.string("data_format")
    )


def _by_dilations(d: Decomposer, p: Problem, gradient: int, weights: int) -> int:
    """Stride 1: tap t reaches back by t * dilation, which is a convolution of the same dilations by the flipped weights."""
    w = p.windows
    low = (0, *(reach - 1 - begin for reach, begin in zip(w.reach, w.pads_begin, strict=True)), 0)
    size = (p.dst[0], *(i + reach - 1 for i, reach in zip(p.src[1:-1], w.reach, strict=True)), p.dst[-1])
    source = _boxed(d, gradient, low, size)
    return _convolution(d, source, _exchanged(d, p, weights, (1,) * len(p.kernel)), (1,) * len(p.kernel), w.dilations, p.groups)


def _by_strides(d: Decomposer, p: Problem, gradient: int, weights: int) -> int:
    """Position i + p = s*q + r sums taps r, r + s ... of windows q, q - 1 ...: a convolution of stride 1 whose channels have s phases.

    Only the q of positions in src are computed, and only phases that have a tap: a kernel shorter than the stride leaves zeros.
    Where it costs no further tap or phase, zeros in front of the kernel make p a multiple of s: then src begins with the first phase, and
    no computed position is cut off in front.
    """
    w, spatial = p.windows, len(p.kernel)
    ahead = tuple(
        -begin % s if -begin % s <= -reach % s and reach >= s else 0
        for begin, reach, s in zip(w.pads_begin, w.reach, w.strides, strict=True)
    )
    gaps = tuple(dilation - 1 for dilation in w.dilations)
    if any((*ahead, *gaps)):
        weights = d.op("_Pad", weights, attrs=pad_attrs((*ahead, 0, 0), (0,) * (spatial + 2), (*gaps, 0, 0)))
    begins = tuple(begin + more for begin, more in zip(w.pads_begin, ahead, strict=True))
    used = tuple(min(reach, stride) for reach, stride in zip(w.reach, w.strides, strict=True))
    phases = _exchanged(d, p, weights, used)
    taps = d.type(phases).shape[:spatial]
    by_phase = Phases(tuple(map(taps_of_phases, used, w.reach, ahead, w.dilations, taps)))
    first = tuple(begin // s for begin, s in zip(begins, w.strides, strict=True))
    past = tuple(-(-(begin + i) // s) for begin, i, s in zip(begins, p.src[1:-1], w.strides, strict=True))
    steps = tuple(end - q for q, end in zip(first, past, strict=True))
    low = (0, *(t - 1 - q for t, q in zip(taps, first, strict=True)), 0)
    padded = _boxed(d, gradient, low, (p.dst[0], *(n + t - 1 for n, t in zip(steps, taps, strict=True)), p.dst[-1]))
    attrs = _plain_attrs((1,) * spatial, (1,) * spatial, p.groups)
    if by_phase.uses_all_taps(taps):
        by_phases = d.op("Convolution", padded, phases, attrs=attrs)
    else:
        by_phases = d.op("_PhasedConvolution", padded, phases, attrs=attrs.updated(**by_phase.attrs()))
    split = reshaped(d, by_phases, (p.dst[0], *steps, p.groups, *used, p.group_in))
    unused = (*(0,) * (spatial + 2), *(s - m for s, m in zip(w.strides, used, strict=True)), 0)
    if any(unused):
        split = d.op("_Pad", split, attrs=pad_attrs((0,) * len(unused), unused))
    axes = (axis for i in range(spatial) for axis in (1 + i, 2 + spatial + i))
    interleaved = _transposed(d, split, (0, *axes, 1 + spatial, 2 + 2 * spatial))
    merged = reshaped(d, interleaved, (p.dst[0], *(n * s for n, s in zip(steps, w.strides, strict=True)), p.src[-1]))
    return _boxed(d, merged, (0, *(q * s - begin for q, s, begin in zip(first, w.strides, begins, strict=True)), 0), p.src)


def _exchanged(d: Decomposer, p: Problem, weights: int, strides: Shape) -> int:
    """The flipped weights, as those of a convolution from dst's channels to src's in every phase.

    weights: [kernel, C/groups, OC]; the result: [taps, OC/groups, groups*phases*C/groups]. Kernels are filled up with zeros to
    multiples of the stride.
    """
    spatial = len(p.kernel)
    kernel = d.type(weights).shape[:-2]
    taps = tuple(-(-k // s) for k, s in zip(kernel, strides, strict=True))
    missing = tuple(t * s - k for t, s, k in zip(taps, strides, kernel, strict=True))
    if any(missing):
        weights = d.op("_Pad", weights, attrs=pad_attrs((0,) * (spatial + 2), (*missing, 0, 0)))
    split = tuple(size for pair in zip(taps, strides, strict=True) for size in pair)
    value = reshaped(d, weights, (*split, p.group_in, p.groups, p.group_out))
    rank = len(split) + 3
    order = (*range(0, 2 * spatial, 2), rank - 1, rank - 2, *range(1, 2 * spatial, 2), rank - 3)
    value = d.op("_Flip", _transposed(d, value, order), attrs=Attrs(axes=tuple(range(spatial))))
    return reshaped(d, value, (*taps, p.group_out, p.groups * prod(strides) * p.group_in))


# ---- helpers ---------------------------------------------------------------------------------------------------------


def _plain_attrs(strides: Shape, dilations: Shape, groups: int) -> Attrs:
    none = (0,) * len(strides)
    return Attrs(
        strides=strides, dilations=dilations, pads_begin=none, pads_end=none, groups=groups, data_format="NXC", weights_format="XIO"
    )  # fmt: skip


def _convolution(d: Decomposer, src: int, wei: int, strides: Shape, dilations: Shape, groups: int) -> int:
    return d.op("Convolution", src, wei, attrs=_plain_attrs(strides, dilations, groups))


def _source(d: Decomposer, call: Call, p: Problem, src: int) -> int:
    """src in f32, with zeros around its spatial dims, channels last."""
    value, sides = as_dtype(d, src, DType.f32), (p.windows.pads_begin, p.windows.pads_end)
    if any(pad for pads in sides for pad in pads):
        low, high = ((0, 0, *pads) if channel_axis(call.attrs, len(p.src)) == 1 else (0, *pads, 0) for pads in sides)
        value = d.op("_Pad", value, attrs=pad_attrs(low, high))
    return _unformatted(d, call, value)


def _boxed(d: Decomposer, value: int, low: Shape, size: Shape) -> int:
    """The value shifted by `low` in a box of this size: cropped to the box, and padded with zeros."""
    have = d.type(value).shape
    start = tuple(max(-begin, 0) for begin in low)
    kept = tuple(max(min(h - s, extent - max(b, 0)), 0) for h, s, extent, b in zip(have, start, size, low, strict=True))
    if kept != have:
        value = d.op("_Crop", value, attrs=Attrs(start=start, shape=kept))
    before = tuple(max(begin, 0) for begin in low)
    after = tuple(extent - k - b for extent, k, b in zip(size, kept, before, strict=True))
    return d.op("_Pad", value, attrs=pad_attrs(before, after)) if any((*before, *after)) else value


def _unformatted(d: Decomposer, call: Call, value: int) -> int:
    """Data with its channels last."""
    rank = len(d.type(value).shape)
    return value if channel_axis(call.attrs, rank) == rank - 1 else _transposed(d, value, (0, *range(2, rank), 1))


def _as_xio(d: Decomposer, call: Call, wei: int) -> int:
    rank = len(d.type(wei).shape)
    return _transposed(d, wei, (*range(2, rank), 1, 0)) if has_kernel_last(call.attrs) else wei


def _finished(d: Decomposer, call: Call, dst: int, bias: tuple[int, ...]) -> int:
    """bias added along the channels, which are last, the data_format and the dtype of the call's output."""
    for v in bias:
        dst = d.op("Add", dst, as_dtype(d, v, DType.f32))
    rank = len(d.type(dst).shape)
    if channel_axis(call.attrs, rank) != rank - 1:
        dst = _transposed(d, dst, (0, rank - 1, *range(1, rank - 1)))
    return as_dtype(d, dst, call.outs[0].dtype)


def _transposed(d: Decomposer, value: int, order: Shape) -> int:
    return d.op("StaticTranspose", value, attrs=Attrs(order=order))
