"""non-temporal-stores: what is written by a nest that touches more than the caches hold goes past them.

    for i_v in 1000000 { y[i_v*16:+16] = max(x[i_v*16:+16], x16(0.0)) }   ->   ... y[i_v*16:+16] = max(...) nontemporal

Whoever reads the result afterwards, from its beginning, would find none of it in a cache anyway, and a line that is written as a whole need
not be fetched first. Times over those without, f32, one thread of a Zen 5 CPU with 32 MiB of last-level cache: ReLU of 4 and 8 MiB 1.44,
1.39, of 16 to 96 MiB 0.71 to 0.83; of 196 MiB LayerNorm 0.75, BatchNormInference 0.72, SoftMax 0.79, tanh 0.77, GELU 1.01, MaxPool of 2x2
0.95. On two threads ReLU 0.90 (medians 0.76), LayerNorm 0.67. What reads much more than it writes loses: MaxPool and AvgPool of 3x3 1.20,
1.17. Half lines gain nothing, so vectors of narrow results are whole ones here (vectorize): bf16, one core (two), ReLU of 196 MiB 0.80
(0.81), SoftMax of 128 MiB 0.70 (0.70), LayerNorm of 128 MiB 0.87 (0.89), tanh 0.97 (0.96), GELU 1.00 (0.98), copies of 252 MiB 0.72 (0.74);
f16 ReLU 0.78 (0.78), f32 to u8 0.97 (0.88).

Two cores together get so much more from that cache than from memory that what it holds most of had better stay there. The same, one thread
(two), by MiB: SoftMax's gradients of 36 0.88 (1.35), 54 0.90 (0.90), 72 0.82 (0.95), 144 0.76 (0.82), Add 0.85 (1.23), 0.84 (0.86), 0.81
(0.81), 0.76 (0.81), ReLU of 36 0.95 (1.39), 48 0.94 (1.06), 96 0.82 (0.81).

A last-level cache of hundreds of megabytes is that of dozens of cores, and mostly far away. One thread of a Granite Rapids that reports 480
MiB: ReLU of 2 x 23 MiB 1.03, of 2 x 49 MiB 0.92, of 2 x 196 MiB 0.57, LayerNorm 0.75, SoftMax 0.85; LayerNorm of 2 x 72 MiB 0.55.
"""

from __future__ import annotations

from dataclasses import replace

from benchgraph.core.target import LINE_BYTES, Target
from benchgraph.tir.affine import linear
from benchgraph.tir.ir import For, Func, Ramp, Scope, Stmt, Store
from benchgraph.tir.non_temporal import MOST_READ, map_nests
from benchgraph.tir.visit import loads, map_children


def non_temporal_stores(f: Func, target: Target) -> Func:
    body = map_nests(f, target, lambda nest, unkept: _stmt(nest, unkept, nest) if unkept and isinstance(nest, For) else nest)
    return f if body is f.body else replace(f, body=body)


def _stmt(s: Stmt, results: frozenset[str], loop: For) -> Stmt:
    """loop: the innermost one around."""
    if isinstance(s, Store):
        streams = s.tensor.name in results and _fills_lines(s, loop) and _vectors_read(s) <= MOST_READ
        return replace(s, non_temporal=True) if streams else s
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
