"""Microkernel calls of convolutions skip the taps that multiply only zeros: zero weights, and padding around src.

    brgemm (7x32x512) acc = t[oh, ..] @ wei batch 3x3     ->    if oh < 1 {                        (two rows of taps)
                                                                  brgemm acc = t[oh + 1, ..] @ wei[1, ..] batch 2x3
                                                                } else if oh < 6 { ...

Taps along a row of results can be skipped for some rows of the task too: the taps that all rows need come first, and write every result;
the others accumulate into the rows that need them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from benchgraph.gir.ir import Op
from benchgraph.gir.padding import rows_by_tap, taps_by_entry
from benchgraph.gir.product import product
from benchgraph.lower.gemm_task import GemmTask
from benchgraph.ops.spec import Box, Interval
from benchgraph.tir.build import add, binary, constant, seq
from benchgraph.tir.ir import BinOp, Brgemm, Const, Expr, If, Slice, Stmt

MOST_BRANCHES = 8  # cases of column blocks or batch entries, as many as phases of a 3-d stride of two; with more, no tap is skipped


def branch_by_taps(task: GemmTask, op: Op, column_block: Expr, width: int, nb: int, call: Callable[[Box], Stmt]) -> Stmt:
    """call(taps that a column block and a batch entry need), in branches where the taps depend on either's number."""
    p, block = product(task.g, op), constant(column_block)
    if block is not None:
        return _branch_by_entry(task, op, p.summed_box(block * nb, width), call)
    cases = p.column_runs(nb)
    if len(cases) > MOST_BRANCHES:
        return _branch_by_entry(task, op, p.full_box, call)
    return _branches(column_block, cases, lambda taps: _branch_by_entry(task, op, taps, call))


def _branch_by_entry(task: GemmTask, op: Op, taps: Box, call: Callable[[Box], Stmt]) -> Stmt:
    entries = taps_by_entry(task.g, op)
    if entries is None or len(entries.runs) > MOST_BRANCHES:
        return call(taps)
    first = taps[entries.tap][0]
    one_tap = _with_interval(taps, entries.tap, (first, first + 1))  # where all taps are zeros, one of them still writes the zero sums
    cases = [(end, _intersection(taps, entries.tap, interval) or one_tap) for end, interval in entries.runs]
    return _branches(task.batch[entries.axis], cases, call)


def _branches(index: Expr, cases: Sequence[tuple[int, Box]], call: Callable[[Box], Stmt]) -> Stmt:
    """call(taps) by the value of an index. cases: the taps up to, but without, each index, in ascending order."""
    last = cases[-1][1]
    stmt = call(last)
    for end, taps in reversed(cases):
        if taps != last:
            stmt, last = If(binary(BinOp.lt, index, Const(end)), call(taps), stmt), taps
    return stmt


def _intersection(taps: Box, axis: int, interval: Interval) -> Box | None:
    begin, end = max(taps[axis][0], interval[0]), min(taps[axis][1], interval[1])
    return _with_interval(taps, axis, (begin, end)) if begin < end else None


def _with_interval(taps: Box, axis: int, interval: Interval) -> Box:
    return (*taps[:axis], interval, *taps[axis + 1 :])


def split_by_rows(task: GemmTask, op: Op, rows: int, taps: Box, call: Callable[[int, Box, bool], Stmt]) -> Stmt:
    """The call for a task's rows, or several calls that skip the taps that read only padding. call: (rows, taps, accumulate)."""
    needs = rows_by_tap(task.g, op) if task.parameters(op).skips_padding else None
    if needs is None or rows != task.m:
        return call(rows, taps, False)
    groups = [(box, span) for interval, span in needs.groups if (box := _intersection(taps, needs.tap, interval)) is not None]
    if not groups or groups[0][1] != (0, rows):  # no tap of these columns is needed by all rows, so no call would write all sums
        return call(rows, taps, False)
    calls = list[Stmt]()
    for box, (first, end) in groups:
        stmt = call(end - first, box, bool(calls))
        assert isinstance(stmt, Brgemm), "a product whose src is packed has no taps"
        assert isinstance(stmt.src, Slice)
        assert isinstance(stmt.acc, Slice)
        calls.append(replace(stmt, src=_from_row(stmt.src, first), acc=_from_row(stmt.acc, first)))
    return seq(*calls)


def _from_row(matrix: Slice, row: int) -> Slice:
    dim, step = matrix.axes[0]
    return replace(matrix, index=(*matrix.index[:dim], add(matrix.index[dim], step * row), *matrix.index[dim + 1 :]))
