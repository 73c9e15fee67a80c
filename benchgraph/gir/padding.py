"""What of a product's sums is over padding, so over zeros, and need not be multiplied.

A convolution of 7 x 7 pixels, padded to 9 x 9, by 3 x 3 taps: the first row of results meets two rows of taps, and so does the last.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain

from benchgraph.gir.ir import Fused, Graph, Op
from benchgraph.gir.product import product, stretches
from benchgraph.gir.views import root_index
from benchgraph.ops import spec
from benchgraph.ops.spec import Border, Interval
from benchgraph.tir.affine import linear
from benchgraph.tir.ir import Var


@dataclass(frozen=True)
class Entries:
    """Which taps the entries along a batch axis of dst meet. stretches: of entries that meet the same, the end, and the taps."""

    axis: int
    tap: int
    stretches: tuple[tuple[int, Interval], ...]


@dataclass(frozen=True)
class Rows:
    """Which rows of dst meet which taps. groups: taps that the same rows meet, and those rows; first those that all rows meet.

    saved: the share of the multiplications that the others leave out.
    """

    tap: int
    groups: tuple[tuple[Interval, Interval], ...]
    saved: float


def met_by_entries(g: Graph, op: Op) -> Entries | None:
    """Of the outermost reduced axis, along the batch axis of dst whose entries do not all meet all of it; None where there is none."""
    p = product(g, op)
    for axis in range(len(p.at) - 2) if p.batch else ():
        tap = p.over.index(p.batch[0][0])
        if (spans := _met(g, op, axis, tap)) is not None:
            return Entries(axis, tap, _stretches(spans, p.call.outs[0].shape[axis]))
    return None


def _stretches(spans: Sequence[Interval], count: int) -> tuple[tuple[int, Interval], ...]:
    """Of entries that meet the same taps, the end, and the taps: from the first to the last whose span, given for each, holds them."""
    borders = sorted({0, count, *chain(*spans)})
    met = [[t for t, (begin, end) in enumerate(spans) if begin <= at < end] for at in borders[:-1]]
    some = [(found[0], found[-1] + 1) if found else (0, 1) for found in met]  # of zeros alone a sum is made, too
    return tuple((borders[end], taps) for end, taps in stretches(some))


def met_by_rows(g: Graph, op: Op) -> Rows | None:
    """Of the innermost reduced axis but k; None where all rows meet all of it, or no tap is met by them all."""
    p = product(g, op)
    tap = p.over.index(p.batch[-1][0]) if p.batch else 0
    spans = _met(g, op, len(p.at) - 2, tap) if p.batch else None
    if spans is None:
        return None
    count, ends = p.call.outs[0].shape[-2], stretches(spans)
    groups = [((begin, end), span) for begin, (end, span) in zip((0, *(end for end, _ in ends)), ends, strict=False) if any(span)]
    groups.sort(key=lambda group: group[1] != (0, count))
    saved = 1 - sum(end - begin for begin, end in spans) / (len(spans) * count)
    return Rows(tap, tuple(groups), saved) if groups and groups[0][1] == (0, count) else None


def _met(g: Graph, op: Op, axis: int, tap: int) -> list[Interval] | None:
    """For each of the reduced axis number `tap`, between which indices along an axis of dst it meets more than zeros, (0, 0) where there
    are none; None if it is all for all."""
    p, around = product(g, op), zeros_around(g, op.ins[0])
    at, over = p.at[axis], p.over[tap]
    forms = [(dim, form) for dim, i in enumerate(p.operands[0]) if {at, over} & (form := linear(i)).terms.keys()]
    if len(forms) != 1 or not any(around[forms[0][0]]) or forms[0][1].terms.keys() != {at, over}:
        return None
    ((dim, form),) = forms
    low, high = around[dim]
    inside, count = (low, p.call.ins[0].shape[dim] - high), p.call.outs[0].shape[axis]
    spans = [_span(form.constant + form.terms[over] * t, form.terms[at], inside, count) for t in range(p.reduced[tap])]
    return spans if any(span != (0, count) for span in spans) else None


def _span(first: int, step: int, inside: Interval, count: int) -> Interval:
    """Which of the indices first, first + step ... of so many lie inside; (0, 0) if none does."""
    low, end = inside if step > 0 else (1 - inside[1], 1 - inside[0])
    first, step = (first, step) if step > 0 else (-first, -step)
    span = max(-((first - low) // step), 0), min(-((first - end) // step), count)
    return span if span[0] < span[1] else (0, 0)


def zeros_around(g: Graph, id: int) -> Border:
    """Per dim of a value, of how many indices at its begin and at its end it is known that all elements are zeros."""
    root = g.root(id)
    node, none = g.producer.get(root), ((0, 0),) * len(g.value(id).shape)
    makers = [op for op in (node.ops if isinstance(node, Fused) else () if node is None else (node,)) if g.root(op.outs[0]) == root]
    if len(makers) != 1 or (border := spec(makers[0].kind).semantics.zero_border) is None:
        return none
    (made,) = makers[0].outs
    if g.value(made).type.elements != g.value(root).type.elements:
        return none
    known = {dim: sides for dim, sides in zip(_dims(g, made), border(makers[0].attrs), strict=True) if dim is not None}
    return tuple((0, 0) if dim is None else known.get(dim, (0, 0)) for dim in _dims(g, id))


def _dims(g: Graph, id: int) -> tuple[int | None, ...]:
    """For each dim of a value, that of its root which it is, all of it."""
    shape, whole = g.value(id).shape, g.value(g.root(id)).shape
    axes = tuple(Var(f"$i{dim}") for dim in range(len(shape)))
    place = {i: dim for dim, i in enumerate(root_index(g, id, axes))}
    found = (place.get(axis) for axis in axes)
    return tuple(dim if dim is not None and whole[dim] == size else None for dim, size in zip(found, shape, strict=True))
