"""What is written by nests that touch more than the caches hold."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from benchgraph.core.target import Target
from benchgraph.machine.table import table
from benchgraph.tir.ir import Brgemm, For, Func, Pack, Scope, Stmt, Tensor
from benchgraph.tir.operands import operands
from benchgraph.tir.visit import loads, map_children, tensors, walk, written

MOST_READ = 4  # vectors of memory that are read for one that is written, for it to pay (passes/non_temporal_stores.py)


def map_nests(f: Func, target: Target, change: Callable[[Stmt, frozenset[str]], Stmt]) -> Stmt:
    """The body of f with its outermost loops changed: change(loop, its results that nothing reads and no cache keeps).

    Where all that f touches is held by the caches, change(body, none).
    """
    machine = table(target)
    held = min(target.llc_bytes * (machine.llc_factor if target.cores > 1 else 1), machine.llc_most_bytes)
    none = frozenset[str]()
    if not held or _nbytes(f.params) < held:
        return change(f.body, none)
    read = {load.tensor for load in loads(f.body)}.union(*(_operands(s) for s in walk(f.body)))

    def nest(s: Stmt) -> Stmt:
        if not isinstance(s, For):
            return map_children(s, nest)
        is_held = _nbytes(t for t in set(tensors(s)) if t.scope is Scope.param) < held
        return change(s, none if is_held else frozenset(t.name for t in written(s) - read if t.scope is Scope.param))

    return nest(f.body)


def _nbytes(found: Iterable[Tensor]) -> int:
    return sum(t.nbytes for t in found)


def _operands(s: Stmt) -> set[Tensor]:
    return {o.piece.tensor for o in operands(s)} if isinstance(s, Brgemm | Pack) else set()
