"""Which terms of a product's sums are products with padding, so with zeros, and need not be computed.

A convolution of 7 x 7 pixels, padded to 9 x 9, by 3 x 3 taps: the first row of results sums over two rows of taps only, and so does the
last.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain

from benchgraph.gir.gemm_nest import gemm_nest
from benchgraph.gir.ir import Graph, Op
from benchgraph.gir.product import product, runs
from benchgraph.gir.views import root_index
from benchgraph.machine.target import Target
from benchgraph.ops.spec import Border, Interval
from benchgraph.schedule.microkernel import cycles_of_taps
from benchgraph.tir.affine import linear
from benchgraph.tir.ir import Var

LEAST_SAVED = 0.02  # share of a product's cycles, for which two more microkernels are compiled


@dataclass(frozen=True)
class TapsByEntry:
    """Which taps the entries along a batch axis of dst sum over. runs: of entries with the same taps, their end, and the taps."""

    axis: int
    tap: int
    runs: tuple[tuple[int, Interval], ...]


@dataclass(frozen=True)
class RowsByTap:
    """Which rows of dst need which taps. groups: taps that the same rows need, and those rows; first those that all rows need."""

    tap: int
    groups: tuple[tuple[Interval, Interval], ...]


def taps_by_entry(g: Graph, op: Op) -> TapsByEntry | None:
    """For the outermost reduced axis and the first batch axis of dst along which taps differ; None where there is none."""
    p = product(g, op)
    for axis in range(len(p.at) - 2) if p.batch else ():
        tap = p.over.index(p.batch[0][0])
        if (spans := _spans(g, op, axis, tap)) is not None:
            return TapsByEntry(axis, tap, _taps_of_runs(spans, p.call.outs[0].shape[axis]))
    return None


def _taps_of_runs(spans: Sequence[Interval], count: int) -> tuple[tuple[int, Interval], ...]:
    """Of runs of entries with the same taps their end and their taps: from the first to the last whose span contains the entries."""
    borders = sorted({0, count, *chain(*spans)})
    taps_at = [[t for t, (begin, end) in enumerate(spans) if begin <= at < end] for at in borders[:-1]]
    intervals = [(taps[0], taps[-1] + 1) if taps else (0, 1) for taps in taps_at]  # a sum of zeros alone is computed, too
    return tuple((borders[end], taps) for end, taps in runs(intervals))


def rows_by_tap(g: Graph, op: Op) -> RowsByTap | None:
    """For the innermost reduced axis but k; None where all rows need all taps, or no tap is needed by all rows."""
    p = product(g, op)
    tap = p.over.index(p.batch[-1][0]) if p.batch else 0
    spans = _spans(g, op, len(p.at) - 2, tap) if p.batch else None
    if spans is None:
        return None
    count, ends = p.call.outs[0].shape[-2], runs(spans)
    groups = [((begin, end), span) for begin, (end, span) in zip((0, *(end for end, _ in ends)), ends, strict=False) if any(span)]
    groups.sort(key=lambda group: group[1] != (0, count))
    return RowsByTap(tap, tuple(groups)) if groups and groups[0][1] == (0, count) else None


def saves_taps_by_rows(g: Graph, op: Op, nb: int, target: Target) -> bool:
    """Whether a call for each group of taps costs less than one for all rows and taps: they read and write sums again."""
    needs = rows_by_tap(g, op)
    if needs is None:
        return False
    gemm = gemm_nest(product(g, op), target)
    of_tap = gemm.kernel.taps // gemm.taps[needs.tap]
    whole = cycles_of_taps(gemm.kernel, gemm.kernel.taps, gemm.m, nb, target)
    calls = ((of_tap * (last - first), end - begin) for (first, last), (begin, end) in needs.groups)
    return sum(cycles_of_taps(gemm.kernel, taps, rows, nb, target) for taps, rows in calls) < (1 - LEAST_SAVED) * whole


def _spans(g: Graph, op: Op, axis: int, tap: int) -> list[Interval] | None:
    """For each tap of reduced axis number `tap`, the indices along an axis of dst for which it reads more than zeros, (0, 0) where there
    are none; None if it does for all indices of all taps."""
    p, border = product(g, op), zero_border(g, op.ins[0])
    at, over = p.at[axis], p.over[tap]
    forms = [(dim, form) for dim, i in enumerate(p.operands[0]) if {at, over} & (form := linear(i)).terms.keys()]
    if len(forms) != 1 or not any(border[forms[0][0]]) or forms[0][1].terms.keys() != {at, over}:
        return None
    ((dim, form),) = forms
    low, high = border[dim]
    inside, count = (low, p.call.ins[0].shape[dim] - high), p.call.outs[0].shape[axis]
    spans = [_span(form.constant + form.terms[over] * t, form.terms[at], inside, count) for t in range(p.reduced[tap])]
    return spans if any(span != (0, count) for span in spans) else None


def _span(first: int, step: int, inside: Interval, count: int) -> Interval:
    """Which of the `count` indices first, first + step ... are inside; (0, 0) if none is."""
    low, end = inside if step > 0 else (1 - inside[1], 1 - inside[0])
    first, step = (first, step) if step > 0 else (-first, -step)
    span = max(-((first - low) // step), 0), min(-((first - end) // step), count)
    return span if span[0] < span[1] else (0, 0)


def zero_border(g: Graph, id: int) -> Border:
    """Per dim of a value, how many indices at its begin and at its end are known to be zeros."""
    root = g.root(id)
    node, none = g.producer.get(root), ((0, 0),) * len(g.value(id).shape)
    makers = [op for op in (() if node is None else node.ops) if g.root(op.outs[0]) == root]
    if len(makers) != 1 or (border := makers[0].semantics.zero_border) is None:
        return none
    (made,) = makers[0].outs
    if g.value(made).type.elements != g.value(root).type.elements:
        return none
    known = {dim: sides for dim, sides in zip(_root_dims(g, made), border(makers[0].attrs), strict=True) if dim is not None}
    return tuple((0, 0) if dim is None else known.get(dim, (0, 0)) for dim in _root_dims(g, id))


def _root_dims(g: Graph, id: int) -> tuple[int | None, ...]:
    """For each dim of a value, the dim of its root that it is, if it is all of that."""
    shape, root_shape = g.value(id).shape, g.value(g.root(id)).shape
    axes = tuple(Var(f"$i{dim}") for dim in range(len(shape)))
    positions = {i: dim for dim, i in enumerate(root_index(g, id, axes))}
    dims = (positions.get(axis) for axis in axes)
    return tuple(dim if dim is not None and root_shape[dim] == size else None for dim, size in zip(dims, shape, strict=True))
