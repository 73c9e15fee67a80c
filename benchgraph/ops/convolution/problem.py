"""The convolution behind six op kinds, and its three products: forward, by data and by weights.

A problem has a src of N x spatial x C, weights of kernel x C/groups x OC and a dst of N x windows x OC. Every convolution-like op computes
one of the three from the other two:

    dst[n, o, oc]     = sum over t, c of src[n, o*s + t*d - p, c] * wei[t, c, oc]                 Convolution
    src[n, i, c]      = sum over t, oc with o*s + t*d - p = i of dst[n, o, oc] * wei[t, c, oc]    by data, and ConvTranspose
    wei[t, c, oc]     = sum over n, o of src[n, o*s + t*d - p, c] * dst[n, o, oc]                 by weights

ConvTranspose reads what is the problem's dst and writes its src; so its weights, XOI or IOX as oneDNN names them, are the problem's XIO or
OIX: (kernel, OC/groups, IC), as in oneDNN's code and inputs. (Its documentation has (kernel, IC/groups, OC), which those contradict.)
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod

import numpy as np
from numpy.typing import NDArray

from benchgraph.core.attrs import Attrs
from benchgraph.core.errors import InvalidShape
from benchgraph.core.memoise import memoised_by
from benchgraph.core.tensor import Shape
from benchgraph.ops.laws import Reals
from benchgraph.ops.spatial import Windows, channel_axis, data_shape, spatial_dims, windows
from benchgraph.ops.spec import Call
from benchgraph.tir.build import add, floordiv, mul
from benchgraph.tir.ir import Expr


@dataclass(frozen=True)
class Sides:
    """Which tensor of an op is the problem's src, wei and dst: the position of an input, or OUT. is_transposed: ConvTranspose's windows."""

    src: int
    wei: int
    dst: int
    is_transposed: bool = False

    def of(self, ins: tuple[Shape, ...], out: Shape | None) -> tuple[Shape | None, Shape | None, Shape | None]:
        src, wei, dst = (out if i == OUT else ins[i] for i in (self.src, self.wei, self.dst))
        return src, wei, dst


OUT = -1
INTO_DST, INTO_SRC, INTO_WEI = Sides(0, 1, OUT), Sides(OUT, 1, 0), Sides(0, OUT, 1)
TRANSPOSED, TRANSPOSED_BY_DATA = Sides(OUT, 1, 0, is_transposed=True), Sides(0, 1, OUT, is_transposed=True)
TRANSPOSED_BY_WEIGHTS = Sides(1, OUT, 0, is_transposed=True)
BLOCK = 1 << 22  # float64 numbers that a reference gathers at once: 32 MiB


@dataclass(frozen=True)
class Problem:
    """src, wei, dst: shapes in the order of the formulas above. windows: over src's spatial dims."""

    src: Shape
    wei: Shape
    dst: Shape
    windows: Windows
    groups: int

    @property
    def kernel(self) -> Shape:
        return self.wei[:-2]

    @property
    def group_in(self) -> int:
        """Channels of src in one group."""
        return self.wei[-2]

    @property
    def group_out(self) -> int:
        return self.dst[-1] // self.groups

    @property
    def flops(self) -> int:
        """A multiplication and an addition per product, but for those with padding, as benchdnn counts."""
        read = (int(_is_in_src(self, i).sum()) for i in range(len(self.kernel)))
        return 2 * self.dst[0] * self.dst[-1] * self.group_in * prod(read)


def has_kernel_last(attrs: Attrs) -> bool:
    return attrs.get("weights_format") in ("OIX", "IOX")


def wei_shape(attrs: Attrs, kernel: Shape, group_in: int, out: int) -> Shape:
    """Weights with these sizes in the order of weights_format."""
    return (out, group_in, *kernel) if has_kernel_last(attrs) else (*kernel, group_in, out)


def channels_last(attrs: Attrs, shape: Shape) -> Shape:
    """A data shape in the order batch, spatial, channel. Raises InvalidShape when there is no spatial dim."""
    spatial = spatial_dims(attrs, shape)
    return (shape[0], *spatial, shape[channel_axis(attrs, len(shape))])


def kernel_first(attrs: Attrs, shape: Shape) -> Shape:
    """A shape of weights in the order kernel, input channels of a group, output channels."""
    if len(shape) < 3:
        raise InvalidShape(f"weights {shape} have rank {len(shape)}", fix="give them input and output channels and at least one kernel dim")
    return (*shape[2:], shape[1], shape[0]) if has_kernel_last(attrs) else shape


@memoised_by
def problem_of(call: Call, sides: Sides) -> Problem:
    """The problem of a call whose shapes are all known and legal."""
    shapes = (*(t.shape for t in call.ins[:2]), call.outs[0].shape)  # by side; OUT is the last
    src, wei, dst = (shapes[side] for side in (sides.src, sides.wei, sides.dst))
    src, wei, dst = channels_last(call.attrs, src), kernel_first(call.attrs, wei), channels_last(call.attrs, dst)
    return Problem(src, wei, dst, _windows(call.attrs, sides, src, wei), call.attrs.integer("groups"))


def _windows(attrs: Attrs, sides: Sides, src: Shape, wei: Shape) -> Windows:
    return windows(attrs, src[1:-1], wei[:-2], transposed=sides.is_transposed)


# ---- shapes ----------------------------------------------------------------------------------------------------------


def infer(attrs: Attrs, ins: tuple[Shape, ...], sides: Sides, known: Shape | None) -> Shape:
    """The output's shape. known: the shape that an attribute or the graph gives, which is checked. Raises InvalidShape."""
    src, wei, dst = sides.of(ins, known)
    if sides.wei == OUT and wei is None:
        raise InvalidShape("the shape of the weights does not follow from the inputs", fix="give the attribute weights_shape")
    src, dst = (None if shape is None else channels_last(attrs, shape) for shape in (src, dst))
    assert wei is not None
    wei = kernel_first(attrs, wei)
    ranks = {len(shape) for shape in (src, wei, dst) if shape is not None}
    if len(ranks) > 1:
        what = f"shapes of ranks {' and '.join(str(r) for r in sorted(ranks))} in one convolution"
        raise InvalidShape(what, fix="give data and weights the same number of spatial dims")
    groups = _checked_groups(attrs, wei)
    if src is None:
        assert dst is not None
        src = (dst[0], *_spatial_of_src(attrs, dst, wei, sides), wei[-2] * groups)
    if src[-1] != wei[-2] * groups:
        what = f"there are {src[-1]} channels in {groups} groups, while the weights are for {wei[-2]} channels per group"
        raise InvalidShape(what, fix="check data_format, weights_format, groups and the shapes")
    expected = (src[0], *_windows(attrs, sides, src, wei).count(src[1:-1]), wei[-1])
    if dst is not None and dst != expected:
        what = f"windows over {src} with weights {wei} give {expected}, not {dst} (batch, spatial dims, channels)"
        raise InvalidShape(what, fix="check strides, dilations, pads, output_padding and the shapes")
    if known is not None:
        return known
    out = expected if sides.dst == OUT else src
    return data_shape(attrs, out[0], out[-1], out[1:-1])


def _checked_groups(attrs: Attrs, wei: Shape) -> int:
    groups = attrs.integer("groups")
    if groups < 1 or wei[-1] % groups:
        raise InvalidShape(f"groups is {groups}, with {wei[-1]} output channels", fix="use a number from 1 on that divides the channels")
    return groups


def _spatial_of_src(attrs: Attrs, dst: Shape, wei: Shape, sides: Sides) -> Shape:
    """The smallest source with these windows, and output_padding more."""
    rank = len(dst) - 2
    if not sides.is_transposed and attrs.get("auto_pad", "None") in ("SAME_UPPER", "SAME_LOWER"):
        what = f"with auto_pad {attrs.get('auto_pad')}, the shape of diff_src does not follow from that of diff_dst"
        raise InvalidShape(what, fix="give the attribute dst_shape, or the output's shape")
    more = attrs.integers("output_padding")
    if len(more) != rank:
        if any(more):
            raise InvalidShape(f"attribute 'output_padding' is {more}, with {rank} spatial dims", fix="give it one number per spatial dim")
        more = (0,) * rank
    w = windows(attrs, dst[1:-1], wei[:-2], transposed=sides.is_transposed)
    dims = zip(dst[1:-1], w.strides, w.reach, w.pads_begin, w.pads_end, more, strict=True)
    spatial = tuple((size - 1) * stride + reach - begin - end + extra for size, stride, reach, begin, end, extra in dims)
    if any(size < 1 for size in spatial):
        raise InvalidShape(f"the output's spatial dims would be {spatial}", fix="make the pads smaller")
    return spatial


def guaranteed_zeros(p: Problem, out: int) -> float:
    """The share of the problem's src (out 0) or dst (2) that sums no products: positions that no window, or only padding, reaches."""
    read = 1.0
    for i, (size, count) in enumerate(zip(p.src[1:-1], p.dst[1:-1], strict=True)):
        if size and count:
            inside = _is_in_src(p, i)
            read *= float(np.mean(inside.any(axis=1)) if out == 2 else np.unique(_positions(p, i)[inside]).size / size)
    return 1 - read


def _positions(p: Problem, i: int) -> NDArray[np.int64]:
    """The position in src of each tap of each window along one spatial dim: windows x taps; outside of src it is padding."""
    w = p.windows
    return np.arange(p.dst[1 + i])[:, None] * w.strides[i] + np.arange(p.kernel[i]) * w.dilations[i] - w.pads_begin[i]


def _is_in_src(p: Problem, i: int) -> NDArray[np.bool_]:
    """Whether that position is in src."""
    position = _positions(p, i)
    return (position >= 0) & (position < p.src[1 + i])


def total(p: Problem, src: Reals | None, wei: Reals | None, dst: Reals | None) -> tuple[float, float]:
    """The sum of all outputs (of the array that is None), and the sum of the magnitudes of its terms."""
    padded = _padded(p, np.ones(p.src) if src is None else src)
    parts: list[Reals] = []
    for tap in np.ndindex(*p.kernel):
        src_rows = _rows(p, _tap(p, padded, tap))
        if wei is None:
            assert dst is not None
            parts.append(src_rows.sum(axis=-1) * _rows(p, dst).sum(axis=-1))
        elif dst is None:
            parts.append(src_rows.sum(axis=1) * _groups(p, wei)[(slice(None), *tap)].sum(axis=-1))
        else:
            read = (src_rows[..., :1] * _rows(p, dst)).sum(axis=1)
            parts.append(read * _groups(p, wei)[(slice(None), *tap)].sum(axis=1))
    return float(sum(part.sum() for part in parts)), float(sum(np.abs(part).sum() for part in parts))


def channel(p: Problem, c: Expr, k: Expr) -> Expr:
    """Channel k of the group that output channel c belongs to."""
    return k if p.groups == 1 else add(mul(floordiv(c, p.group_out), p.group_in), k)


# ---- references: float64, arrays in the problem's order ---------------------------------------------------------------


def _padded(p: Problem, src: Reals) -> Reals:
    return np.pad(src, ((0, 0), *zip(p.windows.pads_begin, p.windows.pads_end, strict=True), (0, 0)))


def _tap(p: Problem, padded: Reals, tap: Shape) -> Reals:
    """The elements of the padded source that this tap reads in all windows, as a view: N x windows x C."""
    spans = []
    for i, (t, count) in enumerate(zip(tap, p.dst[1:-1], strict=True)):
        first, stride = t * p.windows.dilations[i], p.windows.strides[i]
        spans.append(slice(first, first + (count - 1) * stride + 1 if count else first, stride))
    return padded[(slice(None), *spans)]


def _groups(p: Problem, a: Reals) -> Reals:
    """The last axis as (groups, channels of one), groups first of all: groups x ... x channels."""
    return np.moveaxis(a.reshape(*a.shape[:-1], p.groups, a.shape[-1] // p.groups), -2, 0)


def _ungrouped(a: Reals) -> Reals:
    merged = np.moveaxis(a, 0, -2)
    return merged.reshape(*merged.shape[:-2], merged.shape[-2] * merged.shape[-1])


def _rows(p: Problem, a: Reals) -> Reals:
    """groups x (images and windows) x channels of a group."""
    return _groups(p, a).reshape(p.groups, prod(a.shape[:-1]), a.shape[-1] // p.groups)


def _blocks(p: Problem) -> Iterator[tuple[slice, slice]]:
    """Blocks of images, and of windows along the first spatial dim, whose elements of all taps fit BLOCK."""
    per_window_row = prod(p.dst[2:-1]) * prod(p.kernel) * p.src[-1]
    step = max(BLOCK // max(per_window_row, 1), 1)
    for image in range(p.dst[0]):
        for first in range(0, p.dst[1], step):
            yield slice(image, image + 1), slice(first, min(first + step, p.dst[1]))


def _seen(p: Problem, padded: Reals, block: tuple[slice, slice]) -> Reals:
    """The elements that the windows of a block read (im2col): groups x windows x (kernel * channels of a group)."""
    taps = np.stack([_rows(p, _tap(p, padded, tap)[block]) for tap in np.ndindex(*p.kernel)], axis=2)
    return taps.reshape(*taps.shape[:2], taps.shape[2] * taps.shape[3])


def _as_matrix(p: Problem, wei: Reals) -> Reals:
    """groups x (kernel * channels of a group) x outputs of a group."""
    return _groups(p, wei).reshape(p.groups, prod(p.kernel) * p.group_in, p.group_out)


def forward(p: Problem, src: Reals, wei: Reals) -> Reals:
    padded, weights, dst = _padded(p, src), _as_matrix(p, wei), np.zeros(p.dst)
    for block in _blocks(p):
        dst[block] = _ungrouped(_seen(p, padded, block) @ weights).reshape(dst[block].shape)
    return dst


def by_data(p: Problem, dst: Reals, wei: Reals) -> Reals:
    padded, weights = _padded(p, np.zeros(p.src)), _as_matrix(p, wei).swapaxes(1, 2)
    for block in _blocks(p):
        shares = (_rows(p, dst[block]) @ weights).reshape(p.groups, *dst[block].shape[:-1], prod(p.kernel), p.group_in)
        for i, tap in enumerate(np.ndindex(*p.kernel)):
            _tap(p, padded, tap)[block] += _ungrouped(shares[..., i, :])
    inner = (slice(begin, begin + size) for begin, size in zip(p.windows.pads_begin, p.src[1:-1], strict=True))
    return padded[(slice(None), *inner)]


def by_weights(p: Problem, src: Reals, dst: Reals) -> Reals:
    padded, wei = _padded(p, src), np.zeros((p.groups, prod(p.kernel) * p.group_in, p.group_out))
    for block in _blocks(p):
        wei += _seen(p, padded, block).swapaxes(1, 2) @ _rows(p, dst[block])
    return _ungrouped(wei.reshape(p.groups, *p.kernel, p.group_in, p.group_out))
