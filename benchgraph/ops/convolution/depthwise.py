"""Depthwise convolution: one channel in and out per group, so that a reduction over taps, channel by channel, replaces matrix products.

The windows read data in any format and float type; padding is a condition on a tap, not a copy. Weights are XIO: with channels last, those
of one tap are contiguous (gir/passes/propagate_layout.py). u8 and s8 are read as stored (low_precision.py): the attribute `zero` is
subtracted from the data, and padding has this value.
"""

from __future__ import annotations

from collections.abc import Callable

from benchgraph.core.attrs import Attrs
from benchgraph.core.tensor import Shape
from benchgraph.ops.convolution.problem import Problem
from benchgraph.ops.formulas import mul as product
from benchgraph.ops.spatial import channel_axis
from benchgraph.ops.spec import Call, Indices, Source, Tap, Window
from benchgraph.tir.build import add, binary, f32, floordiv, mod, mul, sub
from benchgraph.tir.ir import BinOp, Const, Expr

ProblemOf = Callable[[Call], Problem]


def is_depthwise(p: Problem) -> bool:
    return p.group_in == p.group_out == 1


def forward(problem: ProblemOf) -> Window:
    """dst[n, o, c] = sum over t of src[n, o*s + t*d - p, c] * wei[t, 0, c]; ports src, wei."""

    def tap(call: Call, at: Indices, t: Indices, src: Source) -> Tap:
        p, (n, o, c) = problem(call), _split(call.attrs, at)
        position = positions(p, o, t)
        weight = src(1, (*t, Const(0), c))
        return Tap(product(_element(call, src, n, position, c), weight), _inside(p, position))

    return Window(taps=lambda call: problem(call).kernel, op=BinOp.add, init=0.0, tap=tap, channel_weights=1, padding=_zero)


def by_data(problem: ProblemOf) -> Window:
    """src[n, i, c] = sum over t of dst[n, (i + p - t*d) / s, c] * wei[t, 0, c] where that is a window; ports dst, wei."""

    def tap(call: Call, at: Indices, t: Indices, src: Source) -> Tap:
        p, (n, i, c) = problem(call), _split(call.attrs, at)
        w = p.windows
        reach = tuple(sub(add(x, pad), mul(k, d)) for x, pad, k, d in zip(i, w.pads_begin, t, w.dilations, strict=True))
        window = tuple(floordiv(r, s) for r, s in zip(reach, w.strides, strict=True))
        on_time = tuple(binary(BinOp.eq, mod(r, s), Const(0)) for r, s in zip(reach, w.strides, strict=True) if s > 1)
        counts = (size * s for size, s in zip(p.dst[1:-1], w.strides, strict=True))
        within = (bound for r, size in zip(reach, counts, strict=True) for bound in _between(r, size))
        weight = src(1, (*t, Const(0), c))
        return Tap(product(_element(call, src, n, window, c), weight), (*within, *on_time))

    def padding(call: Call) -> float | None:
        return _zero(call) if max(problem(call).windows.strides) == 1 else None

    return Window(taps=lambda call: problem(call).kernel, op=BinOp.add, init=0.0, tap=tap, channel_weights=1, padding=padding)


def by_weights(problem: ProblemOf) -> Window:
    """part[b, t, 0, c] = sum over n, o of block b of src[n, o*s + t*d - p, c] * dst[n, o, c]; ports src, dst. See weights_in_parts."""

    def tap(call: Call, at: Indices, over: Indices, src: Source) -> Tap:
        p, sizes = problem(call), call.attrs.integers("blocks")
        (n, *o), (*t, _, c) = in_block(sizes, at, over)
        position = positions(p, tuple(o), tuple(t))
        gradient = src(1, _data(call.attrs, n, tuple(o), c))
        return Tap(product(src(0, _data(call.attrs, n, position, c)), gradient), _inside(p, position))

    return Window(taps=lambda call: call.attrs.integers("blocks"), op=BinOp.add, init=0.0, tap=tap)


def _zero(call: Call) -> float:
    return call.attrs.real("zero")


def _element(call: Call, src: Source, n: Expr, spatial: Indices, c: Expr) -> Expr:
    value, zero = src(0, _data(call.attrs, n, spatial, c)), _zero(call)
    return binary(BinOp.sub, value, f32(zero)) if zero else value


def in_block(sizes: Shape, at: Indices, over: Indices) -> tuple[Indices, Indices]:
    """The image and window that an element of a part reads, and its index in the weights. at: [blocks.., weights..]."""
    block, weight = at[: len(sizes)], at[len(sizes) :]
    return tuple(add(mul(b, size), i) for b, size, i in zip(block, sizes, over, strict=True)), weight


def positions(p: Problem, o: Indices, t: Indices) -> Indices:
    """The position in src of tap t of window o."""
    w = p.windows
    steps = zip(o, t, w.strides, w.dilations, w.pads_begin, strict=True)
    return tuple(sub(add(mul(window, stride), mul(tap, dilation)), pad) for window, tap, stride, dilation, pad in steps)


def _inside(p: Problem, position: Indices) -> tuple[Expr, ...]:
    """What must hold for a position to be in src; nothing along dims without padding."""
    padded = (max(pads) > 0 for pads in zip(p.windows.pads_begin, p.windows.pads_end, strict=True))
    dims = zip(position, p.src[1:-1], padded, strict=True)
    return tuple(bound for i, size, is_padded in dims if is_padded for bound in _between(i, size))


def _between(i: Expr, size: int) -> tuple[Expr, Expr]:
    return binary(BinOp.ge, i, Const(0)), binary(BinOp.lt, i, Const(size))


def _split(attrs: Attrs, at: Indices) -> tuple[Expr, Indices, Expr]:
    """Batch, spatial and channel index of a data tensor."""
    channel = channel_axis(attrs, len(at))
    return at[0], tuple(i for axis, i in enumerate(at) if axis not in (0, channel)), at[channel]


def _data(attrs: Attrs, n: Expr, spatial: Indices, c: Expr) -> Indices:
    return (n, c, *spatial) if channel_axis(attrs, len(spatial) + 2) == 1 else (n, *spatial, c)
