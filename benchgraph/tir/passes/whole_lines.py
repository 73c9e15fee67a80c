"""whole-lines: what is not stored in whole lines is not stored past the caches.

for i_v in 4 { y[i_v*16:+16] = x[i_v*16:+16] nontemporal }       ->   for i_v in 4 { y[i_v*16:+16] = x[i_v*16:+16] nontemporal }
y[64:+16] = x[64:+16] where 0:+16 < x16(3) nontemporal                y[64:+16] = x[64:+16] where 0:+16 < x16(3)

Only whole lines gain, so vectorise makes vectors of narrow results as wide as a line.
"""

from __future__ import annotations

from dataclasses import replace

from benchgraph.machine.target import LINE_BYTES, Target
from benchgraph.tir.affine import linear
from benchgraph.tir.ir import Brgemm, For, Func, Ramp, Stmt, Store
from benchgraph.tir.loops import with_body
from benchgraph.tir.visit import map_children


def whole_lines(f: Func, target: Target) -> Func:
    return with_body(f, _stmt(f.body, None))


def _stmt(s: Stmt, loop: For | None) -> Stmt:
    """loop: the innermost loop around s."""
    match s:
        case Store(non_temporal=True):
            return s if loop is not None and _stores_lines(s, loop) else replace(s, non_temporal=False)
        case Brgemm(post_ops=p) if p is not None:
            body = _stmt(p.body, None)
            return s if body is p.body else replace(s, post_ops=replace(p, body=body))
        case For():
            loop = s
    return map_children(s, lambda c: _stmt(c, loop))


def _stores_lines(s: Store, loop: For) -> bool:
    """Whether successive iterations store successive whole lines, given that the tensor is aligned to a line."""
    (at,) = s.index
    if not isinstance(at, Ramp) or at.stride != 1 or s.mask is not None:
        return False
    form, bits = linear(at.base), at.lanes * s.tensor.dtype.bits
    return bits == 8 * LINE_BYTES and form.is_multiple(at.lanes) and form.terms.get(loop.var) == at.lanes
