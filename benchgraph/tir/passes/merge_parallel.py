"""merge-parallel: adjacent parallel loops are fused, level by level.

    parallel for b in 8 {          ->  parallel for b in 8 {
      parallel for m in 4 { A }          parallel for m in 4 { A, B }
    }                                  }
    parallel for c in 8 {
      parallel for n in 4 { B }
    }

Two loops are fused only if every tensor that both use and one writes is provably partitioned by the loop variable, so that an iteration of
the second depends on no other iteration of the first, and if the function's fewest tasks are left (gir/passes/schedule.py). One that reads
what merge-blocks is to fuse loops for is not fused with one that does not: it would no longer have as many iterations as blocks.
"""

from __future__ import annotations

from dataclasses import replace

from benchgraph.machine.target import Target
from benchgraph.tir.accesses import are_independent
from benchgraph.tir.affine import Ranges, inside
from benchgraph.tir.build import constant
from benchgraph.tir.ir import Func, Seq, Stmt, Var
from benchgraph.tir.loops import blocked, is_parallel
from benchgraph.tir.visit import block, bound_names, fresh, map_children, tensor_names


def merge_parallel(f: Func, target: Target) -> Func:
    shared = frozenset(name for each in f.shared for name in each.names)
    after = replace(f, body=_siblings(f.body, {}, f.tasks, shared), tasks=1)  # nothing else asks for it
    return f if after == f else after


def _siblings(s: Stmt, ranges: Ranges, tasks: int, shared: frozenset[str]) -> Stmt:
    """Fuse adjacent parallel loops, outermost first, since that makes the loops inside them adjacent."""
    if isinstance(s, Seq):
        merged = [s.stmts[0]] if s.stmts else []
        for c in s.stmts[1:]:
            pair = _merged(merged[-1], c, ranges, tasks, shared)
            merged[-1:] = [merged[-1], c] if pair is None else [pair]
        s = s if len(merged) == len(s.stmts) else block(*merged)
    around = inside(s, ranges)
    return map_children(s, lambda c: _siblings(c, around, tasks, shared))


def _merged(a: Stmt, b: Stmt, ranges: Ranges, tasks: int, shared: frozenset[str]) -> Stmt | None:
    if not (is_parallel(a) and is_parallel(b)) or a.extent != b.extent or (extent := constant(a.extent)) is None:
        return None
    if shared.isdisjoint(tensor_names(a)) != shared.isdisjoint(tensor_names(b)):
        return None
    taken = bound_names(a.body) | bound_names(b.body) | set(ranges)
    var = Var(fresh(a.var.name if a.var.name not in taken else b.var.name, taken))
    first, second = blocked(a, var, extent), blocked(b, var, extent)
    if not are_independent(first, second, ranges):
        return None
    both = replace(first, body=block(first.body, second.body))
    if extent >= tasks:
        return both
    done = _siblings(both, ranges, tasks, shared)
    return done if _width(done) >= min(_width(a), _width(b), tasks) else None


def _width(s: Stmt) -> int:
    """Iterations of a perfect parallel nest that can run at once."""
    if not is_parallel(s):
        return 1
    return (constant(s.extent) or 1) * _width(s.body)
