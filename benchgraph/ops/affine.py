"""Which dim of a tensor a data movement steps along: what a microkernel needs to know to read or write through it."""

from __future__ import annotations

from functools import cache

from benchgraph.core.attrs import Attrs
from benchgraph.core.tensor import Shape
from benchgraph.ops import spec
from benchgraph.ops.spec import Movement
from benchgraph.tir.ir import Binary, BinOp, Const, Expr, Var


@cache
def unit_steps(kind: str, attrs: Attrs, src_shape: Shape, dst_shape: Shape, *, inverse: bool) -> tuple[int | None, ...]:
    """For each axis on the moving side, the dim on the other side that grows by one when the axis does, else None.

    inverse False: axes of dst, dims of src (reading dst from src). inverse True: axes of src, dims of dst (writing src's elements to dst).
    """
    movement = spec(kind).lower
    if not isinstance(movement, Movement):
        raise TypeError(f"{kind} is not a data movement")
    axes = tuple(Var(f"${i}") for i in range(len(src_shape if inverse else dst_shape)))
    place = movement.target if inverse else movement.source
    if place is None:
        return (None,) * len(axes)
    index = place(attrs, src_shape, dst_shape, axes)
    return tuple(_only_dim(index, axis) for axis in axes)


def _only_dim(index: tuple[Expr, ...], axis: Var) -> int | None:
    steps = [step(e, axis) for e in index]
    moving = [dim for dim, s in enumerate(steps) if s != 0]
    return moving[0] if len(moving) == 1 and steps[moving[0]] == 1 else None


def step(e: Expr, var: Var) -> int | None:
    """By how much e grows when var grows by one; None when that is not a constant."""
    match e:
        case Var():
            return 1 if e == var else 0
        case Const():
            return 0
        case Binary(BinOp.add | BinOp.sub as op, a, b):
            x, y = step(a, var), step(b, var)
            return None if x is None or y is None else x + y if op is BinOp.add else x - y
        case Binary(BinOp.mul, Const(c), b):
            x = step(b, var)
            return None if x is None else int(c) * x
        case Binary(BinOp.mul, a, Const(c)):
            x = step(a, var)
            return None if x is None else int(c) * x
        case Binary(_, a, b):
            return 0 if step(a, var) == 0 and step(b, var) == 0 else None
    return None
