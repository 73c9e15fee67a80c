"""collapse-parallel: perfectly nested parallel loops become one; parallel loops left inside it become serial.

parallel for b in 8 {          ->  parallel for b_m in 32 {
  parallel for m in 4 { A }          A with b = b_m//4, m = b_m%4
}                                  }
"""

from __future__ import annotations

from dataclasses import replace

from benchgraph.machine.target import Target
from benchgraph.tir.build import constant, floordiv, mod
from benchgraph.tir.ir import Const, For, Func, LoopKind, Stmt, Var
from benchgraph.tir.tasks import is_parallel, without_parallel_loops
from benchgraph.tir.visit import bound_names, fresh, map_children, substitute_all


def collapse_parallel(f: Func, target: Target) -> Func:
    body = _serial_inside(_nests(f.body))
    return f if body == f.body else replace(f, body=body)


def _nests(s: Stmt) -> Stmt:
    """Collapse parallel loops directly inside parallel loops into one over the product of their extents.

    Other parallel loops inside keep their variables, by which shrink-tensors finds out what each iteration needs of a temporary.
    """
    if not is_parallel(s):
        return map_children(s, _nests)
    while (inner := _nested(s)) is not None:
        s = _merged(s, inner)
    return s


def _nested(s: For) -> For | None:
    """The parallel loop directly inside a parallel one, if both extents are constants."""
    inner = s.body
    if not is_parallel(inner):
        return None
    return inner if constant(s.extent) is not None and constant(inner.extent) else None


def _merged(s: For, inner: For) -> For:
    outer, times = constant(s.extent) or 0, constant(inner.extent) or 0
    var = Var(fresh(f"{s.var.name}_{inner.var.name}", bound_names(s)))
    values = {s.var.name: floordiv(var, times), inner.var.name: mod(var, times)}
    return For(var, Const(outer * times), substitute_all(inner.body, values), LoopKind.parallel)


def _serial_inside(s: Stmt) -> Stmt:
    return map_children(s, without_parallel_loops if is_parallel(s) else _serial_inside)
