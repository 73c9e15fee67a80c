"""Quantize: dst = saturate(round(src / scale + zp)). Dequantize: dst = (src - zp) * scale.

qtype per_tensor has one scale and zero point; per_channel has one per index of `axis`. Zero points may be absent, which means 0; the
8-bit float types have none.

Weights of a grouped ConvTranspose, (IC, OC/groups, kernel) or (kernel, OC/groups, IC), have scales for all OC channels along their
OC/groups axis, in oneDNN's inputs: `groups` times as many as the axis is long. Group g of them belongs to the g-th part of the IC axis.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import cycle, islice

import numpy as np

from benchgraph.core.attrs import Attrs
from benchgraph.core.dtypes import DType
from benchgraph.core.errors import InvalidShape
from benchgraph.core.printable import quoted
from benchgraph.core.tensor import Shape, TensorType
from benchgraph.ops import fills
from benchgraph.ops.elementwise.cast import convert
from benchgraph.ops.fill_rules import filling, pointwise
from benchgraph.ops.fill_rules.noise import Noise
from benchgraph.ops.laws import Reals, near, real
from benchgraph.ops.ranges import FINITE_NOT_ZERO
from benchgraph.ops.spec import Attr, Decomposer, Filling, Law, Lowering, OpSpec, Role, Sample, Schema, Semantics, Testing, ports
from benchgraph.ops.spec.call import Array, Call, Declared, Types
from benchgraph.ops.spec.lowering import Decompose
from benchgraph.ops.spec.schema import Check
from benchgraph.ops.spec.semantics import Reference

QUANTIZED = (DType.u8, DType.s8, DType.f8_e5m2, DType.f8_e4m3)
_F8 = (DType.f8_e5m2, DType.f8_e4m3)
QTYPES = ("per_tensor", "per_channel")
_ATTRS = {
    "qtype": Attr("string", default="per_tensor"),
    "axis": Attr("s64", default=1),
    "scales": Attr("f32[]", required=True, range=FINITE_NOT_ZERO),
    "zps": Attr("s64[]"),
}


def _is_per_channel(attrs: Attrs) -> bool:
    return attrs.get("qtype") == "per_channel"


def axis_of(attrs: Attrs, src: Shape) -> int:
    """The axis of the channels. Raises InvalidShape."""
    axis = attrs.integer("axis")
    if not -len(src) <= axis < len(src):
        raise InvalidShape(f"axis {axis} is out of range for src {src}", fix="let axis name a dim of src")
    return axis % len(src)


def infer(attrs: Attrs, ins: tuple[TensorType, ...]) -> tuple[Shape, ...]:
    src = ins[0].shape
    if not _is_per_channel(attrs):
        return (src,)
    channels, count = src[axis_of(attrs, src)], len(attrs.reals("scales"))
    if channels != count and not _scale_groups(attrs, src):
        what = f"there are {count} scales, but axis {attrs.integer('axis')} of src {src} has {channels} channels"
        raise InvalidShape(what, fix="give one scale per channel")
    return (src,)


def _scale_groups(attrs: Attrs, src: Shape) -> tuple[int, int] | None:
    """(groups, axis of the input channels) when the scales are for src as the weights of a grouped ConvTranspose, else None."""
    rank, axis = len(src), axis_of(attrs, src)
    if not src[axis]:
        return None
    groups, rest = divmod(len(attrs.reals("scales")), src[axis])
    candidates = (along for channel, along in ((1, 0), (rank - 2, rank - 1)) if rank > 2 and axis == channel)
    return next(((groups, along) for along in candidates if groups and not rest and src[along] % groups == 0), None)


def refit(attrs: Attrs, old: Types, new: Types, named: frozenset[str]) -> tuple[Attrs, tuple[Shape, ...]]:
    """For another number of channels, the scales are repeated or cut off, and zero points are followed by 0 (benchdnn's rule)."""
    axis, src = attrs.integer("axis"), new[0].shape
    channels = old[0].shape[axis] if -len(old[0].shape) <= axis < len(old[0].shape) else 0
    if not _is_per_channel(attrs) or "scales" in named or not channels or not -len(src) <= axis < len(src):
        return attrs, (src,)
    scales, zps = attrs.reals("scales"), attrs.integers("zps")
    count = max(len(scales) // channels, 1) * src[axis]  # those of a grouped ConvTranspose's weights are several times as many
    attrs = attrs.updated(scales=tuple(islice(cycle(scales), count)))
    if zps and "zps" not in named:
        attrs = attrs.updated(zps=(zps + (0,) * count)[:count])
    return attrs, (src,)


_EITHER_SIGN = (DType.s8.range[0], DType.u8.range[1])  # of 8 bits: the zero point of Dequantize may be outside of its src's range


def _check_zps(attrs: Attrs, whose: str, least: float, most: float) -> str:
    if all(least <= zp <= most for zp in attrs.integers("zps")):
        return ""
    return f"attribute 'zps' is {quoted(attrs['zps'])}; give it numbers {whose}, from {least:.0f} to {most:.0f}"


def _check(attrs: Attrs, quantized: DType) -> str:
    qtype, scales, zps = attrs.string("qtype"), len(attrs.reals("scales")), len(attrs.reals("zps"))
    if qtype not in QTYPES:
        return f"attribute 'qtype' is '{qtype}'; choose per_tensor or per_channel"
    if qtype == "per_tensor" and scales != 1:
        return f"attribute 'scales' has {scales} values for qtype per_tensor; give it exactly one"
    if zps and zps != scales:
        return f"attribute 'zps' has {zps} values where 'scales' has {scales}; give both the same number"
    if zps and quantized in _F8:
        return f"attribute 'zps' is given for {quantized.value}, which has no zero points; remove it"
    return ""


def _check_quantize(attrs: Attrs, ins: tuple[Declared, ...], out_dtypes: tuple[DType, ...]) -> str:
    dst = out_dtypes[0]
    return _check(attrs, dst) or _check_zps(attrs, f"that {dst.value} has", *dst.range)


def _constant(attrs: Attrs, values: tuple[float, ...], src: Shape) -> Reals:
    """Scales or zero points in a shape that broadcasts against src: rank 0, or along the axis with ones after it."""
    numbers, rank = np.asarray(values, dtype=np.float64), len(src)
    if not _is_per_channel(attrs):
        return np.asarray(numbers[0])
    axis = axis_of(attrs, src)
    if len(values) == src[axis]:
        return numbers.reshape((-1,) + (1,) * (rank - 1 - axis))
    grouping = _scale_groups(attrs, src)
    assert grouping is not None, "infer has refused other numbers of scales"
    groups, along = grouping
    per_input = np.repeat(numbers.reshape(groups, src[axis]), src[along] // groups, axis=0)
    return np.expand_dims(per_input if along < axis else per_input.T, tuple(set(range(rank)) - {along, axis}))


def _scales(attrs: Attrs, src: Shape) -> Reals:
    """The scales as the f32 numbers they are stored as."""
    return fills.rounded(_constant(attrs, attrs.reals("scales"), src), DType.f32)


def _zps(attrs: Attrs, src: Shape) -> Reals | None:
    """The zero points, None when they are absent or all 0."""
    zps = attrs.reals("zps")
    return _constant(attrs, zps, src) if any(zps) else None


REACH = 64.0  # the largest random number, in steps

# ---- Quantize --------------------------------------------------------------------------------------------------------


def _steps(call: Call, ins: tuple[Array, ...]) -> Reals:
    """src in units of its scale, the zero point added."""
    zps = _zps(call.attrs, ins[0].shape)
    scaled = real(ins[0]) / _scales(call.attrs, ins[0].shape)
    return real(scaled if zps is None else scaled + zps)


def _quantised(d: Decomposer, src: int, scales: int, zps: int | None, dtype: DType) -> int:
    """Divide, Add, TypeCast; the cast rounds to nearest even and saturates."""
    value = d.op("Divide", src, scales)
    return d.op("TypeCast", value if zps is None else d.op("Add", value, zps), dtype=dtype)


def _dequantised(d: Decomposer, src: int, scales: int, zps: int | None, dtype: DType) -> int:
    """TypeCast to f32, Subtract, Multiply."""
    value = d.op("TypeCast", src, dtype=DType.f32)
    return d.op("Multiply", value if zps is None else d.op("Subtract", value, zps), scales, dtype=dtype)


def _decompose(step: Callable[[Decomposer, int, int, int | None, DType], int]) -> Decompose:
    def decompose(d: Decomposer, call: Call, ins: tuple[int, ...]) -> tuple[int, ...]:
        shape = call.ins[0].shape
        zps = _zps(call.attrs, shape)
        scales = d.const(_scales(call.attrs, shape))
        return (step(d, ins[0], scales, None if zps is None else d.const(zps), call.outs[0].dtype),)

    return decompose


def _in_steps(call: Call, port: int) -> Filling:
    """benchdnn's table for conversions in units of the scale, since the scales of files are not powers of two; no ties but 1/2."""
    table = np.array([2.0**24, -(2.0**24), 0, 0.25, 0.5, 1, 1.25, 2, 16, 64])

    def make(t: TensorType, noise: Noise) -> Array:
        at = np.arange(t.elements)
        phase = at % (len(table) + pointwise.REALS)
        reals = REACH * (2 * noise.unit(at) - 1)
        steps = np.where(phase < len(table), table[np.minimum(phase, len(table) - 1)], reals).reshape(t.shape)
        return filling.stored(steps * _scales(call.attrs, t.shape), t.dtype)

    return Filling("2^24, -2^24, 0, 0.25, 0.5, 1, 1.25, 2, 16, 64, reals in [-64, 64), all times the scale", make)


def _over_the_range(call: Call, port: int, rng: np.random.Generator) -> Array:
    """Numbers that cover the integer range and a little more on both sides, to saturate; 8-bit floats: [-8, 8) scales."""
    t, dst = call.ins[0], call.outs[0].dtype
    low, high = (dst.range[0] - 2, dst.range[1] + 2) if dst.is_integer else (-8.0, 8.0)
    zps = _zps(call.attrs, t.shape)
    steps = real(fills.reals(low, high, t.shape, rng))
    return fills.rounded((steps if zps is None else steps - zps) * _scales(call.attrs, t.shape), t.dtype)


def is_nearest(steps_of: Callable[[Call, tuple[Array, ...]], Reals]) -> Law:
    """An integer in range, at most half a step from src in steps clamped to the range."""

    def holds(call: Call, ins: tuple[Array, ...], outs: tuple[Array, ...], rtol: float) -> bool:
        steps, dst, dtype = steps_of(call, ins), real(outs[0]), call.outs[0].dtype
        if dtype in _F8:
            return bool(np.all(np.abs(dst - steps) <= (0.5 * dtype.eps + rtol) * np.abs(steps) + 2.0**-9))
        low, high = dtype.range
        gap = np.abs(dst - np.clip(steps, low, high))
        return bool(np.all((dst >= low) & (dst <= high) & (dst == np.rint(dst)) & (gap <= 0.5 + 256 * (rtol + DType.f32.eps))))

    return Law("in range, and at most half a step from src", holds)


# ---- Dequantize ------------------------------------------------------------------------------------------------------


def _dequantize(call: Call, ins: tuple[Array, ...]) -> tuple[Array, ...]:
    src = real(ins[0])
    zps = _zps(call.attrs, src.shape)
    return (real((src if zps is None else src - zps) * _scales(call.attrs, src.shape)),)


def _steps_are_scales(call: Call, ins: tuple[Array, ...], outs: tuple[Array, ...], rtol: float) -> bool:
    src, dst = real(ins[0]), real(outs[0])
    zps = _zps(call.attrs, src.shape)
    back = dst / _scales(call.attrs, src.shape) + (0.0 if zps is None else zps)
    return near(back, src, 4 * (rtol + DType.f32.eps))


def _one(scale: float, *zps: int) -> Attrs:
    return Attrs(scales=(scale,), zps=zps) if zps else Attrs(scales=(scale,))


_FOUR = Attrs(qtype="per_channel", axis=1, scales=(0.5, 0.1, 0.03, 2.0), zps=(0, 3, 128, 7))
_LAST = Attrs(qtype="per_channel", axis=-1, scales=(0.02, 0.5, 0.1))
_GROUPED = Attrs(qtype="per_channel", axis=1, scales=(0.5, 0.1, 0.03, 2.0, 0.2, 0.25), zps=(0, 3, 128, 7, 1, 9))
_SHAPES_AND_ATTRS = (
    ((5, 17), _one(0.1, 10), DType.u8, "u8 with a zero point, a tail"),
    ((33,), _one(0.25), DType.s8, "s8 without zero points"),
    ((3, 16), _one(0.07, 0), DType.s8, "a zero point of 0"),
    ((2, 4, 3), _FOUR, DType.u8, "a scale per channel in the middle"),
    ((2, 5, 3), _LAST, DType.s8, "a scale per channel along the last axis, which is given as -1"),
    ((1,), Attrs(qtype="per_channel", axis=0, scales=(0.5,), zps=(1,)), DType.u8, "sizes 1"),
    ((6, 2, 5), _GROUPED, DType.u8, "weights of a ConvTranspose of three groups, (IC, OC/groups, kernel)"),
    ((5, 3, 4), _GROUPED.updated(axis=-2), DType.u8, "weights of a ConvTranspose of two groups, (kernel, OC/groups, IC)"),
    ((), _one(0.5, 3), DType.u8, "rank 0"),
    ((4, 15), _one(0.5), DType.f8_e4m3, "f8_e4m3"),
    ((4, 9), _one(0.3), DType.f8_e5m2, "f8_e5m2"),
)


def _schema(src: tuple[DType, ...], dst: tuple[DType, ...], check: Check) -> Schema:
    return Schema(inputs=ports("src:T1"), outputs=ports("dst:T2"), types={"T1": src, "T2": dst}, attrs=_ATTRS, check=check, refit=refit)


def _semantics(reference: Reference) -> Semantics:
    """Two operations per element, each rounded once at most; at a tie Quantize may then go either way."""
    return Semantics(
        infer=infer, reference=reference, flops=lambda call: 2 * call.outs[0].elements, threshold=lambda call: 2.0, is_conversion=True
    )


SPECS = (
    OpSpec(
        "Quantize",
        _schema((DType.f32,), QUANTIZED, _check_quantize),
        _semantics(lambda call, ins: (convert(_steps(call, ins), call.outs[0].dtype),)),
        Testing(
            fill=_in_steps,
            domain=_over_the_range,
            samples=tuple(Sample((shape,), attrs, out_dtypes=(dtype,), why=why) for shape, attrs, dtype, why in _SHAPES_AND_ATTRS),
            laws=(is_nearest(_steps),),
            zero_limit=lambda call: 0.80,
        ),
        Lowering(Role.pointwise, decompose=_decompose(_quantised)),
    ),
    OpSpec(
        "Dequantize",
        _schema(
            QUANTIZED,
            (DType.f32,),
            lambda attrs, ins, out_dtypes: _check(attrs, ins[0][0]) or _check_zps(attrs, "of 8 bits", *_EITHER_SIGN),
        ),
        _semantics(_dequantize),
        Testing(
            fill=pointwise.conversion,
            samples=tuple(Sample((shape,), attrs, (dtype,), (DType.f32,), why) for shape, attrs, dtype, why in _SHAPES_AND_ATTRS),
            laws=(Law("divided by the scale, dst is src less its zero point", _steps_are_scales),),
            zero_limit=lambda call: 0.80,
        ),
        Lowering(Role.pointwise, decompose=_decompose(_dequantised)),
    ),
)
