"""Types, constants, shuffles, intrinsics by their mangled names, and the LLVM target machine of an ISA level."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache, reduce

import llvmlite.binding as llvm

from benchgraph.codegen import ir
from benchgraph.core.memoise import memoised
from benchgraph.machine.target import Isa

PTR, VOID = ir.PointerType(), ir.VoidType()
I1, I8, I16, I32, I64 = (ir.IntType(bits) for bits in (1, 8, 16, 32, 64))
BF16, F16, F32 = ir.FloatingType("bfloat"), ir.FloatingType("half"), ir.FloatingType("float")

_SHORT: dict[ir.Type, str] = {F16: "f16", F32: "f32"}


def vector(element: ir.Type, lanes: int) -> ir.Type:
    """`element` itself for one lane, else <lanes x element>."""
    return element if lanes == 1 else element.lanes(lanes)


def lanes_of(value: ir.Value) -> int:
    """Lanes of a value; 1 for a scalar."""
    return value.type.count


def same_lanes(value: ir.Value, element: ir.Type) -> ir.Type:
    """The type of `element` with as many lanes as `value`."""
    return vector(element, lanes_of(value))


def constant(type: ir.Type, value: int | float) -> ir.Constant:
    """`value` in every lane of `type`."""
    return repeated(ir.Constant(type.element, value), type.count) if isinstance(type, ir.VectorType) else ir.Constant(type, value)


def repeated(scalar: ir.Constant, lanes: int) -> ir.Constant:
    """A vector with this constant in every lane."""
    return ir.Constant(scalar.type.lanes(lanes), f"splat ({scalar})")


@memoised
def poison(type: ir.Type) -> ir.Constant:
    """LLVM's poison value."""
    return ir.Constant(type, "poison")


def splat(builder: ir.IRBuilder, scalar: ir.Value, lanes: int) -> ir.Value:
    """A vector with `scalar` in every lane; the scalar itself for one lane."""
    if lanes == 1:
        return scalar
    if isinstance(scalar, ir.Constant):
        return repeated(scalar, lanes)
    type = scalar.type.lanes(lanes)
    first = builder.insert_element(poison(type), scalar, I32(0))
    return builder.shuffle_vector(first, poison(type), _first_lane(lanes))


def shuffled(builder: ir.IRBuilder, a: ir.Value, b: ir.Value, lanes: Sequence[int]) -> ir.Value:
    """The vector of these lanes of a and b; those of b are numbered after those of a."""
    return builder.shuffle_vector(a, b, _mask(tuple(lanes)))


@cache
def _first_lane(lanes: int) -> ir.Constant:
    """The mask of a broadcast. All of it as one word: kernels have one for every few instructions, and LLVM parses each lane."""
    return ir.Constant(I32.lanes(lanes), "zeroinitializer")


@lru_cache(1024)
def _mask(lanes: tuple[int, ...]) -> ir.Constant:
    """Cached, as kernels repeat few masks many times, and printing one takes as long as a dozen instructions."""
    return ir.Constant(I32.lanes(len(lanes)), lanes)


@memoised
def mangled(type: ir.Type) -> str:
    """A type in the name of an intrinsic: v16f32, i64, p0."""
    if isinstance(type, ir.VectorType):
        return f"v{type.count}{mangled(type.element)}"
    if isinstance(type, ir.PointerType):
        return "p0"
    return type.text if isinstance(type, ir.IntType) else _SHORT[type]


def declare(module: ir.Module, name: str, result: ir.Type, args: Sequence[ir.Type]) -> ir.Function:
    """The function of this full name, declared on first use."""
    known = module.functions.get(name)
    return known if known is not None else ir.Function(module, ir.FunctionType(result, args), name)


def call(builder: ir.IRBuilder, name: str, result: ir.Type, args: Sequence[ir.Value], memory: ir.Memory = ir.NOWHERE) -> ir.Value:
    """Call an intrinsic by full name; its type is that of the arguments. memory: what it reads, or writes if it has no result."""
    return builder.call(declare(builder.module, name, result, [a.type for a in args]), args, memory)


def pointwise(builder: ir.IRBuilder, name: str, *args: ir.Value) -> ir.Value:
    """Call `llvm.<name>` overloaded on one type that all arguments and the result share: sqrt, fabs, smax ..."""
    return call(builder, f"llvm.{name}.{mangled(args[0].type)}", args[0].type, args)


def has_fma(isa: Isa) -> bool:
    return "fma" not in isa.without


def has_narrowing_stores(isa: Isa) -> bool:
    """Whether masked stores can truncate every lane."""
    return "avx512bw" in isa.needs


def has_scaling(isa: Isa) -> bool:
    """Whether there are vscalefps, which multiplies by powers of two outside of f32 too, and vpermps on tables of 16."""
    return "avx512f" in isa.needs


def has_f16c(isa: Isa) -> bool:
    """Whether hardware converts f16: part of AVX-512F, and every AVX2 processor has F16C."""
    return bool(isa.needs)


def has_rounding(isa: Isa) -> bool:
    """Whether there is roundps (SSE4.1); without it LLVM would call libm for each lane."""
    return bool(isa.needs)


_EXTREMES = {8: ("avx", "256", ()), 16: ("avx512", "512", (I32(4),))}  # by lanes; 4: the current rounding mode


def has_extremes(isa: Isa, x: ir.Value) -> bool:
    """Whether there is minps and maxps for vectors of so many lanes that masked stores could store."""
    return lanes_of(x) in _EXTREMES and (lanes_of(x) == 8 or "avx512f" in isa.needs) and bool(isa.needs)


def extreme(builder: ir.IRBuilder, name: str, x: ir.Value, y: ir.Value) -> ir.Value:
    """min or max of f32, y where either is NaN.

    Written as compare and select, LLVM would turn an update of memory into a masked store, for which the next load has to wait
    (docs/measurements/codegen.md).
    """
    level, bits, rest = _EXTREMES[lanes_of(x)]
    return call(builder, f"llvm.x86.{level}.{name}.ps.{bits}", x.type, [x, y, *rest])


class NumberMasks:
    """Which lanes of values are numbers, not NaN: bits with mask registers, and of scalars. Elsewhere a comparison gives vectors, and lanes
    with a NaN have all bits set, which is a NaN itself."""

    def __init__(self, builder: ir.IRBuilder, lanes: int, isa: Isa) -> None:
        self.builder, self.are_bits = builder, "avx512f" in isa.needs or lanes == 1

    def both(self, x: ir.Value, y: ir.Value) -> ir.Value:
        """Where x and y are numbers."""
        return self.builder.fcmp_ordered("ord", x, y) if self.are_bits else self.builder.fcmp_unordered("uno", x, y)

    def all(self, masks: Iterable[ir.Value]) -> ir.Value:
        """The lanes of all masks: a comparison merges into the mask before it."""
        return reduce(self.builder.and_ if self.are_bits else self.builder.or_, masks)

    def where(self, mask: ir.Value, x: ir.Value, nan: ir.Value) -> ir.Value:
        """x in the lanes of a mask, elsewhere a NaN. nan: a value that is NaN there. With mask registers the select merges into the
        instruction that computes x, if x is used here alone."""
        if self.are_bits:
            return self.builder.select(mask, x, nan)
        integers = same_lanes(x, I32)
        return self.builder.bitcast(self.builder.or_(self.builder.sext(mask, integers), self.builder.bitcast(x, integers)), x.type)


def fma(builder: ir.IRBuilder, a: ir.Value, b: ir.Value, c: ir.Value, isa: Isa) -> ir.Value:
    """a * b + c: rounded once where the ISA level has FMA, otherwise twice (llvm.fma would become a libm call per lane)."""
    return pointwise(builder, "fma" if has_fma(isa) else "fmuladd", a, b, c)


OPTIMISED, FAST_COMPILE = 2, 0  # LLVM's optimisation levels of code generation


@cache
def _initialize() -> None:
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()


@dataclass(frozen=True)
class MachineArguments:
    """Arguments of an LLVM target machine. cpu '': the architecture's generic processor. opt: LLVM's level of code generation."""

    triple: str
    cpu: str
    features: str
    opt: int


@cache
def machine_arguments(isa: Isa, opt: int = OPTIMISED) -> MachineArguments:
    """The host at this ISA level.

    prefer-256-bit is off, because LLVM otherwise splits 512-bit vectors on some processors. The level 'portable' is the generic processor
    of the architecture. Where tests emulate tile registers the host counts as a Sapphire Rapids: for some other processors LLVM renames
    registers after scheduling, even tile registers, whose shapes it does not know.
    """
    _initialize()
    if not isa.needs:
        return MachineArguments(llvm.get_process_triple(), "", "", opt)
    host = llvm.get_host_cpu_features()
    features = ",".join([host.flatten(), *(f"+{f}" for f in isa.needs), *(f"-{f}" for f in isa.without), "-prefer-256-bit"])
    is_emulated = isa.has_amx and not host.get("amx-tile")
    return MachineArguments(llvm.get_process_triple(), "sapphirerapids" if is_emulated else llvm.get_host_cpu_name(), features, opt)


def create_target_machine(isa: Isa, opt: int = OPTIMISED) -> llvm.TargetMachine:
    """A new target machine for an ISA level. An execution engine takes ownership of it, so each needs a new one."""
    m = machine_arguments(isa, opt)
    return llvm.Target.from_triple(m.triple).create_target_machine(cpu=m.cpu, features=m.features, opt=m.opt, jit=True)
