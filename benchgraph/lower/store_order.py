"""The order in memory in which the post-ops of a product store its rows and columns, where they do not store row after row."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from benchgraph.gir.domain import Domain
from benchgraph.gir.ir import Graph, Op
from benchgraph.gir.views import root_index
from benchgraph.lower.loop_order import covers_all_axes
from benchgraph.ops.spec import DataMovement, Indices
from benchgraph.tir.affine import linear
from benchgraph.tir.build import constant
from benchgraph.tir.ir import Binary, BinOp, Const, Expr, Var
from benchgraph.tir.vector_loops import largest_store_stride
from benchgraph.tir.visit import variables


def stores_columns(g: Graph, domain: Domain, ops: Iterable[Op], outs: Iterable[int]) -> bool:
    """Whether post-ops store elements of one column contiguously, as with channels first, or with a stride so small that vectors of them
    are stored, as with a transposed convolution of stride two."""
    stored = _last_store(g, domain, ops, outs)
    if stored is None:
        return False
    row, column = (_stride(g, domain, *stored, axis) for axis in (len(domain.extents) - 2, len(domain.extents) - 1))
    return row is not None and column is not None and 1 <= row <= largest_store_stride(g.value(stored[1]).dtype) and row < column


@dataclass(frozen=True)
class Interleaving:
    """Columns n, n + distance, ... , `count` of them, are stored side by side, and after them those of the next row: the phases of a
    transposed convolution with channels first, where row i, column n goes to place i * count + n // distance % count of a row of dst."""

    count: int
    distance: int


def interleaving(g: Graph, domain: Domain, ops: Iterable[Op], outs: Iterable[int]) -> Interleaving | None:
    """How post-ops interleave a product's columns; None where they do not."""
    stored = _last_store(g, domain, ops, outs)
    if stored is None or g.value(g.root(stored[1])).layout.blocks:
        return None
    root, last = g.value(g.root(stored[1])), len(domain.extents) - 1
    row, column = Var("$row"), Var("$column")
    index = _index(g, domain, *stored, {last - 1: row, last: column})
    moving = [(e, stride) for e, stride in zip(index, root.known_strides, strict=True) if row.name in variables(e)]
    if len(moving) != 1 or moving[0][1] != 1:
        return None
    match sorted(linear(moving[0][0]).terms.items(), key=lambda term: term[0] == row):
        case [(Binary() as digit, 1), (_, count)]:
            distance = _divisor(digit, column)
            return Interleaving(count, distance) if distance and domain.extents[last] % (count * distance) == 0 else None
    return None


def _divisor(digit: Expr, column: Var) -> int:
    """c of `column // c` or `column // c % d`, as 3 for column // 3 % 2; 0 for another expression."""
    match digit:
        case Binary(BinOp.mod, Binary(BinOp.floordiv, x, Const(value=c)), Const()) | Binary(BinOp.floordiv, x, Const(value=c)):
            return int(c) if x == column else 0
    return 0


def _last_store(g: Graph, domain: Domain, ops: Iterable[Op], outs: Iterable[int]) -> tuple[Op, int] | None:
    """The last result that leaves the nest, and its op; None if the post-ops need one particular order of rows and columns."""
    all_ops = tuple(ops)
    stored = [(op, v) for op in all_ops for v in op.outs if g.root(v) in outs]
    return stored[-1] if stored and covers_all_axes(domain, all_ops) else None


def _index(g: Graph, domain: Domain, op: Op, id: int, at: Mapping[int, Expr]) -> Indices:
    """The index in its root's shape of a result's element. at: coordinates by axis of the domain, 0 where not given."""
    lowering, is_scattered = op.lowering.form, id in domain.scattered
    index: Indices = tuple(Const(0) if a is None else at.get(a, Const(0)) for a in domain.axes[op.ins[0] if is_scattered else id])
    if is_scattered and isinstance(lowering, DataMovement) and lowering.target is not None:
        index = lowering.target(op.attrs, g.value(op.ins[0]).shape, g.value(id).shape, index)
    return root_index(g, id, index)


def _stride(g: Graph, domain: Domain, op: Op, id: int, axis: int) -> int | None:
    """The distance in a result's memory of its first two elements along an axis; 0 for an axis of size 1, None if unknown."""
    root = g.value(g.root(id))
    if domain.extents[axis] < 2 or root.layout.blocks:
        return None if root.layout.blocks else 0
    places = []
    for i in (0, 1):
        index = [constant(e) for e in _index(g, domain, op, id, {axis: Const(i)})]
        if None in index:
            return None
        places.append(sum((i or 0) * stride for i, stride in zip(index, root.known_strides, strict=True)))
    return abs(places[1] - places[0])
