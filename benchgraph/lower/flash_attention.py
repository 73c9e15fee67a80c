"""Flash attention: two products with a softmax between them in one pass over the scores, some columns at a time (gir/flash_attention.py).

The maximum m and the sum s of a row are running reductions, and acc is rescaled whenever the maximum grows (online softmax):

    m = lowest; c = lowest; s = 0; acc = 0
    for ko in N / step:
      x[:, ko] = brgemm(src, wei[:, ko]); early post-ops
      for each row: before = c; m = max(m, max(x))
      for all rows: c = f(m); factor = exp(before - c); s = s * factor
      for each row: s = s + sum(exp(x - c)); p = g(exp(x - c))
      acc = acc * factor
      acc += brgemm(p, wei'[ko, :])
    [plain softmax: s = NaN where it is 0]
    late post-ops; the second product's post-ops on acc

m starts from the lowest finite number instead of -inf: a row that has been fully masked so far then has exp(-inf - lowest) = 0, and no NaN.

Where a select by row and column replaces scores by -inf, as a causal mask does, a block of columns that is masked for all rows of the task
is skipped: it would add nothing.
"""

from __future__ import annotations

from math import inf, nan

from benchgraph.core.dtypes import DType
from benchgraph.gir.domain import domain_of
from benchgraph.gir.flash_attention import flash_attention
from benchgraph.gir.ir import FusedOp
from benchgraph.lower.gemm import GemmNest
from benchgraph.lower.gemm_task import Accumulator
from benchgraph.lower.gemv import gemv
from benchgraph.lower.region import Region, Span
from benchgraph.lower.storage import ZERO, Coord, Coords, Storage
from benchgraph.ops.spec import Elementwise
from benchgraph.tir.build import add, binary, cast, f32, mul, select, seq, sub, unary
from benchgraph.tir.ir import BinOp, Brgemm, Const, Expr, For, If, Load, Stmt, Store, Unary, UnOp
from benchgraph.tir.visit import map_tensors

LOWEST = DType.f32.range[0]


class FlashAttentionNest(GemmNest):
    """Lowers a FusedOp with score_columns: the columns of scores that are computed at a time."""

    def __init__(self, storage: Storage, node: FusedOp) -> None:
        super().__init__(storage, node)
        plan = flash_attention(self.g, node)
        assert plan is not None, "schedule sets score_columns only in nests of this form"
        self.plan = plan
        self.step = node.score_columns
        self.domain = domain_of(self.g, plan.scores.ops)
        self.columns = self.g.value(plan.values.ops[0].outs[0]).shape[-1]
        self.acc = Accumulator.of(self.task, plan.values.ops[0])
        self.before, self.factor = (storage.temporary(DType.f32, self.g.value(plan.maximum.outs[0]).shape) for _ in range(2))

    def _task(self) -> Stmt:
        plan, attention = self.plan, (self.plan.scores, self.plan.values)
        others = seq(*(self._stage(stage) for stage in self.node.stages if not stage.is_batch_invariant and stage not in attention))
        packed = self.kernel.pack_rows(plan.scores)
        full, tail = divmod(self.domain.extents[-1], self.step)
        ko = self.storage.var("ko")
        loop = For(ko, Const(full), self._unless_masked(ko, self.step))
        rest = (self._with_own_temporaries(self._unless_masked(Const(full), tail)),) if tail else ()
        per_row = Region(self.storage, self.domain, (*self.task.spans, Span(Const(1))))
        per_row.at_row_start([] if plan.shift_ops else [self._nan_for_zero_sum((*per_row.coords[:-1], Coord(ZERO)))])
        late = per_row.emit(plan.row_ops)

        def copy(column_block: Expr, width: int) -> Stmt:
            return self.acc.copy(self.task.row, self.task.spans[-1].extent, column_block, plan.values.nb, width)

        return seq(others, packed, self._clear(), loop, *rest, late, self.epilogue.emit(plan.values, copy))

    def _nan_for_zero_sum(self, at: Coords) -> Stmt:
        """A sum of 0 becomes NaN: all scores were -inf, and plain softmax subtracts a maximum of -inf from them."""
        total = self.storage.load(self.plan.total.outs[0], at)
        return self.storage.store(self.plan.total.outs[0], at, select(binary(BinOp.gt, total, f32(0.0)), total, f32(nan)))

    def _update_acc(self, value: float | None) -> Stmt:
        """acc = value, or without one acc * factor, on the task's rows."""

        def new(element: Load, i: Expr) -> Expr:
            factor = Load(self.factor, tuple(c.value for c in (*self.task.row(i), Coord(ZERO))))
            return f32(value) if value is not None else binary(BinOp.mul, element, factor)

        return self.acc.update(self.task.row, self.task.spans[-1].extent, self.plan.values.nb, new)

    def _clear(self) -> Stmt:
        """The initial values of the running reductions and of acc."""
        i = self.storage.var("i")
        at = (*self.task.row(i), Coord(ZERO))
        starts = {self.plan.maximum.outs[0]: LOWEST, self.plan.shift: LOWEST, self.plan.total.outs[0]: 0.0}
        clear = seq(*(self.storage.store(v, at, f32(value)) for v, value in starts.items()))
        return seq(For(i, self.task.spans[-1].extent, clear), self._update_acc(0.0))

    def _with_own_temporaries(self, s: Stmt) -> Stmt:
        """The statements of the last, narrower block of columns on temporaries of their own, so that those of the full blocks keep the
        width of a step."""
        values = {self.storage.tensor(v).name: self.g.value(v) for v in sorted(self.plan.elements)}
        return map_tensors(s, {name: self.storage.temporary(v.dtype, v.shape) for name, v in values.items()})

    def _unless_masked(self, ko: Expr, width: int) -> Stmt:
        """The work on some columns, under a condition where one can tell that a mask sets all of them to -inf."""
        o, work = self.plan, self._some_columns(ko, width)
        if o.mask is None:
            return work
        spans = (*self.task.spans, Span(Const(width), ko, self.step))
        masking = self.storage.load(o.mask.ins[o.mask_port], (Coord(ZERO),) * len(self.g.value(o.mask.ins[o.mask_port]).shape))
        keeps_scores_if_true = o.mask_port == 2  # the condition chooses the scores
        bound = self._bound(o.mask.ins[0], spans, 1 if keeps_scores_if_true else -1)
        has_scores = bound if keeps_scores_if_true else Unary(UnOp.not_, bound)
        return If(binary(BinOp.or_, has_scores, binary(BinOp.ne, masking, f32(-inf))), work)

    def _bound(self, id: int, spans: tuple[Span, ...], direction: int) -> Expr:
        """An upper (direction 1) or lower (-1) bound of a value within the spans: monotone ops take it at a corner of the spans."""
        op = next((op for op in self.plan.tile_ops if id in op.outs), None)
        v = self.g.value(id)
        if op is None:
            return self.storage.load(id, (Coord(ZERO),) * len(v.shape))
        lowering, directions = op.lowering.form, op.semantics.monotonicity
        assert isinstance(lowering, Elementwise)
        operands = tuple(
            self._bound(operand, spans, direction * rises) if rises else Const(0, self.g.value(operand).dtype)
            for operand, rises in zip(op.ins, directions, strict=True)
        )
        corner = tuple(Coord(sub(span.extent, 1) if direction > 0 else ZERO, span.outer, span.tile).value for span in spans)
        at = tuple(ZERO if n == 1 else c for n, c in zip(v.shape, corner, strict=True))
        (value,) = lowering.values(op.attrs, v.shape, at, operands)
        return cast(value, v.dtype)

    def _some_columns(self, ko: Expr, width: int) -> Stmt:
        """The scores of columns ko*step .. + width: the first product, the reductions, and the second product's part."""
        o, nb = self.plan, self.plan.scores.nb
        per_step, column_body = self.step // nb, gemv(self.task, o.scores)

        def tile(column_block: Expr, columns: int) -> Stmt:
            at = add(mul(ko, per_step), column_block)
            made = self.kernel.block(o.scores.ops[0], at, columns, nb) if column_body is None else column_body(at, columns)
            spans = (*self.task.spans, Span(Const(columns), at, nb))
            return seq(made, Region(self.storage, self.domain, spans).emit(o.tile_ops)) if o.tile_ops else made

        def add_values(column_block: Expr, columns: int) -> Stmt:
            return self.task.for_rows(lambda rows: self._add_values(column_block, columns, rows, ko, width))

        scores, values = self.task.by_columns(width, nb, tile), self.task.by_columns(self.columns, o.values.nb, add_values)
        return seq(scores, self._reduce(ko, width), self._update_acc(None), values)

    def _reduce(self, ko: Expr, width: int) -> Stmt:
        """Maximum, sum and weights of these columns, and the factor that rescales earlier sums. What is computed once per row has a loop of
        its own, which is vectorised over rows."""
        o, columns = self.plan, (*self.task.spans, Span(Const(width), ko, self.step))
        each = columns, (*self.task.spans, Span(Const(1))), columns
        maxima, per_row, sums = (Region(self.storage, self.domain, s, jam=o.scores.jam) for s in each)
        maxima_at, at, sums_at = ((*region.coords[:-1], Coord(ZERO)) for region in (maxima, per_row, sums))

        maxima.at_row_start([Store(self.before, tuple(c.value for c in maxima_at), self.storage.load(o.shift, maxima_at))])
        maxima.initial[o.maximum.outs[0]] = self.storage.load(o.maximum.outs[0], maxima_at)

        index = tuple(c.value for c in at)
        factor = unary(UnOp.exp, binary(BinOp.sub, Load(self.before, index), self.storage.load(o.shift, at)))
        total = binary(BinOp.mul, self.storage.load(o.total.outs[0], at), Load(self.factor, index))
        per_row.add(o.shift_ops)
        per_row.after_value(o.shift, [Store(self.factor, index, factor), self.storage.store(o.total.outs[0], at, total)])

        sums.initial[o.total.outs[0]] = self.storage.load(o.total.outs[0], sums_at)
        return seq(maxima.emit([o.maximum]), per_row.finish(), sums.emit([o.difference, o.exp, o.total, *o.weight_ops]))

    def _add_values(self, column_block: Expr, width: int, rows: int, ko: Expr, depth: int) -> Stmt:
        """acc[rows, columns] += weights[rows, ko] @ wei'[ko, columns]."""
        op, start = self.plan.values.ops[0], self.task.start(column_block, self.plan.values.nb)
        a, b = (self.task.operand(op, port, start, Coord(ZERO, ko, self.step)) for port in (0, 1))
        ahead = self.task.parameters(op).wei_ahead
        return Brgemm(a, b, self.acc.slice(start), rows, width, depth, accumulate=True, wei_ahead=ahead)
