"""Types, splats, intrinsics declared by their full mangled names, and which machine an ISA level means."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, lru_cache, reduce

import llvmlite.binding as llvm

from benchgraph.codegen import ir
from benchgraph.core.target import Isa

PTR, VOID = ir.PointerType(), ir.VoidType()
I1, I8, I16, I32, I64 = (ir.IntType(bits) for bits in (1, 8, 16, 32, 64))
BF16, F16, F32 = ir.FloatingType("bfloat"), ir.FloatingType("half"), ir.FloatingType("float")

_SHORT: dict[ir.Type, str] = {F16: "f16", F32: "f32"}


@cache
def vector(element: ir.Type, lanes: int) -> ir.Type:
    """`element` itself for one lane, else <lanes x element>."""
    return element if lanes == 1 else ir.VectorType(element, lanes)


def lanes_of(value: ir.Value) -> int:
    """Lanes of a value; 1 for a scalar."""
    return value.type.count


def same_lanes(value: ir.Value, element: ir.Type) -> ir.Type:
    """The type of `element` with as many lanes as `value`."""
    return vector(element, lanes_of(value))


def constant(type: ir.Type, value: int | float) -> ir.Constant:
    """`value` in every lane of `type`."""
    if not isinstance(type, ir.VectorType):
        return ir.Constant(type, value)
    return ir.Constant(type, f"splat ({ir.Constant(type.element, value)})")


@cache
def poison(type: ir.Type) -> ir.Constant:
    """A value that nothing may depend on."""
    return ir.Constant(type, "poison")


def splat(builder: ir.IRBuilder, scalar: ir.Value, lanes: int) -> ir.Value:
    """A vector with `scalar` in every lane; the scalar itself for one lane."""
    if lanes == 1:
        return scalar
    type = ir.VectorType(scalar.type, lanes)
    if isinstance(scalar, ir.Constant):
        return ir.Constant(type, f"splat ({scalar})")
    first = builder.insert_element(poison(type), scalar, I32(0))
    return builder.shuffle_vector(first, poison(type), _places((0,) * lanes))


def shuffled(builder: ir.IRBuilder, a: ir.Value, b: ir.Value, lanes: Sequence[int]) -> ir.Value:
    """The vector of these lanes, counted through a and then b."""
    return builder.shuffle_vector(a, b, _places(tuple(lanes)))


@lru_cache(1024)
def _places(lanes: tuple[int, ...]) -> ir.Constant:
    """Kernels repeat few shuffles many times, and each takes as long to spell as a dozen other instructions."""
    return ir.Constant(ir.VectorType(I32, len(lanes)), lanes)


def mangled(type: ir.Type) -> str:
    """How intrinsic names spell a type: v16f32, i64, p0."""
    if isinstance(type, ir.VectorType):
        return f"v{type.count}{mangled(type.element)}"
    if isinstance(type, ir.PointerType):
        return "p0"
    return type.text if isinstance(type, ir.IntType) else _SHORT[type]


def declare(module: ir.Module, name: str, result: ir.Type, args: Sequence[ir.Type]) -> ir.Function:
    """The function of this full name, declared on first use."""
    known = module.functions.get(name)
    return known if known is not None else ir.Function(module, ir.FunctionType(result, args), name)


def stack(builder: ir.IRBuilder, type: ir.Type, name: str = "") -> ir.Value:
    """The address of a stack slot that lives as long as the function's call; mem2reg makes a register of it where it can."""
    return builder.alloca(type, name)


def call(builder: ir.IRBuilder, name: str, result: ir.Type, args: Sequence[ir.Value], memory: ir.Memory = ir.NOWHERE) -> ir.Value:
    """Call an intrinsic by full name; its type is that of the arguments. memory: what it reads, or writes if it has no result."""
    return builder.call(declare(builder.module, name, result, [a.type for a in args]), args, memory)


def pointwise(builder: ir.IRBuilder, name: str, *args: ir.Value) -> ir.Value:
    """Call `llvm.<name>` overloaded on one type that all arguments and the result share: sqrt, fabs, smax ..."""
    return call(builder, f"llvm.{name}.{mangled(args[0].type)}", args[0].type, args)


def has_fma(isa: Isa) -> bool:
    return "fma" not in isa.without


def has_narrowing_stores(isa: Isa) -> bool:
    """Masked stores that narrow every lane on the way to memory."""
    return "avx512bw" in isa.needs


def has_scaling(isa: Isa) -> bool:
    """vscalefps, which multiplies by a power of two whatever the result is, and vpermps with 16 entries to choose from."""
    return "avx512f" in isa.needs


def has_f16c(isa: Isa) -> bool:
    """Half conversions in hardware: part of AVX-512F, and F16C came with every AVX2 processor."""
    return bool(isa.needs)


def has_rounding(isa: Isa) -> bool:
    """roundps (SSE4.1) or better; without it LLVM would call libm per lane."""
    return bool(isa.needs)


_EXTREMES = {8: ("avx", "256", ()), 16: ("avx512", "512", (I32(4),))}  # by lanes; 4: round as in force


def has_extremes(isa: Isa, x: ir.Value) -> bool:
    """minps and maxps of all lanes of a register that can be stored in part."""
    return lanes_of(x) in _EXTREMES and (lanes_of(x) == 8 or "avx512f" in isa.needs) and bool(isa.needs)


def extreme(builder: ir.IRBuilder, name: str, x: ir.Value, y: ir.Value) -> ir.Value:
    """min or max of f32, y where either is NaN.

    A choice between a number and one that was loaded, stored where that lies, becomes a masked store in LLVM's hands. The next load of it
    then waits until it has reached the cache: softmax over 128 channels of bf16[64,128,28,28] 4.9 ms for 4.3 (one thread of a Zen 4).
    """
    level, bits, rest = _EXTREMES[lanes_of(x)]
    return call(builder, f"llvm.x86.{level}.{name}.ps.{bits}", x.type, [x, y, *rest])


def where_ordered(builder: ir.IRBuilder, pairs: Sequence[tuple[ir.Value, ir.Value]], x: ir.Value, is_nan: ir.Value, isa: Isa) -> ir.Value:
    """x where the two of every pair compare, so that neither is NaN; elsewhere NaN, which is_nan is there.

    A mask register guards the instruction that makes x, if it is there for this alone, and what it leaves is is_nan. Other vectors have
    all bits set where two do not compare: that is a NaN, and no choice is needed.
    """
    if "avx512f" in isa.needs or lanes_of(x) == 1:
        return builder.select(reduce(builder.and_, (builder.fcmp_ordered("ord", a, b) for a, b in pairs)), x, is_nan)
    integers = same_lanes(x, I32)
    unordered = reduce(builder.or_, (builder.fcmp_unordered("uno", a, b) for a, b in pairs))
    return builder.bitcast(builder.or_(builder.sext(unordered, integers), builder.bitcast(x, integers)), x.type)


def fma(builder: ir.IRBuilder, a: ir.Value, b: ir.Value, c: ir.Value, isa: Isa) -> ir.Value:
    """a * b + c: one rounding where the ISA has fma, otherwise two (llvm.fma would become a libm call per lane)."""
    return pointwise(builder, "fma" if has_fma(isa) else "fmuladd", a, b, c)


BEST, QUICK = 2, 0  # levels of code generation


@cache
def _initialize() -> None:
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()


@dataclass(frozen=True)
class Machine:
    """What machine code is for, in LLVM's words. cpu '': the architecture's generic processor. opt: LLVM's level of code generation."""

    triple: str
    cpu: str
    features: str
    opt: int


@cache
def described(isa: Isa, opt: int = BEST) -> Machine:
    """The host at this ISA level.

    prefer-256-bit is off, because LLVM otherwise splits 512-bit vectors on some processors. The level without requirements
    ('portable') is the generic processor of the architecture. A host without tile registers, where those of the tests are emulated, is
    taken for one with them: for some others LLVM renames registers behind scheduling, tiles too, whose shapes it does not know.
    """
    _initialize()
    if not isa.needs:
        return Machine(llvm.get_process_triple(), "", "", opt)
    host = llvm.get_host_cpu_features()
    features = ",".join([host.flatten(), *(f"+{f}" for f in isa.needs), *(f"-{f}" for f in isa.without), "-prefer-256-bit"])
    is_emulated = isa.has_amx and not host.get("amx-tile")
    return Machine(llvm.get_process_triple(), "sapphirerapids" if is_emulated else llvm.get_host_cpu_name(), features, opt)


def machine(isa: Isa, opt: int = BEST) -> llvm.TargetMachine:
    """A new target machine for an ISA level. An execution engine takes ownership: make one for each."""
    m = described(isa, opt)
    return llvm.Target.from_triple(m.triple).create_target_machine(cpu=m.cpu, features=m.features, opt=m.opt, jit=True)
