"""Matrix times vector (gemv), and skinny products of a few rows with weights that are stored column by column (gir/gemv.py).

Where k is contiguous in src and wei, each element of dst is a reduction in vectors along k (passes unroll-and-jam, vectorise):

    for i in rows:
      acc = 0
      for k in K: acc += src[i, k] * wei[k]
      dst[i] = acc

Several columns are computed together, for all rows: operands are loaded once, and all sums stay in registers.

Where rows are contiguous in src, one column of wei is a row of the transposed product, whose columns are src's rows: dst' = wei' @ src'.
"""

from __future__ import annotations

from collections.abc import Sequence

from benchgraph.gir.gemv import Gemv, gemv_form
from benchgraph.gir.ir import Op, Stage
from benchgraph.gir.product import acc_dtype, product
from benchgraph.lower.gemm_task import ColumnBody, GemmTask, transposed
from benchgraph.lower.storage import ZERO, Coord
from benchgraph.tir.build import add, binary, cast, in_blocks, mul, seq
from benchgraph.tir.ir import BinOp, Brgemm, Const, Expr, For, Load, Stmt, Store


def gemv(task: GemmTask, stage: Stage) -> ColumnBody | None:
    """What computes a block of columns of the stage's product; None for products that the microkernel computes as they are."""
    op = stage.ops[0]
    match gemv_form(task.g, op):
        case Gemv.dot:
            return lambda column_block, width: task.for_rows(lambda rows: _reduce_k(task, stage, column_block, width, rows))
        case Gemv.axpy:
            return lambda column_block, width: task.for_rows(lambda rows: _transposed_product(task, op, rows))
    return None


def _reduce_k(task: GemmTask, stage: Stage, column_block: Expr, width: int, rows: int) -> Stmt:
    op, together = stage.ops[0], task.parameters(stage.ops[0]).unrolled_columns
    if not together:
        i = task.storage.var("i")
        row = _sums(task, op, [(Coord(i, task.row_block, task.mb), Coord(ZERO))])
        return For(i, Const(rows), row, unroll_jam=stage.jam.count)

    def sums(j: Expr, count: int) -> Stmt:
        columns = [Coord(add(mul(j, together), at), column_block, stage.nb) for at in range(count)]
        return _sums(task, op, [(Coord(Const(i), task.row_block, task.mb), column) for column in columns for i in range(rows)])

    j = task.storage.var("j")
    return For(j, Const(width), sums(j, 1), unroll_jam=stage.jam.count) if together == 1 else in_blocks(width, together, j, sums)


def _sums(task: GemmTask, op: Op, elements: Sequence[tuple[Coord, Coord]]) -> Stmt:
    """The elements of dst in these rows and columns, by one loop along k."""
    p, storage, dtype = product(task.g, op), task.storage, acc_dtype(task.g, op)
    k, zero = storage.var("k"), Const(0.0 if dtype.is_float else 0, dtype)
    clears, adds, stores = list[Stmt](), list[Stmt](), list[Stmt]()
    for row, column in elements:
        at = (*map(Coord, task.batch), row, column)
        src, wei = (cast(storage.load(v, task.coords(op, port, at, Coord(k))), dtype) for port, v in enumerate(op.ins))
        acc, index = storage.temporary(dtype, task.g.value(op.outs[0]).shape), tuple(c.value for c in at)
        clears.append(Store(acc, index, zero))
        adds.append(Store(acc, index, binary(BinOp.add, Load(acc, index), binary(BinOp.mul, src, wei))))
        stores.append(storage.store(op.outs[0], at, Load(acc, index)))
    return seq(*clears, For(k, Const(p.reduced[-1]), seq(*adds)), *stores)


def _transposed_product(task: GemmTask, op: Op, rows: int) -> Stmt:
    start = task.start(ZERO, 1)
    acc = task.result(op, start)
    assert acc is not None, "the result's rows are contiguous"
    src, wei = (task.operand(op, port, start, Coord(ZERO)) for port in (0, 1))
    return Brgemm(transposed(wei), transposed(src), transposed(acc), 1, rows, product(task.g, op).reduced[-1])
