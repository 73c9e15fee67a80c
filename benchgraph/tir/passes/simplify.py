"""simplify: normalise indices, fold constants, drop loops and branches that are decided.

for i in 1 {                       ->  for j in 64 {
  for j in 64 {                          y[0, j] = x[j + 3]
    y[(i*64 + j)//64, j%64] = x[(j + 1) + 2] * 1.0
  }                                    }
}
"""

from __future__ import annotations

from dataclasses import replace

from benchgraph.core.target import Target
from benchgraph.tir.affine import Ranges, bounds, inside
from benchgraph.tir.build import constant
from benchgraph.tir.index import assume, simplify_expr
from benchgraph.tir.ir import Const, For, Func, If, LoopKind, Seq, Stmt, Unary, UnOp
from benchgraph.tir.visit import block, map_exprs, substitute_all, tensors


def simplify(f: Func, target: Target) -> Func:
    body = _stmt(f.body, {}) or Seq(())
    return f if body == f.body else replace(f, body=body)


def _stmt(s: Stmt, ranges: Ranges) -> Stmt | None:
    """The simplified statement; None when it does nothing."""
    s = map_exprs(s, lambda e: simplify_expr(e, ranges))
    match s:
        case For():
            return _loop(s, ranges)
        case If():
            return _branch(s, ranges)
        case Seq():
            kept = [new for c in s.stmts if (new := _stmt(c, ranges)) is not None]
            return block(*kept) if kept else None
    return s


def _loop(s: For, ranges: Ranges) -> Stmt | None:
    least, most = bounds(s.extent, ranges)
    if most <= 0:
        return None
    if least == most:
        s = replace(s, extent=Const(int(most)))
    if constant(s.extent) == 1 and not _owns_arena(s):
        return _stmt(substitute_all(s.body, {s.var.name: Const(0)}), ranges)
    body = _stmt(s.body, inside(s, ranges))
    return None if body is None else replace(s, body=body)


def _owns_arena(s: For) -> bool:
    """A parallel loop gives its body the thread arena, so it stays once buffers are laid out there."""
    return s.kind is LoopKind.parallel and any(t.offset is not None for t in tensors(s))


def _branch(s: If, ranges: Ranges) -> Stmt | None:
    decided = constant(s.cond)
    if decided is not None:
        taken = s.then if decided else s.orelse
        return None if taken is None else _stmt(taken, ranges)
    then = _stmt(s.then, assume(s.cond, ranges, holds=True))
    orelse = None if s.orelse is None else _stmt(s.orelse, assume(s.cond, ranges, holds=False))
    if then is None:
        return None if orelse is None else If(Unary(UnOp.not_, s.cond), orelse)
    return If(s.cond, then, orelse)
