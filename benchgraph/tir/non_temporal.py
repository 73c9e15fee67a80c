"""Which results are too large to stay in a cache until they are read."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from benchgraph.machine.table import table
from benchgraph.machine.target import Target
from benchgraph.tir.ir import For, Func, Scope, Stmt, Tensor
from benchgraph.tir.visit import map_children, read, tensors, written


def map_nests_with_large_results(f: Func, target: Target, change: Callable[[Stmt, frozenset[str]], Stmt]) -> Stmt:
    """The body of f with each outermost loop replaced by change(loop, names of its results that are worth storing past the caches).

    These are results that nothing in f reads, of loops that access more memory than the caches hold. If the caches hold all parameters of
    f, the result is change(body, frozenset()).
    """
    machine = table(target)
    cached_bytes = min(target.llc_bytes * (machine.llc_factor if target.cores > 1 else 1), machine.llc_most_bytes)
    none = frozenset[str]()
    if not cached_bytes or _total_bytes(f.params) < cached_bytes:
        return change(f.body, none)

    def nest(s: Stmt) -> Stmt:
        if not isinstance(s, For):
            return map_children(s, nest)
        is_cached = _total_bytes(t for t in set(tensors(s)) if t.scope is Scope.param) < cached_bytes
        return change(s, none if is_cached else frozenset(t.name for t in written(s) - read(f.body) if t.scope is Scope.param))

    return nest(f.body)


def _total_bytes(ts: Iterable[Tensor]) -> int:
    return sum(t.nbytes for t in ts)
