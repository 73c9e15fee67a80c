"""Interpolate: src at evenly spaced points between its elements, and its gradient.

Along each spatial dim, output o of D has the coordinate x among S elements, clamped to 0 .. S - 1:

    half_pixel      x = (o + 1/2) * S / D - 1/2        pixels are squares, their values at the centres
    align_corners   x = o * (S - 1) / (D - 1)          the first and the last elements coincide; 0 when D is 1

nearest takes the element next to x, of two the one with the larger index; the three linear modes weight the two elements around x by their
distances, for any number of spatial dims, as oneDNN does. S / D is the ratio of the sizes: the attribute `scales` only gives the size of
dst. In the gradient, dst's size is that of diff_dst. x is rational, so coordinates and weights are computed in integers.
"""

from __future__ import annotations

from fractions import Fraction
from functools import partial, reduce
from math import floor, prod, sqrt

import numpy as np
from numpy.typing import NDArray

from benchgraph.core.attrs import Attrs
from benchgraph.core.dtypes import DType
from benchgraph.core.errors import InvalidArguments, InvalidShape
from benchgraph.core.tensor import Shape, TensorType
from benchgraph.ops import fills, overflow, sums
from benchgraph.ops.fill_rules import pointwise
from benchgraph.ops.interpolation.dims import Line, by_dims, is_at_once, is_nearest, lines_of, sizes_of
from benchgraph.ops.laws import Reals, near, real
from benchgraph.ops.ranges import DIMS, POSITIVE, as_f32
from benchgraph.ops.spatial import DATA_FORMAT, channel_axis, data_shape, spatial_axes, spatial_dims
from benchgraph.ops.spec import Attr, Indices, Law, Lowering, OpSpec, Role, Sample, Schema, Semantics, Source, Tap, Testing, Window, ports
from benchgraph.ops.spec.call import Array, Call, Declared, F
from benchgraph.tir.build import add, binary, cast, f32, floordiv, index, minimum, mod, mul, sub
from benchgraph.tir.ir import BinOp, Expr

ATTRS = {
    "mode": Attr("string", required=True, choices=("nearest", "linear", "bilinear", "trilinear")),
    "sizes": Attr("s64[]", range=DIMS, per="spatial dim"),
    "scales": Attr("f32[]", range=POSITIVE, per="spatial dim"),
    "coordinate_transformation_mode": Attr("string", default="half_pixel", choices=("half_pixel", "align_corners")),
    "data_format": DATA_FORMAT,
}

LARGEST = 2.0**63  # limit of a dim computed from scales: an integer that no tensor can have


# ---- shapes ----------------------------------------------------------------------------------------------------------


def check(attrs: Attrs, ins: tuple[Declared, ...], out_dtypes: tuple[DType, ...]) -> str:
    """oneDNN requires one of the two attributes even if the sizes are a tensor."""
    if bool(attrs.integers("sizes")) == bool(attrs.reals("scales")):
        count = "both" if attrs.integers("sizes") else "neither"
        return f"{count} of the attributes 'sizes' and 'scales' given; give one of them, with a number per spatial dim"
    return ""


def infer(attrs: Attrs, ins: tuple[TensorType, ...]) -> tuple[Shape, ...]:
    src = ins[0].shape
    spatial = _elements(attrs, src)
    name, given = ("sizes", attrs.integers("sizes")) if attrs.integers("sizes") else ("scales", attrs.reals("scales"))
    if len(given) != len(spatial):
        what = f"attribute '{name}' is {given}, for a src with {len(spatial)} spatial dims"
        raise InvalidArguments(what, fix="give it one number per spatial dim")
    if name == "scales":  # rounded down in f32, as in oneDNN
        given = tuple(min(as_f32(as_f32(size) * as_f32(scale)), LARGEST) for size, scale in zip(spatial, given, strict=True))
    sizes = tuple(int(size) for size in given)
    if any(size < 1 for size in sizes):
        raise InvalidShape(f"attribute '{name}' makes dst {sizes} large", fix="make every dim 1 or more")
    return (data_shape(attrs, src[0], src[channel_axis(attrs, len(src))], sizes),)


def _infer_backward(attrs: Attrs, ins: tuple[TensorType, ...]) -> tuple[Shape, ...]:
    src, diff_dst = ins[0].shape, ins[1].shape
    _elements(attrs, src)
    spatial = _elements(attrs, diff_dst)
    want = data_shape(attrs, src[0], src[channel_axis(attrs, len(src))], spatial)
    if diff_dst != want:
        raise InvalidShape(f"diff_dst {diff_dst} does not belong to src {src}", fix=f"give it src's batch and channels: {want}")
    return (src,)


def _elements(attrs: Attrs, shape: Shape) -> Shape:
    """The spatial dims. Raises InvalidShape when there is no element to interpolate."""
    spatial = spatial_dims(attrs, shape)
    if 0 in spatial:
        raise InvalidShape(f"shape {shape} has no elements along a spatial dim", fix="make its spatial dims 1 or more")
    return spatial


# ---- references ------------------------------------------------------------------------------------------------------


def _coordinates(call: Call, size: int, count: int) -> list[Fraction]:
    """x of every output along a spatial dim of `size` elements and `count` outputs."""
    if call.attrs.string("coordinate_transformation_mode") == "align_corners":
        xs = [Fraction(o * (size - 1), max(count - 1, 1)) for o in range(count)]
    else:
        xs = [Fraction(2 * o + 1, 2) * Fraction(size, count) - Fraction(1, 2) for o in range(count)]
    return [min(max(x, Fraction(0)), Fraction(size - 1)) for x in xs]


def _matrix(call: Call, size: int, count: int) -> Reals:
    """dst = matrix @ src, along one spatial dim."""
    weights = np.zeros((count, size))
    for o, x in enumerate(_coordinates(call, size, count)):
        if is_nearest(call):
            weights[o, floor(x + Fraction(1, 2))] = 1
        else:
            weights[o, floor(x)] += float(1 - (x - floor(x)))
            weights[o, min(floor(x) + 1, size - 1)] += float(x - floor(x))
    return weights


def _zero_weights(call: Call, size: int, count: int) -> NDArray[np.bool_]:
    """Mask [outputs, elements] of the element after x, where x is exactly an element's coordinate, so that this element's weight is 0."""
    mask = np.zeros((count, size), np.bool_)
    for o, x in enumerate(_coordinates(call, size, count)):
        mask[o, min(floor(x) + 1, size - 1)] = x == floor(x) and not is_nearest(call)
    return mask


def _interpolated(call: Call, data: Reals, *, backward: bool = False, multiplies_zeros: bool = False) -> Reals:
    """Dim by dim. Products with weights of 0 are left out, unless multiplies_zeros: then infinities give NaN."""
    for axis, size, count in sizes_of(call):
        matrix, zero = _matrix(call, size, count), _zero_weights(call, size, count)
        if backward:
            matrix, zero = matrix.T, zero.T

        def along(weights: Reals, a: Reals, axis: int = axis) -> Reals:
            return real(np.moveaxis(np.tensordot(weights, a, (1, axis)), 0, axis))

        total = sums.of_products(along, matrix, data, is_element=matrix != 0)
        data = np.where(sums.has_product(along, (zero, ~np.isfinite(data))), np.nan, total) if multiplies_zeros else total
    return data


def _in_f32(call: Call, ins: tuple[Array, ...], *, backward: bool = False) -> tuple[tuple[Array, ...], ...]:
    """Other results that are right: sums that overflow f32, and where x is exactly an element, code may multiply the next element by its
    weight of 0, so an infinity there gives NaN."""
    data = real(ins[int(backward)])
    right, sizes = (_interpolated(call, x, backward=backward) for x in (data, np.where(np.isfinite(data), np.abs(data), 0.0)))
    others = overflow.overflowed((right,), (overflow.is_beyond(sizes),))
    return others if np.isfinite(data).all() else (*others, (_interpolated(call, data, backward=backward, multiplies_zeros=True),))


# ---- lowerings -------------------------------------------------------------------------------------------------------


def _corners(call: Call) -> Shape:
    """Along each spatial dim two elements around x, or one if every x is an integer coordinate. () for nearest."""
    return () if is_nearest(call) else tuple(1 if line.unit == 1 else 2 for line in lines_of(call))


def _corner(call: Call, at: Indices, tap: Indices, src: Source, unclamped: int | None = None) -> Tap:
    """The element at a corner of the box around x, times its weight; beyond the outermost element both corners are that element.

    unclamped: the axis along which the corner is not clamped, but has conditions that it is in src.
    """
    position, weight, conditions = list(at), list[Expr](), list[Expr]()
    for d, line in enumerate(lines_of(call)):
        x = line.scaled(at[line.axis])
        position[line.axis] = floordiv(x, line.unit)
        if is_nearest(call) or line.unit == 1:
            continue
        behind, corner = mod(x, line.unit), add(position[line.axis], tap[d])  # behind: the distance of x from the element before it
        if line.axis == unclamped:
            position[line.axis], ahead = corner, add(x, mul(tap[d], line.unit))
            conditions += [binary(BinOp.ge, ahead, index(0)), binary(BinOp.lt, ahead, index(line.unit * line.size))]
        else:
            position[line.axis] = minimum(binary(BinOp.max, corner, index(0)), index(line.size - 1))
        part = add(binary(BinOp.mul, sub(1, tap[d]), sub(line.unit, behind)), binary(BinOp.mul, tap[d], behind))
        weight.append(_share(part, line))
    return Tap(_weighted(weight, src(0, tuple(position))), tuple(conditions))


def _share(part: Expr, line: Line) -> Expr:
    return binary(BinOp.mul, cast(part, DType.f32), f32(1 / line.unit))


def _weighted(weights: list[Expr], value: Expr) -> Expr:
    """value times the product of the weights, which is the same for all channels."""
    return binary(BinOp.mul, reduce(partial(binary, BinOp.mul), weights), value) if weights else value


def _outputs(call: Call) -> Shape:
    """The number of outputs that may use an element, along each spatial dim: those whose x is less than 1 away (1/2 for nearest)."""
    lengths = ((line, line.unit * (1 if is_nearest(call) else 2)) for line in lines_of(call))
    return tuple(line.count if line.step == 0 else -(-length // line.step) for line, length in lengths)


def _output(call: Call, at: Indices, tap: Indices, src: Source) -> Tap:
    """The gradient of an element from one of the outputs that use it."""
    position, weight, conditions = list(at), list[Expr](), list[Expr]()
    for d, line in enumerate(lines_of(call)):
        i = at[line.axis]
        if line.step == 0:  # x of every output is the first element
            position[line.axis] = tap[d]
            conditions.append(binary(BinOp.lt, i, index(1)))
            continue
        reach, least = (line.unit, mul(i, line.unit)) if is_nearest(call) else (2 * line.unit - 1, add(mul(sub(i, 1), line.unit), 1))
        # outputs 0 .. before // step have a scaled x below `least`; candidate outputs follow them
        before, number = sub(least, line.start + 1), add(tap[d], 1)
        o = position[line.axis] = add(floordiv(before, line.step), number)
        # past = scaled x of output o, minus (least - 1), which is at least 1; the output uses the element if past <= reach
        past = sub(mul(number, line.step), mod(before, line.step))
        conditions += [binary(BinOp.ge, before, mul(sub(0, number), line.step)), binary(BinOp.le, past, index(reach))]
        conditions.append(binary(BinOp.lt, before, mul(sub(line.count, number), line.step)))
        if not is_nearest(call):
            weight.append(_share(line.clamped(line.scaled(o), minimum(past, sub(2 * line.unit, past))), line))
    return Tap(_weighted(weight, src(1, tuple(position))), tuple(conditions))


# ---- laws ------------------------------------------------------------------------------------------------------------


def _by_numpy(call: Call, src: Reals) -> Reals:
    """numpy's linear interpolation of each line of src, or its nearest element, one dim after the other."""
    for axis, size, count in sizes_of(call):
        x = np.array([float(p) for p in _coordinates(call, size, count)])
        if is_nearest(call):
            distances = np.abs(x[:, None] - np.arange(size)[None, ::-1])  # backwards: of two equal ones argmin takes the one behind
            src = np.take(src, size - 1 - np.argmin(distances, axis=1), axis)
        else:
            moved = np.moveaxis(src, axis, -1)
            lines = [np.interp(x, np.arange(size), line) for line in moved.reshape(-1, size)]
            src = np.moveaxis(np.array(lines).reshape(*moved.shape[:-1], count), -1, axis)
    return src


def _is_between(call: Call, ins: tuple[Array, ...], outs: tuple[Array, ...], rtol: float) -> bool:
    axes = spatial_axes(call.attrs, ins[0].ndim)
    low, high = (f(real(ins[0]), axis=axes, keepdims=True) for f in (np.min, np.max))
    slack = rtol * (np.abs(low) + np.abs(high))
    return bool(np.all((real(outs[0]) >= low - slack) & (real(outs[0]) <= high + slack)))


def _is_adjoint(call: Call, ins: tuple[Array, ...], outs: tuple[Array, ...], rtol: float) -> bool:
    """<diff_src, y> = <diff_dst, y interpolated>, for a y whose elements are all different and between 1 and 2."""
    y = 1.5 + 0.5 * np.sin(np.arange(outs[0].size) + 1.0).reshape(outs[0].shape)
    there, back = real(ins[1]) * _by_numpy(call, y), real(outs[0]) * y
    return bool(abs(there.sum() - back.sum()) <= rtol * (np.abs(there).sum() + 1))


_NEAREST, _LINEAR = Attrs(mode="nearest", data_format="NCX"), Attrs(mode="linear", data_format="NCX")
_CORNERS, _LAST = {"coordinate_transformation_mode": "align_corners"}, {"data_format": "NXC"}
_CASES: tuple[tuple[str, Shape, dict[str, object], DType], ...] = (
    ("twice as large, channels last, a tail", (2, 4, 5, 17), {"scales": (2.0, 2.0), **_LAST}, DType.f32),
    ("twice as large", (2, 3, 5, 9), {"sizes": (10, 18)}, DType.f32),
    ("1 spatial dim, ratio of primes", (2, 3, 17), {"sizes": (21,)}, DType.f32),
    ("smaller: elements that no output reads", (2, 3, 21), {"sizes": (7,)}, DType.f32),
    ("half as large: x between two elements", (1, 8, 6, 5), {"scales": (0.5, 0.5), **_LAST}, DType.f32),
    ("larger and smaller at once", (2, 3, 5, 9), {"sizes": (13, 4)}, DType.f32),
    ("3 spatial dims", (1, 2, 2, 3, 5), {"sizes": (3, 5, 4)}, DType.f32),
    ("3 spatial dims, channels last", (1, 2, 3, 4, 5), {"sizes": (4, 2, 9), **_LAST}, DType.f32),
    ("the same size", (2, 3, 5), {"sizes": (5,)}, DType.f32),
    ("to one element", (2, 3, 4, 6), {"sizes": (1, 1)}, DType.f32),
    ("from one element", (2, 1, 1, 3), {"sizes": (4, 5), **_LAST}, DType.f32),
    ("no batch", (0, 2, 3, 4), {"sizes": (4, 6)}, DType.f32),
    ("scales that are no fractions of the sizes", (2, 2, 7, 12), {"scales": (0.9, 1.3)}, DType.f32),
    ("another row for each x", (2, 3, 2), {"sizes": (3,)}, DType.f32),
    ("corners aligned", (2, 3, 4, 7), {"sizes": (7, 10), **_CORNERS}, DType.f32),
    ("corners aligned, channels last, smaller", (1, 9, 8, 15), {"sizes": (4, 3), **_CORNERS, **_LAST}, DType.f32),
    ("corners aligned, to one element and from one", (1, 2, 5, 1), {"sizes": (1, 4), **_CORNERS}, DType.f32),
    ("bf16", (2, 4, 5, 18), {"sizes": (6, 9), **_LAST}, DType.bf16),
    ("f16", (1, 3, 5, 7), {"sizes": (9, 5)}, DType.f16),
)


def _samples(*, backward: bool) -> tuple[Sample, ...]:
    samples = []
    for base in (_LINEAR, _NEAREST):
        for why, shape, more, dtype in _CASES:
            attrs = base.updated(**more)
            (dst,) = infer(attrs, (TensorType(dtype, shape),))
            shapes = (shape, dst) if backward else (shape,)
            samples.append(Sample(shapes, attrs, (dtype,) * len(shapes), why=f"{why}; {base['mode']}"))
    first = samples[0]
    tensor = Sample((*first.shapes, (2,)), first.attrs, (*first.dtypes, DType.s32), why="sizes as attribute and as tensor")
    named = zip(samples[1:3], ("bilinear", "trilinear"), strict=True)
    modes = (Sample(s.shapes, s.attrs.updated(mode=m), s.dtypes, why=m) for s, m in named)
    return (*samples, tensor, *modes)


def _threshold(call: Call) -> float:
    """Nearest picks. A weight has two roundings, a product of d weights and an element 3 d, and the weights sum to 1."""
    return 0.0 if is_nearest(call) else 3.0 * len(lines_of(call)) + 2


SPECS = (
    OpSpec(
        "Interpolate",
        Schema(
            inputs=ports("src:T1", "sizes:T2"),
            outputs=ports("dst:T1"),
            num_inputs=(1, 2),
            types={"T1": F, "T2": (DType.s32,)},
            attrs=ATTRS,
            check=check,
        ),
        Semantics(
            infer=infer,
            reference=lambda call, ins: (_interpolated(call, real(ins[0])),),
            flops=lambda call: 0 if is_nearest(call) else 2 * prod(_corners(call)) * call.outs[0].elements,
            threshold=_threshold,
            f32_alternatives=_in_f32,
        ),
        Testing(
            fill=pointwise.interpolate,
            samples=_samples(backward=False),
            laws=(
                Law("numpy's, dim by dim", lambda call, ins, outs, rtol: near(outs[0], _by_numpy(call, real(ins[0])), 4 * rtol)),
                Law("no extrapolation: each channel stays in the range of its elements", _is_between),
            ),
            zero_limit=lambda call: 0.99,
        ),
        Lowering(
            Role.anchor, form=Window(_corners, BinOp.add, 0.0, _corner, unclamped=_corner), decompose=by_dims, is_canonical=is_at_once
        ),
    ),
    OpSpec(
        "InterpolateBackward",
        Schema(
            inputs=ports("src:T1", "diff_dst:T1", "sizes:T2"),
            outputs=ports("diff_src:T1"),
            num_inputs=(2, 3),
            types={"T1": F, "T2": (DType.s32,)},
            attrs=ATTRS,
            check=check,
        ),
        Semantics(
            infer=_infer_backward,
            reference=lambda call, ins: (_interpolated(call, real(ins[1]), backward=True),),
            flops=lambda call: 2 * (1 if is_nearest(call) else 2 ** len(lines_of(call))) * call.ins[1].elements,
            threshold=lambda call: _threshold(call) + sqrt(prod(_outputs(call))) + 4,  # and the random walk of the sum, as for ReduceSum
            f32_alternatives=partial(_in_f32, backward=True),
        ),
        Testing(
            fill=pointwise.interpolate,
            domain=fills.MEAN_ONE,
            samples=_samples(backward=True),
            laws=(Law("adjoint to the interpolation", _is_adjoint),),
            gradient_of="Interpolate",
            zero_limit=lambda call: 0.99,
            # the share of src that no output uses
            guaranteed_zeros=lambda call: 1.0 - prod(float(np.mean(_matrix(call, *dims).any(axis=0))) for _, *dims in sizes_of(call)),
        ),
        Lowering(Role.anchor, form=Window(_outputs, BinOp.add, 0.0, _output)),
    ),
)
