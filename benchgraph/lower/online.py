"""Two products with a softmax between them, in one pass over the scores: some columns at a time (gir/flash_attention.py).

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

m starts from the lowest finite number, not from -inf, so that a row of which all is masked so far has exp(-inf - lowest) = 0 and no NaN.

Where a choice by row and column hides scores behind -inf, as a causal mask does, columns that are hidden from all rows of the task are left
out: they would add nothing.
"""

from __future__ import annotations

from math import inf, nan

from benchgraph.core.dtypes import DType
from benchgraph.gir.domain import Domain, trace
from benchgraph.gir.flash_attention import Online, online
from benchgraph.gir.ir import Fused, Op
from benchgraph.gir.product import product
from benchgraph.lower.access import ZERO, Coord, Storage
from benchgraph.lower.gemm import GemmNest
from benchgraph.lower.region import Region, Span
from benchgraph.lower.thin import made_thin
from benchgraph.ops import spec
from benchgraph.ops.spec import Elementwise
from benchgraph.tir.build import add, binary, cast, f32, mul, select, seq, sub, unary
from benchgraph.tir.ir import BinOp, Brgemm, Const, Expr, For, If, Load, Slice, Stmt, Store, Tensor, Unary, UnOp
from benchgraph.tir.visit import map_tensors

LOWEST = DType.f32.range[0]


class OnlineNest(GemmNest):
    """Lowers a Fused node with a step."""

    def __init__(self, storage: Storage, node: Fused) -> None:
        super().__init__(storage, node)
        found = online(self.g, node)
        assert found is not None, "schedule gives a step to nests of this form only"
        self.plan: Online = found
        self.step = node.step
        domain = trace(self.g, found.scores.ops)
        assert domain is not None
        self.domain: Domain = domain
        result = self.g.value(found.values.ops[0].outs[0])
        self.columns = result.shape[-1]
        self.acc: Tensor | None = None if self.result(found.values.ops[0], self.start(ZERO, 1)) else storage.scratch(result, DType.f32)
        per_row = self.g.value(found.maximum.outs[0])
        self.before, self.factor = storage.scratch(per_row, DType.f32), storage.scratch(per_row, DType.f32)

    def _stages(self) -> Stmt:
        own = (self.plan.scores, self.plan.values)
        first = seq(*(self._stage(stage) for stage in self.node.stages if not stage.is_per_entry and stage not in own))
        packed = self.packed_rows(self.plan.scores)
        full, tail = divmod(self.domain.extents[-1], self.step)
        ko = self.storage.var("ko")
        loop = For(ko, Const(full), self._unless_hidden(ko, self.step))
        rest = (self._in_own_tensors(self._unless_hidden(Const(full), tail)),) if tail else ()
        once = Region(self.storage, self.domain, (*self._task(), Span(Const(1))))
        once.first_in_row([] if self.plan.shift else [self._undefined((*once.coords[:-1], Coord(ZERO)))])
        late = once.emit(self.plan.late)
        return seq(first, packed, self._cleared(), loop, *rest, late, self.before_post_ops(self.plan.values, self._copied))

    # ---- running folds and sums

    def _place(self, t: Tensor | None, id: int, at: tuple[Coord, ...]) -> tuple[Tensor, tuple[Expr, ...]]:
        """An element of a value, or of the temporary that stands for it."""
        return self.storage.place(id, at) if t is None else (t, tuple(c.value for c in at))

    def _row(self, i: Expr) -> tuple[Coord, ...]:
        return (*(Coord(var) for var in self.batch), Coord(i, self.mo, self.mb))

    def _undefined(self, at: tuple[Coord, ...]) -> Stmt:
        """A sum of 0 is no number: all was -inf, and so was the maximum, which plain softmax takes off."""
        total = self.storage.load(self.plan.total.outs[0], at)
        return self.storage.store(self.plan.total.outs[0], at, select(binary(BinOp.gt, total, f32(0.0)), total, f32(nan)))

    def _over_acc(self, change: Op, value: float | None) -> Stmt:
        """acc = value, or acc * factor, on the task's rows; change: the op that makes acc."""
        i, j = self.storage.var("i"), self.storage.var("j")

        def columns(no: Expr, width: int) -> Stmt:
            where, at = self._place(self.acc, change.outs[0], (*self._row(i), Coord(j, no, self.plan.values.nb)))
            factor = Load(self.factor, tuple(c.value for c in (*self._row(i), Coord(ZERO))))
            new = f32(value) if value is not None else binary(BinOp.mul, Load(where, at), factor)
            return For(j, Const(width), Store(where, at, new))

        return For(i, self._task()[-1].extent, self.by_columns(self.columns, self.plan.values.nb, columns))

    def _cleared(self) -> Stmt:
        """The folds and the sums at their beginnings."""
        i = self.storage.var("i")
        at = (*self._row(i), Coord(ZERO))
        starts = {self.plan.maximum.outs[0]: LOWEST, self.plan.c: LOWEST, self.plan.total.outs[0]: 0.0}
        folds = seq(*(self.storage.store(v, at, f32(value)) for v, value in starts.items()))
        return seq(For(i, self._task()[-1].extent, folds), self._over_acc(self.plan.values.ops[0], 0.0))

    def _in_own_tensors(self, s: Stmt) -> Stmt:
        """The work on the ragged columns in temporaries of its own, so that those of the others are as narrow as a step."""
        o = self.plan
        per_element = {v for op in (o.scores.ops[0], *o.early, o.difference, o.exp, *o.weights) for v in op.outs}
        values = {self.storage.tensor(v).name: self.g.value(v) for v in sorted(per_element)}
        return map_tensors(s, {name: self.storage.scratch(v, v.dtype) for name, v in values.items()})

    # ---- columns that a mask hides wholly

    def _unless_hidden(self, ko: Expr, width: int) -> Stmt:
        """The work on some columns, behind a condition if it can be foreseen that all of them are hidden by -inf."""
        o, work = self.plan, self._some_columns(ko, width)
        if o.choice is None:
            return work
        spans = (*self._task(), Span(Const(width), ko, self.step))
        hiding = self.storage.load(o.choice.ins[o.hiding], (Coord(ZERO),) * len(self.g.value(o.choice.ins[o.hiding]).shape))
        shows_if = o.hiding == 2  # the condition chooses the scores
        edge = self._edge(o.choice.ins[0], spans, 1 if shows_if else -1)
        shown = edge if shows_if else Unary(UnOp.not_, edge)
        return If(binary(BinOp.or_, shown, binary(BinOp.ne, hiding, f32(-inf))), work)

    def _edge(self, id: int, spans: tuple[Span, ...], way: int) -> Expr:
        """A bound on what a value is within the spans: the largest for way 1, the least for way -1; from where it lies at their corners."""
        op = next((op for op in self.plan.early if id in op.outs), None)
        v = self.g.value(id)
        if op is None:
            return self.storage.load(id, (Coord(ZERO),) * len(v.shape))
        how, ways = spec(op.kind).lowering.form, spec(op.kind).semantics.monotonicity
        assert isinstance(how, Elementwise)
        operands = tuple(
            self._edge(operand, spans, way * rises) if rises else Const(0, self.g.value(operand).dtype)
            for operand, rises in zip(op.ins, ways, strict=True)
        )
        corner = tuple(Coord(sub(span.extent, 1) if way > 0 else ZERO, span.outer, span.tile).value for span in spans)
        (value,) = how.values(op.attrs, v.shape, tuple(ZERO if n == 1 else at for n, at in zip(v.shape, corner, strict=True)), operands)
        return cast(value, v.dtype)

    # ---- some columns of the scores

    def _some_columns(self, ko: Expr, width: int) -> Stmt:
        """The scores of columns ko*step .. + width, from the first product into the second one."""
        o, nb = self.plan, self.plan.scores.nb
        per_step, folded = self.step // nb, made_thin(self, o.scores)

        def tile(no: Expr, wide: int) -> Stmt:
            at = add(mul(ko, per_step), no)
            made = self.microkernel(o.scores.ops[0], at, wide, nb) if folded is None else folded(at, wide)
            spans = (*self._task(), Span(Const(wide), at, nb))
            return seq(made, Region(self.storage, self.domain, spans).emit(o.early)) if o.early else made

        def sums(no: Expr, wide: int) -> Stmt:
            return self.for_rows(lambda rows: self._added(no, wide, rows, ko, width))

        scores, summed = self.by_columns(width, nb, tile), self.by_columns(self.columns, o.values.nb, sums)
        return seq(scores, self._folded(ko, width), self._over_acc(o.values.ops[0], None), summed)

    def _folded(self, ko: Expr, width: int) -> Stmt:
        """Maximum, sum and weights of these columns, and the factor by which what has been summed shrinks.

        What is done once per row has a loop of its own, which runs in vectors of rows.
        """
        o, columns = self.plan, (*self._task(), Span(Const(width), ko, self.step))
        maxima, per_row, sums = (Region(self.storage, self.domain, s) for s in (columns, (*self._task(), Span(Const(1))), columns))
        of_maxima, at, of_sums = ((*region.coords[:-1], Coord(ZERO)) for region in (maxima, per_row, sums))

        maxima.first_in_row([Store(self.before, tuple(c.value for c in of_maxima), self.storage.load(o.c, of_maxima))])
        maxima.starts[o.maximum.outs[0]] = self.storage.load(o.maximum.outs[0], of_maxima)

        index = tuple(c.value for c in at)
        shrunk = unary(UnOp.exp, binary(BinOp.sub, Load(self.before, index), self.storage.load(o.c, at)))
        total = binary(BinOp.mul, self.storage.load(o.total.outs[0], at), Load(self.factor, index))
        per_row.add(o.shift)
        per_row.once_known(o.c, [Store(self.factor, index, shrunk), self.storage.store(o.total.outs[0], at, total)])

        sums.starts[o.total.outs[0]] = self.storage.load(o.total.outs[0], of_sums)
        return seq(maxima.emit([o.maximum]), per_row.finish(), sums.emit([o.difference, o.exp, o.total, *o.weights]))

    def _added(self, no: Expr, width: int, rows: int, ko: Expr, depth: int) -> Stmt:
        """acc[rows, columns] += weights[rows, ko] @ wei'[ko, columns]."""
        op, nb = self.plan.values.ops[0], self.plan.values.nb
        p, start = product(self.g, op), self.start(no, nb)
        a, b = (self.operand(op, p, port, start, Coord(ZERO, ko, self.step)) for port in (0, 1))
        acc = self.result(op, start)
        if self.acc is not None:
            acc = Slice(self.acc, tuple(c.value for c in start), ((len(start) - 2, 1), (len(start) - 1, 1)))
        assert acc is not None
        return Brgemm(a, b, acc, rows, width, depth, accumulate=True)

    def _copied(self, no: Expr, width: int) -> Stmt:
        """acc to where the product's result belongs, if it was summed elsewhere."""
        if self.acc is None:
            return seq()
        i, j = self.storage.var("i"), self.storage.var("j")
        at = (*self._row(i), Coord(j, no, self.plan.values.nb))
        copy = self.storage.store(self.plan.values.ops[0].outs[0], at, Load(self.acc, tuple(c.value for c in at)))
        return For(i, self._task()[-1].extent, For(j, Const(width), copy))
