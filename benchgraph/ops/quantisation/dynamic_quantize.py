"""DynamicQuantize: dst = saturate(round(src / scales + zps)). DynamicDequantize: dst = (src - zps) * scales.

Scales and zps are known at execution only. qtype per_tensor has one scale and zero point; per_channel one scale per index of `axis`, and
as many zero points or one; per_group (DynamicDequantize only) one of both for every block of group_shape: scales and zps have src's rank,
and in each dim the number of blocks. Zero points may be absent, which means 0. Compiled code multiplies by the reciprocals of scales where
scales are few: those below 2**-128 have none in f32 (`bounded_reciprocal`).
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np

from benchgraph.core.attrs import Attrs
from benchgraph.core.dtypes import DType
from benchgraph.core.errors import InvalidShape
from benchgraph.core.tensor import Shape, TensorType
from benchgraph.ops import fills
from benchgraph.ops.elementwise.cast import convert
from benchgraph.ops.fill_rules import filling, pointwise
from benchgraph.ops.laws import Reals, near, real
from benchgraph.ops.norms import normalise
from benchgraph.ops.quantisation.quantize import QTYPES, axis_of, is_nearest
from benchgraph.ops.ranges import DIMS
from benchgraph.ops.spec import Attr, Decomposer, Filling, Law, Lowering, OpSpec, Role, Sample, Schema, Semantics, Testing, ports
from benchgraph.ops.spec.call import Array, Call, F, Types
from benchgraph.ops.steps import as_dtype, reshaped

_ATTRS = {"qtype": Attr("string", default="per_tensor"), "axis": Attr("s64", default=1)}
_INTEGERS = (DType.u8, DType.s8)
_PACKED = (DType.s4, DType.u4)
SCALE = 0.1  # about the scale of the test data


# ---- shapes ----------------------------------------------------------------------------------------------------------


def infer(attrs: Attrs, ins: tuple[TensorType, ...]) -> tuple[Shape, ...]:
    src = ins[0].shape
    for t, name in zip(ins[1:], ("scales", "zps"), strict=False):
        match attrs.get("qtype"):
            case "per_group":
                normalise.expect_shape(name, t, _groups(attrs, src), f"while src {src} has groups {attrs.integers('group_shape')}")
            case "per_channel" if t.elements != 1 or name == "scales":
                channels = src[axis_of(attrs, src)]
                normalise.expect_shape(name, t, (channels,), f"while axis {attrs.integer('axis')} of src {src} has {channels} channels")
            case _ if t.elements != 1:
                raise InvalidShape(f"{name} has shape {t.shape} for qtype {attrs.get('qtype')}", fix=f"give {name} the shape (1,)")
    return (src,)


def _groups(attrs: Attrs, src: Shape) -> Shape:
    """The number of groups of src along each dim. Raises InvalidShape."""
    group = attrs.integers("group_shape")
    if len(group) != len(src) or len(src) < 2:
        raise InvalidShape(f"group_shape {group} does not fit src {src}", fix="give it one size per dim of src, which are two at least")
    if any(g < 1 or d % g for d, g in zip(src, group, strict=True)):
        raise InvalidShape(f"src {src} cannot be cut into groups {group}", fix="let every size of group_shape divide its dim")
    return tuple(d // g for d, g in zip(src, group, strict=True))


def refit(attrs: Attrs, old: Types, new: Types, named: frozenset[str]) -> tuple[Attrs, tuple[Shape, ...]]:
    """Groups, scales and zps follow what a user has set of them (benchdnn's rule): group_shape gives the shape of scales and zps that were
    not set, else the scales' shape gives group_shape. Scales per channel get one entry for each.
    """
    shapes = tuple(t.shape for t in new)
    src, others = shapes[0], shapes[1:]
    untouched = [name not in named for name in ("scales", "zps")[: len(others)]]
    if attrs.get("qtype") == "per_channel" and src != old[0].shape and -len(src) <= attrs.integer("axis") < len(src):
        wanted: Shape = (src[attrs.integer("axis")],)
        return attrs, (src, *(wanted if same and s != (1,) else s for s, same in zip(others, untouched, strict=True)))
    if attrs.get("qtype") != "per_group":
        return attrs, shapes
    if "group_shape" in named:
        wanted = _groups(attrs, src)
        return attrs, (src, *(wanted if same else s for s, same in zip(others, untouched, strict=True)))
    scales = others[0]
    if {"src", "scales"} & named and len(scales) == len(src) and all(n and d % n == 0 for d, n in zip(src, scales, strict=True)):
        attrs = attrs.updated(group_shape=tuple(d // n for d, n in zip(src, scales, strict=True)))
        return attrs, (src, *(scales if same else s for s, same in zip(others, untouched, strict=True)))
    return attrs, shapes


def _check_qtype(attrs: Attrs, known: tuple[str, ...]) -> str:
    qtype = attrs.string("qtype")
    if qtype not in known:
        return f"attribute 'qtype' is '{qtype}'; choose {' or '.join(known)}"
    if qtype == "per_group" and not attrs.integers("group_shape"):
        return "attribute 'group_shape' is missing for qtype per_group; give it one size per dim of src"
    return ""


def _beside(call: Call, of: Shape) -> Shape:
    """The shape in which scales or zps of shape `of` broadcast against src; not for groups."""
    src = call.ins[0].shape
    is_one = all(d == 1 for d in of)
    return () if is_one else (*of, *(1,) * (len(src) - 1 - axis_of(call.attrs, src)))


def _split(call: Call) -> tuple[Shape, Shape]:
    """src and its scales with every grouped dim as two, groups and what is in them; there the scales broadcast."""
    src, scales = list[int](), list[int]()
    for count, size in zip(_groups(call.attrs, call.ins[0].shape), call.attrs.integers("group_shape"), strict=True):
        src += [count] if size == 1 else [size] if count == 1 else [count, size]
        scales += [count] if size == 1 else [1] if count == 1 else [count, 1]
    return tuple(src), tuple(scales)


def _spread(call: Call, operand: Array) -> Reals:
    """Scales or zps as they broadcast against src, in float64."""
    values = real(operand)
    if call.attrs.get("qtype") != "per_group":
        return values.reshape(_beside(call, values.shape))
    for axis, size in enumerate(call.attrs.integers("group_shape")):
        values = np.repeat(values, size, axis=axis)
    return values


def _small_zps(call: Call, port: int, rng: np.random.Generator) -> Array:
    t = call.ins[port]
    return rng.integers(int(max(t.dtype.range[0], -8)), 8, t.shape).astype(t.dtype.numpy)


_SCALES = fills.uniform(SCALE / 2, SCALE * 2)


def _scales(call: Call, port: int) -> Filling:
    return filling.constant(2) if call.attrs.get("qtype") == "per_tensor" else filling.choices((1 / 16, 1 / 8, 1 / 4))


def _zero_points(call: Call, port: int) -> Filling:
    return filling.integers(-2, 2) if call.attrs.get("qtype") == "per_group" else filling.constant(1)


# ---- DynamicQuantize -------------------------------------------------------------------------------------------------


def _steps(call: Call, ins: tuple[Array, ...]) -> Reals:
    """src in units of its scale, the zero point added."""
    scaled = real(ins[0]) / _spread(call, ins[1])
    return scaled + _spread(call, ins[2]) if len(ins) > 2 else scaled


def _decompose_quantize(d: Decomposer, call: Call, ins: tuple[int, ...]) -> tuple[int, ...]:
    """Divide, Add, TypeCast; the cast rounds to nearest even and saturates."""
    value = d.op("Divide", ins[0], _operand(d, call, ins[1]))
    if len(ins) > 2:
        value = d.op("Add", value, _operand(d, call, ins[2]))
    return (d.op("TypeCast", value, dtype=call.outs[0].dtype),)


def _operand(d: Decomposer, call: Call, value: int) -> int:
    """Scales or zps as f32 in the shape that broadcasts."""
    is_grouped = call.attrs.get("qtype") == "per_group"
    return reshaped(d, as_dtype(d, value, DType.f32), _split(call)[1] if is_grouped else _beside(call, d.type(value).shape))


def _over_the_range(call: Call, port: int, rng: np.random.Generator) -> Array:
    """Numbers that cover the integer range and more on both sides, where they saturate."""
    low, high = call.outs[0].dtype.range
    return fills.uniform((low - 16) * SCALE, (high + 16) * SCALE)(call, port, rng)


# ---- DynamicDequantize -----------------------------------------------------------------------------------------------


def _dequantize(call: Call, ins: tuple[Array, ...]) -> tuple[Array, ...]:
    src = real(ins[0])
    return (real((src - _spread(call, ins[2]) if len(ins) > 2 else src) * _spread(call, ins[1])),)


def _decompose_dequantize(d: Decomposer, call: Call, ins: tuple[int, ...]) -> tuple[int, ...]:
    """TypeCast, Subtract, Multiply; per_group on src with every grouped dim as two, which moves no element."""
    src = ins[0] if call.attrs.get("qtype") != "per_group" else reshaped(d, ins[0], _split(call)[0])
    value = d.op("TypeCast", src, dtype=DType.f32)
    if len(ins) > 2:
        value = d.op("Subtract", value, _operand(d, call, ins[2]))
    dst = d.op("Multiply", value, _operand(d, call, ins[1]), dtype=call.outs[0].dtype)
    return (reshaped(d, dst, call.outs[0].shape),)


def _small_scales(call: Call, port: int, rng: np.random.Generator) -> Array:
    """Scales with which dst is as large as other activations, since src is filled over its full range."""
    reach = call.ins[0].dtype.range[1]
    return fills.uniform(0.25 / reach, 1 / reach)(call, port, rng)


def _divided_is_src(call: Call, ins: tuple[Array, ...], outs: tuple[Array, ...], rtol: float) -> bool:
    """Looked up group by group: the element at i belongs to the group at i // size."""
    src, dst = real(ins[0]), real(outs[0])
    if call.attrs.get("qtype") == "per_group":
        at = np.ix_(*(np.arange(d) // g for d, g in zip(src.shape, call.attrs.integers("group_shape"), strict=True)))
        scales, *zps = (real(a)[at] for a in ins[1:])
    else:
        scales, *zps = (_spread(call, a) for a in ins[1:])
    return near(dst / scales, src - (zps[0] if zps else 0), 4 * (rtol + DType.f32.eps))


_f32, _u8, _s8, _s32 = DType.f32, DType.u8, DType.s8, DType.s32
_CHANNEL, _MIDDLE, _LAST = (Attrs(qtype="per_channel", axis=axis) for axis in (0, 1, -1))


def _grouped(*group: int) -> Attrs:
    return Attrs(qtype="per_group", group_shape=group)


_Case: TypeAlias = tuple[Shape, Shape, Shape | None, Attrs, DType, DType, str]  # src, scales, zps; dtypes: quantised, zps
_SAMPLES: tuple[_Case, ...] = (
    ((5, 17), (1,), None, Attrs(), _u8, _u8, "one scale, no zero point, a tail"),
    ((3, 33), (1,), (1,), Attrs(qtype="per_tensor"), _s8, _s8, "one scale and zero point"),
    ((4, 16), (1,), (1,), Attrs(), _u8, _s32, "an s32 zero point"),
    ((2, 4, 3), (4,), (4,), _MIDDLE, _u8, _u8, "a scale and zero point per channel in the middle"),
    ((2, 5, 3), (3,), (1,), _LAST, _s8, _s32, "a scale per channel along the last axis, one zero point for all"),
    ((7, 2), (7,), None, _CHANNEL, _s8, _s8, "the outermost axis, no zero points"),
    ((1,), (1,), (1,), _CHANNEL, _u8, _s8, "sizes 1"),
)
_GROUPED: tuple[_Case, ...] = (
    ((8, 6), (2, 6), (2, 6), _grouped(4, 1), _s8, _s8, "groups along the first axis"),
    ((2, 3, 4, 16), (2, 3, 4, 2), None, _grouped(1, 1, 1, 8), _u8, _u8, "groups along the last axis, no zero points"),
    ((6, 15), (3, 3), (3, 3), _grouped(2, 5), _u8, _s32, "blocks in two dims"),
    ((4, 9), (1, 9), (1, 9), _grouped(4, 1), _s8, _s8, "one group along an axis: per channel"),
    ((3, 5), (1, 1), (1, 1), _grouped(3, 5), _s8, _u8, "one group: per tensor"),
)
_s4, _u4 = _PACKED
_HALF_BYTES: tuple[_Case, ...] = (
    ((5, 17), (1,), None, Attrs(), _s4, _s4, "s4, rows that begin in either half of a byte"),
    ((3, 33), (1,), (1,), Attrs(), _u4, _u4, "u4, an odd number of elements"),
    ((2, 5, 3), (3,), (3,), _LAST, _s4, _s8, "s4 with a zero point per channel of a wider type"),
    ((4, 3, 7), (3,), (3,), _MIDDLE, _u8, _u4, "u4 zero points of a wider src"),
    ((8, 6), (2, 6), (2, 6), _grouped(4, 1), _u4, _u8, "u4 in groups along the first axis, as weights are"),
    ((2, 3, 2, 32), (2, 3, 2, 2), (2, 3, 2, 2), _grouped(1, 1, 1, 16), _s4, _s4, "s4 in groups along the last axis, as keys are"),
    ((6, 15), (3, 3), (3, 3), _grouped(2, 5), _s4, _s32, "s4 in blocks of odd length"),
)


def _sample(case: _Case, *, quantises: bool) -> Sample:
    src, scales, zps, attrs, q, z, why = case
    given, dst = (_f32, q) if quantises else (q, _f32)
    return Sample((src, scales, *((zps,) if zps else ())), attrs, (given, _f32, *((z,) if zps else ())), (dst,), why)


def _dequantize_samples() -> tuple[Sample, ...]:
    return (
        *(_sample(case, quantises=False) for case in _SAMPLES + _GROUPED + _HALF_BYTES),
        Sample(((8, 6), (2, 6), (2, 6)), _grouped(4, 1), (_u8, DType.bf16, _u8), (DType.bf16,), "bf16 scales and dst"),
        Sample(((4, 15), (1,)), Attrs(), (_s8, DType.f16), (DType.f16,), "f16 scales and dst"),
        Sample(((8, 5), (2, 5), (2, 5)), _grouped(4, 1), (_u4, DType.bf16, _u4), (DType.bf16,), "u4 with bf16 scales"),
    )


SPECS = (
    OpSpec(
        "DynamicQuantize",
        Schema(
            inputs=ports("src:T1", "scales:T1", "zps:T2"),
            outputs=ports("dst:T3"),
            num_inputs=(2, 3),
            types={"T1": (DType.f32,), "T2": (*_INTEGERS, DType.s32), "T3": _INTEGERS},
            attrs=_ATTRS,
            check=lambda attrs, ins, out_dtypes: _check_qtype(attrs, QTYPES),
            refit=refit,
        ),
        Semantics(
            infer=infer,
            reference=lambda call, ins: (convert(_steps(call, ins), call.outs[0].dtype),),
            flops=lambda call: 2 * call.outs[0].elements,  # divide, add
            threshold=lambda call: 4.0,  # a reciprocal, a product and a sum, each rounded once; at a tie dst may then go either way
            is_conversion=True,
        ),
        Testing(
            fill=filling.per_port(pointwise.conversion, _scales, _zero_points),
            domain=fills.per_port(_over_the_range, _SCALES, _small_zps),
            samples=tuple(_sample(case, quantises=True) for case in _SAMPLES),
            laws=(is_nearest(_steps),),
            zero_limit=lambda call: 0.80,
        ),
        Lowering(Role.pointwise, decompose=_decompose_quantize),
    ),
    OpSpec(
        "DynamicDequantize",
        Schema(
            inputs=ports("src:T1", "scales:T2", "zps:T3"),
            outputs=ports("dst:T2"),
            num_inputs=(2, 3),
            types={"T1": (*_INTEGERS, *_PACKED), "T2": F, "T3": (*_PACKED, *_INTEGERS, DType.s32)},
            attrs={**_ATTRS, "group_shape": Attr("s64[]", range=DIMS)},
            check=lambda attrs, ins, out_dtypes: _check_qtype(attrs, (*QTYPES, "per_group")),
            refit=refit,
        ),
        Semantics(
            infer=infer,
            reference=_dequantize,
            flops=lambda call: 2 * call.outs[0].elements,  # subtract, multiply
            threshold=lambda call: 2.0,  # the subtraction is exact, the product is rounded once
            is_conversion=True,
        ),
        Testing(
            fill=filling.per_port(pointwise.conversion, _scales, _zero_points),
            domain=fills.per_port(fills.PLAIN, _small_scales, _small_zps),
            samples=_dequantize_samples(),
            laws=(Law("divided by the scale, dst is src less its zero point", _divided_is_src),),
            zero_limit=lambda call: 0.80,
        ),
        Lowering(Role.pointwise, decompose=_decompose_dequantize),
    ),
)
