"""Nests without a tunable op: pointwise chains, softmax, reductions, layout ops.

Iterations over the axes that are not reduced are the parallel tasks. Without reductions the loops follow the memory that is written, and
the innermost axes that are contiguous in every tensor are one long axis, split into chunks:

    parallel for outer axes: parallel for c in ceil(n / chunk): for i in min(chunk, n - c * chunk): dst[..] = f(src[..])

Reductions that keep no axis, or only the last, have no parallel tasks of that kind: there, parts of the one row are tasks, or partial sums
(parallel_reduction.py).
"""

from __future__ import annotations

from collections.abc import Iterable
from math import prod

from benchgraph.core.dtypes import DType
from benchgraph.gir.domain import domain_of
from benchgraph.gir.ir import FusedOp
from benchgraph.lower.loop_order import LoopOrder, covers_all_axes
from benchgraph.lower.panel_packing import PanelPacking
from benchgraph.lower.parallel_reduction import ParallelReductionRegion, ReductionTasks
from benchgraph.lower.region import Collapsed, Region, Span
from benchgraph.lower.storage import ZERO, Coord, Storage, layout_block, unravel
from benchgraph.machine.target import LINE_BYTES
from benchgraph.tir.build import Loop, add, block_size, in_blocks, mul, nest, one_block
from benchgraph.tir.ir import Const, Expr, LoopKind, Seq, Stmt, Var

# docs/measurements/lowering.md has the measurements behind these.
TASKS = 16  # of a nest at least, where its chunks can be that small: up to 16 threads then have nearly equal shares
LANES = LINE_BYTES // DType.f32.nbytes(1)  # a task that reduces columns (over rows) has a multiple of so many columns
CONVERSION = 3  # instructions on a vector of a conversion and its store: up to so many are repeated rather than stored
PARTS = 8  # a nest that writes a part of a tensor may be smaller by this factor: threads still spin after the nests of the other parts


class LoopNest:
    """Lowers a FusedOp of one stage without a tunable op."""

    def __init__(self, storage: Storage, node: FusedOp) -> None:
        self.storage, self.node, self.g, self.machine = storage, node, storage.g, storage.machine
        self.domain = domain_of(storage.g, node.ops)
        self.order = LoopOrder(storage.g, self.domain, node, storage.machine)
        work = prod(self.domain.extents)
        is_part = any(self.g.value(v).type.elements > work for v in node.outs)
        is_large = work > self.machine.parallel_elements // (PARTS if is_part else 1)
        self.kind = LoopKind.parallel if is_large else LoopKind.serial

    def lower(self) -> Stmt:
        extents, reduced = self.domain.extents, self.domain.reduced
        packing = PanelPacking.of(self.storage, self.node.ops)
        if packing is not None:
            return packing.panels(self.kind)
        if not extents:
            return Region(self.storage, self.domain, ()).emit(self.node.ops)
        block = layout_block(self.g, (*(v for op in self.node.ops for v in op.outs), *self.node.ins))  # results before operands
        if block and not reduced:
            return self._by_layout_blocks(block)
        if covers_all_axes(self.domain, self.node.ops):
            outer, inner_axes = self.order.of_stores()
            tiled = self.order.tiled_axes(outer, inner_axes)
            if not tiled:
                return self._blocks(outer, {"i": (inner_axes, self._chunk(self._size(inner_axes)))})
            # tiles are so small that L1 holds what they read and write
            tiles = {name: (axes, self._tile(self._size(axes))) for name, axes in (("r", tiled), ("i", inner_axes))}
            return self._blocks(tuple(a for a in outer if a not in tiled), tiles)
        if reduced and not block:
            return self._reductions()
        inner = self.order.inner_axis(()) if reduced else len(extents) - 1
        outer = self._outer(inner)
        return self._nest(outer, {}, inner) if block or self._size(outer) > 1 else self._columns_of_one_row(outer, inner, ())

    def _reductions(self) -> Stmt:
        collapsed, last = self.order.reduced_axes(), len(self.domain.extents) - 1
        inner = self.order.inner_axis(collapsed)
        is_reduced = inner in self.domain.reduced
        kept = () if is_reduced else self.order.kept_axes(inner)
        contiguous = kept if len(kept) > 1 or inner < last else ()
        split = ReductionTasks.of(self.domain, inner, collapsed, self.machine, is_shared=self._shares_input())
        if split is not None:
            return ParallelReductionRegion(self.storage, self.domain, split, contiguous, self.order.private).emit(self.node.ops)
        outer = self._outer(inner, *kept)
        stored = self._size((*kept, *self.domain.reduced)) if outer and kept and self.order.stores_private_elements else 0
        if contiguous or stored > self.machine.stored_vectors * LANES:  # by all columns together, for a second pass
            return self._column_blocks(outer, kept, self._columns_per_task(outer, kept), collapsed)
        if is_reduced or self._size(outer) > 1:
            return self._nest(outer, {}, inner, collapsed)  # batch entries, even few, may be fused with those of a product that reads them
        return self._columns_of_one_row(outer, inner, collapsed)

    def _shares_input(self) -> bool:
        """Whether another nest reads everything that this one reduces."""
        work = prod(self.domain.extents)
        inputs = [self.g.root(v) for v in self.node.ins if self.g.value(v).type.elements >= work]
        return any(len(self.g.consumers[v]) > 1 for v in inputs)

    def _outer(self, *inside: int) -> tuple[int, ...]:
        """The kept axes but for these."""
        return tuple(a for a in range(len(self.domain.extents)) if a not in self.domain.reduced and a not in inside)

    def _size(self, axes: Iterable[int]) -> int:
        return prod(self.domain.extents[a] for a in axes)

    def _loops(self, variables: dict[int, Var]) -> list[Loop]:
        return [(var, Const(self.domain.extents[axis])) for axis, var in variables.items()]

    def _outer_variables(self, axes: tuple[int, ...]) -> dict[int, Var]:
        return {a: self.storage.var("u") for a in axes}

    def _spans(self, outer: dict[int, Var], given: dict[int, Span], collapsed: Collapsed) -> tuple[Span, ...]:
        group_of = {axis: axes for axes in collapsed for axis in axes}

        def span(axis: int, extent: int) -> Span:
            if axis in given:
                return given[axis]
            if axis in outer:
                return Span(Const(1), outer=outer[axis])
            if axis in group_of:
                return Span(Const(self._size(group_of[axis]) if axis == group_of[axis][-1] else 1))
            return Span(Const(extent), tile=max(extent, 1))

        return tuple(map(span, range(len(self.domain.extents)), self.domain.extents))

    def _nest(self, outer: tuple[int, ...], given: dict[int, Span], inner: int | None = None, collapsed: Collapsed = ()) -> Stmt:
        """Parallel loops over the outer axes, a region over the others. given: spans of some axes. inner, collapsed: see Region."""
        variables = self._outer_variables(outer)
        spans = self._spans(variables, given, collapsed)
        region = Region(self.storage, self.domain, spans, inner=inner, collapsed=collapsed, private=self.order.private)
        return nest(self._loops(variables), region.emit(self.node.ops), self.kind)

    def _column_blocks(self, outer: tuple[int, ...], columns: tuple[int, ...], size: int, collapsed: Collapsed) -> Stmt:
        """A nest whose innermost loop is over these kept axes as one. Blocks of `size` columns are tasks."""
        variables, number, last = self._outer_variables(outer), self.storage.var("c"), columns[-1]
        collapsed += (columns,) if len(columns) > 1 else ()
        recompute = CONVERSION if self.order.reads_without_gathers(last) else 0

        def block(column_block: Expr, count: int) -> Stmt:
            spans = self._spans(variables, {last: Span(Const(count), column_block, size)}, collapsed)
            region = Region(self.storage, self.domain, spans, None, last, collapsed, columns, self.order.private, recompute)
            return region.emit(self.node.ops)

        body, count = one_block(self._size(columns), size, number, block)
        return nest((*self._loops(variables), (number, Const(count))), body, self.kind)

    def _columns_of_one_row(self, outer: tuple[int, ...], inner: int, collapsed: Collapsed) -> Stmt:
        """One row of results; parts of it are tasks."""
        total, reduced = self.domain.extents[inner], self._size(self.domain.reduced)
        size = self._chunk(total, -(-self.machine.least_chunk_elements // reduced)) if reduced else total
        return self._nest(outer, {}, inner, collapsed) if size >= total else self._column_blocks(outer, (inner,), size, collapsed)

    def _columns_per_task(self, outer: tuple[int, ...], columns: tuple[int, ...]) -> int:
        """Few enough for TASKS tasks and for what a task may store; the same in all tasks if possible."""
        reduced, others, total = map(self._size, (self.domain.reduced, outer, columns))
        _, widest = max((t.elements, t.dtype.bits) for t in (self.g.value(v).type for v in (*self.node.ins, *self.node.outs)))
        machine = self.machine
        most = machine.jammed_row_elements
        if self.order.stores_private_elements:
            most = min(max(machine.stored_vectors // max(reduced, 1), 1) * LANES, machine.stored_row_bytes * 8 // widest)
        per_task = -(-total * others // (TASKS * LANES)) * LANES if self.kind is LoopKind.parallel else total
        most = max(min(most, per_task, total), 1)
        return next((size for size in range(most, most // 2, -LANES) if total % size == 0), most)

    def _by_layout_blocks(self, block: int) -> Stmt:
        """The last axis in the blocks of the layout, so that indices inside a block step by one."""
        last = len(self.domain.extents) - 1

        def columns(column_block: Expr, count: int) -> Stmt:
            return self._nest(tuple(range(last)), {last: Span(Const(count), column_block, block)})

        return in_blocks(self.domain.extents[last], block, self.storage.var("no"), columns, self.kind)

    def _blocks(self, outer: tuple[int, ...], groups: dict[str, tuple[tuple[int, ...], int]]) -> Stmt:
        """Parallel loops over the outer axes and over blocks of groups of axes, by name of the variable: (axes, elements of a block)."""
        extents, variables = self.domain.extents, self._outer_variables(outer)
        coord_of = {a: Coord(var) for a, var in variables.items()}
        blocks, inside = list[Loop](), list[Loop]()
        for name, (axes, size) in groups.items():
            total = self._size(axes)
            if not total:
                return Seq(())
            number, i = self.storage.var("c"), self.storage.var(name)
            coord_of |= unravel(axes, extents, add(mul(number, size), i))
            blocks.append((number, Const(-(-total // size))))
            inside.append((i, block_size(total, size, number)))
        coords = tuple(coord_of.get(axis, Coord(ZERO)) for axis in range(len(extents)))
        body = Region.point(self.storage, self.domain, coords).emit(self.node.ops)
        return nest((*self._loops(variables), *blocks), nest(inside, body), self.kind)

    def _chunk(self, total: int, fewest: int = 0) -> int:
        """Elements of one task: a multiple of LINE_BYTES, so that chunks of any dtype begin at a cache line and fill vectors."""
        chunk = self.machine.chunk_elements
        if self.kind is LoopKind.serial:
            return min(chunk, total)
        lines = -(-max(fewest or self.machine.least_chunk_elements, -(-total // TASKS)) // LINE_BYTES)
        return min(chunk, lines * LINE_BYTES, total)

    def _tile(self, total: int) -> int:
        """The largest size that makes all tiles equal, or the most where that would be too small."""
        most = self.machine.tile_elements
        return max((size for size in range(most // 4, most + 1) if total % size == 0), default=min(most, total))
