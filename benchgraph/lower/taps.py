"""Microkernel calls that leave out the taps which meet nothing but zeros: those of weights, and of padding around src.

    brgemm (7x32x512) acc = t[oh, ..] @ wei batch 3x3     ->    if oh < 1 {                        (two rows of taps)
                                                                  brgemm acc = t[oh + 1, ..] @ wei[1, ..] batch 2x3
                                                                } else if oh < 6 { ...

Of the taps along a row of results, short rows leave out those that only padding is met by, too: the others come first, for all results.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from benchgraph.gir.ir import Op
from benchgraph.gir.padding import met_by_entries, met_by_rows
from benchgraph.gir.product import product
from benchgraph.ops.spec import Box, Interval
from benchgraph.tir.build import add, binary, constant, seq
from benchgraph.tir.ir import BinOp, Brgemm, Const, Expr, If, Slice, Stmt

if TYPE_CHECKING:
    from benchgraph.lower.gemm import GemmNest

MOST_BRANCHES = 8  # of columns, or entries, that meet different taps: as many as phases of a stride of two in 3-d; else all are multiplied
# The share of the multiplications that rows save, and the terms of a sum of one tap, from which on they do: each number of rows is a
# microkernel of its own to compile, and results are read and written again for each of them.
LEAST_SAVED, LEAST_TERMS = 1 / 32, 128


def by_taps(nest: GemmNest, op: Op, no: Expr, width: int, nb: int, call: Callable[[Box], Stmt]) -> Stmt:
    """The call for the taps that a block of columns and a batch entry meet, behind branches where it hangs on these which those are."""
    p, at = product(nest.g, op), constant(no)
    if at is not None:
        return _by_entries(nest, op, p.met(at * nb, width), call)
    blocks = p.stretches(nb)
    if len(blocks) > MOST_BRANCHES:
        return _by_entries(nest, op, p.whole, call)
    return _branches(no, blocks, lambda met: _by_entries(nest, op, met, call))


def _by_entries(nest: GemmNest, op: Op, taps: Box, call: Callable[[Box], Stmt]) -> Stmt:
    found = met_by_entries(nest.g, op)
    if found is None or len(found.stretches) > MOST_BRANCHES:
        return call(taps)
    first = taps[found.tap][0]
    meets_zeros = _replaced(taps, found.tap, (first, first + 1))  # a sum over zeros is to be made, too
    boxes = [(end, _within(taps, found.tap, met) or meets_zeros) for end, met in found.stretches]
    return _branches(nest.batch[found.axis], boxes, call)


def _branches(at: Expr, stretches: Sequence[tuple[int, Box]], call: Callable[[Box], Stmt]) -> Stmt:
    """The call for what an index meets; stretches: of indices, the end of each, and what they meet."""
    last = stretches[-1][1]
    stmt = call(last)
    for end, box in reversed(stretches):
        if box != last:
            stmt, last = If(binary(BinOp.lt, at, Const(end)), call(box), stmt), box
    return stmt


def _within(taps: Box, axis: int, met: Interval) -> Box | None:
    """Those of the taps that lie there along an axis, if any do."""
    first, end = taps[axis]
    begin, end = max(first, met[0]), min(end, met[1])
    return _replaced(taps, axis, (begin, end)) if begin < end else None


def _replaced(taps: Box, axis: int, interval: Interval) -> Box:
    return (*taps[:axis], interval, *taps[axis + 1 :])


def by_rows(nest: GemmNest, op: Op, rows: int, taps: Box, call: Callable[[int, Box, bool], Stmt]) -> Stmt:
    """The call for a task's rows, or several that leave out rows which meet but padding. call: (rows, taps, whether it adds)."""
    found = met_by_rows(nest.g, op)
    if found is None or rows != nest.m or found.saved < LEAST_SAVED or product(nest.g, op).reduced[-1] < LEAST_TERMS:
        return call(rows, taps, False)
    groups = [(box, span) for met, span in found.groups if (box := _within(taps, found.tap, met)) is not None]
    if not groups or groups[0][1] != (0, rows):  # of these columns no tap is met by all rows, so none can begin their sums
        return call(rows, taps, False)
    calls = list[Stmt]()
    for box, (first, end) in groups:
        part = call(end - first, box, bool(calls))
        assert isinstance(part, Brgemm), "what packs its src has no taps"
        assert isinstance(part.src, Slice)
        assert isinstance(part.acc, Slice)
        calls.append(replace(part, src=_down(part.src, first), acc=_down(part.acc, first)))
    return seq(*calls)


def _down(s: Slice, rows: int) -> Slice:
    """So many rows further on."""
    dim, by = s.axes[0]
    return replace(s, index=(*s.index[:dim], add(s.index[dim], by * rows), *s.index[dim + 1 :]))
