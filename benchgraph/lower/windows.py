"""Windows: dst[i] reduces the values of a small box of taps, and pointwise ops follow. Pooling, depthwise convolution, interpolation."""

from __future__ import annotations

from benchgraph.core.dtypes import DType
from benchgraph.gir.domain import domain_of
from benchgraph.gir.ir import FusedOp
from benchgraph.gir.windows import windows_of
from benchgraph.lower.padded_planes import lower_scheduled
from benchgraph.lower.region import Region
from benchgraph.lower.storage import Coord, Storage
from benchgraph.lower.window_loops import WindowLoops
from benchgraph.ops.spec import Indices
from benchgraph.tir.build import cast, seq
from benchgraph.tir.ir import Expr, Stmt


def lower_windows(storage: Storage, node: FusedOp) -> Stmt:
    """A nest whose first op is a window; the others are pointwise ops and layout ops on its result."""
    g, (op, *post_ops) = storage.g, node.ops
    out, domain = g.value(op.outs[0]), domain_of(g, node.ops)
    assert node.schedule is not None, "schedule gives every window its schedule"

    def src(port: int, index: Indices) -> Expr:
        value = storage.load(op.ins[port], tuple(map(Coord, index)))
        return cast(value, DType.f32) if g.value(op.ins[port]).dtype.is_integer else value

    def finish(at: Indices, value: Expr) -> Stmt:
        coords = tuple(map(Coord, at))
        store = storage.store(out.id, coords, value)
        return seq(store, Region.point(storage, domain, coords).emit(post_ops)) if post_ops else store

    return lower_scheduled(WindowLoops(storage, windows_of(g, node), node.schedule, src, finish, has_post_ops=bool(post_ops)))
