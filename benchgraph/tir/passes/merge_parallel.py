"""merge-parallel: adjacent parallel loops are fused, level by level.

    parallel for b in 8 {          ->  parallel for b in 8 {
      parallel for m in 4 { A }          parallel for m in 4 { A, B }
    }                                  }
    parallel for c in 8 {
      parallel for n in 4 { B }
    }

Two loops are fused only if every tensor that both use and one writes is provably partitioned by the loop variable, so that an iteration of
the second depends on no other iteration of the first, and if the function's fewest tasks are left (gir/neighbours.py).
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from operator import is_

from benchgraph.machine.target import Target
from benchgraph.tir.accesses import are_independent
from benchgraph.tir.affine import Ranges, inside
from benchgraph.tir.build import constant
from benchgraph.tir.ir import For, Func, Seq, Stmt, Var
from benchgraph.tir.loops import blocked, is_parallel
from benchgraph.tir.visit import block, bound_names, fresh, map_children


def merge_parallel(f: Func, target: Target) -> Func:
    body = _Merging(f.tasks).siblings(f.body, {})
    return f if body == f.body else replace(f, body=body)


@dataclass(frozen=True)
class _Merging:
    """Remembers statements that stay as they are, as a loop that grows by repeated fusion visits its body each time.

    Keys are ids of statements, which are kept alive so that ids stay unique. Ranges are not part of the keys: while a statement is the
    same object, those of the variables that it reads are the same.
    """

    tasks: int
    settled: dict[int, Stmt] = field(default_factory=dict)  # nothing inside is fused
    refused: dict[tuple[int, int], tuple[Stmt, Stmt]] = field(default_factory=dict)  # pairs that are not fused

    def siblings(self, s: Stmt, ranges: Ranges) -> Stmt:
        """Fuse adjacent parallel loops, outermost first, since that makes the loops inside them adjacent."""
        if id(s) in self.settled:
            return s
        new = self._siblings(s, ranges)
        if new is s:
            self.settled[id(s)] = s
        return new

    def _siblings(self, s: Stmt, ranges: Ranges) -> Stmt:
        if not isinstance(s, Seq):
            around = inside(s, ranges) if isinstance(s, For) else ranges
            return map_children(s, lambda c: self.siblings(c, around))
        merged: list[Stmt] = []
        for c in s.stmts:
            pair = self._pair(merged[-1], c, ranges) if merged else None
            if pair is None:
                merged.append(c)
            else:
                merged[-1] = pair
        new = [self.siblings(c, ranges) for c in merged]
        return s if len(new) == len(s.stmts) and all(map(is_, s.stmts, new)) else block(*new)

    def _pair(self, a: Stmt, b: Stmt, ranges: Ranges) -> Stmt | None:
        if not (is_parallel(a) and is_parallel(b)) or (id(a), id(b)) in self.refused:
            return None
        merged = self._merged(a, b, ranges)
        if merged is None:
            self.refused[id(a), id(b)] = a, b
        return merged

    def _merged(self, a: For, b: For, ranges: Ranges) -> Stmt | None:
        extent = constant(a.extent)
        if extent is None or a.extent != b.extent:
            return None
        taken = bound_names(a.body) | bound_names(b.body) | set(ranges)
        var = Var(fresh(a.var.name if a.var.name not in taken else b.var.name, taken))
        first, second = blocked(a, var, extent), blocked(b, var, extent)
        if not are_independent(first, second, ranges):
            return None
        both = replace(first, body=block(first.body, second.body))
        done = self.siblings(both, ranges)
        return done if _width(done) >= min(_width(a), _width(b), self.tasks) else None


def _width(s: Stmt) -> int:
    """Iterations of a perfect parallel nest that can run at once."""
    if not is_parallel(s):
        return 1
    return (constant(s.extent) or 1) * _width(s.body)
