"""Constructors for Tensor IR: `add(i, 1)` instead of `Binary(BinOp.add, i, Const(1))`. They fold integer constants."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable
from typing import TypeAlias

from benchgraph.core.dtypes import DType
from benchgraph.core.memoise import memoised
from benchgraph.tir import ir

Index: TypeAlias = ir.Expr | int
Loop: TypeAlias = tuple[ir.Var, ir.Expr]  # its variable and extent


@memoised
def type_of(e: ir.Expr) -> tuple[DType, int]:
    """(dtype, lanes) of an expression."""
    match e:
        case ir.Var():
            return ir.INDEX, 1
        case ir.Const():
            return e.dtype, 1
        case ir.Binary():
            dtype, lanes = type_of(e.a)
            return (DType.boolean if e.op.is_comparison else dtype), lanes
        case ir.Unary():
            return type_of(e.a)
        case ir.Cast():
            return e.dtype, type_of(e.a)[1]
        case ir.Select():
            return type_of(e.a)
        case ir.Random():
            return DType.s32, type_of(e.index)[1]
        case ir.Load():
            lanes = max((type_of(i)[1] for i in e.index), default=1)
            return e.tensor.dtype, max(lanes, e.tensor.lanes)
        case ir.Ramp():
            return type_of(e.base)[0], e.lanes
        case ir.Broadcast():
            return type_of(e.a)[0], e.lanes
        case ir.ReduceLanes():
            return type_of(e.a)[0], 1


def index(e: Index) -> ir.Expr:
    return ir.Const(e) if isinstance(e, int) else e


def f32(value: float) -> ir.Const:
    return ir.Const(float(value), DType.f32)


def constant(e: ir.Expr) -> int | None:
    """The value of an integer constant, None for anything else."""
    return int(e.value) if isinstance(e, ir.Const) and not e.dtype.is_float else None


def _arithmetic(op: ir.BinOp, a: Index, b: Index, fold: Callable[[int, int], int], neutral: int | None = None) -> ir.Expr:
    """An operation on s64, folded if both operands are constants, or if the second one is neutral."""
    a, b = index(a), index(b)
    x, y = constant(a), constant(b)
    if x is not None and y is not None:
        return ir.Const(fold(x, y))
    return a if y is not None and y == neutral else ir.Binary(op, a, b)


def add(a: Index, b: Index) -> ir.Expr:
    return index(b) if constant(index(a)) == 0 else _arithmetic(ir.BinOp.add, a, b, operator.add, neutral=0)


def sub(a: Index, b: Index) -> ir.Expr:
    return _arithmetic(ir.BinOp.sub, a, b, operator.sub, neutral=0)


def mul(a: Index, b: Index) -> ir.Expr:
    x, y = constant(index(a)), constant(index(b))
    if x == 0 or y == 0:
        return ir.Const(0)
    return index(b) if x == 1 else _arithmetic(ir.BinOp.mul, a, b, operator.mul, neutral=1)


def floordiv(a: Index, b: int) -> ir.Expr:
    return _arithmetic(ir.BinOp.floordiv, a, b, operator.floordiv, neutral=1)


def mod(a: Index, b: int) -> ir.Expr:
    return ir.Const(0) if b == 1 else _arithmetic(ir.BinOp.mod, a, b, operator.mod)


def minimum(a: Index, b: Index) -> ir.Expr:
    return _arithmetic(ir.BinOp.min, a, b, min)


def nest(loops: Iterable[Loop], body: ir.Stmt, kind: ir.LoopKind = ir.LoopKind.serial, unroll_jam: int = 1) -> ir.Stmt:
    """Loops around statements, outermost first. unroll_jam: of the innermost one."""
    for var, extent in reversed(tuple(loops)):
        body, unroll_jam = ir.For(var, extent, body, kind, unroll_jam), 1
    return body


def block_size(total: int, size: int, number: ir.Expr) -> ir.Expr:
    """The size of block `number` when `total` is split into blocks of `size`, of which the last may be smaller."""
    return ir.Const(size) if total % size == 0 else minimum(size, sub(total, mul(number, size)))


def in_blocks(
    total: int, size: int, number: ir.Var, body: Callable[[ir.Expr, int], ir.Stmt], kind: ir.LoopKind = ir.LoopKind.serial
) -> ir.Stmt:
    """A loop of body(number, size) over full blocks, then body(number of full blocks, rest) if there is a rest."""
    full, rest = divmod(total, size)
    loop = ir.For(number, ir.Const(full), body(number, size), kind) if full else seq()
    return seq(loop, body(ir.Const(full), rest)) if rest else loop


def one_block(total: int, size: int, number: ir.Expr, body: Callable[[ir.Expr, int], ir.Stmt]) -> tuple[ir.Stmt, int]:
    """One iteration of `in_blocks`, for any block number including that of the rest, and the number of iterations."""
    full, rest = divmod(total, size)
    whole = body(number, size)
    return (ir.If(ir.Binary(ir.BinOp.lt, number, ir.Const(full)), whole, body(ir.Const(full), rest)), full + 1) if rest else (whole, full)


def unary(op: ir.UnOp, a: ir.Expr) -> ir.Expr:
    return ir.Unary(op, a)


def binary(op: ir.BinOp, a: ir.Expr, b: ir.Expr) -> ir.Expr:
    """A float or boolean operation, not folded (TIR keeps float arithmetic as written)."""
    return ir.Binary(op, a, b)


def cast(a: ir.Expr, dtype: DType) -> ir.Expr:
    """The value converted to this dtype. Casts from bytes to a wider dtype, or from floats and booleans to f32, and back are removed."""
    if isinstance(a, ir.Cast) and type_of(a.a)[0] is dtype:
        is_lossless = dtype.bits <= 8 < a.dtype.bits if dtype.is_integer else a.dtype is DType.f32
        if is_lossless:
            return a.a
    return a if type_of(a)[0] is dtype else ir.Cast(a, dtype)


def select(cond: ir.Expr, a: ir.Expr, b: ir.Expr) -> ir.Expr:
    return ir.Select(cond, a, b)


def seq(*stmts: ir.Stmt) -> ir.Stmt:
    """One statement from several; nested blocks are spliced in, a block of one is that one.

    Only splice where scopes allow: an Alloc in a spliced block then lives to the end of the outer one.
    """
    flat = [s for stmt in stmts for s in (stmt.stmts if isinstance(stmt, ir.Seq) else (stmt,))]
    return flat[0] if len(flat) == 1 else ir.Seq(tuple(flat))
