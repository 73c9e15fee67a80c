"""The strides of a value's elements along loops, through views and layouts."""

from __future__ import annotations

from typing import TypeAlias

from benchgraph.gir.ir import Graph
from benchgraph.gir.views import root_index
from benchgraph.ops import affine
from benchgraph.ops.spec import Indices
from benchgraph.tir.affine import Linear, linear, to_expr
from benchgraph.tir.index import simplify_expr
from benchgraph.tir.ir import Const, Var

Steps: TypeAlias = tuple[int | None, ...]  # per loop; None where the stride is not a constant


def strides_of(g: Graph, id: int, index: Indices, variables: tuple[Var, ...]) -> Steps:
    """By how many elements of its buffer the element of a value at this index moves as each of the variables grows by one."""
    value, root = g.value(id), g.value(g.root(id))
    if root.layout.blocks:
        return (None,) * len(variables)
    at = root_index(g, id, tuple(Const(0) if extent == 1 else i for extent, i in zip(value.shape, index, strict=True)))
    strides = root.known_strides

    def along(var: Var) -> int | None:
        steps = [affine.step(i, var) for i in at]
        if None in steps:
            return of_split_axis(var)
        return sum(step * stride for step, stride in zip(steps, strides, strict=True) if step is not None)

    def of_split_axis(var: Var) -> int | None:
        """Of an axis that a view splits: images of 48 x 48 pixels, pixel i is at i // 48 * 15360 + i % 48 * 320, so its stride is 320."""
        total = Linear({})
        for i, stride in zip(at, strides, strict=True):
            total = total.plus(linear(i), stride)
        return affine.step(simplify_expr(to_expr(total, {}), {}), var)

    return tuple(map(along, variables))
