"""Windows: dst[i] reduces the values of a small box of taps, and pointwise ops follow. Pooling, depthwise convolution, interpolation.

An earlier window over an operand (MaxPoolBackward first finds the largest elements) is a nest of its own, with a schedule of its own.
"""

from __future__ import annotations

from dataclasses import dataclass

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
from benchgraph.tir.ir import Expr, Load, Stmt, Store, Tensor


def lower_windows(storage: Storage, node: FusedOp) -> Stmt:
    """A nest whose first op is a window; the others are pointwise ops and layout ops on its result."""
    g, (op, *post_ops) = storage.g, node.ops
    out, domain = g.value(op.outs[0]), domain_of(g, node.ops)
    earlier: list[_EarlierResult] = []

    def src(port: int, index: Indices) -> Expr:
        if port >= len(op.ins):
            return earlier[port - len(op.ins)].load(index)
        value = storage.load(op.ins[port], tuple(map(Coord, index)))
        return cast(value, DType.f32) if g.value(op.ins[port]).dtype.is_integer else value

    def finish(at: Indices, value: Expr) -> Stmt:
        coords = tuple(map(Coord, at))
        store = storage.store(out.id, coords, value)
        return seq(store, Region.point(storage, domain, coords).emit(post_ops)) if post_ops else store

    nests: list[Stmt] = []
    *firsts, last = zip(windows_of(g, node), node.schedules, strict=True)
    for windows, schedule in firsts:
        order = (*(axis for axis in range(len(windows.shape)) if axis != windows.x), windows.x)
        result = _EarlierResult(storage.temporary(DType.f32, tuple(windows.shape[axis] for axis in order)), order)
        nests.append(lower_scheduled(WindowLoops(storage, windows, schedule, src, result.store)))
        earlier.append(result)
    windows, schedule = last
    return seq(*nests, lower_scheduled(WindowLoops(storage, windows, schedule, src, finish, has_post_ops=bool(post_ops))))


@dataclass(frozen=True)
class _EarlierResult:
    """The result of an earlier window over an operand. order: the operand's axes in the tensor, its x last."""

    tensor: Tensor
    order: tuple[int, ...]

    def load(self, index: Indices) -> Expr:
        return Load(self.tensor, tuple(index[axis] for axis in self.order))

    def store(self, index: Indices, value: Expr) -> Stmt:
        return Store(self.tensor, tuple(index[axis] for axis in self.order), value)
