"""Nests without a product and without a window: pointwise chains, softmax, reductions, layout ops, by their schedule.

    fuse d2, d3; tile d3 by 4096; order d0, d3.0, d3.1; parallel d0, d3.0; vectorize d3.1     all ops at one point:

        parallel for u in d0: parallel for c in ceil(n / 4096): for i in min(4096, n - c * 4096): dst[..] = f(src[..])

    order d0, d1, d2; parallel d0; vectorize d2                                               d1 and d2 are a region (region.py)

Split reductions: parallel_reduction.py.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from math import prod

from benchgraph.gir.domain import domain_of
from benchgraph.gir.elements import is_pointwise, private_values
from benchgraph.gir.ir import FusedOp
from benchgraph.lower.panel_packing import PanelPacking
from benchgraph.lower.parallel_reduction import ParallelReductionRegion
from benchgraph.lower.region import Region, Span
from benchgraph.lower.storage import ZERO, Coord, Storage, unravel
from benchgraph.schedule.elements import axes_of, axis_of
from benchgraph.schedule.primitives import Schedule
from benchgraph.tir.build import Loop, add, block_size, mul, nest, one_block
from benchgraph.tir.ir import Const, LoopKind, Seq, Stmt


class LoopNest:
    """Lowers a FusedOp of one stage without a tunable op."""

    def __init__(self, storage: Storage, node: FusedOp) -> None:
        self.storage, self.node, self.g = storage, node, storage.g
        self.domain = domain_of(storage.g, node.ops)
        self.private = private_values(storage.g, node)

    def lower(self) -> Stmt:
        packing = PanelPacking.of(self.storage, self.node.ops)
        schedule = self.node.schedule
        if packing is not None and schedule is not None:
            return packing.panels(kind(schedule))
        if schedule is None:
            point = (Span(Const(1)),) * len(self.domain.extents)
            return Region(self.storage, self.domain, point).emit(self.node.ops) if self._size(range(len(point))) else Seq(())
        if schedule.split:
            return self._split(schedule)
        return self._points(schedule) if is_pointwise(self.g, self.node, self.domain) else self._region(schedule)

    def _size(self, axes: Iterable[int]) -> int:
        return prod(self.domain.extents[a] for a in axes)

    def _tasks(self, schedule: Schedule, variables: Mapping[str, Loop], body: Stmt) -> Stmt:
        loops = (variables[loop] for loop in schedule.order if loop in variables)
        return nest(loops, body, kind(schedule), schedule.jam.count if schedule.jam.loop in variables else 1)

    def _points(self, schedule: Schedule) -> Stmt:
        """All ops at each point. Inside of loops over blocks, those over their elements."""
        extents = self.domain.extents
        tasks = {loop: (self.storage.var("u"), Const(self._size(axes_of(schedule, loop)))) for loop in schedule.order if "." not in loop}
        coord_of = {axis_of(loop): Coord(var) for loop, (var, _) in tasks.items()}
        inside = list[Loop]()
        for loop in (loop for loop in schedule.order if loop.endswith(".1")):
            axes, (size,) = axes_of(schedule, loop), schedule.sizes(f"d{axis_of(loop)}")
            number, i, total = self.storage.var("c"), self.storage.var("i" if loop == schedule.vectorized else "r"), self._size(axes)
            coord_of |= unravel(axes, extents, add(mul(number, size), i))
            tasks[f"d{axes[-1]}.0"] = number, Const(-(-total // size))
            inside.append((i, block_size(total, size, number)))
        coords = tuple(coord_of.get(axis, Coord(ZERO)) for axis in range(len(extents)))
        return self._tasks(schedule, tasks, nest(inside, Region.point(self.storage, self.domain, coords).emit(self.node.ops)))

    def _region(self, schedule: Schedule) -> Stmt:
        """Loops over kept axes and over blocks of columns, around a region of the others."""
        extents, reduced, columns = self.domain.extents, self.domain.reduced, axes_of(schedule, schedule.vectorized)
        plain = [loop for loop in schedule.order if "." not in loop and loop != schedule.vectorized]
        tasks = {loop: (self.storage.var("u"), Const(extents[axis_of(loop)])) for loop in plain if axis_of(loop) not in reduced}
        outer = {axis_of(loop): var for loop, (var, _) in tasks.items()}
        collapsed = tuple(tuple(map(axis_of, loops)) for loops in schedule.fused.values())
        others = {axis for axes in collapsed for axis in axes[:-1]}

        stored = contiguous(schedule, reduced, len(extents))

        def span(axis: int, extent: int) -> Span:
            if axis in outer or axis in others:
                return Span(Const(1), outer=outer.get(axis, ZERO))
            whole = next((self._size(axes) for axes in collapsed if axis == axes[-1]), 0)
            return Span(Const(whole)) if whole else Span(Const(extent), tile=max(extent, 1))

        def region(given: Mapping[int, Span]) -> Stmt:
            spans = tuple(given[axis] if axis in given else span(axis, extent) for axis, extent in enumerate(extents))
            ways = columns[-1], collapsed, stored, self.private, schedule.recomputed, schedule.jam
            return Region(self.storage, self.domain, spans, None, *ways).emit(self.node.ops)

        if sizes := schedule.sizes(f"d{columns[-1]}"):
            number, (most,) = self.storage.var("c"), sizes
            total = self._size(columns)
            body, count = one_block(total, most, number, lambda at, size: region({columns[-1]: Span(Const(size), at, most)}))
            tasks[f"d{columns[-1]}.0"] = number, Const(count)
            return self._tasks(schedule, tasks, body)
        return self._tasks(schedule, tasks, region({}))

    def _split(self, schedule: Schedule) -> Stmt:
        """Tasks reduce parts of the rows, or of the one row."""
        split, columns = axes_of(schedule, schedule.split), axes_of(schedule, schedule.vectorized)
        rows = split if split != columns else ()
        stored = contiguous(schedule, self.domain.reduced, len(self.domain.extents))
        (size,) = schedule.sizes(schedule.split)
        ways = rows, columns, size, stored, self.private, schedule.recomputed, schedule.jam
        return ParallelReductionRegion(self.storage, self.domain, *ways).emit(self.node.ops)


def kind(schedule: Schedule) -> LoopKind:
    """Of the loops over tasks."""
    return LoopKind.parallel if schedule.parallel else LoopKind.serial


def contiguous(schedule: Schedule, reduced: Collection[int], rank: int) -> tuple[int, ...]:
    """Kept axes of the innermost loop, which temporaries then store as their last dim."""
    columns = axes_of(schedule, schedule.vectorized)
    is_last = columns == (rank - 1,) and "." not in schedule.vectorized
    return () if columns[-1] in reduced or is_last else columns
