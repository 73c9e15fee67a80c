"""simplify: canonical indices, folded constants, no loops of at most one iteration, no branches whose condition is known.

for i in 1 {                       ->  for j in 64 {
  for j in 64 {                          y[0, j] = x[j + 3]
    y[(i*64 + j)//64, j%64] = x[(j + 1) + 2] * 1.0
  }                                    }
}
"""

from __future__ import annotations

from dataclasses import replace

from benchgraph.machine.target import Target
from benchgraph.tir.affine import Ranges, bounds, inside
from benchgraph.tir.build import constant
from benchgraph.tir.index import Simplifier, assume
from benchgraph.tir.ir import Const, For, Func, If, Seq, Stmt, Unary, UnOp
from benchgraph.tir.loops import is_parallel
from benchgraph.tir.visit import block, map_exprs, replaced, substitute_all, tensors


def simplify(f: Func, target: Target) -> Func:
    body = simplified(f.body, {})
    return f if body == f.body else replace(f, body=body)


def simplified(s: Stmt, ranges: Ranges) -> Stmt:
    """The statement simplified, given the ranges of variables around it."""
    return _stmt(s, Simplifier(ranges)) or Seq(())


def _stmt(s: Stmt, simple: Simplifier) -> Stmt | None:
    """The simplified statement; None when it does nothing."""
    s = map_exprs(s, simple)
    match s:
        case For():
            return _loop(s, simple)
        case If():
            return _branch(s, simple)
        case Seq():
            kept = [new for c in s.stmts if (new := _stmt(c, simple)) is not None]
            return block(*kept) if kept else None
    return s


def _loop(s: For, simple: Simplifier) -> Stmt | None:
    least, most = bounds(s.extent, simple.ranges)
    if most <= 0:
        return None
    if least == most and not isinstance(s.extent, Const):
        s = replace(s, extent=Const(int(most)))
    if constant(s.extent) == 1 and not _owns_arena(s):
        return _stmt(substitute_all(s.body, {s.var.name: Const(0)}), simple)
    body = _stmt(s.body, Simplifier(inside(s, simple.ranges)))
    return None if body is None else s if body is s.body else replaced(s, body=body)


def _owns_arena(s: For) -> bool:
    """Whether a loop of tasks must stay because its body uses the thread arena, once plan-buffers has laid that out."""
    return is_parallel(s) and any(t.offset is not None for t in tensors(s))


def _branch(s: If, simple: Simplifier) -> Stmt | None:
    known = constant(s.cond)
    if known is not None:
        taken = s.then if known else s.orelse
        return None if taken is None else _stmt(taken, simple)
    then = _stmt(s.then, Simplifier(assume(s.cond, simple.ranges, holds=True)))
    orelse = None if s.orelse is None else _stmt(s.orelse, Simplifier(assume(s.cond, simple.ranges, holds=False)))
    if then is None:
        return None if orelse is None else If(Unary(UnOp.not_, s.cond), orelse)
    return If(s.cond, then, orelse)
