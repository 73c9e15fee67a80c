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
from benchgraph.tir.accesses import accesses_of, has_independent_iterations, stride_along
from benchgraph.tir.affine import Ranges, inside
from benchgraph.tir.build import constant
from benchgraph.tir.instructions import FUNCTION, instructions
from benchgraph.tir.ir import Alloc, Binary, For, Func, LoopKind, Scope, Stmt, Store
from benchgraph.tir.loops import Names, map_loops, unrolled, with_body
from benchgraph.tir.vector_loops import reduction
from benchgraph.tir.visit import block, loads, statements, variables


def unroll_and_jam(f: Func, target: Target) -> Func:
    names = Names.of(f)
    return with_body(f, map_loops(f.body, lambda loop, ranges: _unrolled(loop, ranges, target, names)))


def _unrolled(loop: For, ranges: Ranges, target: Target, names: Names) -> Stmt | None:
    rows, machine = constant(loop.extent), table(target)
    if loop.kind is not LoopKind.serial or (rows is not None and rows < machine.jammed_rows):
        return None
    reduced = _reduced_tensors(loop, machine.jammed_row_elements)
    if not reduced or _is_memory_bound(loop, target) or not _is_interchangeable(loop, reduced, ranges):
        return None
    return unrolled(loop, machine.jammed_rows, partial(_jammed, reduced), names)


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
    names = {s.tensor.name for s in stores} - _temporaries(inner)
    per_element = names & set(reduced)
    if any(len(list(accesses_of(name, inner.body, ranges))) != 2 for name in per_element):
        return False
    within = inside(loop, ranges)
    return has_independent_iterations(inner, within, per_element) and has_independent_iterations(loop, ranges, names - per_element)


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
                sums[r.store.tensor.name] = r.store if so_far is r.store else replace(so_far, value=Binary(r.op, so_far.value, r.value))
    return replace(first, body=block(*stmts, *sums.values()))
