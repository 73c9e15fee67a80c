"""prefetch-rows: the next row is fetched while one of the later loops over this row runs.

    for r in 3072 {                                        for r in 3072 {
      for i_v in 256 { m_v = max(m_v, x[r*4096 + ...]) }     for i_v in 256 { m_v = max(m_v, x[r*4096 + ...]) }
      m = max(m, reduce_max(m_v))                    ->      m = max(m, reduce_max(m_v))
      for i_v in 256 { y[..] = x[r*4096 + ...] - m }         for i_v in 256 {
    }                                                          y[..] = x[r*4096 + ...] - m
                                                               prefetch x[r*4096 + 4096 + i_v*16] 1 lines
                                                             } }

Later loops find the row in a cache, so memory would rest meanwhile, and hardware that fetches ahead begins anew with every page. The loop
that works longest, the last of equals, fetches what loops in front of it read; what it reads first itself comes in as it runs. Bytes that a
row's loops touch, and times over those without, minima, rows of f32 in 32 MiB, one thread of a Zen 4 with 32 KiB of L1 (two):

    columns               1024                2048                4096                8192
    SoftMax         12 K  1.10 (1.18)   24 K  0.74 (0.74)   48 K  0.60 (0.64)   96 K  0.63 (0.73)
    LayerNorm       16 K  1.07 (1.08)   32 K  0.51 (0.77)   64 K  0.83 (0.89)  128 K  0.92 (1.02)
    its gradients   32 K  0.86 (0.76)   64 K  1.04 (0.96)  128 K  0.99 (1.03)  256 K  0.98 (0.96)

Hardware keeps up with rows whose loops touch less than most of L1, which are left to it; of gradients of rows without weights, 20 K, 1.13.
So are rows that L1 does not hold: gradients of 28 weights, whose sums go over 200 KB of each image, 1.31.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import chain

from benchgraph.core.target import PAGE_BYTES, Target
from benchgraph.machine.table import table
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
    within, stmts = inside(s, ranges), list(_in_turn(s.body))
    loops = [c for c in stmts if isinstance(c, For)]
    has_product = any(isinstance(c, Brgemm) for c in stmts)  # its calls fetch what is worth it
    read = [] if has_product or len(loops) < 2 else [list(_rows_read(loop, s, within, target)) for loop in loops]
    if any(read) and _touched(loops) > target.l1_bytes * table(target).l1_prefetched_share:
        k = max(reversed(range(1, len(loops))), key=lambda k: nanoseconds(loops[k], target))
        host, rows = loops[k], dict.fromkeys(chain(*read[:k]))
        if rows:
            return replace(s, body=_with(s.body, host, [row.prefetch_in(host) for row in rows]))
    return map_children(s, lambda c: _stmt(c, within, target))


def _in_turn(s: Stmt) -> Iterator[Stmt]:
    """What runs one after the other."""
    if isinstance(s, Seq):
        for c in s.stmts:
            yield from _in_turn(c)
    else:
        yield s


def _touched(loops: list[For]) -> int:
    """Bytes of what these loops read and write from end to end."""
    lengths = dict[Tensor, int]()
    for loop in loops:
        stores = (c for c in walk(loop.body) if isinstance(c, Store))
        for tensor, at in vectors(chain(loads(loop.body), stores)):
            elements = linear(at.base).terms.get(loop.var, 0) * (constant(loop.extent) or 0)
            lengths[tensor] = max(lengths.get(tensor, 0), tensor.dtype.nbytes(elements))
    return sum(lengths.values())


def _rows_read(loop: For, rows: For, ranges: Ranges, target: Target) -> Iterator[Stream]:
    """What a loop reads from end to end of each row that the loop around it goes to, in the next one: a page to all of L1."""
    for row in streams(loop, ranges, target):
        step = linear(row.begin).terms.get(rows.var, 0)
        if step > 0 and PAGE_BYTES <= row.nbytes <= target.l1_bytes:
            yield row.further(step, ranges)


def _with(s: Stmt, host: For, fetched: list[Prefetch]) -> Stmt:
    if s is host:
        return replace(host, body=block(host.body, *fetched))
    return map_children(s, lambda c: _with(c, host, fetched)) if isinstance(s, Seq) else s
