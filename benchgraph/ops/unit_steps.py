"""Unit steps of layout ops: which dim of one tensor advances by one with a dim of the other.

Microkernels need operands and results with unit steps along some axes, so passes ask which dim has them behind a layout op.
"""

from __future__ import annotations

from functools import cache

from benchgraph.core.attrs import Attrs
from benchgraph.core.tensor import Shape
from benchgraph.ops import spec
from benchgraph.ops.spec import LayoutOp
from benchgraph.tir.affine import linear
from benchgraph.tir.ir import Expr, Var
from benchgraph.tir.visit import variables


@cache
def unit_steps(kind: str, attrs: Attrs, src_shape: Shape, dst_shape: Shape, *, inverse: bool) -> tuple[int | None, ...]:
    """For each axis of the tensor whose index is given, the dim of the other tensor that grows by one when the axis does, else None.

    inverse False: axes of dst, dims of src (reading dst from src). inverse True: axes of src, dims of dst (writing src's elements to dst).
    """
    form = spec(kind).lowering.form
    if not isinstance(form, LayoutOp):
        raise TypeError(f"{kind} is not a layout op")
    axes = tuple(Var(f"${i}") for i in range(len(src_shape if inverse else dst_shape)))
    index_of = form.target if inverse else form.source
    if index_of is None:
        return (None,) * len(axes)
    index = index_of(attrs, src_shape, dst_shape, axes)
    return tuple(_only_dim(index, axis) for axis in axes)


def _only_dim(index: tuple[Expr, ...], axis: Var) -> int | None:
    steps = [step(e, axis) for e in index]
    moving = [dim for dim, s in enumerate(steps) if s != 0]
    return moving[0] if len(moving) == 1 and steps[moving[0]] == 1 else None


def step(e: Expr, var: Var) -> int | None:
    """The increase of e when var increases by one; None when it is not constant."""
    terms = linear(e).terms
    return None if any(atom != var and var.name in variables(atom) for atom in terms) else terms.get(var, 0)
