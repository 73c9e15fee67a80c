"""collapse-parallel: perfectly nested parallel loops become one; parallel loops left inside it become serial.

parallel for b in 8 {          ->  parallel for b_m in 32 {
  parallel for m in 4 { A }          A with b = b_m//4, m = b_m%4
}                                  }
"""

from __future__ import annotations

from dataclasses import replace

from benchgraph.machine.target import Target
from benchgraph.tir.build import constant, floordiv, mod
from benchgraph.tir.ir import Const, For, Func, LoopKind, Var
from benchgraph.tir.loops import is_parallel, map_loops, with_body, without_parallel_loops
from benchgraph.tir.visit import bound_names, fresh, substitute_all


def collapse_parallel(f: Func, target: Target) -> Func:
    return with_body(f, map_loops(f.body, lambda loop, ranges: _collapsed(loop) if is_parallel(loop) else None))


def _collapsed(loop: For) -> For:
    """Loops of constant extents as one, over their product.

    Other parallel loops inside keep their variables, by which shrink-tensors finds out what each iteration needs of a temporary.
    """
    while is_parallel(inner := loop.body) and constant(loop.extent) is not None and (times := constant(inner.extent)):
        var = Var(fresh(f"{loop.var.name}_{inner.var.name}", bound_names(loop)))
        values = {loop.var.name: floordiv(var, times), inner.var.name: mod(var, times)}
        loop = For(var, Const((constant(loop.extent) or 0) * times), substitute_all(inner.body, values), LoopKind.parallel)
    body = without_parallel_loops(loop.body)
    return loop if body is loop.body else replace(loop, body=body)
