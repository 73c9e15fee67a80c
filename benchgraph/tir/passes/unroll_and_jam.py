"""unroll-and-jam: loops over rows that are reduced element by element into one row are unrolled, and their inner loops fused.

    for r in 64 { for c in 100 {                   for r in 16 { for c in 100 {          (by four)
      acc[c] = acc[c] + x[r, c]             ->       acc[c] = acc[c] + x[r*4, c] + x[r*4 + 1, c] + x[r*4 + 2, c] + x[r*4 + 3, c]
    } }                                            } }

A short accumulator would be loaded right after the store of the row before, which has a latency of several additions, and a longer one be
loaded and stored once per row. Loops that compute a function hide that. Elements are added in the same order, so results keep their bits.
Measurements: docs/measurements/loop-unrolling.md.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from functools import partial

from benchgraph.machine.table import table
from benchgraph.machine.target import PAGE_BYTES, Target
from benchgraph.tir.accesses import accesses_of, inner_names, is_partitioned, stride_along
from benchgraph.tir.affine import Ranges, inside
from benchgraph.tir.build import constant
from benchgraph.tir.cost import FUNCTION, instructions
from benchgraph.tir.ir import Alloc, For, Func, LoopKind, Scope, Stmt, Store
from benchgraph.tir.unrolling import unrolled
from benchgraph.tir.vector_loops import reduction
from benchgraph.tir.visit import block, bound_names, loads, map_children, statements, tensor_names, variables


def unroll_and_jam(f: Func, target: Target) -> Func:
    taken = {p.name for p in f.params} | tensor_names(f.body)
    body = _stmt(f.body, {}, target, taken, bound_names(f.body))
    return f if body is f.body else replace(f, body=body)


def _stmt(s: Stmt, ranges: Ranges, target: Target, taken: set[str], names: frozenset[str]) -> Stmt:
    if not isinstance(s, For):
        return map_children(s, lambda c: _stmt(c, ranges, target, taken, names))
    within = inside(s, ranges)
    rows, machine = constant(s.extent), table(target)
    can_unroll = s.kind is LoopKind.serial and (rows is None or rows >= machine.jammed_rows)
    reduced = _reduced_tensors(s, machine.jammed_row_elements) if can_unroll else None
    if reduced and not _is_memory_bound(s, target) and _is_interchangeable(s, reduced, within):
        return unrolled(s, machine.jammed_rows, partial(_jammed, reduced), taken, names)
    return map_children(s, lambda c: _stmt(c, within, target, taken, names))


def _reduced_tensors(loop: For, longest: int) -> frozenset[str]:
    """The tensors that a loop over rows reduces into, row by row; none unless it has one cheap inner loop that is not longer."""
    inner = loop.body
    if not isinstance(inner, For) or inner.kind is not LoopKind.serial or not 0 < (constant(inner.extent) or 0) <= longest:
        return frozenset()
    stmts = statements(inner.body)
    if not all(isinstance(s, Alloc | Store) for s in stmts) or sum(instructions(s) for s in stmts if isinstance(s, Store)) >= FUNCTION:
        return frozenset()
    reductions = (r for s in stmts if isinstance(s, Store) and (r := reduction(s)) is not None)
    names = frozenset(r.store.tensor.name for r in reductions if not any(loop.var.name in variables(i) for i in r.store.index))
    return names - _temporaries(inner)


def _is_memory_bound(loop: For, target: Target) -> bool:
    """Whether rows come from memory and are adjacent, so that several at a time would jump within a page."""
    inner = loop.body
    assert isinstance(inner, For)
    far = {load.tensor: load for load in loads(inner.body) if load.tensor.scope is Scope.param and target.is_far(load.tensor.nbytes)}
    least, most = table(target).far_row_bytes, PAGE_BYTES // table(target).jammed_rows
    for t, load in far.items():
        row, row_pitch = t.dtype.nbytes(constant(inner.extent) or 0), t.dtype.nbytes(stride_along(load, loop.var))
        if row == row_pitch and least <= row <= most:
            return True
    return False


def _is_interchangeable(loop: For, reduced: Collection[str], ranges: Ranges) -> bool:
    """Whether each element may be reduced over all rows at once: accumulators are per element, other results per row, and no operand of a
    reduction is written after it."""
    inner = loop.body
    assert isinstance(inner, For)
    stores = [s for s in statements(inner.body) if isinstance(s, Store)]
    for at, s in enumerate(stores):
        later = {other.tensor.name for other in stores[at + 1 :]}
        if s.tensor.name in reduced and any(load.tensor.name in later for load in loads(s)):
            return False
    for name in {s.tensor.name for s in stores} - _temporaries(inner):
        if name in reduced:
            accesses = list(accesses_of(name, inner.body, inside(inner, ranges)))
            if len(accesses) != 2 or not is_partitioned(accesses, inner.var.name, frozenset()):
                return False
        elif not is_partitioned(list(accesses_of(name, loop.body, ranges)), loop.var.name, inner_names(loop)):
            return False
    return True


def _temporaries(loop: For) -> set[str]:
    """Temporaries of one iteration."""
    return {s.tensor.name for s in statements(loop.body) if isinstance(s, Alloc)}


def _jammed(names: Collection[str], rows: Sequence[Stmt]) -> Stmt:
    """One loop over elements with the statements of all rows, and last the reductions into the tensors of these names."""
    first, stmts, sums = rows[0], list[Stmt](), dict[str, Store]()
    assert isinstance(first, For)
    for row in rows:
        assert isinstance(row, For)
        for s in statements(row.body):
            r = reduction(s) if isinstance(s, Store) and s.tensor.name in names else None
            if r is None:
                stmts.append(s)
            else:
                so_far = sums.get(r.store.tensor.name, r.store)
                sums[r.store.tensor.name] = r.store if so_far is r.store else replace(so_far, value=r.combine(so_far.value, r.value))
    return replace(first, body=block(*stmts, *sums.values()))
