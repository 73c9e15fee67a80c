"""Tensor IR functions of a matrix product and post-ops that its microkernel can apply."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import inf

from benchgraph.core.dtypes import DType
from benchgraph.tir.build import add, binary, cast, f32, mul, seq
from benchgraph.tir.ir import (
    Alloc,
    BinOp,
    Brgemm,
    Expr,
    Func,
    Scope,
    Select,
    Slice,
    Stmt,
    Tensor,
    tensor,
)
from tests.support.tir_programs import ROWS_COLS, ZERO, at, i, j, loop, no, param, put

M, N, K = 7, 64, 5


@dataclass(frozen=True)
class Operands:
    """y = f(t), t = x @ w, with a number c of each column and r of each row."""

    x: Tensor
    w: Tensor
    c: Tensor
    r: Tensor
    y: Tensor
    t: Tensor


Body = Callable[[Operands, Expr, Expr], list[Stmt]]  # row and column


def product(
    body: Body, *, m: int = M, n: int = N, y: Tensor | None = None, times: int = 1, accumulate: bool = False, is_read: bool = False
) -> Func:
    """y = body(x @ w), by `times` panels of columns one after the other. is_read: t is read once more behind them."""
    o = Operands(
        param("x", m, K),
        param("w", K, n),
        param("c", n),
        param("r", m),
        param("y", m, n) if y is None else y,
        tensor("t", DType.f32, (m, n)),
    )
    width = n // times
    start = mul(no, width)
    pieces = (Slice(t, at, ROWS_COLS) for t, at in ((o.x, (ZERO, ZERO)), (o.w, (ZERO, start)), (o.t, (ZERO, start))))
    first = [loop(i, m, loop(j, n, put(o.t, i, j, value=f32(0.5))))] if accumulate else []
    call = Brgemm(*pieces, m, width, K, accumulate=accumulate)
    nest = loop(no, times, call, loop(i, m, loop(j, width, *body(o, i, add(start, j)))))
    behind = [loop(j, n, put(o.c, j, value=at(o.t, 0, j)))] if is_read else []
    return Func("product", (o.x, o.w, o.c, o.r, o.y), seq(Alloc(o.t), *first, nest, *behind))


def biased(o: Operands, m: Expr, n: Expr) -> list[Stmt]:
    """relu(t + c), by way of a temporary."""
    u = Tensor("u", DType.f32, (), (), Scope.register)
    return [Alloc(u), put(u, value=binary(BinOp.add, at(o.t, m, n), at(o.c, n))), put(o.y, m, n, value=binary(BinOp.max, at(u), f32(0.0)))]


def scaled(o: Operands, m: Expr, n: Expr) -> list[Stmt]:
    """A number of each row, and one of each column."""
    return [put(o.y, m, n, value=cast(binary(BinOp.add, binary(BinOp.mul, at(o.t, m, n), at(o.r, m)), at(o.c, n)), o.y.dtype))]


def added(o: Operands, m: Expr, n: Expr) -> list[Stmt]:
    return [put(o.y, m, n, value=binary(BinOp.add, at(o.y, m, n), at(o.t, m, n)))]


def summed(o: Operands, m: Expr, n: Expr) -> list[Stmt]:
    """Over rows, whose order is kept."""
    return [put(o.y, 0, n, value=binary(BinOp.sub, at(o.t, m, n), at(o.y, 0, n)))]


def chosen(o: Operands, m: Expr, n: Expr) -> list[Stmt]:
    x = at(o.t, m, n)
    return [put(o.y, m, n, value=Select(binary(BinOp.gt, x, f32(0.0)), x, binary(BinOp.mul, x, f32(0.1))))]


def masked(o: Operands, m: Expr, n: Expr) -> list[Stmt]:
    """Hidden right of a diagonal that begins in some columns before."""
    row, column = (cast(e, DType.s32) for e in (add(m, N // 4), n))
    return [put(o.y, m, n, value=Select(binary(BinOp.ge, row, column), at(o.t, m, n), f32(-inf)))]


HOLDS: dict[str, Func] = {
    "a temporary on the way": product(biased),
    "numbers of rows and columns": product(scaled),
    "stored narrow": product(scaled, y=param("y", M, N, dtype=DType.bf16)),
    "stored as bytes": product(scaled, y=param("y", M, N, dtype=DType.u8)),
    "stored elsewhere in each row": product(scaled, y=param("y", M, N, strides=(100, 1))),
    "into what was there": product(added),
    "summed over rows": product(summed),
    "used twice": product(chosen),
    "one row": product(scaled, m=1),
    "one vector": product(scaled, n=16),
    "one vector of one row": product(scaled, m=1, n=16),
    "panels": product(biased, times=2),
    "half vectors": product(biased, n=8),
    "a choice by place": product(masked),
    "a choice by place in panels": product(masked, times=2),
}
