"""non-temporal-stores: results of nests that access more memory than the caches hold are stored past the caches.

    for i_v in 1000000 { y[i_v*16:+16] = max(x[i_v*16:+16], x16(0.0)) }   ->   ... y[i_v*16:+16] = max(...) nontemporal

A later reader would find nothing of the result in a cache, and a line that is stored whole need not be read first. Only whole lines gain,
so vectorise makes vectors of narrow results as wide as a line. Nests that read much more than they write lose. With several cores more
memory than the last-level cache holds is required, and of a very large cache only a part counts
(docs/measurements/non-temporal-stores.md).
"""

from __future__ import annotations

from dataclasses import replace

from benchgraph.machine.table import table
from benchgraph.machine.target import LINE_BYTES, Target
from benchgraph.tir.affine import linear
from benchgraph.tir.ir import For, Func, Ramp, Scope, Stmt, Store
from benchgraph.tir.loops import with_body
from benchgraph.tir.non_temporal import map_nests_with_large_results
from benchgraph.tir.visit import loads, map_children


def non_temporal_stores(f: Func, target: Target) -> Func:
    most = table(target).non_temporal_reads

    def nest(loop: Stmt, uncached: frozenset[str]) -> Stmt:
        return _stmt(loop, uncached, loop, most) if uncached and isinstance(loop, For) else loop

    return with_body(f, map_nests_with_large_results(f, target, nest))


def _stmt(s: Stmt, results: frozenset[str], loop: For, most: int) -> Stmt:
    """loop: the innermost loop around s. most: vectors read per vector stored."""
    if isinstance(s, Store):
        pays = s.tensor.name in results and _stores_lines(s, loop) and _vectors_read(s) <= most
        return replace(s, non_temporal=True) if pays else s
    return map_children(s, lambda c: _stmt(c, results, s if isinstance(s, For) else loop, most))


def _stores_lines(s: Store, loop: For) -> bool:
    """Whether successive iterations store successive whole lines, given that the tensor is aligned to a line."""
    (at,) = s.index
    if not isinstance(at, Ramp) or at.stride != 1 or s.mask is not None:
        return False
    form, bits = linear(at.base), at.lanes * s.tensor.dtype.bits
    return bits == 8 * LINE_BYTES and form.is_multiple(at.lanes) and form.terms.get(loop.var) == at.lanes


def _vectors_read(s: Store) -> int:
    return len({load for load in loads(s) if load.tensor.scope is Scope.param and any(isinstance(i, Ramp) for i in load.index)})
