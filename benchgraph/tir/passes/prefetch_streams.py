"""prefetch-streams: a loop that folds what it reads in several long places at once fetches each of them ahead.

    for k_v in 128 {                                   for k_v in 128 {
      a_v = a_v + x[k_v*32] * f32(w[j*4096 + ...])       prefetch w[j*4096 + k_v*32 + 1024] 1 lines
      b_v = b_v + x[k_v*32] * f32(w[j*4096 + ...])  ->   prefetch w[j*4096 + 4096 + k_v*32 + 1024] 1 lines
    }                                                    a_v = ...
                                                         b_v = ...
                                                       }

Of narrow floats, which take two loads a line, hardware brings several streams late: columns of weights that few rows of src meet. On cores
where that was measured (`Target.one_stream`): Zen 5, one core, weights of 14336 columns of 4096 bf16, 4 of them abreast, times with what
comes so many bytes later over those without, minima: 4 rows 512 0.87, 1024 0.81, 2048 0.76, 4096 0.87; 2, 3 rows, 2048 0.75, 0.74; two
cores, 2 to 4 rows 0.69 to 0.95; of f32 1.13, 1.13 for 2, 3 rows, 0.94 for 4.
"""

from __future__ import annotations

from dataclasses import replace

from benchgraph.core.target import Target
from benchgraph.tir.affine import Ranges, inside
from benchgraph.tir.groups import WIDENED
from benchgraph.tir.ir import For, Func, Scope, Stmt, Store
from benchgraph.tir.streams import Stream, streams
from benchgraph.tir.visit import block, map_children, statements

AHEAD_BYTES = 2048


def prefetch_streams(f: Func, target: Target) -> Func:
    if not target.one_stream:
        return f
    body = _stmt(f.body, {}, target)
    return f if body is f.body else replace(f, body=body)


def _stmt(s: Stmt, ranges: Ranges, target: Target) -> Stmt:
    if not isinstance(s, For):
        return map_children(s, lambda c: _stmt(c, ranges, target))
    within = inside(s, ranges)
    if not _folds(s):
        return map_children(s, lambda c: _stmt(c, within, target))
    late = [stream for stream in streams(s, ranges, target) if _is_late(stream)]
    if len(late) < 2:
        return s
    return replace(s, body=block(*(_ahead(stream, within).prefetch_in(s) for stream in late), s.body))


def _folds(loop: For) -> bool:
    """Whether all that a loop writes is in registers."""
    return all(isinstance(c, Store) and c.tensor.scope is Scope.register for c in statements(loop.body))


def _is_late(stream: Stream) -> bool:
    """Of narrow floats, and long enough for most of it to be fetched ahead."""
    return stream.tensor.dtype in WIDENED and stream.nbytes >= 2 * AHEAD_BYTES


def _ahead(stream: Stream, ranges: Ranges) -> Stream:
    return stream.further(AHEAD_BYTES * 8 // stream.tensor.dtype.bits, ranges)
