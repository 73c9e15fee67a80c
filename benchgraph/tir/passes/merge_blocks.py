"""merge-blocks: adjacent parallel loops that read the same memory are fused into the blocks of it that the function names.

func f(x, ..) shared=[(names=["x"], blocks=64, by_rows=true)] {
    parallel for i in 3072 {                  ->  parallel for t_b in 64 {
      A reads x[i*1024:+1024]                       for i in 48 { A with i = t_b*48 + i }
    }                                               B with t = t_b
    parallel for t in 64 {                        }
      B reads x[t*49152:+49152]
    }

B then reads x from L2. LayerNormBackward has such loops: the rows of diff_src, and reductions over rows for gamma and beta. Of several
adjacent pairs the one that shares most is fused first. By rows, the row loops are fused too, if B iterates over the same rows serially, and
B reads each row from L1:

    for i in 48 { A }                         ->  start of B
    start of B                                    for i in 48 { A
    for r in 48 { rest of B }                       rest of B with r = i }

gir/elements.py says what is shared. Measurements: docs/measurements/parallel-loops.md.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from math import prod

from benchgraph.machine.target import Target
from benchgraph.tir.accesses import are_independent, by_tensor, is_partitioned
from benchgraph.tir.affine import inside
from benchgraph.tir.build import constant
from benchgraph.tir.ir import Alloc, Const, For, Func, LoopKind, Shared, Stmt, Var
from benchgraph.tir.loops import blocked, is_parallel
from benchgraph.tir.visit import block, bound_names, fresh, statements, tensor_names, written


def merge_blocks(f: Func, target: Target) -> Func:
    given = statements(f.body)
    stmts = list(given)
    while pairs := [pair for shared in f.shared for pair in _pairs(stmts, shared)]:
        _, first, second, fused = max(pairs, key=lambda pair: pair[0])
        stmts[first : second + 1] = [*stmts[first + 1 : second], fused]  # declarations between them come first
    return f if len(stmts) == len(given) else replace(f, body=block(*stmts))


def _pairs(stmts: Sequence[Stmt], shared: Shared) -> Iterator[tuple[int, int, int, For]]:
    """Of adjacent loops that may be fused: bytes of the memory that both read, positions of the two, and the fused loop."""
    places = [n for n, s in enumerate(stmts) if not isinstance(s, Alloc)]
    for first, second in pairwise(places):
        if (pair := _fused(stmts[first], stmts[second], shared)) is not None:
            fused, nbytes = pair
            yield nbytes, first, second, fused


def _fused(a: Stmt, b: Stmt, shared: Shared) -> tuple[For, int] | None:
    """Two loops fused into so many blocks, which one of them has, and bytes that both read; None if that is not legal, or nothing."""
    if not (is_parallel(a) and is_parallel(b)):
        return None
    few, many = sorted((constant(a.extent) or 0, constant(b.extent) or 0))
    if few != shared.blocks or many % few:
        return None
    task = Var(fresh(f"{(a if a.extent == Const(few) else b).var.name}_b", bound_names(a) | bound_names(b)))
    first, second = (blocked(s, task, few) for s in (a, b))
    if not are_independent(first, second, {}):
        return None
    inner, in_second = bound_names(first.body) | bound_names(second.body), by_tensor(second, {})
    nbytes = 0
    for name, accesses in by_tensor(first, {}).items():
        accesses += in_second.get(name, [])
        if name in shared.names and name in in_second and is_partitioned(accesses, task.name, inner):
            nbytes += accesses[0].tensor.dtype.nbytes(prod(accesses[0].tensor.shape))
    if not nbytes:
        return None
    by_rows = _fused_by_rows(first, second) if shared.by_rows else None
    return by_rows or replace(first, body=block(first.body, second.body)), nbytes


def _fused_by_rows(a: For, b: For) -> For | None:
    """Two loops with their row loops fused too: a's last statement, and one of b's that nothing before it depends on; None otherwise."""
    *before, rows = statements(a.body)
    stmts = statements(b.body)
    at = next((n for n, s in enumerate(stmts) if _have_same_rows(s, rows)), None)
    if at is None or any(_conflict(rows, s) for s in stmts[:at]):
        return None
    others = stmts[at]
    assert isinstance(rows, For)
    assert isinstance(others, For)
    count = constant(rows.extent) or 0
    both = Var(fresh(rows.var.name, bound_names(rows.body) | bound_names(others.body)))
    rows, others = (blocked(s, both, count) for s in (rows, others))
    if not are_independent(rows, others, inside(a, {})):
        return None
    return replace(a, body=block(*before, *stmts[:at], replace(rows, body=block(rows.body, others.body)), *stmts[at + 1 :]))


def _have_same_rows(s: Stmt, rows: Stmt) -> bool:
    """Whether two statements are serial loops over the same number of rows of a tensor."""
    if not (isinstance(s, For) and isinstance(rows, For) and s.kind is rows.kind is LoopKind.serial):
        return False
    return s.extent == rows.extent and not tensor_names(s).isdisjoint(tensor_names(rows))


def _conflict(a: Stmt, b: Stmt) -> bool:
    """Whether one accesses what the other writes."""
    return any(t.name in tensor_names(other) for s, other in ((a, b), (b, a)) for t in written(s))
