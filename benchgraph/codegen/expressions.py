"""TIR expressions to LLVM values."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import accumulate, zip_longest
from math import nan

from benchgraph.codegen import ir, philox, vmath
from benchgraph.codegen.convert import cast, literal
from benchgraph.codegen.function_builder import FunctionBuilder
from benchgraph.codegen.intrinsics import (
    I1,
    I32,
    I64,
    NumberMasks,
    call,
    constant,
    extreme,
    has_extremes,
    lanes_of,
    mangled,
    pointwise,
    poison,
    repeated,
    same_lanes,
    splat,
)
from benchgraph.core.dtypes import DType
from benchgraph.core.memoise import memoised
from benchgraph.core.philox import BLOCK
from benchgraph.tir import ir as tir
from benchgraph.tir.affine import bounds, linear
from benchgraph.tir.build import constant as known_integer
from benchgraph.tir.build import type_of
from benchgraph.tir.visit import parts

_CONTRACT = ("contract",)  # a * b + c may become one FMA; nothing may be reassociated
_FLOAT = {
    tir.BinOp.add: ir.IRBuilder.fadd, tir.BinOp.sub: ir.IRBuilder.fsub, tir.BinOp.mul: ir.IRBuilder.fmul, tir.BinOp.div: ir.IRBuilder.fdiv,
}  # fmt: skip
_INTEGER: dict[tir.BinOp, Callable[[ir.IRBuilder, ir.Value, ir.Value], ir.Value]] = {
    tir.BinOp.add: ir.IRBuilder.add, tir.BinOp.sub: ir.IRBuilder.sub, tir.BinOp.mul: ir.IRBuilder.mul, tir.BinOp.and_: ir.IRBuilder.and_,
    tir.BinOp.or_: ir.IRBuilder.or_,
}  # fmt: skip
_COMPARE = {tir.BinOp.eq: "==", tir.BinOp.ne: "!=", tir.BinOp.lt: "<", tir.BinOp.le: "<=", tir.BinOp.gt: ">", tir.BinOp.ge: ">="}
_UNSIGNED = frozenset({DType.u8, DType.boolean})


def evaluate(f: FunctionBuilder, e: tir.Expr) -> ir.Value:
    """The value of an expression, of type convert.value_type."""
    b = f.builder
    match e:
        case tir.Var():
            return f.variables[e.name]
        case tir.Const():
            return _literal(e)
        case tir.Binary():
            return _binary(f, e)
        case tir.Unary():
            return _unary(f, e)
        case tir.Cast():
            return cast(b, evaluate(f, e.a), type_of(e.a)[0], e.dtype, f.target.isa)
        case tir.Select():
            return b.select(evaluate(f, e.cond), evaluate(f, e.a), evaluate(f, e.b))
        case tir.Random():
            return _random(f, e)
        case tir.Load():
            base, stride, lanes = access(f, e.tensor, e.index)
            odd = _parity(e.index[0]) if e.tensor.dtype.is_packed and e.index else None
            return f.load(e.tensor, base, stride, lanes, None if e.mask is None else evaluate(f, e.mask), odd)
        case tir.Ramp():
            first = evaluate(f, e.base)
            steps = ir.Constant(first.type.lanes(e.lanes), [e.stride * lane for lane in range(e.lanes)])
            return b.add(splat(b, first, e.lanes), steps)
        case tir.Broadcast():
            return _literals(e) if isinstance(e.a, tir.Const) else splat(b, evaluate(f, e.a), e.lanes)
        case tir.ReduceLanes():
            if _propagates_nan(e.op, type_of(e)[0]):
                return _nan_or_extreme(f, e.op, tuple(_operands(f, e.op, e)))
            return _reduce_lanes(f, e.op, type_of(e.a)[0], evaluate(f, e.a))


@memoised
def _literal(e: tir.Const) -> ir.Constant:
    return literal(e.value, e.dtype)


@memoised
def _literals(e: tir.Broadcast) -> ir.Constant:
    """A literal in every lane."""
    assert isinstance(e.a, tir.Const)
    return repeated(_literal(e.a), e.lanes)


def access(f: FunctionBuilder, t: tir.Tensor, index: tuple[tir.Expr, ...]) -> tuple[ir.Value | None, int, int]:
    """(index of the first lane, stride, lanes) of an access; the index is None for a register."""
    if t.scope is tir.Scope.register:
        return None, 1, t.lanes
    (i,) = index
    if isinstance(i, tir.Ramp):
        return evaluate(f, i.base), i.stride, i.lanes
    return evaluate(f, i), 1, 1


def _parity(index: tir.Expr) -> int | None:
    """Of the first element's index, None unless all its coefficients are even."""
    form = linear(index.base if isinstance(index, tir.Ramp) else index)
    return form.constant % 2 if all(c % 2 == 0 for c in form.terms.values()) else None


def _binary(f: FunctionBuilder, e: tir.Binary) -> ir.Value:
    dtype = type_of(e.a)[0]
    match e:
        case tir.Binary(tir.BinOp.lt, tir.Ramp(stride=1) as ramp, tir.Broadcast(limit)) if dtype is tir.INDEX:
            return _first_lanes(f, ramp, limit)
    if _propagates_nan(e.op, dtype):
        return _nan_or_extreme(f, e.op, tuple(_operands(f, e.op, e)))
    x, y = evaluate(f, e.a), evaluate(f, e.b)
    if e.op in (tir.BinOp.floordiv, tir.BinOp.mod):
        return _floor_divide(f, e, x, y)
    return _apply(f, e.op, dtype, x, y)


def _first_lanes(f: FunctionBuilder, ramp: tir.Ramp, limit: tir.Expr) -> ir.Value:
    """base + lane < limit, the mask of a tail: compared in 32 bits, half the registers of 64."""
    b = f.builder
    left = b.sub(evaluate(f, limit), evaluate(f, ramp.base))
    bounded = pointwise(b, "smin", pointwise(b, "smax", left, I64(0)), I64(ramp.lanes))
    lanes = ir.Constant(I32.lanes(ramp.lanes), list(range(ramp.lanes)))
    return b.icmp_signed("<", lanes, splat(b, b.trunc(bounded, I32), ramp.lanes))


def _apply(f: FunctionBuilder, op: tir.BinOp, dtype: DType, x: ir.Value, y: ir.Value) -> ir.Value:
    b = f.builder
    if op.is_comparison:
        return _compare(b, op, dtype, x, y)
    if _propagates_nan(op, dtype):
        return _nan_or_extreme(f, op, (_Operand(x), _Operand(y)))
    if op.is_extreme:
        op = op.by_order
        if dtype is DType.f32 and has_extremes(f.target.isa, x):
            return extreme(b, op.name, x, y)
        smaller = _compare(b, tir.BinOp.lt if op is tir.BinOp.min else tir.BinOp.gt, dtype, x, y)
        return b.select(smaller, x, y)  # the second operand when either is NaN: one minps
    if dtype is DType.f32:
        return _FLOAT[op](b, x, y, () if op is tir.BinOp.div else _CONTRACT)
    return _INTEGER[op](b, x, y)


def _propagates_nan(op: tir.BinOp, dtype: DType) -> bool:
    return op.keeps_nan and dtype is DType.f32


@dataclass(frozen=True)
class _Operand:
    """A value, and where NaN takes its place: where the value is NaN, unless is_number; outside of the mask `numbers` (see `NumberMasks`);
    and unless all bits are set. nan: a value that is NaN outside of the mask."""

    value: ir.Value
    is_number: bool = False
    numbers: ir.Value | None = None
    bits: tuple[ir.Value, ...] = ()
    nan: ir.Value | None = None


def _operands(f: FunctionBuilder, op: tir.BinOp, e: tir.Expr) -> Iterator[_Operand]:
    """The operands of nested applications of an associative op: a, b and c of op(op(a, b), c), which are applications if c is one."""
    literal = e.a if isinstance(e, tir.Broadcast) else e
    match e:
        case tir.Binary(_, tir.Binary(inner, _, b) as first, last) if e.op is op and inner is op and _applies(op, b) == _applies(op, last):
            yield from _operands(f, op, first)
            yield _chain(f, op, tuple(_operands(f, op, last)))
        case tir.Binary() if e.op is op:
            yield from (_chain(f, op, tuple(_operands(f, op, each))) for each in (e.a, e.b))
        case tir.ReduceLanes() if e.op is op:
            lanes = evaluate(f, e.a)
            yield _Operand(_reduce_lanes(f, op.by_order, DType.f32, lanes), is_number=True, bits=(_are_numbers(f, lanes),))
        case _:
            yield _Operand(evaluate(f, e), isinstance(literal, tir.Const) and literal.value == literal.value)


def _applies(op: tir.BinOp, e: tir.Expr) -> bool:
    return isinstance(e, tir.Binary) and e.op is op


def _chain(f: FunctionBuilder, op: tir.BinOp, operands: Sequence[_Operand]) -> _Operand:
    """The minimum or maximum of all.

    A processor's min and max return the second operand if either is NaN. So each result of the chain is NaN exactly if the operand that
    joins it is, and the last one needs no check: the accumulator in a reduction. The others are checked two at a time, on results instead
    of operands, so that an instruction that loads its operand is the operand's only reader. 1.5 instructions for each operand of a window,
    one of them in the accumulator's chain; 2 for those of a reduction with mask registers, 3 without. Operands that are applications, which
    several windows may share, have their masks with them.
    """
    if len(operands) == 1:
        return operands[0]
    known = [o.value for o in operands if o.is_number]
    others = [o.value for o in operands if not o.is_number]
    results = list(accumulate((*known, *others[1:], *others[:1]), partial(_apply, f, op.by_order, DType.f32)))
    checked, masks = results[len(known) : -1], [o.numbers for o in operands if o.numbers is not None]
    lanes = NumberMasks(f.builder, lanes_of(results[0]), f.target.isa)
    compared = [lanes.both(x, y) for x, y in zip_longest(checked[::2], checked[1::2], fillvalue=results[-2])]
    numbers = lanes.all((*masks, *compared)) if masks or compared else None
    nan_elsewhere = checked[0] if len(checked) == 1 and not masks else None
    return _Operand(results[-1], numbers=numbers, bits=tuple(bit for o in operands for bit in o.bits), nan=nan_elsewhere)


def _nan_or_extreme(f: FunctionBuilder, op: tir.BinOp, operands: Sequence[_Operand]) -> ir.Value:
    """The minimum or maximum of all, NaN if one of them is."""
    chain = _chain(f, op, operands)
    result, not_a_number = chain.value, constant(chain.value.type, nan)
    if chain.numbers is not None:
        result = NumberMasks(f.builder, lanes_of(result), f.target.isa).where(chain.numbers, result, chain.nan or not_a_number)
    for bit in chain.bits:
        result = f.builder.select(bit, result, not_a_number, is_likely=True)
    return result


def _are_numbers(f: FunctionBuilder, x: ir.Value) -> ir.Value:
    """Whether no lane is NaN."""
    ordered = f.builder.fcmp_ordered("ord", x, x)
    return call(f.builder, f"llvm.vector.reduce.and.{mangled(ordered.type)}", I1, [ordered])


def _compare(b: ir.IRBuilder, op: tir.BinOp, dtype: DType, x: ir.Value, y: ir.Value) -> ir.Value:
    if dtype is DType.f32:
        return (b.fcmp_unordered if op is tir.BinOp.ne else b.fcmp_ordered)(_COMPARE[op], x, y)
    return (b.icmp_unsigned if dtype in _UNSIGNED else b.icmp_signed)(_COMPARE[op], x, y)


def _floor_divide(f: FunctionBuilder, e: tir.Binary, x: ir.Value, y: ir.Value) -> ir.Value:
    """Round towards minus infinity, for a positive divisor y; a power of two is a shift or a mask.

    Indices below 2**31 are divided in 32 bits, where a product of 64 bits gives the quotient by a constant.
    """
    b, op, divisor = f.builder, e.op, known_integer(e.b.a if isinstance(e.b, tir.Broadcast) else e.b) or 0
    if divisor > 0 and divisor & (divisor - 1) == 0:
        bits = divisor.bit_length() - 1
        return b.ashr(x, constant(x.type, bits)) if op is tir.BinOp.floordiv else b.and_(x, constant(x.type, divisor - 1))
    if 0 < divisor < 1 << 31 and _fits_31_bits(f, e.a):
        small = b.trunc(x, same_lanes(x, I32))
        by = constant(small.type, divisor)
        return b.zext(b.udiv(small, by) if op is tir.BinOp.floordiv else b.urem(small, by), x.type)
    remainder = b.srem(x, y)
    is_negative = b.icmp_signed("<", remainder, constant(x.type, 0))
    if op is tir.BinOp.mod:
        return b.select(is_negative, b.add(remainder, y), remainder)
    quotient = b.sdiv(x, y)
    return b.select(is_negative, b.sub(quotient, constant(x.type, 1)), quotient)


def _fits_31_bits(f: FunctionBuilder, e: tir.Expr) -> bool:
    """Whether an index is between 0 and 2**31 - 1, by the ranges of loop variables."""
    low, high = bounds(e, f.ranges)
    return low >= 0 and high < 1 << 31 and type_of(e)[0] is tir.INDEX


def _random(f: FunctionBuilder, e: tir.Random) -> ir.Value:
    b, lanes = f.builder, type_of(e)[1]
    has_blocks = lanes > BLOCK and lanes % BLOCK == 0
    match e:
        case tir.Random(tir.Ramp(first, 1), tir.Broadcast(seed), tir.Broadcast(offset)) if has_blocks and linear(first).is_multiple(BLOCK):
            stream = (splat(b, evaluate(f, part), lanes // BLOCK) for part in (seed, offset))
            return philox.consecutive_numbers(b, evaluate(f, tir.Ramp(first, BLOCK, lanes // BLOCK)), *stream)
    return philox.numbers(b, *(evaluate(f, part) for part in parts(e)))


def _unary(f: FunctionBuilder, e: tir.Unary) -> ir.Value:
    b, x, isa = f.builder, evaluate(f, e.a), f.target.isa
    is_float = type_of(e.a)[0] is DType.f32
    match e.op:
        case tir.UnOp.neg:
            return b.fneg(x) if is_float else b.neg(x)
        case tir.UnOp.abs:
            return pointwise(b, "fabs", x) if is_float else call(b, f"llvm.abs.{mangled(x.type)}", x.type, [x, I1(0)])
        case tir.UnOp.sqrt:
            return pointwise(b, "sqrt", x)
        case tir.UnOp.exp:
            return vmath.exp(b, x, isa)
        case tir.UnOp.decay:
            return vmath.decay(b, x)
        case tir.UnOp.log:
            return vmath.log(b, x)
        case tir.UnOp.tanh:
            return vmath.tanh(b, x)
        case tir.UnOp.normal_tail:
            return vmath.normal_tail(b, x, isa)
        case tir.UnOp.gauss:
            return vmath.gauss(b, x, isa)
        case tir.UnOp.round:
            return vmath.round_even(b, x, isa)
        case tir.UnOp.floor:
            return vmath.floor(b, x, isa)
        case tir.UnOp.not_:
            return b.xor(x, constant(x.type, 1))


def _reduce_lanes(f: FunctionBuilder, op: tir.BinOp, dtype: DType, x: ir.Value) -> ir.Value:
    """Halve the vector until one lane is left; an odd lane is added at the end."""
    b, lanes = f.builder, lanes_of(x)
    if lanes == 1:
        return x
    half = lanes // 2
    low, high = (_slice_lanes(b, x, start, half) for start in (0, half))
    result = _reduce_lanes(f, op, dtype, _apply(f, op, dtype, low, high))
    return result if lanes % 2 == 0 else _apply(f, op, dtype, result, b.extract_element(x, I32(lanes - 1)))


def _slice_lanes(b: ir.IRBuilder, x: ir.Value, start: int, count: int) -> ir.Value:
    if count == 1:
        return b.extract_element(x, I32(start))
    return b.shuffle_vector(x, poison(x.type), ir.Constant(I32.lanes(count), list(range(start, start + count))))
