"""The index into a buffer that a chain of views is: its layout ops, composed."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import TypeAlias

from benchgraph.core.memoise import memoised, memoised_within
from benchgraph.core.tensor import Shape
from benchgraph.gir.ir import Graph, Value, View
from benchgraph.ops import spec
from benchgraph.ops.spec import DataMovement
from benchgraph.tir.index import Simplifier
from benchgraph.tir.ir import Const, Expr, Var
from benchgraph.tir.visit import parts, substitute

Index: TypeAlias = tuple[Expr, ...]
Chain: TypeAlias = tuple[int, Index]  # how many views a value is from its root, and its index there in terms of its index
LONG = 4  # views; the index of a longer chain is simplified, since each view may double its size
MOST_NODES = 128  # of an index's expressions: beyond, a copy is cheaper than computing them at every access


def root_index(g: Graph, id: int, index: Index) -> Index:
    """The index in the root of the element at `index` of a value, through all its views."""
    depth, at_root = chain(g.value, g.chains, id)
    if depth > LONG:
        values = {axis.name: i for axis, i in zip(_axes(len(index)), index, strict=True)}
        return tuple(substitute(e, values) for e in at_root)
    while (view := g.value(id).view) is not None:
        id, index = view.base, _base_index(view, index)
    return index


def chain(value: Callable[[int], Value], known: dict[int, Chain], id: int) -> Chain:
    """The chain of a value. value: by id. known: chains by id, to which the result is added."""
    above = list[tuple[int, View]]()
    while id not in known:
        v = value(id)
        if v.view is None:
            known[id] = 0, _identity(v.shape)
        else:
            above.append((id, v.view))
            id = v.view.base
    for upper, view in reversed(above):
        known[upper] = longer(view, known[id])
        id = upper
    return known[id]


def longer(view: View, base: Chain) -> Chain:
    """The chain of a view, given that of its base."""
    depth, at_root = base
    return depth + 1, (_simplified if depth >= LONG else _composed)(view, at_root)


def is_short(of: Chain) -> bool:
    """Whether the index is cheap enough to compute at every access."""
    depth, at_root = of
    return depth <= LONG or sum(map(_nodes, at_root)) <= MOST_NODES


def zeroed(shape: Shape, index: Index) -> Index:
    """0 along dims of size 1."""
    return tuple(Const(0) if extent == 1 else i for extent, i in zip(shape, index, strict=True))


def _base_index(view: View, index: Index) -> Index:
    """The index in the view's base."""
    movement = spec(view.kind).lowering.form
    assert isinstance(movement, DataMovement)
    move = movement.target if view.inverse else movement.source
    assert move is not None, "make-views writes through no movement without targets"
    base = view.dst_shape if view.inverse else view.src_shape
    return zeroed(base, move(view.attrs, view.src_shape, view.dst_shape, index))


@cache
def _identity(shape: Shape) -> Index:
    """The index of a value's element in the value."""
    return zeroed(shape, _axes(len(shape)))


def _axes(rank: int) -> tuple[Var, ...]:
    return tuple(Var(f"$v{i}") for i in range(rank))


@memoised_within
def _composed(view: View, at_root: Index) -> Index:
    """The index in the root of the element at a view's own index, given that of its base."""
    at_base = _base_index(view, _identity(_shape(view)))
    values = {axis.name: i for axis, i in zip(_axes(len(at_base)), at_base, strict=True)}
    return tuple(substitute(e, values) for e in at_root)


@memoised_within
def _simplified(view: View, at_root: Index) -> Index:
    """The same as `_composed`, simplified for indices inside the view."""
    shape = _shape(view)
    simple = Simplifier({axis.name: (0, extent - 1) for axis, extent in zip(_axes(len(shape)), shape, strict=True)})
    return tuple(map(simple, _composed(view, at_root)))


def _shape(view: View) -> Shape:
    """The shape of the view, not of its base."""
    return view.src_shape if view.inverse else view.dst_shape


@memoised
def _nodes(e: Expr) -> int:
    """Nodes of an expression, shared ones counted as often as they are used."""
    return 1 + sum(map(_nodes, parts(e)))
