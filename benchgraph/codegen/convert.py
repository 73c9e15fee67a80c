"""Data types in LLVM: the type of an element in memory, of a value in registers, and Tensor IR's Cast between values.

Tensor IR only loads, stores, selects and casts floats narrower than f32, whose values are their bits, in i16 and i8. A boolean is an i1,
and a byte of 0 or 1 in memory. Two elements of s4 or u4 share a byte in memory (FunctionBuilder.load splits them); each is an i8.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass

import numpy as np

from benchgraph.codegen import ir
from benchgraph.codegen.intrinsics import (
    BF16,
    F16,
    F32,
    I1,
    I8,
    I16,
    I32,
    I64,
    call,
    constant,
    has_f16c,
    lanes_of,
    mangled,
    pointwise,
    same_lanes,
    vector,
)
from benchgraph.codegen.vmath import round_even
from benchgraph.core.dtypes import DType
from benchgraph.core.errors import Unimplemented
from benchgraph.core.memoise import memoised
from benchgraph.machine.target import Isa

_MEMORY = {
    DType.f32: F32, DType.bf16: I16, DType.f16: I16, DType.f8_e4m3: I8, DType.f8_e5m2: I8, DType.s64: I64, DType.s32: I32, DType.s16: I16,
    DType.s8: I8, DType.u8: I8, DType.boolean: I8, DType.s4: I8, DType.u4: I8,
}  # fmt: skip


@dataclass(frozen=True)
class _SmallFloat:
    """A float of `bits` bits with `mantissa` explicit bits of mantissa.

    overflow: the bits, without sign, of the result for numbers that are too large; nan: of the result for NaN.
    """

    bits: int
    mantissa: int
    bias: int
    overflow: int
    nan: int


_SMALL_FLOATS = {
    DType.f16: _SmallFloat(16, 10, 15, overflow=0x7C00, nan=0x7E00),
    DType.f8_e5m2: _SmallFloat(8, 2, 15, overflow=0x7C, nan=0x7E),
    DType.f8_e4m3: _SmallFloat(8, 3, 7, overflow=0x7F, nan=0x7F),  # no infinity; all ones is the only NaN
}
_HALF_INFINITY = _SMALL_FLOATS[DType.f16].overflow


@memoised
def memory_type(dtype: DType) -> ir.Type:
    """The LLVM type of an element in memory; for s4 and u4, of the byte that holds it. Raises Unimplemented for an unsupported dtype."""
    if dtype not in _MEMORY:
        raise Unimplemented(f"code generation for dtype {dtype.value}", fix=f"use one of {', '.join(d.value for d in _MEMORY)}")
    return _MEMORY[dtype]


def check_stored(dtype: DType) -> None:
    """Raises Unimplemented for a dtype that cannot be stored: s4 and u4 share bytes, and no op of oneDNN writes them."""
    memory_type(dtype)
    if dtype.is_packed:
        raise Unimplemented(f"writing dtype {dtype.value}", fix="write s8 or u8")


def value_type(dtype: DType, lanes: int = 1) -> ir.Type:
    """The LLVM type of a value in registers."""
    return vector(I1 if dtype is DType.boolean else memory_type(dtype), lanes)


def literal(value: int | float, dtype: DType) -> ir.Constant:
    """A Tensor IR literal of this dtype."""
    type = value_type(dtype)
    if dtype.is_float and dtype is not DType.f32:
        return ir.Constant(type, int.from_bytes(np.array(value, dtype.numpy).tobytes(), sys.byteorder))
    return ir.Constant(type, float(value) if dtype.is_float else int(value))


def from_memory(builder: ir.IRBuilder, stored: ir.Value, dtype: DType) -> ir.Value:
    return builder.icmp_unsigned("!=", stored, constant(stored.type, 0)) if dtype is DType.boolean else stored


def to_memory(builder: ir.IRBuilder, value: ir.Value, dtype: DType) -> ir.Value:
    check_stored(dtype)
    return builder.zext(value, same_lanes(value, I8)) if dtype is DType.boolean else value


def cast(builder: ir.IRBuilder, x: ir.Value, source: DType, dtype: DType, isa: Isa) -> ir.Value:
    """Tensor IR's Cast: nearest even to floats, nearest even and saturation to integers with NaN as 0, x != 0 to boolean."""
    if source is dtype:
        return x
    if source.is_float and source is not DType.f32:
        return cast(builder, _widened(builder, x, source, isa), DType.f32, dtype, isa)
    if dtype is DType.boolean:
        zero = constant(x.type, 0)
        return builder.fcmp_unordered("!=", x, zero) if source is DType.f32 else builder.icmp_unsigned("!=", x, zero)
    if dtype is DType.f32:
        is_unsigned = source in (DType.u8, DType.u4, DType.boolean)
        return (builder.uitofp if is_unsigned else builder.sitofp)(x, same_lanes(x, F32))
    if dtype.is_float:
        return _narrowed(builder, cast(builder, x, source, DType.f32, isa), dtype, isa)
    if source is DType.f32:
        return _f32_to_integer(builder, x, dtype, isa)
    return _integer_to_integer(builder, x, source, dtype)


def _f32_to_byte(builder: ir.IRBuilder, x: ir.Value, dtype: DType) -> ir.Value:
    """Clamp from below, which also makes NaN 0, convert with the processor's rounding, and saturate as a 32-bit integer.

    A number too large for s32 becomes 2^31 (x86) or 2^31 - 1, as an unsigned integer.
    """
    least, most = dtype.range
    if least < 0:
        x = builder.select(builder.fcmp_ordered("ord", x, x), x, constant(x.type, 0.0))
    clamped = builder.select(builder.fcmp_ordered(">", x, constant(x.type, least)), x, constant(x.type, least))
    if least < 0:
        clamped = builder.select(builder.fcmp_ordered("<", clamped, constant(x.type, most)), clamped, constant(x.type, most))
    rounded = rounded_to_s32(builder, clamped)
    if least == 0:
        rounded = pointwise(builder, "umin", rounded, constant(rounded.type, int(most)))
    return builder.trunc(rounded, same_lanes(x, I8))


def rounded_to_s32(builder: ir.IRBuilder, x: ir.Value) -> ir.Value:
    """Nearest even, the rounding mode of every thread; undefined for numbers outside of s32."""
    wide = same_lanes(x, I32)
    return call(builder, f"llvm.lrint.{mangled(wide)}.{mangled(x.type)}", wide, [x])


def _f32_to_integer(builder: ir.IRBuilder, x: ir.Value, dtype: DType, isa: Isa) -> ir.Value:
    """Clamp to the range that f32 and the integer share, convert, and select the largest integer, which is no f32 (s32, s64)."""
    if dtype.bits == 8:
        return _f32_to_byte(builder, x, dtype)
    type, least = x.type, dtype.range[0]
    most = float(np.float32(dtype.range[1]))
    rounded = round_even(builder, x, isa)
    number = builder.select(builder.fcmp_ordered("ord", x, x), rounded, constant(type, 0.0))
    highest = constant(type, float(np.nextafter(np.float32(most), np.float32(0))))
    low = builder.select(builder.fcmp_ordered(">", number, constant(type, least)), number, constant(type, least))
    clamped = builder.select(builder.fcmp_ordered("<", low, highest), low, highest)
    result = builder.fptosi(clamped, value_type(dtype, lanes_of(x)))
    ceiling = constant(result.type, int(2 ** (dtype.bits - 1) - 1))
    return builder.select(builder.fcmp_ordered(">=", number, constant(type, most)), ceiling, result)


def _integer_to_integer(builder: ir.IRBuilder, x: ir.Value, source: DType, dtype: DType) -> ir.Value:
    """Clamp in the wider of the two types, so that both ranges fit, then truncate."""
    result = value_type(dtype, lanes_of(x))
    if source is DType.boolean:
        return builder.zext(x, result)
    source_bits = x.type.element.width  # 8 for s4 and u4
    wide_bits = max(source_bits, dtype.bits) * (2 if DType.u8 in (source, dtype) and source_bits == dtype.bits else 1)
    wide_type = same_lanes(x, ir.IntType(wide_bits))
    if wide_bits > source_bits:
        x = (builder.zext if source is DType.u8 else builder.sext)(x, wide_type)
    (least, most), (source_least, source_most) = dtype.range, source.range
    if source_least < least:
        x = pointwise(builder, "smax", x, constant(wide_type, int(least)))
    if source_most > most:
        x = pointwise(builder, "smin", x, constant(wide_type, int(most)))
    return x if wide_bits == dtype.bits else builder.trunc(x, result)


def _widened(builder: ir.IRBuilder, x: ir.Value, source: DType, isa: Isa) -> ir.Value:
    """A smaller float as f32, which is exact."""
    if source is DType.bf16:
        return _bf16_to_f32(builder, x)
    if source is DType.f8_e4m3:
        return _f8_e4m3_to_f32(builder, x, isa)
    if source is DType.f8_e5m2:  # the upper half of the f16 of the same value
        wide = builder.zext(x, same_lanes(x, I16))
        x = builder.shl(wide, constant(wide.type, 8))
    return _f16_to_f32(builder, x, isa)


def _narrowed(builder: ir.IRBuilder, x: ir.Value, dtype: DType, isa: Isa) -> ir.Value:
    if dtype is DType.bf16:
        return _f32_to_bf16(builder, x, isa)
    if dtype is DType.f16 and has_f16c(isa):
        return builder.bitcast(builder.fptrunc(x, same_lanes(x, F16)), same_lanes(x, I16))
    return _f32_to_small(builder, x, _SMALL_FLOATS[dtype])


def _bits(builder: ir.IRBuilder, x: ir.Value) -> ir.Value:
    return builder.bitcast(x, same_lanes(x, I32))


def _bf16_to_f32(builder: ir.IRBuilder, x: ir.Value) -> ir.Value:
    wide = builder.zext(x, same_lanes(x, I32))
    return builder.bitcast(builder.shl(wide, constant(wide.type, 16)), same_lanes(x, F32))


def _f32_to_bf16(builder: ir.IRBuilder, x: ir.Value, isa: Isa) -> ir.Value:
    """Nearest even: vcvtneps2bf16, which flushes subnormal numbers to zero as vdpbf16ps does, or on the bit pattern."""
    if isa.has_bf16:
        return builder.bitcast(builder.fptrunc(x, same_lanes(x, BF16)), same_lanes(x, I16))
    bits = _bits(builder, x)
    type = bits.type
    odd = builder.and_(builder.lshr(bits, constant(type, 16)), constant(type, 1))
    rounded = builder.add(builder.add(bits, constant(type, 0x7FFF)), odd)
    quiet = builder.or_(bits, constant(type, 0x400000))  # stays a NaN if only its low bits were set
    chosen = builder.select(builder.fcmp_unordered("uno", x, x), quiet, rounded)
    return builder.trunc(builder.lshr(chosen, constant(type, 16)), same_lanes(x, I16))


def _f16_to_f32(builder: ir.IRBuilder, x: ir.Value, isa: Isa) -> ir.Value:
    if has_f16c(isa):
        return builder.fpext(builder.bitcast(x, same_lanes(x, F16)), same_lanes(x, F32))
    type = same_lanes(x, I32)
    wide = builder.zext(x, type)
    size = builder.and_(wide, constant(type, 0x7FFF))
    shifted = builder.bitcast(builder.shl(size, constant(type, 13)), same_lanes(x, F32))
    finite = _bits(builder, builder.fmul(shifted, constant(shifted.type, 2.0**112)))  # 112 = 127 - 15, and exact for subnormals too
    special = builder.or_(finite, constant(type, 0x7F800000))
    magnitude = builder.select(builder.icmp_unsigned(">=", size, constant(type, _HALF_INFINITY)), special, finite)
    sign = builder.shl(builder.and_(wide, constant(type, 0x8000)), constant(type, 16))
    return builder.bitcast(builder.or_(magnitude, sign), same_lanes(x, F32))


def _f8_e4m3_to_f32(builder: ir.IRBuilder, x: ir.Value, isa: Isa) -> ir.Value:
    """Through the f16 with the same fields, which is 2**-8 times the value, as the biases are 7 and 15."""
    byte, type = x.type, same_lanes(x, I16)
    shifted = builder.shl(builder.sext(x, type), constant(type, 7))
    half = builder.and_(shifted, constant(type, 0xBFFF))  # clear the duplicate of the sign
    single = _f16_to_f32(builder, half, isa)
    finite = builder.fmul(single, constant(single.type, 256.0))
    is_nan = builder.icmp_unsigned("==", builder.and_(x, constant(byte, 0x7F)), constant(byte, _SMALL_FLOATS[DType.f8_e4m3].nan))
    return builder.select(is_nan, constant(single.type, float("nan")), finite)


def _f32_to_small(builder: ir.IRBuilder, x: ir.Value, to: _SmallFloat) -> ir.Value:
    """Nearest even, in one rounding, on the bit pattern."""
    bits = _bits(builder, x)
    type, dropped = bits.type, 23 - to.mantissa
    size = builder.and_(bits, constant(type, 0x7FFFFFFF))
    odd = builder.and_(builder.lshr(size, constant(type, dropped)), constant(type, 1))
    rebias = constant(type, ((1 << (dropped - 1)) - 1 - ((127 - to.bias) << 23)) & 0xFFFFFFFF)
    normal = builder.lshr(builder.add(builder.add(size, rebias), odd), constant(type, dropped))
    # the last bit of this power of two is the least subnormal: adding it leaves the rounded multiple of that in the low bits
    exponent = 24 - to.bias - to.mantissa
    aligned = builder.fadd(builder.bitcast(size, x.type), constant(x.type, 2.0**exponent))
    subnormal = builder.sub(_bits(builder, aligned), constant(type, (127 + exponent) << 23))
    is_subnormal = builder.icmp_unsigned("<", size, constant(type, (128 - to.bias) << 23))
    finite = builder.select(is_subnormal, subnormal, normal)
    magnitude = pointwise(builder, "smin", finite, constant(type, to.overflow))
    if to.nan != to.overflow:
        magnitude = builder.select(builder.fcmp_unordered("uno", x, x), constant(type, to.nan), magnitude)
    sign = builder.and_(builder.lshr(bits, constant(type, 32 - to.bits)), constant(type, 1 << (to.bits - 1)))
    return builder.trunc(builder.or_(magnitude, sign), same_lanes(x, ir.IntType(to.bits)))
