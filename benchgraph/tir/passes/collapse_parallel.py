"""collapse-parallel: one level of parallel loops, as wide as can be.

    parallel for b in 8 {          ->  parallel for b_m in 32 {
      parallel for m in 4 { A }          A with b = b_m//4, m = b_m%4
    }                                  }

What is still parallel inside a parallel loop becomes serial.
"""

from __future__ import annotations

from dataclasses import replace

from benchgraph.core.target import Target
from benchgraph.tir.build import constant, floordiv, mod
from benchgraph.tir.ir import Const, For, Func, LoopKind, Stmt, Var
from benchgraph.tir.visit import bound_names, fresh, map_children, substitute_all


def collapse_parallel(f: Func, target: Target) -> Func:
    body = _serial_inside(_nests(f.body), inside_parallel=False)
    return f if body == f.body else replace(f, body=body)


def _is_parallel(s: Stmt) -> bool:
    return isinstance(s, For) and s.kind is LoopKind.parallel


def _nests(s: Stmt) -> Stmt:
    """Turn parallel loops directly inside parallel loops into one over the product of their extents.

    Loops further inside, which become serial, stay as they are: their variables say what each of them needs of a temporary.
    """
    if not _is_parallel(s):
        return map_children(s, _nests)
    assert isinstance(s, For)
    if not isinstance(s.body, For) or not _is_parallel(s.body):
        return s
    s = replace(s, body=_nests(s.body))
    assert isinstance(s.body, For)
    outer, inner = constant(s.extent), constant(s.body.extent)
    if outer is None or inner is None or inner == 0:
        return s
    taken = bound_names(s)
    var = Var(fresh(f"{s.var.name}_{s.body.var.name}", taken))
    values = {s.var.name: floordiv(var, inner), s.body.var.name: mod(var, inner)}
    return For(var, Const(outer * inner), substitute_all(s.body.body, values), LoopKind.parallel)


def _serial_inside(s: Stmt, *, inside_parallel: bool) -> Stmt:
    is_parallel = _is_parallel(s)
    s = map_children(s, lambda c: _serial_inside(c, inside_parallel=inside_parallel or is_parallel))
    return replace(s, kind=LoopKind.serial) if isinstance(s, For) and is_parallel and inside_parallel else s
