"""AvgPool and MaxPool: the mean and the largest of each window over the spatial dims.

Padding is minus infinity for MaxPool, and NaN is larger than any number. For AvgPool padding is 0 and the divisor is the kernel's volume,
or, with exclude_pad, the number of elements of src in the window. Windows with all taps in the padding, which oneDNN refuses, give minus
infinity and 0.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import product
from math import inf, prod, sqrt
from typing import Any

import numpy as np

from benchgraph.core.attrs import Attrs
from benchgraph.core.dtypes import DType
from benchgraph.core.tensor import Shape, TensorType
from benchgraph.ops import fills, overflow
from benchgraph.ops.fill_rules import pointwise
from benchgraph.ops.laws import Reals, real
from benchgraph.ops.ranges import SIZES, STEPS
from benchgraph.ops.spatial import AUTO_PAD, DATA_FORMAT, ONES, Windows, channel_axis, data_shape, spatial_axes, spatial_dims, windows
from benchgraph.ops.spec import Attr, Indices, Law, Lowering, OpSpec, Role, Sample, Schema, Semantics, Source, Tap, Testing, Window, ports
from benchgraph.ops.spec.call import Array, Call, Declared
from benchgraph.tir.build import add, binary, cast, f32, index, minimum, mul, sub
from benchgraph.tir.ir import BinOp, Expr

ATTRS = {
    "strides": Attr("s64[]", required=True, range=STEPS),
    "pads_begin": Attr("s64[]", required=True, range=SIZES),
    "pads_end": Attr("s64[]", required=True, range=SIZES),
    "kernel": Attr("s64[]", required=True, range=STEPS),
    "auto_pad": AUTO_PAD,
    "data_format": DATA_FORMAT,
}
EXCLUDE_PAD = Attr("bool", required=True)
DILATIONS = Attr("s64[]", default=ONES, range=STEPS)
ROUNDING = Attr("string", default="floor")


def pool_windows(attrs: Attrs, src: Shape) -> Windows:
    """The windows over a src of this shape. Raises InvalidShape."""
    return windows(attrs, spatial_dims(attrs, src), attrs.integers("kernel"))


def infer(attrs: Attrs, ins: tuple[TensorType, ...]) -> tuple[Shape, ...]:
    src = ins[0].shape
    count = pool_windows(attrs, src).count(spatial_dims(attrs, src), ceil=attrs.get("rounding_type") == "ceil")
    return (data_shape(attrs, src[0], src[channel_axis(attrs, len(src))], count),)


def check(attrs: Attrs, ins: tuple[Declared, ...], out_dtypes: tuple[DType, ...]) -> str:
    """As many dilations as kernel dims (or the default), and a legal rounding_type."""
    dilations, kernel = attrs.integers("dilations") if "dilations" in attrs else ONES, attrs.integers("kernel")
    if len(dilations) != len(kernel) and dilations != ONES:
        return f"attribute 'dilations' is {dilations} for kernel {kernel}; give it one number per dim of the kernel"
    if attrs.get("rounding_type", "floor") not in ("floor", "ceil"):
        return f"attribute 'rounding_type' is '{attrs.string('rounding_type')}'; choose floor or ceil"
    return ""


def kernel(call: Call) -> Shape:
    return call.attrs.integers("kernel")


def volume(call: Call) -> int:
    """Taps of a window."""
    return prod(kernel(call))


# ---- references ------------------------------------------------------------------------------------------------------


def channels_second(call: Call, a: Array) -> Array:
    """The array with its channel after the batch, for any data_format."""
    return np.moveaxis(a, channel_axis(call.attrs, a.ndim), 1)


def channels_back(call: Call, a: Array) -> Array:
    return np.moveaxis(a, 1, channel_axis(call.attrs, a.ndim))


def padded(src: Reals, w: Windows, count: Shape, value: float) -> Reals:
    """src (N, C, ...) with as much padding as the windows reach."""
    sides = []
    for size, number, stride, reach, begin in zip(src.shape[2:], count, w.strides, w.reach, w.pads_begin, strict=True):
        sides.append((begin, max(0, (number - 1) * stride + reach - begin - size)))
    return np.pad(src, ((0, 0), (0, 0), *sides), constant_values=value)


def tap_slices(w: Windows, count: Shape) -> Iterator[tuple[slice, ...]]:
    """For every tap, in row-major order, the slices of a padded source that it reads in all windows."""
    for tap in product(*map(range, w.kernel)):
        starts = [t * d for t, d in zip(tap, w.dilations, strict=True)]
        yield (slice(None), slice(None), *(slice(a, a + n * s, s) for a, n, s in zip(starts, count, w.strides, strict=True)))


def reduce_windows(w: Windows, src: Reals, count: Shape, neutral: float, op: Callable[[Reals, Reals], Reals]) -> Reals:
    """The reduction of every window's taps: (N, C, ...) to (N, C, *count)."""
    wide = padded(src, w, count, neutral)
    total = np.full((*wide.shape[:2], *count), neutral)
    for at in tap_slices(w, count):
        total = op(total, wide[at])
    return total


def divisors(attrs: Attrs, w: Windows, spatial: Shape, count: Shape) -> Reals:
    """The divisor of each window's sum, (1, 1, *count)."""
    if not attrs.flag("exclude_pad"):
        return np.full((1, 1, *count), float(prod(w.kernel)))
    return np.maximum(reduce_windows(w, np.ones((1, 1, *spatial)), count, 0.0, np.add), 1)


def _averaged(call: Call, ins: tuple[Array, ...], a: overflow.Arithmetic) -> tuple[Array, ...]:
    w, src = pool_windows(call.attrs, ins[0].shape), real(channels_second(call, ins[0]))
    count = spatial_dims(call.attrs, call.outs[0].shape)
    total = a.total(lambda terms: reduce_windows(w, terms, count, 0.0, np.add), src)
    return (channels_back(call, total / divisors(call.attrs, w, src.shape[2:], count)),)


def _reference_max(call: Call, ins: tuple[Array, ...]) -> tuple[Array, ...]:
    w, src = pool_windows(call.attrs, ins[0].shape), real(channels_second(call, ins[0]))
    return (channels_back(call, reduce_windows(w, src, spatial_dims(call.attrs, call.outs[0].shape), -inf, np.maximum)),)


# ---- lowerings -------------------------------------------------------------------------------------------------------


def element_of_tap(call: Call, at: Indices, tap: Indices, src: Source) -> Tap:
    """The element of the first input that a tap of a window reads."""
    shape = call.ins[0].shape
    w, position, conditions = pool_windows(call.attrs, shape), list(at), list[Expr]()
    for d, axis in enumerate(spatial_axes(call.attrs, len(shape))):
        position[axis] = sub(add(mul(at[axis], w.strides[d]), mul(tap[d], w.dilations[d])), w.pads_begin[d])
        conditions += [binary(BinOp.ge, position[axis], index(0)), binary(BinOp.lt, position[axis], index(shape[axis]))]
    return Tap(src(0, tuple(position)), tuple(conditions))


def counted(call: Call, src: Shape, at: Indices) -> Expr:
    """The number of elements of src in the window at this index of dst; 1 if there is none, for a divisor."""
    w, number = pool_windows(call.attrs, src), index(1)
    for d, axis in enumerate(spatial_axes(call.attrs, len(src))):
        first = sub(mul(at[axis], w.strides[d]), w.pads_begin[d])
        inside = sub(minimum(add(first, w.kernel[d]), src[axis]), binary(BinOp.max, first, index(0)))
        number = binary(BinOp.mul, number, binary(BinOp.max, inside, index(0)))
    return binary(BinOp.max, number, index(1))


def reciprocal(call: Call, src: Shape, at: Indices) -> Expr:
    """The factor that makes a window's sum its mean."""
    if not call.attrs.flag("exclude_pad"):
        return f32(1 / volume(call))
    return binary(BinOp.div, f32(1), cast(counted(call, src, at), DType.f32))


# ---- laws ------------------------------------------------------------------------------------------------------------


def elements_of_windows(w: Windows, dim: int, size: int, count: int) -> list[list[int]]:
    """For every window along one spatial dim, the positions of its elements in src."""
    every = (o * w.strides[dim] - w.pads_begin[dim] + k * w.dilations[dim] for o in range(count) for k in range(w.kernel[dim]))
    positions = np.array(list(every)).reshape(count, w.kernel[dim])
    return [[int(p) for p in row if 0 <= p < size] for row in positions]


def elements_by_window(call: Call, src: Shape, count: Shape) -> Iterator[tuple[Any, Any]]:
    """For each window, the index of its results in dst and of its elements in src, both with the channel second."""
    w, spatial = pool_windows(call.attrs, src), spatial_dims(call.attrs, src)
    elements = [elements_of_windows(w, d, size, number) for d, (size, number) in enumerate(zip(spatial, count, strict=True))]
    for o in np.ndindex(count):
        yield (
            (slice(None), slice(None), *o),
            np.ix_(range(src[0]), range(src[channel_axis(call.attrs, len(src))]), *(elements[d][i] for d, i in enumerate(o))),
        )


def coverage(call: Call, src: Shape, dst: Shape) -> tuple[list[Array], list[Array]]:
    """Per spatial dim: the number of windows over each position of src, and of positions of src in each window."""
    w = pool_windows(call.attrs, src)
    windows_over, elements_in = list[Array](), list[Array]()
    for d, (size, count) in enumerate(zip(spatial_dims(call.attrs, src), spatial_dims(call.attrs, dst), strict=True)):
        elements = elements_of_windows(w, d, size, count)
        windows_over.append(np.bincount([p for row in elements for p in row], minlength=size))
        elements_in.append(np.array([len(row) for row in elements]))
    return windows_over, elements_in


def weighted(call: Call, a: Array, weights: list[Array]) -> Reals:
    """a times one weight per position along each spatial dim."""
    result = real(a)
    for axis, weight in zip(spatial_axes(call.attrs, a.ndim), weights, strict=True):
        result = result * np.expand_dims(weight, tuple(i for i in range(a.ndim) if i != axis))
    return result


def _sums_are_preserved(call: Call, ins: tuple[Array, ...], outs: tuple[Array, ...], rtol: float) -> bool:
    """dst times its divisors sums to src times the number of windows around each element."""
    around, within = coverage(call, ins[0].shape, outs[0].shape)
    sums = weighted(call, outs[0], within) if call.attrs.flag("exclude_pad") else real(outs[0]) * volume(call)
    return bool(abs(sums.sum() - weighted(call, ins[0], around).sum()) <= rtol * (np.abs(sums).sum() + 1))


def _is_between(call: Call, ins: tuple[Array, ...], outs: tuple[Array, ...], rtol: float) -> bool:
    """A mean is neither above the largest number nor below the least, the padding's 0 included."""
    low, high = (float(f(real(ins[0]), initial=0.0)) for f in (np.min, np.max))
    slack = rtol * (high - low)
    return bool(np.all((real(outs[0]) >= low - slack) & (real(outs[0]) <= high + slack)))


def _is_the_largest_of_its_window(call: Call, ins: tuple[Array, ...], outs: tuple[Array, ...], rtol: float) -> bool:
    src, dst = (real(channels_second(call, a)) for a in (ins[0], outs[0]))
    axes = tuple(range(2, src.ndim))
    elements = elements_by_window(call, ins[0].shape, dst.shape[2:])
    return all(np.array_equal(src[at].max(axis=axes, initial=-inf), dst[o]) for o, at in elements)


def _sample(
    why: str, shape: Shape, kernel: Shape, strides: Shape = (), pads: Shape = (), dtype: DType = DType.f32, **more: object
) -> Sample:
    """data_format is NCX by default; pads: all begins, then all ends."""
    rank = len(kernel)
    pads = pads or (0,) * 2 * rank
    given = {"kernel": kernel, "strides": strides or (1,) * rank, "pads_begin": pads[:rank], "pads_end": pads[rank:], "data_format": "NCX"}
    return Sample((shape,), Attrs({**given, **more}), (dtype,), why=why)


NXC: dict[str, Any] = {"data_format": "NXC"}
GEOMETRIES = (
    _sample("as after a first convolution", (2, 3, 9, 11), (3, 3), (2, 2), (1, 1, 1, 1)),
    _sample("the same with channels last, a tail of channels", (2, 9, 11, 17), (3, 3), (2, 2), (1, 1, 1, 1), **NXC),
    _sample("1 spatial dim: an interior of two vectors less one", (2, 5, 33), (3,), (1,), (1, 1)),
    _sample("1 spatial dim, channels last, the end of src in no window", (3, 20, 16), (4,), (3,), **NXC),
    _sample("3 spatial dims, each with other numbers", (1, 2, 5, 6, 7), (2, 3, 2), (1, 2, 3), (0, 1, 1, 1, 0, 1)),
    _sample("3 spatial dims, channels last", (1, 5, 4, 6, 5), (2, 2, 2), (2, 2, 2), (0, 0, 1, 1, 0, 0), **NXC),
    _sample("one window: all of src", (2, 3, 7, 7), (7, 7)),
    _sample("one window, channels last: more taps than are unrolled", (2, 7, 7, 19), (7, 7), **NXC),
    _sample("sizes 1", (1, 1, 1), (1,)),
    _sample("one channel, channels last", (2, 6, 20, 1), (2, 2), (2, 1), **NXC),
    _sample("strides beyond the kernel", (2, 13, 9, 15), (2, 1), (3, 4), **NXC),
    _sample("pads on one side only", (2, 3, 6, 18), (3, 2), (1, 1), (2, 0, 0, 1)),
    _sample("SAME_UPPER: the odd pad at the end", (2, 2, 6, 19), (2, 4), auto_pad="SAME_UPPER"),
    _sample("SAME_LOWER: the odd pad at the begin", (2, 6, 7, 4), (2, 4), (1, 2), auto_pad="SAME_LOWER", **NXC),
    _sample("VALID: the given pads are ignored", (2, 2, 6, 7), (3, 3), (2, 2), (1, 1, 1, 1), auto_pad="VALID"),
    _sample("a large kernel over borders and interior", (1, 2, 12, 40), (5, 9), (1, 1), (2, 4, 2, 4)),
    _sample("every second element of a long row", (1, 3, 4, 71), (2, 2), (2, 2)),
    _sample("windows that are all padding", (1, 2, 3, 4), (2, 2), (1, 1), (3, 2, 2, 3)),
    _sample("no elements", (0, 3, 5, 4), (2, 2)),
    _sample("bf16", (2, 7, 5, 18), (3, 2), (2, 1), (1, 0, 1, 1), DType.bf16, **NXC),
    _sample("f16", (2, 3, 5, 37), (2, 3), (1, 1), (0, 1, 0, 1), DType.f16),
)
_CEIL = (
    _sample("rounded up: the last window reaches past the padding", (2, 3, 8, 22), (3, 3), (2, 2), (0, 1, 0, 0), rounding_type="ceil"),
    _sample("rounded up: the last window is beyond src", (2, 3, 7, 5), (1, 1), (3, 4), rounding_type="ceil", **NXC),
)
DILATED = (
    _sample("dilated", (2, 3, 9, 37), (3, 2), (1, 1), (2, 2, 2, 2), dilations=(2, 3)),
    _sample("dilated, strided, channels last", (1, 11, 12, 17), (2, 3), (3, 2), (1, 2, 1, 2), dilations=(4, 2), **NXC),
)


def _avg(exclude_pad: bool, samples: tuple[Sample, ...]) -> tuple[Sample, ...]:
    word = "without" if exclude_pad else "with"
    return tuple(Sample(s.shapes, s.attrs.updated(exclude_pad=exclude_pad), s.dtypes, why=f"{s.why}; {word} the padding") for s in samples)


def fill_apart(call: Call, port: int, rng: np.random.Generator) -> Array:
    """Floats uniform in [-2, 2). In tensors of at most 4096 elements they are at least 2**-10 apart before they are rounded to the dtype,
    so that the largest element has no ties in f32."""
    t = call.ins[port]
    if not 0 < t.elements <= 4096:
        return fills.PLAIN(call, port, rng)
    return fills.rounded(((rng.permutation(t.elements) + 0.5) * (4 / t.elements) - 2).reshape(t.shape), t.dtype)


SPECS = (
    OpSpec(
        "AvgPool",
        Schema(
            inputs=ports("src"), outputs=ports("dst"), attrs={**ATTRS, "exclude_pad": EXCLUDE_PAD, "rounding_type": ROUNDING}, check=check
        ),
        overflow.semantics(
            _averaged,
            infer=infer,
            flops=lambda call: (volume(call) + 1) * call.outs[0].elements,
            threshold=lambda call: sqrt(volume(call)) + 4,  # the random walk of a sum, as for ReduceSum
        ),
        Testing(
            fill=pointwise.pool(signed=False),
            domain=fills.MEAN_ONE,
            samples=(*_avg(True, (*GEOMETRIES, *_CEIL)), *_avg(False, (*GEOMETRIES[:5], *GEOMETRIES[12:], *_CEIL))),
            laws=(Law("sums are preserved", _sums_are_preserved), Law("a mean is between the extremes", _is_between)),
            fills_quantised=True,
            zero_limit=lambda call: 0.99,
        ),
        Lowering(
            Role.anchor,
            form=Window(
                kernel,
                BinOp.add,
                0.0,
                element_of_tap,
                finish=lambda call, at, total: binary(BinOp.mul, total, reciprocal(call, call.ins[0].shape, at)),
                padding=lambda call: 0.0,
            ),
        ),
    ),
    OpSpec(
        "MaxPool",
        Schema(inputs=ports("src"), outputs=ports("dst"), attrs={**ATTRS, "dilations": DILATIONS, "rounding_type": ROUNDING}, check=check),
        Semantics(infer=infer, reference=_reference_max, flops=lambda call: volume(call) * call.outs[0].elements),
        Testing(
            fill=pointwise.pool(signed=True),
            domain=fill_apart,
            samples=(*GEOMETRIES, *_CEIL, *DILATED),
            laws=(Law("the largest element of the window", _is_the_largest_of_its_window),),
            fills_quantised=True,
            zero_limit=lambda call: 0.99,
        ),
        Lowering(Role.anchor, form=Window(kernel, BinOp.maximum, -inf, element_of_tap, padding=lambda call: -inf)),
    ),
)
