"""How the post-ops of a product write its rows and columns to memory, where it is not row after row."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from benchgraph.gir.domain import Domain
from benchgraph.gir.ir import Graph, Op
from benchgraph.gir.views import root_index
from benchgraph.lower.runs import is_even
from benchgraph.ops import spec
from benchgraph.ops.spec import DataMovement, Indices
from benchgraph.tir.affine import linear
from benchgraph.tir.build import constant
from benchgraph.tir.ir import Binary, BinOp, Const, Expr, Var
from benchgraph.tir.vector_loops import closest
from benchgraph.tir.visit import variables


def writes_along_rows(g: Graph, domain: Domain, ops: Iterable[Op], outs: Iterable[int]) -> bool:
    """Whether a product's post-ops write elements of one column side by side, as where channels come first, or so close that a vector of
    them is stored, as where the windows of a transposed convolution step by two."""
    written = _last_written(g, domain, ops, outs)
    if written is None:
        return False
    row, column = (_gap(g, domain, *written, axis) for axis in (len(domain.extents) - 2, len(domain.extents) - 1))
    return row is not None and column is not None and 1 <= row <= closest(g.value(written[1]).dtype) and row < column


@dataclass(frozen=True)
class Weave:
    """Columns n, n + apart ... of which so many lie side by side in memory, element by element, and behind them those of the next row: what
    the phases of a transposed convolution are where channels come first."""

    count: int
    apart: int


def weave(g: Graph, domain: Domain, ops: Iterable[Op], outs: Iterable[int]) -> Weave | None:
    """How a product's post-ops write its columns, if like that."""
    written = _last_written(g, domain, ops, outs)
    if written is None or g.value(g.root(written[1])).layout.blocks:
        return None
    root, last = g.value(g.root(written[1])), len(domain.extents) - 1
    row, column = Var("$row"), Var("$column")
    index = _index(g, domain, *written, {last - 1: row, last: column})
    moving = [(e, stride) for e, stride in zip(index, root.known_strides, strict=True) if row.name in variables(e)]
    if len(moving) != 1 or moving[0][1] != 1:
        return None
    terms = linear(moving[0][0]).terms
    match sorted(terms.items(), key=lambda term: term[0] == row):
        case [(Binary() as digit, 1), (_, count)]:
            apart = _apart(digit, column)
            return Weave(count, apart) if apart and domain.extents[last] % (count * apart) == 0 else None
    return None


def _apart(digit: Expr, column: Var) -> int:
    """c, where the digit is column // c, or its last place in some base; 0 where it is something else."""
    match digit:
        case Binary(BinOp.mod, Binary(BinOp.floordiv, x, Const(value=c)), Const()) | Binary(BinOp.floordiv, x, Const(value=c)):
            return int(c) if x == column else 0
    return 0


def _last_written(g: Graph, domain: Domain, ops: Iterable[Op], outs: Iterable[int]) -> tuple[Op, int] | None:
    """The last of the results that leave the nest, and its op, where post-ops may run in any order of rows and columns."""
    every = tuple(ops)
    written = [(op, v) for op in every for v in op.outs if g.root(v) in outs]
    return written[-1] if written and is_even(domain, every) else None


def _index(g: Graph, domain: Domain, op: Op, id: int, at: Mapping[int, Expr]) -> Indices:
    """Where in its root's shape a result's element is, given where along axes of the domain; along all others it is the first."""
    how, is_scattered = spec(op.kind).lowering.form, id in domain.scattered
    here: Indices = tuple(Const(0) if a is None else at.get(a, Const(0)) for a in domain.axes[op.ins[0] if is_scattered else id])
    if is_scattered and isinstance(how, DataMovement) and how.target is not None:
        here = how.target(op.attrs, g.value(op.ins[0]).shape, g.value(id).shape, here)
    return root_index(g, id, here)


def _gap(g: Graph, domain: Domain, op: Op, id: int, axis: int) -> int | None:
    """How far the first two elements along an axis of the domain lie apart in a result's memory; 0 for one of size 1, None if unknown."""
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
