"""merge-blocks: neighbouring parallel loops that read the same memory, one in smaller tasks, become one, in blocks that L2 holds.

    parallel for i in 3072 {                  ->  parallel for t_b in 64 {
      A reads x[i*1024:+1024]                       for i in 48 { A with i = t_b*48 + i }
    }                                               B with t = t_b
    parallel for t in 64 {                        }
      B reads x[t*49152:+49152]
    }

What A has read is then in L2 for B. LayerNormBackward has such loops: the rows of diff_src, and sums over rows for gamma and beta. Of three
loops in a row, those two are first that share most. Where B goes through the same rows itself, one after the other, it does so together
with A, and what A has read of a row is in L1:

    for i in 48 { A }                         ->  B begins
    B begins                                      for i in 48 { A
    for r in 48 { B goes on }                       B goes on with r = i }

Of rows that B takes four at a time (unroll-and-jam) A does four in turn, if half of L1 holds those.

LayerNormBackward of f32[8,384,1024], one thread of a Zen 3 (L2 512 KiB, too little for blocks): 4.9 -> 3.6 ms at best, 6.1 -> 4.7 in the
middle of six runs each; oneDNN 3.13: 4.0. Of [64,3,224,224], whose rows B takes four at a time, 14.3 -> 8.6, two threads 9.6 -> 6.9.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from math import prod

from benchgraph.core.target import Target
from benchgraph.machine.table import table
from benchgraph.tir.accesses import by_tensor, is_partitioned
from benchgraph.tir.affine import inside
from benchgraph.tir.build import constant
from benchgraph.tir.ir import Alloc, Const, For, Func, LoopKind, Stmt, Var
from benchgraph.tir.passes.collapse_parallel import TASKS
from benchgraph.tir.passes.merge_parallel import is_independent
from benchgraph.tir.passes.unroll_and_jam import ROWS
from benchgraph.tir.tasks import is_parallel, iterations_of_task
from benchgraph.tir.visit import block, bound_names, fresh, statements, substitute_all, tensor_names, written


def merge_blocks(f: Func, target: Target) -> Func:
    stmts = list(statements(f.body))
    while found := max(_pairs(stmts, target), key=lambda pair: pair.shared, default=None):
        between = stmts[found.first + 1 : found.second]  # what is declared there goes in front
        stmts[found.first : found.second + 1] = [*between, found.both]
    return f if len(stmts) == len(statements(f.body)) else replace(f, body=block(*stmts))


@dataclass(frozen=True)
class _Pair:
    """Two neighbours, where they are, as one; and bytes of what both read."""

    first: int
    second: int
    both: For
    shared: int


def _pairs(stmts: Sequence[Stmt], target: Target) -> Iterator[_Pair]:
    places = [n for n, s in enumerate(stmts) if not isinstance(s, Alloc)]
    for first, second in pairwise(places):
        if (found := _as_one(stmts[first], stmts[second], target)) is not None:
            yield _Pair(first, second, *found)


def _as_one(a: Stmt, b: Stmt, target: Target) -> tuple[For, int] | None:
    """Two loops as one with the tasks of the one that has fewer, and what they share; None where that is not allowed or does not pay."""
    if not (is_parallel(a) and is_parallel(b)):
        return None
    few, many = sorted((constant(a.extent) or 0, constant(b.extent) or 0))
    if few < TASKS * target.cores or many % few:
        return None
    task = Var(fresh(f"{(a if a.extent == Const(few) else b).var.name}_b", bound_names(a) | bound_names(b)))
    first, second = (_in_parts(s, task, few) for s in (a, b))
    if not is_independent(first, second, {}):
        return None
    inner, in_second = bound_names(first.body) | bound_names(second.body), by_tensor(second, {})
    shared = 0
    for name, found in by_tensor(first, {}).items():
        found += in_second.get(name, [])
        if name in in_second and is_partitioned(found, task.name, inner):
            shared += found[0].tensor.dtype.nbytes(prod(found[0].tensor.shape))
    if shared <= target.l2_bytes:
        return None
    share = table(target).shared_block_share
    if (rows := _row_by_row(first, second, shared / (share * target.l1_bytes))) is not None:
        return rows, shared
    return (replace(first, body=block(first.body, second.body)), shared) if shared <= share * target.l2_bytes * few else None


def _row_by_row(a: For, b: For, least: float) -> For | None:
    """Both, if the last that a task of one does, and what a task of the other does behind its beginning, are loops over the same rows.

    Where one of them takes several rows at a time (unroll-and-jam), the other one does as many rows one by one. least: how many steps all
    tasks take together at the least; fewer would be of more rows than L1 holds.
    """
    *before, rows = statements(a.body)
    stmts = statements(b.body)
    at = next((n for n, s in enumerate(stmts) if _goes_with(s, rows)), None)
    if at is None or any(_meet(rows, s) for s in stmts[:at]):
        return None
    others = stmts[at]
    assert isinstance(rows, For)
    assert isinstance(others, For)
    steps = min(constant(s.extent) or 0 for s in (rows, others))
    if (constant(a.extent) or 0) * steps < least:
        return None
    kept = (bound_names(s.body if s.extent == Const(steps) else s) for s in (rows, others))
    both = Var(fresh(rows.var.name, frozenset[str]().union(*kept)))
    rows, others = (_in_parts(s, both, steps) for s in (rows, others))
    if not is_independent(rows, others, inside(a, {})):
        return None
    return replace(a, body=block(*before, *stmts[:at], replace(rows, body=block(rows.body, others.body)), *stmts[at + 1 :]))


def _goes_with(s: Stmt, rows: Stmt) -> bool:
    """Whether these are loops over as many rows of the same memory, one row or one group of them after the other."""
    if not (isinstance(s, For) and isinstance(rows, For) and s.kind is rows.kind is LoopKind.serial):
        return False
    few, many = sorted(constant(loop.extent) or 0 for loop in (s, rows))
    return many in (few, few * ROWS) and few > 0 and not tensor_names(s).isdisjoint(tensor_names(rows))


def _meet(a: Stmt, b: Stmt) -> bool:
    """Whether one touches what the other one writes."""
    return any(t.name in tensor_names(other) for s, other in ((a, b), (b, a)) for t in written(s))


def _in_parts(loop: For, var: Var, count: int) -> For:
    """The loop with so many iterations, each of as many of its own as that takes."""
    each = (constant(loop.extent) or 0) // count
    if each == 1:
        return replace(loop, var=var, body=substitute_all(loop.body, {loop.var.name: var}))
    return For(var, Const(count), iterations_of_task(loop, var, count * each, each), loop.kind)
