"""Where minima and maxima of indices are known to be one of their operands.

An average divides by the number of elements in its window. It differs only at borders, but is computed for every window:

    1 / max(0, min(4*i + 5, 200) - max(4*i - 1, 0))    ->    where 1 <= i < 49: 1 / 6
"""

from __future__ import annotations

from benchgraph.tir.affine import Ranges
from benchgraph.tir.index import Simplifier
from benchgraph.tir.ir import Binary, BinOp, Expr, Var
from benchgraph.tir.visit import variables, walk_expr


def known_interval(e: Expr, axis: Var, others: frozenset[str], ranges: Ranges) -> tuple[int, int]:
    """(first, end) of the indices along an axis, around its middle, for which each minimum and maximum in e that depends on this axis and
    on no other always has the same operand for its value; (0, 0) where there are none. others: names of the other axes."""
    extent = int(ranges[axis.name][1]) + 1
    clamps = [p for p in walk_expr(e) if _is_clamp(p) and axis.name in variables(p) and others.isdisjoint(variables(p))]

    def are_known(first: int, end: int) -> bool:
        simplified = Simplifier({**ranges, axis.name: (first, end - 1)})
        return not any(_is_clamp(p) for clamp in clamps for p in walk_expr(simplified(clamp)))

    middle = extent // 2
    if not clamps or are_known(0, extent):
        return 0, extent
    if not are_known(middle, middle + 1):
        return 0, 0
    first, end, step = middle, middle + 1, 1 << extent.bit_length()
    while step := step // 2:  # binary search: what holds for an interval holds for every part of it
        first = first - step if first >= step and are_known(first - step, middle + 1) else first
        end = end + step if end + step <= extent and are_known(middle, end + step) else end
    return first, end


def _is_clamp(e: Expr) -> bool:
    return isinstance(e, Binary) and e.op in (BinOp.min, BinOp.max)
