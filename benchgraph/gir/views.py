"""Layout ops, views as chains of them, and where views lead: to an index in a buffer, and strides along loops."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import TypeAlias

from benchgraph.core.memoise import memoised, memoised_within
from benchgraph.core.tensor import Shape
from benchgraph.gir.ir import Graph, Node, Op, Value, View
from benchgraph.ops import spec, unit_steps
from benchgraph.ops.spec import Indices, LayoutOp
from benchgraph.tir.affine import Linear, linear, to_expr
from benchgraph.tir.index import Simplifier
from benchgraph.tir.ir import Const, Expr, Var
from benchgraph.tir.visit import parts, substitute

Index: TypeAlias = tuple[Expr, ...]
Steps: TypeAlias = tuple[int | None, ...]  # per loop, or per dim; None where the stride is not a constant
MOST_NODES = 128  # of an index's expressions: beyond, a copy is cheaper than computing them at every access


def layout_form(node: Node | None) -> LayoutOp | None:
    """How a layout op moves its only operand; None for all other nodes."""
    form = node.lowering.form if isinstance(node, Op) else None
    return form if isinstance(form, LayoutOp) and isinstance(node, Op) and len(node.ins) == 1 else None


def source_dims(g: Graph, op: Op) -> Steps:
    """For each dim of a layout op's result the dim of its operand along which elements follow each other there, None for no such dim."""
    return unit_steps.unit_steps(op.kind, op.attrs, g.value(op.ins[0]).shape, g.value(op.outs[0]).shape, inverse=False)


def result_dims(g: Graph, op: Op) -> Steps:
    """For each dim of a layout op's operand the dim of its result, likewise."""
    return unit_steps.unit_steps(op.kind, op.attrs, g.value(op.ins[0]).shape, g.value(op.outs[0]).shape, inverse=True)


@memoised
def moved_inputs(g: Graph) -> frozenset[int]:
    """The inputs of the graph, and what only layout ops make of them: readers can read the input through a view."""
    values = set(g.ins)
    for node in g.nodes:
        if layout_form(node) is not None and node.ins[0] in values:
            values.add(node.outs[0])
    return frozenset(values)


def root_index(g: Graph, id: int, index: Index) -> Index:
    """The index in the root of the element at `index` of a value, through all its views."""
    if g.value(id).view is None:
        return index
    values = {axis.name: i for axis, i in zip(_axes(len(index)), index, strict=True)}
    return tuple(substitute(e, values) for e in chain(g.value, g.chains, id))


def chain(value: Callable[[int], Value], known: dict[int, Index], id: int) -> Index:
    """The index in a value's root in terms of its own, $v. value: by id. known: of other values, to which the result is added."""
    above = list[tuple[int, View]]()
    while id not in known:
        v = value(id)
        if v.view is None:
            known[id] = _identity(v.shape)
        else:
            above.append((id, v.view))
            id = v.view.base
    for upper, view in reversed(above):
        known[upper] = longer(view, known[id])
        id = upper
    return known[id]


def is_short(at_root: Index) -> bool:
    """Whether the index is cheap enough to compute at every access."""
    return sum(map(_nodes, at_root)) <= MOST_NODES


def zeroed(shape: Shape, index: Index) -> Index:
    """0 along dims of size 1."""
    return tuple(Const(0) if extent == 1 else i for extent, i in zip(shape, index, strict=True))


def nest_index(axes: Sequence[int | None], point: Sequence[Expr]) -> Index:
    """The index of a value's element at a point of a nest. axes: those of the nest that run along the value's dims (`Domain.axes`)."""
    return tuple(Const(0) if axis is None else point[axis] for axis in axes)


def _base_index(view: View, index: Index) -> Index:
    """The index in the view's base."""
    form = spec(view.kind).lowering.form
    assert isinstance(form, LayoutOp)
    index_of = form.target if view.inverse else form.source
    assert index_of is not None, "make-views writes through no layout op without targets"
    base = view.dst_shape if view.inverse else view.src_shape
    return zeroed(base, index_of(view.attrs, view.src_shape, view.dst_shape, index))


@cache
def _identity(shape: Shape) -> Index:
    """The index of a value's element in the value."""
    return zeroed(shape, _axes(len(shape)))


def _axes(rank: int) -> tuple[Var, ...]:
    return tuple(Var(f"$v{i}") for i in range(rank))


@memoised_within
def longer(view: View, at_root: Index) -> Index:
    """The chain of a view, given that of its base. It is simplified, since each view may double its size."""
    shape = view.src_shape if view.inverse else view.dst_shape
    at_base = _base_index(view, _identity(shape))
    values = {axis.name: i for axis, i in zip(_axes(len(at_base)), at_base, strict=True)}
    simple = Simplifier({axis.name: (0, extent - 1) for axis, extent in zip(_axes(len(shape)), shape, strict=True)})
    return tuple(simple(substitute(e, values)) for e in at_root)


@memoised
def _nodes(e: Expr) -> int:
    """Nodes of an expression, shared ones counted as often as they are used."""
    return 1 + sum(map(_nodes, parts(e)))


def strides_of(g: Graph, id: int, index: Indices, variables: tuple[Var, ...]) -> Steps:
    """By how many elements of its buffer the element of a value at this index moves as each of the variables grows by one."""
    value, root = g.value(id), g.value(g.root(id))
    if root.layout.blocks:
        return (None,) * len(variables)
    at, strides = root_index(g, id, zeroed(value.shape, index)), root.known_strides

    def along(var: Var) -> int | None:
        steps = [unit_steps.step(i, var) for i in at]
        if None in steps:
            return of_split_axis(var)
        return sum(step * stride for step, stride in zip(steps, strides, strict=True) if step is not None)

    def of_split_axis(var: Var) -> int | None:
        """Of an axis that a view splits: images of 48 x 48 pixels, pixel i is at i // 48 * 15360 + i % 48 * 320, so its stride is 320."""
        total = Linear({})
        for i, stride in zip(at, strides, strict=True):
            total = total.plus(linear(i), stride)
        return unit_steps.step(Simplifier({})(to_expr(total, {})), var)

    return tuple(map(along, variables))


def strides_by_dim(g: Graph, id: int) -> Steps:
    """The same as a value's dims grow."""
    index = _axes(len(g.value(id).shape))
    return strides_of(g, id, index, index)
