"""Constructors for Tensor IR: `add(i, 1)` instead of `Binary(BinOp.add, i, Const(1))`. They fold integer constants."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeAlias

from benchgraph.core.dtypes import DType
from benchgraph.core.memoise import memoised
from benchgraph.tir.ir import (
    INDEX,
    Binary,
    BinOp,
    Broadcast,
    Cast,
    Const,
    Expr,
    For,
    If,
    Load,
    LoopKind,
    Ramp,
    Random,
    ReduceLanes,
    Select,
    Seq,
    Stmt,
    Unary,
    UnOp,
    Var,
)

Index: TypeAlias = Expr | int
Loop: TypeAlias = tuple[Var, Expr]  # its variable and extent


@memoised
def type_of(e: Expr) -> tuple[DType, int]:
    """(dtype, lanes) of an expression."""
    match e:
        case Var():
            return INDEX, 1
        case Const():
            return e.dtype, 1
        case Binary():
            dtype, lanes = type_of(e.a)
            return (DType.boolean if e.op.is_comparison else dtype), lanes
        case Unary():
            return type_of(e.a)
        case Cast():
            return e.dtype, type_of(e.a)[1]
        case Select():
            return type_of(e.a)
        case Random():
            return DType.s32, type_of(e.index)[1]
        case Load():
            lanes = max((type_of(i)[1] for i in e.index), default=1)
            return e.tensor.dtype, max(lanes, e.tensor.lanes)
        case Ramp():
            return type_of(e.base)[0], e.lanes
        case Broadcast():
            return type_of(e.a)[0], e.lanes
        case ReduceLanes():
            return type_of(e.a)[0], 1


def index(e: Index) -> Expr:
    return Const(e) if isinstance(e, int) else e


def f32(value: float) -> Const:
    return Const(float(value), DType.f32)


def constant(e: Expr) -> int | None:
    """The value of an integer constant, None for anything else."""
    return int(e.value) if isinstance(e, Const) and not e.dtype.is_float else None


def add(a: Index, b: Index) -> Expr:
    a, b = index(a), index(b)
    x, y = constant(a), constant(b)
    if x is not None and y is not None:
        return Const(x + y)
    if x == 0:
        return b
    if y == 0:
        return a
    return Binary(BinOp.add, a, b)


def sub(a: Index, b: Index) -> Expr:
    a, b = index(a), index(b)
    x, y = constant(a), constant(b)
    if x is not None and y is not None:
        return Const(x - y)
    return a if y == 0 else Binary(BinOp.sub, a, b)


def mul(a: Index, b: Index) -> Expr:
    a, b = index(a), index(b)
    x, y = constant(a), constant(b)
    if x is not None and y is not None:
        return Const(x * y)
    if x == 0 or y == 0:
        return Const(0)
    if x == 1:
        return b
    return a if y == 1 else Binary(BinOp.mul, a, b)


def floordiv(a: Index, b: int) -> Expr:
    a = index(a)
    x = constant(a)
    if x is not None:
        return Const(x // b)
    return a if b == 1 else Binary(BinOp.floordiv, a, Const(b))


def mod(a: Index, b: int) -> Expr:
    a = index(a)
    x = constant(a)
    if x is not None:
        return Const(x % b)
    return Const(0) if b == 1 else Binary(BinOp.mod, a, Const(b))


def minimum(a: Index, b: Index) -> Expr:
    a, b = index(a), index(b)
    x, y = constant(a), constant(b)
    if x is not None and y is not None:
        return Const(min(x, y))
    return Binary(BinOp.min, a, b)


def nest(loops: Iterable[Loop], body: Stmt, kind: LoopKind = LoopKind.serial) -> Stmt:
    """Loops around statements, outermost first."""
    for var, extent in reversed(tuple(loops)):
        body = For(var, extent, body, kind)
    return body


def block_size(total: int, size: int, number: Expr) -> Expr:
    """The size of block `number` when `total` is split into blocks of `size`, of which the last may be smaller."""
    return Const(size) if total % size == 0 else minimum(size, sub(total, mul(number, size)))


def in_blocks(total: int, size: int, number: Var, body: Callable[[Expr, int], Stmt], kind: LoopKind = LoopKind.serial) -> Stmt:
    """A loop of body(number, size) over full blocks, then body(number of full blocks, rest) if there is a rest."""
    full, rest = divmod(total, size)
    loop = For(number, Const(full), body(number, size), kind) if full else seq()
    return seq(loop, body(Const(full), rest)) if rest else loop


def one_block(total: int, size: int, number: Expr, body: Callable[[Expr, int], Stmt]) -> tuple[Stmt, int]:
    """One iteration of `in_blocks`, for any block number including that of the rest, and the number of iterations."""
    full, rest = divmod(total, size)
    whole = body(number, size)
    return (If(Binary(BinOp.lt, number, Const(full)), whole, body(Const(full), rest)), full + 1) if rest else (whole, full)


def unary(op: UnOp, a: Expr) -> Expr:
    return Unary(op, a)


def binary(op: BinOp, a: Expr, b: Expr) -> Expr:
    """A float or boolean operation, not folded (TIR keeps float arithmetic as written)."""
    return Binary(op, a, b)


def cast(a: Expr, dtype: DType) -> Expr:
    """The value converted to this dtype. Casts from bytes to a wider dtype, or from floats and booleans to f32, and back are removed."""
    if isinstance(a, Cast) and type_of(a.a)[0] is dtype:
        is_lossless = dtype.bits <= 8 < a.dtype.bits if dtype.is_integer else a.dtype is DType.f32
        if is_lossless:
            return a.a
    return a if type_of(a)[0] is dtype else Cast(a, dtype)


def select(cond: Expr, a: Expr, b: Expr) -> Expr:
    return Select(cond, a, b)


def seq(*stmts: Stmt) -> Stmt:
    """One statement from several; nested blocks are spliced in, a block of one is that one.

    Only splice where scopes allow: an Alloc in a spliced block then lives to the end of the outer one.
    """
    flat = [s for stmt in stmts for s in (stmt.stmts if isinstance(stmt, Seq) else (stmt,))]
    return flat[0] if len(flat) == 1 else Seq(tuple(flat))
