"""The GEMM template: a nest of parallel tasks, each mb rows of one batch entry, through all stages of a fused op.

    parallel for b in batch:
      [batch anchor: pack weights that are not constant]
      [sums over all rows (sums.py) begin]
      parallel for mo in M / mb:
        for each stage:
          for no in N / nb:
            [panel anchor: make wei[:, no], k block by k block (pieces.py)]
            acc[mo, no] = brgemm(src[mo, :], wei[:, no])        batch = K blocks of src, when src is column-blocked
            [tile anchor: pointwise ops on acc[mb, nb]]
          [rows anchor: everything else, on acc[mb, N]]
      [sums over all rows end; with them, the loop over mo is serial]

Every temporary is declared at its full logical shape; shrink-tensors cuts it down to the slice one task uses.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from math import gcd
from typing import TypeAlias

from benchgraph.core.target import LINE_BYTES
from benchgraph.core.tensor import Shape
from benchgraph.gir.domain import Domain, trace
from benchgraph.gir.ir import Anchor, Fused, Op, Stage
from benchgraph.gir.on_the_fly_packing import panels_of
from benchgraph.gir.product import K, Product, acc_axes, acc_dtype, group_of, has_rows, operand_axes, product, result_axes
from benchgraph.lower.access import ZERO, Coord, Place, Storage
from benchgraph.lower.ahead import fetched_ahead
from benchgraph.lower.along_rows import weave, writes_along_rows
from benchgraph.lower.held import Held
from benchgraph.lower.packed_src import packed_src
from benchgraph.lower.packing import Packing, packing
from benchgraph.lower.pieces import Part, Pieces
from benchgraph.lower.region import Region, Span
from benchgraph.lower.sums import Sum
from benchgraph.lower.taps import by_rows, by_taps
from benchgraph.lower.thin import made_thin
from benchgraph.lower.turned import Turned
from benchgraph.lower.woven import Woven
from benchgraph.ops import spec
from benchgraph.ops.spec import Box, Indices
from benchgraph.tir.build import add, binary, block_size, in_blocks, mul, nest, one_block, seq
from benchgraph.tir.ir import BinOp, Brgemm, Const, Expr, For, If, Load, LoopKind, Pack, Prefetch, Slice, Stmt, Store, Tensor

ColumnBody: TypeAlias = Callable[[Expr, int], Stmt]  # (index of the column block, its width) -> statements


class GemmNest:
    """Lowers one Fused node that holds at least one tunable op."""

    def __init__(self, storage: Storage, node: Fused) -> None:
        self.storage, self.node, self.g = storage, node, storage.g
        kernel = next(op for op in node.ops if spec(op.kind).lowering.is_contraction)
        self.rows: Shape = self.g.value(kernel.outs[0]).shape[:-1]
        self.batch = tuple(storage.var("b") for _ in self.rows[:-1])
        self.mo = storage.var("mo")
        self.no = storage.var("no") if node.panels_first else None
        self.m, self.mb = self.rows[-1], node.mb
        self.is_due = bool(node.next_entry or node.next_rows)  # whether the result's lines are still to be fetched
        kernels = [stage.ops[0] for stage in node.stages if spec(stage.ops[0].kind).lowering.is_contraction]
        self.is_lone = len(kernels) == 1  # the product
        self.packed = {op: held for op in kernels if (held := packed_src(self, op)) is not None}

    def lower(self) -> Stmt:
        if self.node.parameters is not None and self.node.parameters.parts > 1:
            return Held(self, self.node.stages[-1]).emit()
        sums = [Sum(self, stage) for stage in self.node.stages if stage.sums_rows]
        work = seq(self._stages(), *(s.added() for s in sums))
        body: Stmt = For(self.mo, Const(-(-self.m // self.mb)), work, LoopKind.serial if sums else LoopKind.parallel)
        body = seq(*(s.cleared() for s in sums), body, *(s.finished() for s in sums))
        for depth in range(len(self.batch), -1, -1):
            body = seq(*(self._entry(stage) for stage in self.node.stages if stage.is_per_entry and len(stage.along) == depth), body)
            if depth:
                body = For(self.batch[depth - 1], Const(self.rows[depth - 1]), body, LoopKind.parallel)
        if self.no is not None and self.node.parameters is not None:
            body = For(self.no, Const(self.node.parameters.npn), body, LoopKind.parallel)
        return body

    def _stages(self) -> Stmt:
        """All that is done with one task's rows."""
        return seq(*(self._stage(stage) for stage in self.node.stages if not (stage.is_per_entry or stage.is_per_panel or stage.sums_rows)))

    def _entry(self, stage: Stage) -> Stmt:
        """A stage at the batch anchor: points along the batch loops, the whole of its other axes."""
        domain = trace(self.g, stage.ops)
        assert domain is not None
        loops = {axis: var for axis, var in zip(stage.along, self.batch, strict=False) if axis is not None}
        spans = tuple(
            Span(Const(1), outer=loops[i]) if i in loops else Span(Const(n), tile=max(n, 1)) for i, n in enumerate(domain.extents)
        )
        if not spans:
            return Region(self.storage, domain, ()).emit(stage.ops)
        return self._columns(stage, spans[:-1])

    # ---- spans

    def batch_point(self) -> tuple[Span, ...]:
        return tuple(Span(Const(1), outer=var) for var in self.batch)

    def _task(self) -> tuple[Span, ...]:
        return (*self.batch_point(), Span(block_size(self.m, self.mb, self.mo), self.mo, self.mb))

    def _stage(self, stage: Stage) -> Stmt:
        if spec(stage.ops[0].kind).lowering.is_contraction:
            return self._kernel_stage(stage)
        return self._columns(stage, self._task())

    def _columns(self, stage: Stage, spans: tuple[Span, ...]) -> Stmt:
        """Ops without a kernel over the spans and whatever axes follow; blocked values are walked block by block."""
        domain = trace(self.g, stage.ops)
        assert domain is not None
        whole = packing(self.storage, stage.ops)
        if whole is not None and len(spans) == len(domain.extents) - 1 and spans[-1].extent == Const(domain.extents[-2]):
            return self._packed(whole, spans[:-1])
        rest = domain.extents[len(spans) : -1]
        spans = spans + tuple(Span(Const(extent), tile=extent) for extent in rest)
        n = domain.extents[-1]
        block = self._column_block(stage.ops) or max(n, 1)

        def body(no: Expr, width: int) -> Stmt:
            return Region(self.storage, domain, (*spans, Span(Const(width), no, block))).emit(stage.ops)

        if self.no is not None:  # the columns that make a task are another's, and it needs all of these
            return in_blocks(n, block, self.storage.var("no"), body)
        return self.by_columns(n, block, body)

    def _packed(self, whole: Packing, spans: tuple[Span, ...]) -> Stmt:
        """The panels of all matrices that these spans of the batch axes name."""
        loops = tuple(None if span.extent == Const(1) else self.storage.var("i") for span in spans)
        at = tuple(Coord(ZERO if var is None else var, span.outer, span.tile) for var, span in zip(loops, spans, strict=True))
        around = ((var, span.extent) for var, span in zip(loops, spans, strict=True) if var is not None)
        return nest(around, whole.nest(LoopKind.serial, at))

    def _column_block(self, ops: tuple[Op, ...]) -> int:
        layouts = (self.g.value(v).layout for op in ops for v in (*op.ins, *op.outs))
        return next((layout.blocks[0][1] for layout in layouts if layout.blocks), 0)

    def by_columns(self, n: int, nb: int, body: ColumnBody) -> Stmt:
        """A loop over the full column blocks, and the ragged one after it."""
        no = self.no or self.storage.var("no")
        if self.node.split_n:
            each, count = one_block(n, nb, no, body)
            return each if self.no else For(no, Const(count), each, LoopKind.parallel)
        return in_blocks(n, nb, no, body) if n else body(ZERO, 0)  # what is folded over no columns at all still has its initial value

    def by_panels(self, so: Expr, width: int, ns: int, nb: int, body: ColumnBody) -> Stmt:
        """Loops over the panels of nb columns of the so-th ns columns, of which there are `width`."""
        first = mul(so, ns // nb)
        return in_blocks(width, nb, self.storage.var("no"), lambda no, columns: body(add(first, no), columns))

    def _written(self, row: Coord) -> Iterator[Stmt]:
        """While a row is in hand, the lines are fetched that its result will be written to. One rows region does it."""
        is_due, self.is_due = self.is_due, False
        result = self.g.value(self.node.stages[-1].ops[-1].outs[0])
        is_by_row = result.shape[:-1] == self.rows and self.g.root(result.id) in self.g.outs and has_rows(self.g, result.id)
        if is_due and is_by_row:
            where, index = self.storage.place(result.id, (*(Coord(var) for var in self.batch), row, Coord(ZERO)))
            yield Prefetch(where, index, -(-result.dtype.nbytes(result.shape[-1]) // LINE_BYTES), is_store=True)

    # ---- the kernel

    def _kernel_stage(self, stage: Stage) -> Stmt:
        op, pieces, pack = stage.ops[0], panels_of(self.node, stage), self.packed_rows(stage)
        if pieces or (stage.parameters is not None and stage.parameters.ks):
            return seq(pack, self.before_post_ops(stage, walk=Pieces(self, stage, pieces).columns))
        if (column := made_thin(self, stage)) is not None:
            return self.before_post_ops(stage, column)
        if (woven := self._woven(stage)) is not None:
            return seq(pack, woven.emit())
        first, own = (seq(), pack) if self.node.split_n else (pack, seq())  # columns that are tasks pack for themselves
        return seq(first, self.before_post_ops(stage, lambda no, width: seq(own, self.microkernel(op, no, width, stage.nb))))

    def packed_rows(self, stage: Stage) -> Stmt:
        """The task's rows of a src that is packed, for all columns."""
        op, held = stage.ops[0], self.packed.get(stage.ops[0])
        if held is None:
            return seq()
        return self.for_rows(lambda rows: held.pack(self.start(ZERO, stage.nb), rows, Coord(ZERO), product(self.g, op).reduced[-1]))

    def before_post_ops(
        self,
        stage: Stage,
        make: ColumnBody | None = None,
        rows: tuple[Span, ...] | None = None,
        walk: Callable[[ColumnBody], Stmt] | None = None,
    ) -> Stmt:
        """The post-ops of a stage, each at its anchor; make: what makes the product's columns. rows: those of the task, if not given.

        walk: makes the columns its own way, given what is to be done with each block once it is there; instead of make.
        """
        task = self._task() if rows is None else rows
        after = stage.ops[1:]
        domain = trace(self.g, stage.ops)
        assert domain is not None
        at_tile = [op for op, anchor in zip(after, stage.anchors[1:], strict=True) if anchor is Anchor.tile]
        at_rows = [op for op, anchor in zip(after, stage.anchors[1:], strict=True) if anchor is Anchor.rows]
        n = domain.extents[-1]
        turned = self._turned(stage.ops[0], domain, at_tile, at_rows) if rows is None else None

        def tile(no: Expr, width: int) -> Stmt:
            made = seq() if make is None else make(no, width)
            spans = (*task, Span(Const(width), no, stage.nb))
            if turned is not None and at_tile:
                return seq(made, turned.emit(no, stage.nb, width, domain, spans, at_tile))
            return seq(made, Region(self.storage, domain, spans).emit(at_tile)) if at_tile else made

        columns = self._panels(n, stage, tile, self.columns_of_task if rows is None else self.by_columns) if walk is None else walk(tile)
        spans = (*task, Span(Const(n), tile=n))
        if not at_rows:
            return columns
        if turned is not None:
            return seq(columns, turned.emit(ZERO, n, n, domain, spans, at_rows))
        whole = Region(self.storage, domain, spans)
        whole.first_in_row(self._written(whole.coords[-2]))
        return seq(columns, whole.emit(at_rows))

    def _panels(self, n: int, stage: Stage, body: ColumnBody, by_columns: Callable[[int, int, ColumnBody], Stmt]) -> Stmt:
        """All columns of a task, panel by panel: those of a group that L2 holds while all entries go past it, or simply all."""
        ns = stage.parameters.ns if stage.parameters is not None else 0
        if ns <= stage.nb:
            return by_columns(n, stage.nb, body)
        return by_columns(n, ns, lambda so, width: self.by_panels(so, width, ns, stage.nb, body))

    def _turned(self, op: Op, domain: Domain, at_tile: list[Op], at_rows: list[Op]) -> Turned | None:
        """Where all post-ops of a product are one region, which is best done along its rows."""
        if (at_tile and at_rows) or not writes_along_rows(self.g, domain, at_tile or at_rows, self.node.outs) or not self._is_own(op):
            return None
        v = self.g.value(op.outs[0])
        return Turned(self, op, self.storage.extra(v.dtype, (*v.shape[:-2], v.shape[-1], v.shape[-2])))

    def _woven(self, stage: Stage) -> Woven | None:
        """Where all that is done to a product's result is to bring columns that lie apart to where they lie side by side, or may be."""
        op, *after = stage.ops
        domain = trace(self.g, stage.ops)
        assert domain is not None
        if self.no is not None or self.node.split_n or not self._is_own(op):
            return None
        how = weave(self.g, domain, after, self.node.outs)
        width = 0 if how is None else gcd(stage.nb, how.apart)
        return None if how is None or width < min(stage.nb, how.apart) else Woven(self, stage, domain, how, width)

    def _is_own(self, op: Op) -> bool:
        """Whether a product's result is for this nest alone, and lies there as the microkernel makes it."""
        v = self.g.value(op.outs[0])
        is_plain = v.view is None and not v.layout.blocks and v.id not in self.node.outs
        return is_plain and acc_axes(self.g, op) is not None

    def microkernel(self, op: Op, no: Expr, width: int, nb: int, part: Part | None = None) -> Stmt:
        """One microkernel call, or several behind branches: when the last task has fewer rows, and when columns meet different taps."""
        return self.for_rows(lambda rows: by_taps(self, op, no, width, nb, lambda taps: self._call(op, no, width, nb, rows, taps, part)))

    def for_rows(self, body: Callable[[int], Stmt]) -> Stmt:
        """body, given the task's rows: once, or behind a branch for each number of rows that tasks have."""
        tail = self.m % self.mb
        if not tail:
            return body(self.mb)
        if self.m < self.mb:
            return body(tail)
        is_whole = binary(BinOp.le, add(mul(self.mo, self.mb), self.mb), Const(self.m))
        return If(is_whole, body(self.mb), body(tail))

    def columns_of_task(self, n: int, nb: int, body: ColumnBody) -> Stmt:
        """`by_columns`, behind a branch for each number of rows that tasks have: post-ops of a known number can go into the microkernel.

        Two Zen 5 cores, times over those with post-ops behind it for any number, 4 x 197 x 64 by 2048 columns in bf16, with ReLU in f32 and
        f16 0.73, 0.82, 0.83, 256 by 1024 0.96, 0.95, 0.98. Of several products, MLP_2 at batch 197, 0.99, and compiling takes 1.3 times as
        long: they are left alone.
        """
        if not self.is_lone:
            return self.by_columns(n, nb, body)
        if self.node.split_n:
            return self.by_columns(n, nb, lambda no, width: self.for_rows(lambda _: body(no, width)))
        return self.for_rows(lambda _: self.by_columns(n, nb, body))

    def start(self, no: Expr, nb: int) -> tuple[Coord, ...]:
        """Where the task's rows and a block of columns begin in a product."""
        return (*(Coord(var) for var in self.batch), Coord(ZERO, self.mo, self.mb), Coord(ZERO, no, nb))

    def _call(self, op: Op, no: Expr, width: int, nb: int, rows: int, taps: Box, part: Part | None) -> Stmt:
        acc, copied = self.target(op, no, nb, self.scratch_of(op))
        k = product(self.g, op).reduced[-1]

        def call(rows: int, taps: Box, adds: bool) -> Stmt:
            adding = replace(part or Part(ZERO, 0, k, adds=True), adds=True)
            return self.call(op, no, width, nb, rows, acc, adding if adds else part, taps)

        return seq(by_rows(self, op, rows, taps, call), copied(rows, width))

    def call(self, op: Op, no: Expr, width: int, nb: int, rows: int, acc: Slice, part: Part | None = None, taps: Box | None = None) -> Stmt:
        """The columns from block no on, summed over k or a part of it. taps: what of the other reduced axes they meet, if not all."""
        p = product(self.g, op)
        taps = taps or p.whole
        src_layout = self.g.value(op.ins[0]).layout
        if part is None:
            ahead = tuple(fetched_ahead(self, op, no, nb))
            part = Part(ZERO, 0, p.reduced[-1], adds=False, ahead=ahead)
        k = part.size
        kb = min(src_layout.blocks[0][1], k) if src_layout.blocks else k
        start, first = self.start(no, nb), part.begins_in(kb)
        if (held := self.packed.get(op)) is not None:
            wei = self.operand(op, p, 1, start, first)
            return held.reduce(wei, acc, start, rows, width, first, k, adds=part.adds, ahead=part.ahead)
        a, b = (self.operand(op, p, port, start, first, tuple(Const(begin) for begin, _ in taps)) for port in (0, 1))
        extents = tuple(end - begin for (begin, end), whole in zip(taps, p.reduced, strict=False) if whole != 1)
        if kb < k:
            (k_dim, step), blocks = b.axes[0], src_layout.order.index(len(src_layout.order) - 1)
            a, b = replace(a, axes=(*a.axes, (blocks, 1))), replace(b, axes=(*b.axes, (k_dim, step * kb // group_of(self.g, op))))
            extents = (*extents, k // kb)
        return Brgemm(a, b, acc, rows, width, kb, extents, part.adds, part.ahead)

    def operand(self, op: Op, p: Product, port: int, start: tuple[Coord, ...], k: Coord, taps: Indices | None = None) -> Slice:
        """The slice of src (0) or wei (1) for the columns and rows of dst that begin at `start`. k: where k begins, and how it is split.

        taps: where the other reduced axes begin, if not at 0.
        """
        axes = operand_axes(self.g, op, port)
        assert axes is not None, "propagate-layout leaves no unreadable operand"
        return Slice(*self.begin(op, p, port, start, k, taps), axes)

    def begin(self, op: Op, p: Product, port: int, start: tuple[Coord, ...], k: Coord, taps: Indices | None = None) -> Place:
        """The first element of such a slice."""
        index = p.how.index(p.call, tuple(c.value for c in start), (*(taps or (ZERO,) * (len(p.over) - 1)), k.value))[port]
        known: dict[Expr, Coord] = {**dict(zip(p.at, start, strict=True)), K: k}
        coords = tuple(known.get(symbol, Coord(e)) for symbol, e in zip(p.operands[port], index, strict=True))
        return self.storage.place(op.ins[port], coords)

    def result(self, op: Op, coords: tuple[Coord, ...]) -> Slice | None:
        axes = acc_axes(self.g, op)
        if axes is None:
            return None
        where, index = self.storage.place(op.outs[0], coords)
        return Slice(where, index, axes)

    def scratch_of(self, op: Op) -> Tensor | None:
        """A temporary for a result whose rows or columns the microkernel cannot step along."""
        if self.result(op, self.start(ZERO, 1)) is not None:
            return None
        return self.storage.scratch(self.g.value(op.outs[0]), acc_dtype(self.g, op))

    def target(self, op: Op, no: Expr, nb: int, scratch: Tensor | None) -> tuple[Slice, Callable[[int, int], Stmt]]:
        """Where the microkernel writes, and what brings so many rows and columns of a scratch to where they belong."""
        if scratch is None:
            acc = self.result(op, self.start(no, nb))
            assert acc is not None
            return acc, lambda rows, width: seq()
        v, held = self.g.value(op.outs[0]), scratch
        rank = len(v.shape)
        start = (*self.batch, mul(self.mo, self.mb), mul(no, nb))
        axes = result_axes(self.g, op, turned=True) if self.g.value(self.g.root(v.id)).dtype is scratch.dtype else None

        def copied(rows: int, width: int) -> Stmt:
            if axes is not None:
                where, index = self.storage.place(v.id, self.start(no, nb))
                dst = Slice(where, index, (axes[1], axes[0]))
                return Pack(Slice(held, start, ((rank - 1, 1), (rank - 2, 1))), dst, width, rows)
            i, j = self.storage.var("i"), self.storage.var("j")
            at: tuple[Expr, ...] = (*self.batch, add(start[-2], i), add(start[-1], j))
            copy: Store = self.storage.store(v.id, tuple(Coord(e) for e in at), Load(held, at))
            return For(i, Const(rows), For(j, Const(width), copy))

        return Slice(held, start, ((rank - 2, 1), (rank - 1, 1))), copied
