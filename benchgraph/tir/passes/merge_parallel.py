"""merge-parallel: neighbouring parallel loops become one, nest by nest.

    parallel for b in 8 {          ->  parallel for b in 8 {
      parallel for m in 4 { A }          parallel for m in 4 { A, B }
    }                                  }
    parallel for c in 8 {
      parallel for n in 4 { B }
    }

They merge only where every tensor they share (and one of them writes) is provably cut into pieces by the loop variable, so that an
iteration of the second needs nothing from other iterations of the first; and only where that costs no cores.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from operator import is_

from benchgraph.core.target import Target
from benchgraph.tir.accesses import accesses_of, is_partitioned
from benchgraph.tir.affine import Ranges, inside
from benchgraph.tir.build import constant
from benchgraph.tir.ir import For, Func, Seq, Stmt, Var
from benchgraph.tir.tasks import is_parallel
from benchgraph.tir.visit import block, bound_names, declared_names, fresh, map_children, substitute_all, tensor_names, written


def merge_parallel(f: Func, target: Target) -> Func:
    body = _Merging(target.cores).siblings(f.body, {})
    return f if body == f.body else replace(f, body=body)


@dataclass(frozen=True)
class _Merging:
    """What was found to stay as it is: a loop that grows merge by merge asks what it holds again each time.

    Both are by id of statements, which are kept so that no others get theirs. Ranges are no part of the question: those of the loops
    around a statement are the same as long as it is the same object, or of variables that it does not read.
    """

    cores: int
    settled: dict[int, Stmt] = field(default_factory=dict)  # in which nothing merges
    refused: dict[tuple[int, int], tuple[Stmt, Stmt]] = field(default_factory=dict)  # pairs that do not

    def siblings(self, s: Stmt, ranges: Ranges) -> Stmt:
        """Merge neighbouring parallel loops, outermost first: only then are the loops inside them neighbours."""
        if id(s) in self.settled:
            return s
        found = self._siblings(s, ranges)
        if found is s:
            self.settled[id(s)] = s
        return found

    def _siblings(self, s: Stmt, ranges: Ranges) -> Stmt:
        if isinstance(s, For):
            return map_children(s, lambda c: self.siblings(c, inside(s, ranges)))
        if not isinstance(s, Seq):
            return map_children(s, lambda c: self.siblings(c, ranges))
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
        found = self._merged(a, b, ranges)
        if found is None:
            self.refused[id(a), id(b)] = a, b
        return found

    def _merged(self, a: For, b: For, ranges: Ranges) -> Stmt | None:
        if constant(a.extent) is None or a.extent != b.extent:
            return None
        taken = bound_names(a.body) | bound_names(b.body) | set(ranges)
        var = Var(fresh(a.var.name if a.var.name not in taken else b.var.name, taken))
        first, second = _over(a, var), _over(b, var)
        if not is_independent(first, second, ranges):
            return None
        both = replace(first, body=block(first.body, second.body))
        done = self.siblings(both, ranges)
        return done if _width(done) >= min(_width(a), _width(b), self.cores) else None


def _over(loop: For, var: Var) -> For:
    """The loop with this variable; the same object if it has it."""
    return loop if loop.var == var else replace(loop, var=var, body=substitute_all(loop.body, {loop.var.name: var}))


def is_independent(a: For, b: For, ranges: Ranges) -> bool:
    """No iteration of either loop touches what another iteration of the other one writes. Both have the same variable."""
    inner = bound_names(a.body) | bound_names(b.body)
    shared = (tensor_names(a) & tensor_names(b)) - declared_names(a) - declared_names(b)
    for name in shared & {t.name for t in written(a) | written(b)}:
        in_a, in_b = (list(accesses_of(name, s, ranges)) for s in (a, b))
        if in_a and in_b and not is_partitioned(in_a + in_b, a.var.name, inner):  # a prefetch is no access
            return False
    return True


def _width(s: Stmt) -> int:
    """How many iterations of a perfect parallel nest may run at once."""
    if not is_parallel(s):
        return 1
    return (constant(s.extent) or 1) * _width(s.body)
