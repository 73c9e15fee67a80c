"""Nests without a tunable op: pointwise chains, softmax, reductions, data movement.

Kept axes are the parallel tasks. Without reductions the loops follow the memory that is written, and the innermost axes that lie densely
in every tensor are one long axis, cut into chunks:

    parallel for outer axes: parallel for c in ceil(n / CHUNK): for i in min(CHUNK, n - c * CHUNK): dst[..] = f(src[..])

Folds that keep nothing, or the last axis alone, have no parallel tasks there: pieces of the one row are, or parts (folds.py).
"""

from __future__ import annotations

from collections.abc import Iterable
from math import prod

from benchgraph.core.target import LINE_BYTES
from benchgraph.gir.domain import Domain, trace
from benchgraph.gir.ir import FusedOp
from benchgraph.lower.access import ZERO, Coord, Storage, along
from benchgraph.lower.folds import cut, lower_parts
from benchgraph.lower.panel_packing import PanelPacking
from benchgraph.lower.region import Merged, Region, Span
from benchgraph.lower.runs import Runs, is_even
from benchgraph.tir.build import Loop, add, block_size, in_blocks, mul, nest, one_block
from benchgraph.tir.ir import Const, Expr, LoopKind, Seq, Stmt, Var

CHUNK = 4096  # elements of one task of a pointwise nest, at most: 16 KiB of f32, half of a common L1; 1024 took 4 % longer for 2**20
FEWEST = 1024  # at least
TILE = 64  # rows and columns, at most: of f32 16 KiB are read and 16 written
TASKS = 16  # of a nest between them: of 7 chunks one of two threads does 4, in a seventh more time than half of all would take
LANES = 16  # columns of rows across that are worth a task
# Of rows across, elements of which are held for another pass: how many LANES of columns a piece may have (256 KiB of f32), and bytes of
# a row of memory. SoftMax over the channels of 64x64x112x112, one thread of a Zen 4, in ms by 128, 256, 512 and 1024 bytes: f32 19.7 by
# 256, 22.1, 25.9; bf16 35.4, 24.8, 22.7, 22.7; of 64x512x28x28 f32 11.1 by 256, 12.0, 13.4, bf16 16.4, 12.6, 14.1, 15.0. Otherwise as many
# columns as are folded several rows at a time (tir/passes/unroll_and_jam.py).
MOST_ACROSS, MOST_BYTES, MOST_FOLDED = 4096, 256, 768
# Instructions on a vector of what is converted anew for a later phase instead of kept, its store included. What is also made relative to
# what is known of its row had better be kept: LayerNorm of f32[8,384,1024] took 1.2 times as long without (one thread of a Zen 4).
CONVERSION = 3
SMALL = 16384  # elements below which a nest is not worth waking other threads
SMALL_PART = SMALL // 8  # of a nest that writes a part of a tensor: the other parts' nests are next to it, and threads are awake


def lower_loops(storage: Storage, node: FusedOp) -> Stmt:
    (stage,) = node.stages
    domain = trace(storage.g, stage.ops)
    assert domain is not None
    return _LoopNest(storage, node, domain).lower()


class _LoopNest:
    def __init__(self, storage: Storage, node: FusedOp, domain: Domain) -> None:
        self.storage, self.node, self.domain, self.g = storage, node, domain, storage.g
        self.runs = Runs(storage.g, domain, node)
        work = prod(domain.extents)
        is_part = any(self.g.value(v).type.elements > work for v in node.outs)
        self.kind = LoopKind.parallel if work > (SMALL_PART if is_part else SMALL) else LoopKind.serial

    def lower(self) -> Stmt:
        extents = self.domain.extents
        packing = PanelPacking.of(self.storage, self.node.ops)
        if packing is not None:
            return packing.panels(self.kind)
        if not extents:
            return Region(self.storage, self.domain, ()).emit(self.node.ops)
        block = self._block()
        if block and not self.domain.reduced:
            return self._by_blocks(block)
        if is_even(self.domain, self.node.ops):
            outer, chunks = self.runs.even()
            across = self.runs.crossed(outer, chunks)
            return self._tiled(tuple(a for a in outer if a not in across), across, chunks) if across else self._flat(outer, chunks)
        if self.domain.reduced and not block:
            return self._folds()
        inner = self.runs.inner_axis(()) if self.domain.reduced else len(extents) - 1
        outer = self._outer(inner)
        return self._nest(outer, {}, inner) if block or self._size(outer) > 1 else self._by_columns(outer, inner, ())

    def _folds(self) -> Stmt:
        merged, last = self.runs.folded(), len(self.domain.extents) - 1
        inner = self.runs.inner_axis(merged)
        kept = () if inner in self.domain.reduced else self.runs.kept(inner)
        across = kept if len(kept) > 1 or inner < last else ()
        by = cut(self.domain, inner, merged, is_shared=self._is_shared())
        if by is not None:
            return lower_parts(self.storage, self.node, self.domain, by, across, self.runs.inside)
        outer = self._outer(inner, *kept)
        if across or self._is_large(outer, kept):
            return self._in_pieces(outer, kept, self._columns(outer, kept), merged)
        if inner in self.domain.reduced or self._size(outer) > 1:
            return self._nest(outer, {}, inner, merged)  # batch entries, even few, may be made into those of a product that reads them
        return self._by_columns(outer, inner, merged)

    def _is_shared(self) -> bool:
        """Whether another nest reads all that this one folds."""
        work = prod(self.domain.extents)
        read = [self.g.root(v) for v in self.node.ins if self.g.value(v).type.elements >= work]
        return any(len(self.g.consumers[v]) > 1 for v in read)

    def _outer(self, *inside: int) -> tuple[int, ...]:
        """The kept axes but for these."""
        return tuple(a for a in range(len(self.domain.extents)) if a not in self.domain.reduced and a not in inside)

    def _size(self, axes: Iterable[int]) -> int:
        return prod(self.domain.extents[a] for a in axes)

    def _block(self) -> int:
        """The size of the blocks that results lie in, or else operands; 0 when nothing does."""
        results = [v for op in self.node.ops for v in op.outs]
        layouts = [self.g.value(v).layout for v in (*results, *self.node.ins)]
        return next((layout.blocks[0][1] for layout in layouts if layout.blocks), 0)

    def _nest(self, outer: tuple[int, ...], given: dict[int, Span], inner: int | None = None, merged: Merged = ()) -> Stmt:
        """Parallel loops over the outer axes, a region over the others; given: spans already decided; inner, merged: as for Region."""
        loops = {a: self.storage.var("o") for a in outer}
        spans = self._spans(loops, given, merged)
        region = Region(self.storage, self.domain, spans, inner=inner, merged=merged, inside=self.runs.inside)
        return nest(self._around(loops), region.emit(self.node.ops), self.kind)

    def _in_pieces(self, outer: tuple[int, ...], run: tuple[int, ...], size: int, merged: Merged) -> Stmt:
        """A nest whose innermost loop goes through a run of kept axes, in pieces of so many, which are tasks."""
        loops = {a: self.storage.var("o") for a in outer}
        merged += (run,) if len(run) > 1 else ()
        own, number = self.runs.inside, self.storage.var("c")
        most = CONVERSION if self.runs.reads_closely(run[-1]) else 0

        def part(no: Expr, count: int) -> Stmt:
            spans = self._spans(loops, {run[-1]: Span(Const(count), no, size)}, merged)
            region = Region(self.storage, self.domain, spans, inner=run[-1], merged=merged, across=run, inside=own, most_steps=most)
            return region.emit(self.node.ops)

        each, count = one_block(self._size(run), size, number, part)
        return nest((*self._around(loops), (number, Const(count))), each, self.kind)

    def _spans(self, loops: dict[int, Var], given: dict[int, Span], merged: Merged) -> tuple[Span, ...]:
        run_of = {axis: axes for axes in merged for axis in axes}

        def span(axis: int, extent: int) -> Span:
            if axis in given:
                return given[axis]
            if axis in loops:
                return Span(Const(1), outer=loops[axis])
            if axis in run_of:
                return Span(Const(self._size(run_of[axis]) if axis == run_of[axis][-1] else 1))
            return Span(Const(extent), tile=max(extent, 1))

        return tuple(map(span, range(len(self.domain.extents)), self.domain.extents))

    def _by_columns(self, outer: tuple[int, ...], inner: int, merged: Merged) -> Stmt:
        """One row of results, in pieces."""
        total, folded = self.domain.extents[inner], self._size(self.domain.reduced)
        size = self._chunk(total, -(-FEWEST // folded)) if folded else total
        return self._nest(outer, {}, inner, merged) if size >= total else self._in_pieces(outer, (inner,), size, merged)

    def _is_large(self, outer: tuple[int, ...], kept: tuple[int, ...]) -> bool:
        """Whether what rows across are held in for another pass is more than a piece of them may have."""
        total = self._size((*kept, *self.domain.reduced))
        return bool(outer) and bool(kept) and self.runs.holds and total > MOST_ACROSS * LANES

    def _columns(self, outer: tuple[int, ...], run: tuple[int, ...]) -> int:
        """How many elements of rows across a piece has: alike in all pieces if that can be, and few enough for tasks."""
        folded, others, total = map(self._size, (self.domain.reduced, outer, run))
        _, widest = max((t.elements, t.dtype.bits) for t in (self.g.value(v).type for v in (*self.node.ins, *self.node.outs)))
        held = min(max(MOST_ACROSS // max(folded, 1), 1) * LANES, MOST_BYTES * 8 // widest)
        each = -(-total * others // (TASKS * LANES)) * LANES if self.kind is LoopKind.parallel else total
        most = max(min(held if self.runs.holds else MOST_FOLDED, each, total), 1)
        return next((size for size in range(most, most // 2, -LANES) if total % size == 0), most)

    def _around(self, loops: dict[int, Var]) -> list[Loop]:
        return [(loops[axis], Const(self.domain.extents[axis])) for axis in loops]

    def _by_blocks(self, block: int) -> Stmt:
        """The last axis in the blocks of the layout, so that indices inside a block step by one."""
        last = len(self.domain.extents) - 1

        def part(no: Expr, count: int) -> Stmt:
            return self._nest(tuple(range(last)), {last: Span(Const(count), no, block)})

        return in_blocks(self.domain.extents[last], block, self.storage.var("no"), part, self.kind)

    def _flat(self, outer: tuple[int, ...], merged: tuple[int, ...]) -> Stmt:
        """The axes `merged` as one, in chunks; the axes `outer` as parallel loops around. Those of size 1 are in neither."""
        extents = self.domain.extents
        total = prod(extents[a] for a in merged)
        if not total:
            return Seq(())
        loops = {a: self.storage.var("o") for a in outer}
        flat, chunks, each = self._cut(total, self._chunk(total), "i")
        found = along(merged, extents, flat)
        coords = tuple(found.get(axis, Coord(loops.get(axis, ZERO))) for axis in range(len(extents)))
        region = Region(self.storage, self.domain, (Span(Const(1)),) * len(extents), coords)
        return nest((*self._around(loops), chunks), nest((each,), region.emit(self.node.ops)), self.kind)

    def _tiled(self, outer: tuple[int, ...], rows: tuple[int, ...], columns: tuple[int, ...]) -> Stmt:
        """Tiles of both runs of axes, so small that L1 holds what of them is read and what is written; columns are the innermost loop."""
        extents, place = self.domain.extents, dict[int, Coord]()
        tiles, inside = list[Loop](), list[Loop]()
        for name, axes in (("r", rows), ("i", columns)):
            total = prod(extents[a] for a in axes)
            if not total:
                return Seq(())
            at, over, each = self._cut(total, _tile(total), name)
            place |= along(axes, extents, at)
            tiles.append(over)
            inside.append(each)
        loops = {a: self.storage.var("o") for a in outer}
        place |= {a: Coord(var) for a, var in loops.items()}
        coords = tuple(place.get(axis, Coord(ZERO)) for axis in range(len(extents)))
        body = Region(self.storage, self.domain, (Span(Const(1)),) * len(extents), coords).emit(self.node.ops)
        return nest((*self._around(loops), *tiles), nest(inside, body), self.kind)

    def _cut(self, total: int, size: int, name: str) -> tuple[Expr, Loop, Loop]:
        """An index below total in pieces of so many, and its loops: over the pieces, and, of that name, within one."""
        number, i = self.storage.var("c"), self.storage.var(name)
        return add(mul(number, size), i), (number, Const(-(-total // size))), (i, block_size(total, size, number))

    def _chunk(self, total: int, fewest: int = FEWEST) -> int:
        """Elements of one task: a line of bytes, or a multiple of it, begins where a line does whatever its elements, and fills vectors."""
        if self.kind is LoopKind.serial:
            return min(CHUNK, total)
        lines = -(-max(fewest, -(-total // TASKS)) // LINE_BYTES)
        return min(CHUNK, lines * LINE_BYTES, total)


def _tile(total: int) -> int:
    """The largest size of tiles that are all alike, or TILE where those would be too small."""
    return max((size for size in range(TILE // 4, TILE + 1) if total % size == 0), default=min(TILE, total))
