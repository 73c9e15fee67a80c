"""prefetch-rows: one of the later loops over a row prefetches the next row.

    for r in 3072 {                                        for r in 3072 {
      for i_v in 256 { m_v = max(m_v, x[r*4096 + ...]) }     for i_v in 256 { m_v = max(m_v, x[r*4096 + ...]) }
      m = max(m, reduce_max(m_v))                    ->      m = max(m, reduce_max(m_v))
      for i_v in 256 { y[..] = x[r*4096 + ...] - m }         for i_v in 256 {
    }                                                          y[..] = x[r*4096 + ...] - m
                                                               prefetch x[r*4096 + 4096 + i_v*16] 1 lines
                                                             } }

Later loops read the row from a cache, so memory would be idle meanwhile, and hardware prefetchers restart at every page. The longest loop
(the last of several) prefetches what the loops before it read. Rows are left to the hardware if the loops access less than most of L1, or
if one row does not fit L1 (docs/measurements/prefetch.md).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import chain

from benchgraph.machine.table import table
from benchgraph.machine.target import PAGE_BYTES, Target
from benchgraph.tir.affine import Ranges, inside, linear
from benchgraph.tir.build import constant
from benchgraph.tir.cost import nanoseconds
from benchgraph.tir.ir import Brgemm, For, Func, Prefetch, Seq, Stmt, Store, Tensor
from benchgraph.tir.streams import Stream, is_larger_than_l2, streams, vectors
from benchgraph.tir.visit import block, loads, map_children, walk


def prefetch_rows(f: Func, target: Target) -> Func:
    if not any(is_larger_than_l2(load.tensor, target) for load in loads(f.body)):
        return f
    body = _stmt(f.body, {}, target)
    return f if body is f.body else replace(f, body=body)


def _stmt(s: Stmt, ranges: Ranges, target: Target) -> Stmt:
    if not isinstance(s, For):
        return map_children(s, lambda c: _stmt(c, ranges, target))
    within, stmts = inside(s, ranges), list(_sequence(s.body))
    loops = [c for c in stmts if isinstance(c, For)]
    has_product = any(isinstance(c, Brgemm) for c in stmts)  # whose calls prefetch by themselves
    read = [] if has_product or len(loops) < 2 else [list(_rows_read(loop, s, within, target)) for loop in loops]
    if any(read) and _bytes_accessed(loops) > target.l1_bytes * table(target).l1_prefetched_share:
        k = max(reversed(range(1, len(loops))), key=lambda k: nanoseconds(loops[k], target))
        host, rows = loops[k], dict.fromkeys(chain(*read[:k]))
        if rows:
            return replace(s, body=_with_prefetches(s.body, host, [row.prefetch_in(host) for row in rows]))
    return map_children(s, lambda c: _stmt(c, within, target))


def _sequence(s: Stmt) -> Iterator[Stmt]:
    """The statements of nested blocks, in order."""
    if isinstance(s, Seq):
        for c in s.stmts:
            yield from _sequence(c)
    else:
        yield s


def _bytes_accessed(loops: list[For]) -> int:
    """Bytes that these loops read and write sequentially."""
    lengths = dict[Tensor, int]()
    for loop in loops:
        stores = (c for c in walk(loop.body) if isinstance(c, Store))
        for tensor, at in vectors(chain(loads(loop.body), stores)):
            elements = linear(at.base).terms.get(loop.var, 0) * (constant(loop.extent) or 0)
            lengths[tensor] = max(lengths.get(tensor, 0), tensor.dtype.nbytes(elements))
    return sum(lengths.values())


def _rows_read(loop: For, rows: For, ranges: Ranges, target: Target) -> Iterator[Stream]:
    """What a loop reads sequentially in the next iteration of the loop over rows, if a row is at least a page and fits L1."""
    for row in streams(loop, ranges, target):
        step = linear(row.begin).terms.get(rows.var, 0)
        if step > 0 and PAGE_BYTES <= row.nbytes <= target.l1_bytes:
            yield row.shifted(step, ranges)


def _with_prefetches(s: Stmt, host: For, prefetches: list[Prefetch]) -> Stmt:
    if s is host:
        return replace(host, body=block(host.body, *prefetches))
    return map_children(s, lambda c: _with_prefetches(c, host, prefetches)) if isinstance(s, Seq) else s
