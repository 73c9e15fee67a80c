"""Products of one column, of which a microkernel's vectors along columns would use one lane; and those of a few rows with weights that lie
by columns, which it could not read before all of them are copied.

Where k runs from element to element in src and wei, each element of dst is a fold, in vectors along k (vectorize), short ones in fours
(unroll-and-interleave):

    for i in rows:
      acc = 0
      for k in K: acc += src[i, k] * wei[k]
      dst[i] = acc

Several columns go some abreast, for all rows: what of wei and src meets each other is loaded once, and all sums stay in registers.

Where columns of src lie row by row, and there is one of wei, these change roles, so that rows are what the vectors run along:
dst' = wei' @ src'.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from benchgraph.gir.ir import Op, Stage
from benchgraph.gir.product import K, Thin, acc_dtype, product, thin
from benchgraph.lower.access import ZERO, Coord
from benchgraph.tir.build import add, binary, cast, in_blocks, mul, seq
from benchgraph.tir.ir import BinOp, Brgemm, Const, Expr, For, Load, Slice, Stmt, Store

if TYPE_CHECKING:
    from benchgraph.lower.gemm import GemmNest

Make = Callable[[Expr, int], Stmt]


def made_thin(nest: GemmNest, stage: Stage) -> Make | None:
    """What makes a block of columns of the stage's product, on a task's rows; None for other products."""
    op = stage.ops[0]
    match thin(nest.g, op):
        case Thin.folded:
            return lambda no, width: nest.for_rows(lambda rows: _folded(nest, stage, no, width, rows))
        case Thin.turned:
            return lambda no, width: nest.for_rows(lambda rows: _turned(nest, op, rows))
    return None


def _folded(nest: GemmNest, stage: Stage, no: Expr, width: int, rows: int) -> Stmt:
    op, abreast = stage.ops[0], 0 if stage.parameters is None else stage.parameters.abreast
    if not abreast:
        i = nest.storage.var("i")
        return For(i, Const(rows), _sums(nest, op, [(Coord(i, nest.mo, nest.mb), Coord(ZERO))]))

    def sums(j: Expr, count: int) -> Stmt:
        columns = [Coord(add(mul(j, abreast), at), no, stage.nb) for at in range(count)]
        return _sums(nest, op, [(Coord(Const(i), nest.mo, nest.mb), column) for column in columns for i in range(rows)])

    return in_blocks(width, abreast, nest.storage.var("j"), sums)


def _sums(nest: GemmNest, op: Op, places: Sequence[tuple[Coord, Coord]]) -> Stmt:
    """The elements of dst in these rows and columns, by one loop along k."""
    p, storage, dtype = product(nest.g, op), nest.storage, acc_dtype(nest.g, op)
    k, zero = storage.var("k"), Const(0.0 if dtype.is_float else 0, dtype)
    begin, added, end = list[Stmt](), list[Stmt](), list[Stmt]()
    for row, column in places:
        at = (*(Coord(var) for var in nest.batch), row, column)
        known: dict[Expr, Coord] = {**dict(zip(p.at, at, strict=True)), K: Coord(k)}
        src, wei = (
            cast(storage.load(v, tuple(known.get(symbol, Coord(symbol)) for symbol in index)), dtype)
            for v, index in zip(op.ins, p.operands, strict=True)
        )
        acc, index = storage.scratch(nest.g.value(op.outs[0]), dtype), tuple(c.value for c in at)
        begin.append(Store(acc, index, zero))
        added.append(Store(acc, index, binary(BinOp.add, Load(acc, index), binary(BinOp.mul, src, wei))))
        end.append(storage.store(op.outs[0], at, Load(acc, index)))
    return seq(*begin, For(k, Const(p.reduced[-1]), seq(*added)), *end)


def _turned(nest: GemmNest, op: Op, rows: int) -> Stmt:
    p, start = product(nest.g, op), nest.start(ZERO, 1)
    acc = nest.result(op, start)
    assert acc is not None, "thin has seen that the result's rows are dense"
    src, wei = (nest.operand(op, p, port, start, Coord(ZERO)) for port in (0, 1))
    return Brgemm(_swapped(wei), _swapped(src), _swapped(acc), 1, rows, p.reduced[-1])


def _swapped(piece: Slice) -> Slice:
    rows, columns = piece.axes
    return Slice(piece.tensor, piece.index, (columns, rows))
