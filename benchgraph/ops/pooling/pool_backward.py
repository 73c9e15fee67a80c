"""AvgPoolBackward and MaxPoolBackward: each window's gradient is added to its elements, evenly, or to the largest of them.

Of equal elements the first one in row-major order is the largest, as in oneDNN; NaN is larger than any number. The windows are those of
the forward op: as many as diff_dst has, for either rounding_type. MaxPoolBackward is computed in three steps:

%3: f32 = MaxPool(src);  %4: f32 = _LargestTap(src, %3);  diff_src = _ToTap(%4, diff_dst)
"""

from __future__ import annotations

from math import inf, nan, prod, sqrt

import numpy as np

from benchgraph.core.attrs import Attrs
from benchgraph.core.dtypes import DType
from benchgraph.core.errors import InvalidShape, Unimplemented
from benchgraph.core.tensor import Shape, TensorType, dense_strides
from benchgraph.ops import fills, overflow
from benchgraph.ops.fill_rules import pointwise
from benchgraph.ops.fill_rules.filling import exactly
from benchgraph.ops.laws import Reals, real
from benchgraph.ops.pooling import pool
from benchgraph.ops.pooling.pool import channels_back, channels_second, elements_by_window, kernel, pool_windows, tap_slices, volume
from benchgraph.ops.ranges import DIMS
from benchgraph.ops.spatial import ZEROS, Windows, spatial_axes, spatial_dims
from benchgraph.ops.spec import Attr, Decomposer, Filling, Law, Lowering, OpSpec, Role, Sample, Schema, Semantics, Testing, ports
from benchgraph.ops.spec.call import Array, Call, F
from benchgraph.ops.spec.forms import Indices, Source, Tap, Window
from benchgraph.tir.build import add, binary, cast, f32, floordiv, index, mod, mul, select, sub
from benchgraph.tir.ir import BinOp, Expr

SRC, DIFF_DST = range(2)  # inputs of MaxPoolBackward


# ---- shapes ----------------------------------------------------------------------------------------------------------


def _check_fit(attrs: Attrs, src: TensorType, diff_dst: TensorType) -> None:
    """Raises InvalidShape when diff_dst is not what pooling a src of this shape gives, rounding up or down."""
    allowed = dict.fromkeys(pool.infer(attrs.updated(rounding_type=rounding), (src,))[0] for rounding in ("floor", "ceil"))
    if diff_dst.shape not in allowed:
        what = f"diff_dst {diff_dst.shape} is not the shape that pooling a src of {src.shape} gives"
        raise InvalidShape(what, fix=f"give it {' or '.join(map(str, allowed))}")


def _infer_avg(attrs: Attrs, ins: tuple[TensorType, ...]) -> tuple[Shape, ...]:
    shape = attrs.integers("src_shape")
    if shape == ZEROS and len(ins) > 1:
        what = "src_shape is a tensor, whose contents are not known when shapes are inferred"
        raise Unimplemented(what, fix="set the attribute 'src_shape'")
    if shape == ZEROS:
        raise InvalidShape("attribute 'src_shape' is missing", fix="give it the dims of the forward op's src")
    _check_fit(attrs, TensorType(ins[0].dtype, shape), ins[0])
    return (shape,)


def _infer_max(attrs: Attrs, ins: tuple[TensorType, ...]) -> tuple[Shape, ...]:
    _check_fit(attrs, *ins)
    return (ins[0].shape,)


# ---- references ------------------------------------------------------------------------------------------------------


def _cropped(call: Call, w: Windows, wide: Reals) -> Array:
    """diff_src without its padding, in the op's data_format."""
    spatial = spatial_dims(call.attrs, call.outs[0].shape)
    inner = (slice(begin, begin + size) for begin, size in zip(w.pads_begin, spatial, strict=True))
    return channels_back(call, wide[(slice(None), slice(None), *inner)])


def _averaged(call: Call, ins: tuple[Array, ...], a: overflow.Arithmetic) -> tuple[Array, ...]:
    shape = call.outs[0].shape
    w, spatial, diff_dst = pool_windows(call.attrs, shape), spatial_dims(call.attrs, shape), real(channels_second(call, ins[0]))
    count = diff_dst.shape[2:]

    def distributed(shares: Reals) -> Reals:
        wide = pool.padded(np.zeros((*diff_dst.shape[:2], *spatial)), w, count, 0.0)
        for at in tap_slices(w, count):
            wide[at] += shares
        return wide

    return (_cropped(call, w, a.total(distributed, diff_dst / pool.divisors(call.attrs, w, spatial, count))),)


def _to_largest(call: Call, ins: tuple[Array, ...], a: overflow.Arithmetic) -> tuple[Array, ...]:
    w, (src, diff_dst) = pool_windows(call.attrs, ins[0].shape), (real(channels_second(call, a)) for a in ins)
    count = diff_dst.shape[2:]
    wide, is_there = pool.padded(src, w, count, -inf), pool.padded(np.ones(src.shape), w, count, 0.0) > 0
    best, chosen = np.full(diff_dst.shape, -inf), np.full(diff_dst.shape, -1)
    for number, at in enumerate(tap_slices(w, count)):
        larger = (wide[at] > best) | (np.isnan(wide[at]) & ~np.isnan(best))
        better = is_there[at] & (larger | (chosen < 0))
        best, chosen = np.where(better, wide[at], best), np.where(better, number, chosen)
    return (_scattered(call, w, chosen, diff_dst, a),)


def _scattered(call: Call, w: Windows, chosen: Array, diff_dst: Reals, a: overflow.Arithmetic) -> Array:
    """diff_src. chosen: of each window the number of a tap."""
    count = diff_dst.shape[2:]
    shape = pool.padded(np.zeros((*diff_dst.shape[:2], *spatial_dims(call.attrs, call.outs[0].shape))), w, count, 0.0).shape

    def scattered(gradient: Reals) -> Reals:
        grad = np.zeros(shape)
        for number, at in enumerate(tap_slices(w, count)):
            grad[at] += np.where(chosen == number, gradient, 0.0)
        return grad

    return _cropped(call, w, a.total(scattered, diff_dst))


def _largest_tap(call: Call, ins: tuple[Array, ...]) -> tuple[Array, ...]:
    """Of each window the first tap that reads `largest`, or NaN; where there is none, the first that reads an element."""
    w, (src, largest) = pool_windows(call.attrs, ins[0].shape), (real(channels_second(call, a)) for a in ins)
    count = largest.shape[2:]
    wide, is_there = pool.padded(src, w, count, -inf), pool.padded(np.ones(src.shape), w, count, 0.0) > 0
    found, first = np.full(largest.shape, inf), np.full(largest.shape, inf)
    for number, at in enumerate(tap_slices(w, count)):
        is_largest = ((wide[at] == largest) & (largest > -inf)) | np.isnan(wide[at])
        found = np.where(is_there[at] & is_largest, np.minimum(found, number), found)
        first = np.where(is_there[at], np.minimum(first, number), first)
    return (channels_back(call, np.where(found < inf, found, first)),)


def _to_tap(call: Call, ins: tuple[Array, ...], a: overflow.Arithmetic) -> tuple[Array, ...]:
    taps, diff_dst = (real(channels_second(call, a)) for a in ins)
    return (_scattered(call, pool_windows(call.attrs, call.outs[0].shape), taps, diff_dst, a),)


# ---- lowerings -------------------------------------------------------------------------------------------------------


def _covering(call: Call) -> Shape:
    """The largest number of windows over one element, along each spatial dim."""
    w = pool_windows(call.attrs, call.outs[0].shape)
    return tuple(-(-reach // stride) for reach, stride in zip(w.reach, w.strides, strict=True))


def _window_above(call: Call, at: Indices, back: Indices, diff_dst: Shape) -> tuple[Indices, Indices, list[Expr]]:
    """The window `back` windows before the last one that may contain this element of src.

    Returns its index in diff_dst, the tap that reads the element, and the conditions that the window exists and has such a tap. Those on
    its existence are multiplied out, so that they are linear in the element's index.
    """
    w, position, taps, conditions = pool_windows(call.attrs, call.outs[0].shape), list(at), list[Expr](), list[Expr]()
    count = spatial_dims(call.attrs, diff_dst)
    for d, axis in enumerate(spatial_axes(call.attrs, len(at))):
        stride, dilation, start = w.strides[d], w.dilations[d], add(at[axis], w.pads_begin[d])
        position[axis] = sub(floordiv(start, stride), back[d])
        offset = add(mod(start, stride), mul(back[d], stride))
        taps.append(floordiv(offset, dilation))
        conditions += [binary(BinOp.ge, start, mul(back[d], stride)), binary(BinOp.lt, start, mul(add(back[d], count[d]), stride))]
        conditions += [binary(BinOp.lt, offset, index(w.reach[d]))] + [binary(BinOp.eq, mod(offset, dilation), index(0))] * (dilation > 1)
    return tuple(position), tuple(taps), conditions


def _average_share(call: Call, at: Indices, back: Indices, src: Source) -> Tap:
    position, _, conditions = _window_above(call, at, back, call.ins[0].shape)
    return Tap(binary(BinOp.mul, src(0, position), pool.reciprocal(call, call.outs[0].shape, position)), tuple(conditions))


def _is_dense(call: Call) -> bool:
    w = pool_windows(call.attrs, call.outs[0].shape)
    return max(*w.strides, *w.dilations) == 1


def _number(call: Call, tap: Indices) -> Expr:
    """The row-major number of a tap, as an f32."""
    total = index(0)
    for t, step in zip(tap, dense_strides(kernel(call)), strict=True):
        total = add(total, mul(t, step))
    return cast(total, DType.f32)


def _first_largest(call: Call, at: Indices, tap: Indices, src: Source) -> Tap:
    """The number of the tap, if it reads the largest element and that is more than minus infinity, the padding's value;
    else infinity, the neutral element of the minimum."""
    read, largest = pool.element_of_tap(call, at, tap, src), src(1, at)
    more = select(binary(BinOp.gt, largest, f32(-inf)), largest, f32(nan))  # NaN equals nothing
    is_largest = binary(BinOp.or_, binary(BinOp.eq, read.value, more), binary(BinOp.ne, read.value, read.value))
    return Tap(select(is_largest, _number(call, tap), f32(inf)), read.conditions)


def _or_first(call: Call, at: Indices, number: Expr) -> Expr:
    """The result of _first_largest; where it found no tap, all elements are minus infinity, and the first tap that reads one is meant."""
    w, first = pool_windows(call.attrs, call.ins[0].shape), list[Expr]()
    for d, axis in enumerate(spatial_axes(call.attrs, len(at))):
        lacking = binary(BinOp.max, sub(w.pads_begin[d], mul(at[axis], w.strides[d])), index(0))
        first.append(floordiv(add(lacking, w.dilations[d] - 1), w.dilations[d]))
    return select(binary(BinOp.lt, number, f32(inf)), number, _number(call, tuple(first)))


def _share_of_tap(call: Call, at: Indices, back: Indices, src: Source) -> Tap:
    position, tap, conditions = _window_above(call, at, back, call.ins[1].shape)
    is_chosen = binary(BinOp.eq, src(0, position), _number(call, tap))
    return Tap(select(is_chosen, src(1, position), f32(0)), tuple(conditions))


def _in_steps(d: Decomposer, call: Call, ins: tuple[int, ...]) -> tuple[int, ...]:
    (src, diff_dst), shape = ins, call.ins[DIFF_DST].shape
    largest = d.op("MaxPool", src, attrs=call.attrs, shape=shape, dtype=DType.f32)
    taps = d.op(LARGEST_TAP, src, largest, attrs=call.attrs, shape=shape, dtype=DType.f32)
    attrs = call.attrs.updated(src_shape=call.ins[SRC].shape)
    return (d.op(TO_TAP, taps, diff_dst, attrs=attrs, shape=call.outs[0].shape, dtype=call.outs[0].dtype),)


# ---- laws ------------------------------------------------------------------------------------------------------------


def _per_channel(call: Call, a: Array) -> Reals:
    """Sums over the spatial dims."""
    moved = real(channels_second(call, a))
    return real(moved.sum(axis=tuple(range(2, moved.ndim))))


def _shares_add_up(call: Call, ins: tuple[Array, ...], outs: tuple[Array, ...], rtol: float) -> bool:
    """In each channel diff_src sums to diff_dst, less the shares of the padding."""
    src, diff_dst = call.outs[0].shape, real(channels_second(call, ins[0]))
    kept = np.zeros(diff_dst.shape)
    for o, at in elements_by_window(call, src, diff_dst.shape[2:]):
        share = prod(len(np.ravel(i)) for i in at[2:]) / volume(call)
        kept[o] = bool(share) if call.attrs.flag("exclude_pad") else share
    want = (diff_dst * kept).sum(axis=tuple(range(2, diff_dst.ndim)))
    slack = rtol * (np.abs(diff_dst).sum(axis=tuple(range(2, diff_dst.ndim))) + 1)
    return bool(np.all(np.abs(_per_channel(call, outs[0]) - want) <= slack))


def _all_arrives(call: Call, ins: tuple[Array, ...], outs: tuple[Array, ...], rtol: float) -> bool:
    size = np.abs(_per_channel(call, np.abs(real(ins[DIFF_DST])))) + 1
    return bool(np.all(np.abs(_per_channel(call, outs[0]) - _per_channel(call, ins[DIFF_DST])) <= rtol * size))


def _only_largest(call: Call, ins: tuple[Array, ...], outs: tuple[Array, ...], rtol: float) -> bool:
    src, diff_src = (real(channels_second(call, a)) for a in (ins[SRC], outs[0]))
    is_largest = np.zeros(src.shape, dtype=np.bool_)
    for _, at in elements_by_window(call, call.ins[SRC].shape, spatial_dims(call.attrs, call.ins[DIFF_DST].shape)):
        elements = src[at]
        is_largest[at] |= elements == elements.max(axis=tuple(range(2, src.ndim)), keepdims=True, initial=-inf)
    return bool(np.all(diff_src[~is_largest] == 0))


def _are_taps(call: Call, ins: tuple[Array, ...], outs: tuple[Array, ...], rtol: float) -> bool:
    return bool(np.all(np.isin(real(outs[0]), np.arange(volume(call)))))


def _chosen_arrives(call: Call, ins: tuple[Array, ...], outs: tuple[Array, ...], rtol: float) -> bool:
    """In each channel diff_src sums to the gradients of the windows whose tap reads an element."""
    w, (taps, diff_dst, diff_src) = pool_windows(call.attrs, outs[0].shape), (real(channels_second(call, a)) for a in (*ins, *outs))
    count = diff_dst.shape[2:]
    there = pool.padded(np.ones(diff_src.shape), w, count, 0.0)
    kept = np.zeros(diff_dst.shape)
    for number, at in enumerate(tap_slices(w, count)):
        kept += np.where(taps == number, diff_dst * there[at], 0.0)
    want, got = (real(a.sum(axis=tuple(range(2, a.ndim)))) for a in (kept, diff_src))
    return bool(np.all(np.abs(got - want) <= rtol * (np.abs(diff_dst).sum() + 1)))


def _threshold(call: Call) -> float:
    """The random walk of a sum over the windows that contain an element, as for ReduceSum."""
    return sqrt(prod(_covering(call))) + 4


def _uncovered(call: Call) -> float:
    """The share of src that is in no window."""
    around, _ = pool.coverage(call, call.outs[0].shape, call.ins[0].shape)
    return 1.0 - prod(np.count_nonzero(windows) / max(windows.size, 1) for windows in around)


def _dst(s: Sample) -> Shape:
    (shape,) = pool.infer(s.attrs, (TensorType(s.dtypes[0], s.shapes[0]),))
    return shape


def _avg_samples() -> tuple[Sample, ...]:
    samples = []
    for i, s in enumerate(pool.GEOMETRIES):
        attrs = s.attrs.updated(exclude_pad=i % 2 == 0, src_shape=s.shapes[0])
        samples.append(Sample((_dst(s),), attrs, s.dtypes, why=s.why))
    tensor = Sample((samples[1].shapes[0], (4,)), samples[1].attrs, (DType.f32, DType.s32), why="src_shape as attribute and as tensor")
    return (*samples, tensor)


def _max_samples() -> tuple[Sample, ...]:
    """Without windows that are all padding: they have no numerical derivative."""
    samples = (s for s in (*pool.GEOMETRIES, *pool.DILATED) if "all padding" not in s.why)
    return tuple(Sample((*s.shapes, _dst(s)), s.attrs, s.dtypes * 2, why=s.why) for s in samples)


_INTEGERS = pointwise.pool(signed=True)
LARGEST_TAP, TO_TAP = "_LargestTap", "_ToTap"
_STEPS = (pool.GEOMETRIES[1], *pool.DILATED)  # of MaxPoolBackward
_STEP_TYPES = {"T": F, "T1": (DType.f32,)}  # what goes from one step to the next is T1
_MAX_ATTRS = {**pool.ATTRS, "dilations": pool.DILATIONS}


def _integers(call: Call, port: int) -> Filling:
    is_shape = not call.ins[port].dtype.is_float
    return exactly(np.array(call.outs[0].shape), "the shape") if is_shape else _INTEGERS(call, port)


SPECS = (
    OpSpec(
        "AvgPoolBackward",
        Schema(
            inputs=ports("diff_dst", "src_shape:T1"),
            outputs=ports("diff_src"),
            num_inputs=(1, 2),
            types={"T": F, "T1": (DType.s32,)},
            attrs={**pool.ATTRS, "exclude_pad": pool.EXCLUDE_PAD, "src_shape": Attr("s64[]", default=ZEROS, range=DIMS, per="dim")},
            check=pool.check,
            shape_attr="src_shape",
        ),
        overflow.semantics(_averaged, infer=_infer_avg, flops=lambda call: (volume(call) + 1) * call.ins[0].elements, threshold=_threshold),
        Testing(
            fill=_integers,
            domain=fills.MEAN_ONE,
            samples=_avg_samples(),
            laws=(Law("the shares of a window add up to its gradient", _shares_add_up),),
            gradient_of="AvgPool",
            zero_limit=lambda call: 0.99,
            guaranteed_zeros=_uncovered,
        ),
        # padding: 0 if every existing window that may contain an element contains it
        Lowering(
            Role.anchor, form=Window(_covering, BinOp.add, 0.0, _average_share, padding=lambda call: 0.0 if _is_dense(call) else None)
        ),
    ),
    OpSpec(
        "MaxPoolBackward",
        Schema(inputs=ports("src", "diff_dst"), outputs=ports("diff_src"), attrs=_MAX_ATTRS, check=pool.check),
        overflow.semantics(
            _to_largest, infer=_infer_max, flops=lambda call: (volume(call) + 1) * call.ins[DIFF_DST].elements, threshold=_threshold
        ),
        Testing(
            fill=_integers,
            domain=fills.per_port(pool.fill_apart, fills.MEAN_ONE),
            samples=_max_samples(),
            laws=(
                Law("in each channel diff_src sums to diff_dst", _all_arrives),
                Law("only the largest elements of windows have a gradient", _only_largest),
            ),
            gradient_of="MaxPool",
            zero_limit=lambda call: 0.99,
            # only one element of a window gets its gradient
            guaranteed_zeros=lambda call: max(0.0, 1.0 - call.ins[DIFF_DST].elements / max(call.outs[0].elements, 1)),
        ),
        Lowering(Role.anchor, decompose=_in_steps),
    ),
    OpSpec(
        LARGEST_TAP,
        Schema(
            inputs=ports("src", "largest:T1"),
            outputs=ports("taps:T1"),
            types=_STEP_TYPES,
            attrs=_MAX_ATTRS,
            check=pool.check,
        ),
        Semantics(
            infer=lambda attrs, ins: (ins[1].shape,), reference=_largest_tap, flops=lambda call: volume(call) * call.outs[0].elements
        ),
        Testing(
            fill=_INTEGERS,
            samples=tuple(Sample((s.shapes[0], _dst(s)), s.attrs, (s.dtypes[0], DType.f32), (DType.f32,), s.why) for s in _STEPS),
            laws=(Law("each is a tap of the window", _are_taps),),
            zero_limit=lambda call: 1.0,
        ),
        Lowering(Role.anchor, form=Window(kernel, BinOp.min, inf, _first_largest, _or_first, padding=lambda call: -inf)),
    ),
    OpSpec(
        TO_TAP,
        Schema(
            inputs=ports("taps:T1", "diff_dst"),
            outputs=ports("diff_src"),
            types=_STEP_TYPES,
            attrs={**_MAX_ATTRS, "src_shape": Attr("s64[]", required=True)},
            check=pool.check,
        ),
        overflow.semantics(
            _to_tap,
            infer=lambda attrs, ins: (attrs.integers("src_shape"),),
            flops=lambda call: (volume(call) + 1) * call.ins[1].elements,
            threshold=_threshold,
        ),
        Testing(
            fill=_INTEGERS,
            samples=tuple(
                Sample((_dst(s),) * 2, s.attrs.updated(src_shape=s.shapes[0]), (DType.f32, s.dtypes[0]), s.dtypes, s.why) for s in _STEPS
            ),
            laws=(Law("in each channel diff_src sums to what is chosen", _chosen_arrives),),
            zero_limit=lambda call: 1.0,
        ),
        Lowering(Role.anchor, form=Window(_covering, BinOp.add, 0.0, _share_of_tap)),
    ),
)
