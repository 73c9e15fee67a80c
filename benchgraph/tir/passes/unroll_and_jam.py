"""unroll-and-jam: rows that are folded element by element into one row are folded several at a time.

    for r in 64 { for c in 100 {                   for r in 16 { for c in 100 {          (four at a time: ROWS)
      acc[c] = acc[c] + x[r, c]             ->       acc[c] = acc[c] + x[r*4, c] + x[r*4 + 1, c] + x[r*4 + 2, c] + x[r*4 + 3, c]
    } }                                            } }

A short row's elements are otherwise read right behind the store that wrote them, which takes a processor several times as long as the sum,
and a longer row's are read and written once for each row. Work of a function or more hides that. An element's parts are added in the same
order, so the bits are the same.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from functools import partial

from benchgraph.core.target import PAGE_BYTES, Target
from benchgraph.tir.accesses import accesses_of, inner_names, is_partitioned, pitch
from benchgraph.tir.affine import Ranges, inside
from benchgraph.tir.build import constant
from benchgraph.tir.cost import FUNCTION, instructions
from benchgraph.tir.ir import Alloc, For, Func, LoopKind, Scope, Stmt, Store
from benchgraph.tir.passes.unroll_and_interleave import FAR_BYTES
from benchgraph.tir.unrolling import unrolled
from benchgraph.tir.vector_loops import reduction
from benchgraph.tir.visit import block, bound_names, loads, map_children, statements, tensor_names, variables

# Times over those without, f32, one thread of a Zen 5 CPU, by 4 and by 8 rows: ReduceL2 of 260 rows of 8 0.39, 0.30, of 128 rows of 64
# 0.56, 0.57; ReduceSum of 25088 rows of 64 0.58, 0.59, of 2048 rows of 512 0.92, of 128 rows of 768 0.94, 0.95. By 4, of 128 rows of 1024,
# which lie as far apart as what shares a set of L1, 1.12; of longer rows, from L3, 0.9 to 1.11.
ROWS = 4
LONGEST = 768  # elements of a row


def unroll_and_jam(f: Func, target: Target) -> Func:
    taken = {p.name for p in f.params} | tensor_names(f.body)
    body = _stmt(f.body, {}, target, taken, bound_names(f.body))
    return f if body is f.body else replace(f, body=body)


def _stmt(s: Stmt, ranges: Ranges, target: Target, taken: set[str], names: frozenset[str]) -> Stmt:
    if not isinstance(s, For):
        return map_children(s, lambda c: _stmt(c, ranges, target, taken, names))
    within = inside(s, ranges)
    rows = constant(s.extent)
    folds = _folds(s) if s.kind is LoopKind.serial and (rows is None or rows >= ROWS) else None
    if folds and not _streams(s, target) and _may_change_turns(s, folds, within):
        return unrolled(s, ROWS, partial(_together, folds), taken, names)
    return map_children(s, lambda c: _stmt(c, within, target, taken, names))


def _folds(loop: For) -> frozenset[str]:
    """The tensors that a loop over rows folds into, row upon row; none unless all it does is little, and done in one loop over elements."""
    inner = loop.body
    if not isinstance(inner, For) or inner.kind is not LoopKind.serial or not 0 < (constant(inner.extent) or 0) <= LONGEST:
        return frozenset()
    stmts = statements(inner.body)
    if not all(isinstance(s, Alloc | Store) for s in stmts) or sum(instructions(s) for s in stmts if isinstance(s, Store)) >= FUNCTION:
        return frozenset()
    found = (r for s in stmts if isinstance(s, Store) and (r := reduction(s)) is not None)
    names = frozenset(r.store.tensor.name for r in found if not any(loop.var.name in variables(i) for i in r.store.index))
    return names - _own(inner)


def _streams(loop: For, target: Target) -> bool:
    """Whether rows come from memory, each right behind the one before: several at a time are jumps within a page.

    ReduceMin over the channels of f32[64,1024,14,14], one thread of a Zen 4: 1.8 ms for 3.3; of [64,64,112,112], rows farther apart, 16.4
    for 12. Pieces of 256 bytes of rows jump anyway. Softmax over columns, times of four at a time over those of single ones, one and two
    threads: bf16[8,16,384,384] 0.95 and 0.89, f32[8,64,384,192] 0.89 and 0.79, bf16[64,1024,20,20] over channels 0.99 and 0.88.
    """
    inner = loop.body
    assert isinstance(inner, For)
    given = {load.tensor: load for load in loads(inner.body) if load.tensor.scope is Scope.param and target.is_far(load.tensor.nbytes)}
    for t, load in given.items():
        row, apart = t.dtype.nbytes(constant(inner.extent) or 0), t.dtype.nbytes(pitch(load, loop.var))
        if row == apart and FAR_BYTES <= row <= PAGE_BYTES // ROWS:
            return True
    return False


def _may_change_turns(loop: For, folds: Collection[str], ranges: Ranges) -> bool:
    """Whether elements may have their rows one after the other: what is folded into is an element's own, other results are a row's, and
    nothing that is folded is written again behind the fold, which comes last."""
    inner = loop.body
    assert isinstance(inner, For)
    stores = [s for s in statements(inner.body) if isinstance(s, Store)]
    for at, s in enumerate(stores):
        later = {other.tensor.name for other in stores[at + 1 :]}
        if s.tensor.name in folds and any(load.tensor.name in later for load in loads(s)):
            return False
    for name in {s.tensor.name for s in stores} - _own(inner):
        if name in folds:
            found = list(accesses_of(name, inner.body, inside(inner, ranges)))
            if len(found) != 2 or not is_partitioned(found, inner.var.name, frozenset()):
                return False
        elif not is_partitioned(list(accesses_of(name, loop.body, ranges)), loop.var.name, inner_names(loop)):
            return False
    return True


def _own(loop: For) -> set[str]:
    """Temporaries of one iteration."""
    return {s.tensor.name for s in statements(loop.body) if isinstance(s, Alloc)}


def _together(names: Collection[str], rows: Sequence[Stmt]) -> Stmt:
    """One loop over elements, which does for all rows what each loop does for one; last the folds, into the tensors of these names."""
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
