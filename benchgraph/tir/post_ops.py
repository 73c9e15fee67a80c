"""How post-ops of a microkernel iterate, for passes, the verifier and code generation."""

from __future__ import annotations

from benchgraph.tir.affine import Linear, linear
from benchgraph.tir.ir import Brgemm, Const, FlatSlice, For, PostOps


def loops(g: Brgemm, p: PostOps) -> For:
    """The post-ops p of g as loops, in one of the orders they may run in."""
    return For(p.vector, Const(g.n // p.lanes), For(p.row, Const(g.m), p.body))


def place_in_acc(g: Brgemm, p: PostOps) -> Linear | None:
    """The offset of the current vector in g's acc; None before flatten-index. Variables of a single value are left out."""
    if not isinstance(g.acc, FlatSlice):
        return None
    rows = Linear({p.row: g.acc.strides[0]} if g.m > 1 else {})
    return linear(g.acc.offset).plus(rows).plus(Linear({p.vector: p.lanes} if g.n > p.lanes else {}))
