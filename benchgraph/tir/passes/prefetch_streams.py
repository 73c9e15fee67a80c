"""prefetch-streams: a loop that reduces several long streams of 16-bit floats prefetches each of them.

    for k_v in 128 {                                   for k_v in 128 {
      a_v = a_v + x[k_v*32] * f32(w[j*4096 + ...])       prefetch w[j*4096 + k_v*32 + 1024] 1 lines
      b_v = b_v + x[k_v*32] * f32(w[j*4096 + ...])  ->   prefetch w[j*4096 + 4096 + k_v*32 + 1024] 1 lines
    }                                                    a_v = ...
                                                         b_v = ...
                                                       }

This pays on machines whose hardware prefetches several streams of 16-bit floats late, as in products of few rows by column-major weights
(`stream_prefetch_bytes` of the machine table; docs/measurements/prefetch.md).
"""

from __future__ import annotations

from dataclasses import replace

from benchgraph.machine.table import table
from benchgraph.machine.target import Target
from benchgraph.tir.affine import Ranges, inside
from benchgraph.tir.groups import WIDENED
from benchgraph.tir.ir import For, Func, Scope, Stmt, Store
from benchgraph.tir.streams import streams
from benchgraph.tir.visit import block, map_children, statements


def prefetch_streams(f: Func, target: Target) -> Func:
    distance = table(target).stream_prefetch_bytes
    body = _stmt(f.body, {}, target, distance) if distance else f.body
    return f if body is f.body else replace(f, body=body)


def _stmt(s: Stmt, ranges: Ranges, target: Target, distance: int) -> Stmt:
    if not isinstance(s, For):
        return map_children(s, lambda c: _stmt(c, ranges, target, distance))
    within = inside(s, ranges)
    if not _is_reduction(s):
        return map_children(s, lambda c: _stmt(c, within, target, distance))
    long = [x for x in streams(s, ranges, target) if x.tensor.dtype in WIDENED and x.nbytes >= 2 * distance]
    if len(long) < 2:
        return s
    return replace(s, body=block(*(x.shifted(distance * 8 // x.tensor.dtype.bits, within).prefetch_in(s) for x in long), s.body))


def _is_reduction(loop: For) -> bool:
    """Whether a loop writes only registers."""
    return all(isinstance(c, Store) and c.tensor.scope is Scope.register for c in statements(loop.body))
