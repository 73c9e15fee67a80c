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

from dataclasses import replace

from benchgraph.core.target import Target
from benchgraph.tir.affine import Ranges, inside
from benchgraph.tir.build import constant
from benchgraph.tir.ir import Alloc, For, Func, Seq, Stmt, Var
from benchgraph.tir.regions import by_tensor, is_partitioned
from benchgraph.tir.tasks import is_parallel
from benchgraph.tir.visit import block, bound_names, fresh, map_children, substitute_all, walk


def merge_parallel(f: Func, target: Target) -> Func:
    body = _siblings(f.body, {}, target.cores)
    return f if body == f.body else replace(f, body=body)


def _siblings(s: Stmt, ranges: Ranges, cores: int) -> Stmt:
    """Merge neighbouring parallel loops, outermost first: only then are the loops inside them neighbours."""
    if isinstance(s, For):
        return map_children(s, lambda c: _siblings(c, inside(s, ranges), cores))
    if not isinstance(s, Seq):
        return map_children(s, lambda c: _siblings(c, ranges, cores))
    merged: list[Stmt] = []
    for c in s.stmts:
        pair = _merged(merged[-1], c, ranges, cores) if merged else None
        if pair is None:
            merged.append(c)
        else:
            merged[-1] = pair
    new = [_siblings(c, ranges, cores) for c in merged]
    return s if all(a is b for a, b in zip(s.stmts, new, strict=False)) and len(new) == len(s.stmts) else block(*new)


def _merged(a: Stmt, b: Stmt, ranges: Ranges, cores: int) -> Stmt | None:
    if not (is_parallel(a) and is_parallel(b)):
        return None
    if constant(a.extent) is None or a.extent != b.extent:
        return None
    taken = bound_names(a.body) | bound_names(b.body) | set(ranges)
    var = Var(fresh(a.var.name if a.var.name not in taken else b.var.name, taken))
    first = replace(a, var=var, body=substitute_all(a.body, {a.var.name: var}))
    second = replace(b, var=var, body=substitute_all(b.body, {b.var.name: var}))
    if not is_independent(first, second, ranges):
        return None
    both = replace(first, body=block(first.body, second.body))
    done = _siblings(both, ranges, cores)
    return done if _width(done) >= min(_width(a), _width(b), cores) else None


def is_independent(a: For, b: For, ranges: Ranges) -> bool:
    """No iteration of either loop touches what another iteration of the other one writes. Both have the same variable."""
    inner = bound_names(a.body) | bound_names(b.body)
    own = {c.tensor.name for s in (a, b) for c in walk(s) if isinstance(c, Alloc)}
    in_a, in_b = by_tensor(a, ranges), by_tensor(b, ranges)
    for name in in_a.keys() & in_b.keys():
        found = in_a[name] + in_b[name]
        if name in own or not any(x.is_store for x in found):
            continue
        if not is_partitioned(found, a.var.name, inner):
            return False
    return True


def _width(s: Stmt) -> int:
    """How many iterations of a perfect parallel nest may run at once."""
    if not is_parallel(s):
        return 1
    return (constant(s.extent) or 1) * _width(s.body)
