"""Interpolation along spatial dims: the coordinates of outputs, and whether to interpolate one dim after the other."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import gcd, prod

from benchgraph.core.dtypes import DType
from benchgraph.core.tensor import Shape
from benchgraph.ops.spatial import channel_axis, spatial_axes
from benchgraph.ops.spec import Call, Decomposer
from benchgraph.tir.build import add, binary, index, mul, select
from benchgraph.tir.ir import BinOp, Expr


def is_nearest(call: Call) -> bool:
    return call.attrs.string("mode") == "nearest"


def sizes_of(call: Call) -> tuple[tuple[int, int, int], ...]:
    """(axis, size of src, size of dst) per spatial dim, forward and backward."""
    src, dst = call.ins[0].shape, (call.ins[1] if call.kind.endswith("Backward") else call.outs[0]).shape
    return tuple((axis, src[axis], dst[axis]) for axis in spatial_axes(call.attrs, len(src)))


@dataclass(frozen=True)
class Line:
    """x = (step * o + start) / unit along one spatial dim, before clamping; the numbers have no common factor.

    nearest: shifted by 1/2, so that the nearest element is floor(x), and no clamping is needed.
    """

    axis: int
    size: int
    count: int
    step: int
    start: int
    unit: int

    def scaled(self, o: Expr) -> Expr:
        """x * unit."""
        return add(mul(o, self.step), self.start)

    def clamped(self, x: Expr, part: Expr) -> Expr:
        """part, the weight times unit; unit itself beyond the outermost elements, which have one neighbour only."""
        top = index(self.unit * (self.size - 1))
        beyond = select(binary(BinOp.gt, x, top), index(self.unit), part)
        return select(binary(BinOp.lt, x, index(0)), index(self.unit), beyond)


def lines_of(call: Call) -> tuple[Line, ...]:
    lines = []
    for axis, size, count in sizes_of(call):
        if call.attrs.string("coordinate_transformation_mode") == "align_corners":
            step, start, unit = (size - 1, 0, count - 1) if count > 1 else (0, 0, 1)
        else:
            step, start, unit = 2 * size, size - count, 2 * count
        if is_nearest(call):
            step, start, unit = 2 * step, 2 * start + unit, 2 * unit
        common = gcd(step, start, unit)
        lines.append(Line(axis, size, count, step // common, start // common, unit // common))
    return tuple(lines)


# Bytes between two dims, and outputs after which weights repeat: see docs/measurements/interpolation.md
BETWEEN_BYTES, FEW_WEIGHTS = 512 << 10, 16


def is_at_once(call: Call) -> bool:
    """Whether to weight all corners of the box around x at once: if some dim does not grow, and in f32 if corners are loaded as vectors."""
    weighted, src = [line for line in lines_of(call) if line.unit > 1], call.ins[0]
    if is_nearest(call) or len(weighted) < 2 or any(line.count <= line.size for line in weighted):
        return True
    if src.dtype is not DType.f32:
        return False
    between = DType.f32.nbytes(prod(_passes(call)[-2]))
    repeats = weighted[-1].unit // gcd(weighted[-1].unit, weighted[-1].step)
    has_channels_last = channel_axis(call.attrs, len(src.shape)) > 1
    return has_channels_last or (between > BETWEEN_BYTES and repeats <= FEW_WEIGHTS)


def by_dims(d: Decomposer, call: Call, ins: tuple[int, ...]) -> tuple[int, ...]:
    """One spatial dim after the other, in f32 between them."""
    src, passes = ins[0], _passes(call)
    for n, sizes in enumerate(passes, 1):
        dtype = call.outs[0].dtype if n == len(passes) else DType.f32
        src = d.op(call.kind, src, attrs=call.attrs.without("scales").updated(sizes=sizes), dtype=dtype)
    return (src,)


def _passes(call: Call) -> list[Shape]:
    """The sizes of all spatial dims after each pass. Dims that grow least are first, and of equal ones the inner one: passes along outer
    dims are vectors when channels come first."""
    lines = lines_of(call)
    sizes = [line.size for line in lines]
    order = [n for n, line in enumerate(lines) if line.unit > 1 or line.count != line.size]
    passes = list[Shape]()
    for n in sorted(order, key=lambda n: (Fraction(lines[n].count, lines[n].size), -n)):
        sizes[n] = lines[n].count
        passes.append(tuple(sizes))
    return passes
