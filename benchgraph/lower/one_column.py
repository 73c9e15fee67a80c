"""Products of one column, of which a microkernel's vectors along columns would use one lane.

Where rows of src lie k by k, each element is a fold, which runs in vectors along k, rows in fours (vectorize, interleave-rows):

    for i in rows:
      acc = 0
      for k in K: acc += src[i, k] * wei[k]
      dst[i] = acc

Where columns of src lie row by row, src and wei change roles, so that rows are what the vectors run along: dst' = wei' @ src'.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from benchgraph.gir.ir import Op
from benchgraph.gir.product import K, OneColumn, acc_dtype, one_column, product
from benchgraph.lower.access import ZERO, Coord
from benchgraph.tir.build import binary, cast, seq
from benchgraph.tir.ir import BinOp, Brgemm, Const, Expr, For, Load, Slice, Stmt, Store

if TYPE_CHECKING:
    from benchgraph.lower.gemm import GemmNest

Make = Callable[[Expr, int], Stmt]


def made_as_one_column(nest: GemmNest, op: Op) -> Make | None:
    """What makes the column, on a task's rows; None for other products."""
    match one_column(nest.g, op):
        case OneColumn.folded:
            return lambda no, width: nest.for_rows(lambda rows: _folded(nest, op, rows))
        case OneColumn.turned:
            return lambda no, width: nest.for_rows(lambda rows: _turned(nest, op, rows))
    return None


def _folded(nest: GemmNest, op: Op, rows: int) -> Stmt:
    p, storage, dtype = product(nest.g, op), nest.storage, acc_dtype(nest.g, op)
    i, k = storage.var("i"), storage.var("k")
    at = (*(Coord(var) for var in nest.batch), Coord(i, nest.mo, nest.mb), Coord(ZERO))
    known: dict[Expr, Coord] = {**dict(zip(p.at, at, strict=True)), K: Coord(k)}
    src, wei = (
        cast(storage.load(v, tuple(known.get(symbol, Coord(symbol)) for symbol in index)), dtype)
        for v, index in zip(op.ins, p.operands, strict=True)
    )
    acc, index = storage.scratch(nest.g.value(op.outs[0]), dtype), tuple(c.value for c in at)
    added = Store(acc, index, binary(BinOp.add, Load(acc, index), binary(BinOp.mul, src, wei)))
    zero = Const(0.0 if dtype.is_float else 0, dtype)
    fold = For(k, Const(p.reduced[-1]), added)
    return For(i, Const(rows), seq(Store(acc, index, zero), fold, storage.store(op.outs[0], at, Load(acc, index))))


def _turned(nest: GemmNest, op: Op, rows: int) -> Stmt:
    p, start = product(nest.g, op), nest.start(ZERO, 1)
    acc = nest.result(op, start)
    assert acc is not None, "one_column has seen that the result's rows are dense"
    src, wei = (nest.operand(op, p, port, start, Coord(ZERO)) for port in (0, 1))
    return Brgemm(_swapped(wei), _swapped(src), _swapped(acc), 1, rows, p.reduced[-1])


def _swapped(piece: Slice) -> Slice:
    rows, columns = piece.axes
    return Slice(piece.tensor, piece.index, (columns, rows))
