"""The innermost step of a microkernel: in every lane, acc += the dot product of a group of src and a group of wei.

    f32, f32 -> f32       one product       an FMA, or a multiplication and an addition
    bf16, bf16 -> f32     two products      vdpbf16ps, or each half widened to f32 and two FMAs, the odd half first as in vdpbf16ps
    u8, s8 -> s32         four products     vpdpbusd, or even and odd bytes widened to s16 and two vpmaddwd
    s16, s16 -> s32       two products      vpmaddwd and an addition; with VNNI, LLVM turns all or some of these into vpdpwssd

A group fills a lane: of f32 for f32, else of i32. Plain vector operations on the same operands replace an instruction that the ISA level
lacks. pmaddwd is called by name, because LLVM may otherwise use several instructions, depending on what it knows of the operands; at the
portable level it is left to LLVM, which then also finds the instruction of another architecture.
vdpbf16ps flushes subnormal operands and results to zero; plain operations keep them.
"""

from __future__ import annotations

from benchgraph.codegen import ir
from benchgraph.codegen.intrinsics import BF16, F32, I8, I16, I32, call, constant, fma, has_fma, lanes_of, same_lanes, shuffled, vector
from benchgraph.core.dtypes import DType
from benchgraph.core.isa import Isa
from benchgraph.tir.groups import GROUPS, DTypes


def lane_type(dtypes: DTypes) -> ir.Type:
    """The type of a lane of src and wei, which holds a group of elements."""
    return F32 if GROUPS[dtypes] == 1 else I32


def is_native(dtypes: DTypes, isa: Isa) -> bool:
    """Whether one instruction does it."""
    return {DType.f32: has_fma(isa), DType.bf16: isa.has_bf16, DType.u8: isa.has_vnni, DType.s16: False}[dtypes[0]]


def splits_groups(dtypes: DTypes, isa: Isa) -> bool:
    """Whether a group has to be split into halves, which plain operations multiply."""
    return dtypes[0] in (DType.bf16, DType.u8) and not is_native(dtypes, isa)


def registers(dtypes: DTypes, isa: Isa) -> tuple[int, int]:
    """Vector registers that the step needs besides the accumulators: (for each vector of wei, for everything else)."""
    if splits_groups(dtypes, isa):
        return 2, 4  # wei in two halves; both halves of src, a product, the mask of a half
    return 1, 1 + (not is_native(dtypes, isa))  # a broadcast of src; a product


def dot(builder: ir.IRBuilder, dtype: DType, a: ir.Value, b: ir.Value, acc: ir.Value, isa: Isa) -> ir.Value:
    """acc + a . b in every lane, for operands of `lane_type` and acc of the product's type. dtype: of src."""
    step = {DType.f32: fma, DType.bf16: _bf16, DType.u8: _u8_s8, DType.s16: _words}[dtype]
    return step(builder, a, b, acc, isa)


def _bf16(builder: ir.IRBuilder, a: ir.Value, b: ir.Value, acc: ir.Value, isa: Isa) -> ir.Value:
    """The instruction can broadcast its last operand from memory: a, where no other product reads it."""
    lanes = lanes_of(a)
    if isa.has_bf16:
        pairs = [builder.bitcast(x, vector(BF16, 2 * lanes)) for x in (b, a)]
        return call(builder, f"llvm.x86.avx512bf16.dpbf16ps.{32 * lanes}", acc.type, [acc, *pairs])
    for half in (_odd, _even):
        acc = fma(builder, half(builder, a), half(builder, b), acc, isa)
    return acc


def _odd(builder: ir.IRBuilder, pairs: ir.Value) -> ir.Value:
    """The second bf16 of each pair, as f32."""
    return builder.bitcast(builder.and_(pairs, constant(pairs.type, 0xFFFF0000)), same_lanes(pairs, F32))


def _even(builder: ir.IRBuilder, pairs: ir.Value) -> ir.Value:
    return builder.bitcast(builder.shl(pairs, constant(pairs.type, 16)), same_lanes(pairs, F32))


def _u8_s8(builder: ir.IRBuilder, a: ir.Value, b: ir.Value, acc: ir.Value, isa: Isa) -> ir.Value:
    lanes = lanes_of(a)
    if isa.has_vnni:
        quads = [builder.bitcast(x, vector(I8, 4 * lanes)) for x in (a, b)]
        return call(builder, f"llvm.x86.avx512.vpdpbusd.{32 * lanes}", acc.type, [acc, *quads])
    shorts = vector(I16, 2 * lanes)
    a, b, byte = builder.bitcast(a, shorts), builder.bitcast(b, shorts), constant(shorts, 8)
    even = builder.and_(a, constant(shorts, 0xFF)), builder.ashr(builder.shl(b, byte), byte)
    odd = builder.lshr(a, byte), builder.ashr(b, byte)
    for pair in (odd, even):
        acc = _words(builder, *pair, acc, isa)
    return acc


# By lanes of the sums, which may be fewer than the widest vectors have.
_PMADDWD = {16: "llvm.x86.avx512.pmaddw.d.512", 8: "llvm.x86.avx2.pmadd.wd", 4: "llvm.x86.sse2.pmadd.wd"}


def _words(builder: ir.IRBuilder, a: ir.Value, b: ir.Value, acc: ir.Value, isa: Isa) -> ir.Value:
    """acc + sums of two neighbouring products of s16: pmaddwd."""
    lanes = lanes_of(acc)
    a, b = (builder.bitcast(x, vector(I16, 2 * lanes)) for x in (a, b))
    if isa.needs:
        return builder.add(acc, call(builder, _PMADDWD[lanes], acc.type, [a, b]))
    wide = vector(I32, 2 * lanes)
    products = builder.mul(builder.sext(a, wide), builder.sext(b, wide), flags=("nsw",))
    first, second = (shuffled(builder, products, products, list(range(start, 2 * lanes, 2))) for start in (0, 1))
    return builder.add(acc, builder.add(first, second, flags=("nsw",)))
