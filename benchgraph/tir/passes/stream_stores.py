"""stream-stores: what is written by a nest that touches more than the caches hold goes past them.

    for i_v in 1000000 { y[i_v*16:+16] = max(x[i_v*16:+16], x16(0.0)) }   ->   ... y[i_v*16:+16] = max(...) past caches

Whoever reads the result afterwards, from its beginning, would find none of it in a cache anyway, and a line that is written as a whole need
not be fetched first. Times over those without, f32, one thread of a Zen 5 CPU with 32 MiB of last-level cache: ReLU of 4 and 8 MiB 1.44,
1.39, of 16 to 96 MiB 0.71 to 0.83; of 196 MiB LayerNorm 0.75, BatchNormInference 0.72, SoftMax 0.79, tanh 0.77, GELU 1.01, MaxPool of 2x2
0.95. On two threads ReLU 0.90 (medians 0.76), LayerNorm 0.67. Half lines, as of bf16, gain nothing. What reads much more than it writes
loses: MaxPool and AvgPool of 3x3 1.20, 1.17.

Two cores together get so much more from that cache than from memory that what it holds most of had better stay there. The same, one thread
(two), by MiB: SoftMax's gradients of 36 0.88 (1.35), 54 0.90 (0.90), 72 0.82 (0.95), 144 0.76 (0.82), Add 0.85 (1.23), 0.84 (0.86), 0.81
(0.81), 0.76 (0.81), ReLU of 36 0.95 (1.39), 48 0.94 (1.06), 96 0.82 (0.81).

A last-level cache of hundreds of megabytes is that of dozens of cores, and mostly far away. One thread of a Granite Rapids that reports 480
MiB: ReLU of 2 x 23 MiB 1.03, of 2 x 49 MiB 0.92, of 2 x 196 MiB 0.57, LayerNorm 0.75, SoftMax 0.85; LayerNorm of 2 x 72 MiB 0.55.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from benchgraph.core.target import LINE_BYTES, Target
from benchgraph.tir.affine import linear
from benchgraph.tir.ir import Brgemm, For, Func, Pack, Ramp, Scope, Stmt, Store, Tensor
from benchgraph.tir.operands import operands
from benchgraph.tir.visit import loads, map_children, tensors, walk, written

MOST_HELD = 64 << 20  # bytes that a last-level cache, however large, is believed to hold for a program
TIMES_HELD = 1.5  # what several cores touch goes past it when it is so many times what it holds
MOST_READ = 4  # vectors of memory that are read for one that is written


def stream_stores(f: Func, target: Target) -> Func:
    held = min(target.llc_bytes * (TIMES_HELD if target.cores > 1 else 1), MOST_HELD)
    if not held or _nbytes(f.params) < held:
        return f
    read = {load.tensor for load in loads(f.body)}.union(*(_operands(s) for s in walk(f.body)))

    def nest(s: Stmt) -> Stmt:
        if not isinstance(s, For):
            return map_children(s, nest)
        if _nbytes(t for t in set(tensors(s)) if t.scope is Scope.param) < held:
            return s
        return _stmt(s, frozenset(t.name for t in written(s) - read if t.scope is Scope.param), s)

    body = nest(f.body)
    return f if body is f.body else replace(f, body=body)


def _nbytes(found: Iterable[Tensor]) -> int:
    return sum(t.nbytes for t in found)


def _operands(s: Stmt) -> set[Tensor]:
    return {o.piece.tensor for o in operands(s)} if isinstance(s, Brgemm | Pack) else set()


def _stmt(s: Stmt, results: frozenset[str], loop: For) -> Stmt:
    """loop: the innermost one around."""
    if isinstance(s, Store):
        streams = s.tensor.name in results and _fills_lines(s, loop) and _vectors_read(s) <= MOST_READ
        return replace(s, past_caches=True) if streams else s
    return map_children(s, lambda c: _stmt(c, results, s if isinstance(s, For) else loop))


def _fills_lines(s: Store, loop: For) -> bool:
    """Whether it writes line after line of memory as a whole, if the tensor begins where a line does."""
    (at,) = s.index
    if not isinstance(at, Ramp) or at.stride != 1 or s.mask is not None:
        return False
    form, bits = linear(at.base), at.lanes * s.tensor.dtype.bits
    return bits == 8 * LINE_BYTES and form.is_multiple(at.lanes) and form.terms.get(loop.var) == at.lanes


def _vectors_read(s: Store) -> int:
    return len({load for load in loads(s) if load.tensor.scope is Scope.param and any(isinstance(i, Ramp) for i in load.index)})
