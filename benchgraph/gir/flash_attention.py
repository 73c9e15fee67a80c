"""Flash attention: which nests can use an online softmax, so that rows of scores need not be whole before the second product.

A sum over a row of exp(x - c) * v, and a sum of exp(x - c) alone, can be accumulated block by block while c, which grows with the running
maximum, changes: whenever it does, the sums so far are multiplied by exp(c before - c now). So of

    x = post-ops(src @ wei);  m = max(x);  c = f(m);  e = exp(x - c);  s = sum(e);  p = g(e);  acc = p @ wei'

only a block of columns of x, e and p is live at a time, if g is pointwise and homogeneous (casts, dropout). All else (ops on s, statistics,
the division, post-ops of the second product) waits for the last block.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from benchgraph.core.dtypes import DType
from benchgraph.core.memoise import memoised_within
from benchgraph.gir.closure import closure
from benchgraph.gir.domain import Domain, trace
from benchgraph.gir.gemv import gemv_form
from benchgraph.gir.ir import FusedOp, Graph, Op, Stage
from benchgraph.gir.product import K, N, product
from benchgraph.ops.spec import Computes
from benchgraph.tir.ir import BinOp


@dataclass(frozen=True)
class FlashAttention:
    """The stages of the two products (of scores and of values), and the first one's post-ops by when they run.

    tile_ops: pointwise, on a tile of x. maximum: the reduction of x to m. shift_ops: from m to c. difference, exp, total: x - c, e and s.
    weight_ops: pointwise, from e to p, the attention weights. row_ops: everything that needs finished reductions. mask: the op of the tile
    that selects between x and a scalar, its operand `mask_port`, if its condition can be bounded for a whole block.
    """

    scores: Stage
    values: Stage
    tile_ops: tuple[Op, ...]
    maximum: Op
    shift_ops: tuple[Op, ...]
    difference: Op
    exp: Op
    total: Op
    weight_ops: tuple[Op, ...]
    row_ops: tuple[Op, ...]
    mask: Op | None = None
    mask_port: int = 0

    @property
    def element_ops(self) -> tuple[Op, ...]:
        """Those that run per element, without the products."""
        return (*self.tile_ops, self.difference, self.exp, *self.weight_ops)

    @property
    def elements(self) -> frozenset[int]:
        """The values of which only a block of columns is live."""
        return frozenset(v for op in (self.scores.ops[0], *self.element_ops) for v in op.outs)

    @property
    def src(self) -> int:
        """The second product's: p."""
        return self.values.ops[0].ins[0]

    @property
    def shift(self) -> int:
        """c."""
        return self.difference.ins[1]


@memoised_within
def flash_attention(g: Graph, node: FusedOp) -> FlashAttention | None:
    """The plan of a nest of two products with a softmax between them; None for other nests."""
    stages = [s for s in node.stages if not s.is_batch_invariant]
    kernels = [s for s in stages if s.is_product]
    if len(kernels) != 2 or stages[-2:] != kernels:
        return None
    scores, values = kernels
    domain = trace(g, scores.ops)
    plan = None if domain is None else _planned(g, domain, scores, values)
    return plan if plan is not None and _stays_inside(g, node, plan) and _has_rows_of_values(g, values) else None


def _planned(g: Graph, domain: Domain, scores: Stage, values: Stage) -> FlashAttention | None:
    after = scores.ops[1:]
    maxima = [op for op in after if _reduces_with(op, BinOp.max)]
    totals = [op for op in after if _reduces_with(op, BinOp.add)]
    if len(maxima) != 1 or len(totals) != 1 or any(not (op.lowering.is_elementwise or op in (*maxima, *totals)) for op in after):
        return None
    (maximum,), (total,) = maxima, totals
    made = {v: op for op in after for v in op.outs}
    exp = made.get(total.ins[0])
    difference = None if exp is None or exp.semantics.computes is not Computes.exp else made.get(exp.ins[0])
    if exp is None or difference is None or difference.semantics.computes is not Computes.difference:
        return None
    if difference.ins[0] != maximum.ins[0]:
        return None
    needs = {op: {*closure(op, lambda op: (made[v] for v in op.ins if v in made))} for op in after}
    tile_ops = tuple(op for op in after if maximum not in needs[op])
    shift_ops = tuple(op for op in after if op not in (maximum, difference) and op in needs[difference] and maximum in needs[op])
    weight_ops = tuple(op for op in after if exp in needs[op] and op is not exp and total not in needs[op] and op is not total)
    known = {*tile_ops, maximum, *shift_ops, difference, exp, total, *weight_ops}
    row_ops = tuple(op for op in after if op not in known)
    plan = FlashAttention(scores, values, tile_ops, maximum, shift_ops, difference, exp, total, weight_ops, row_ops)
    return _with_mask(g, plan) if _is_legal(g, domain, plan) else None


def _reduces_with(op: Op, combiner: BinOp) -> bool:
    """Whether an op reduces with this combiner, whatever it makes of NaN: NaN reaches all sums, too."""
    folds_with = op.lowering.reduces_with
    return folds_with is not None and folds_with.by_order is combiner


def _is_legal(g: Graph, domain: Domain, plan: FlashAttention) -> bool:
    """Ops before and after the reductions are per element, those between them per row, and the attention weights scale as e does."""
    last = len(domain.extents) - 1

    def is_per_row(op: Op) -> bool:
        return all(domain.axes.get(v, (last,))[-1] is None for v in op.outs)

    if any(map(is_per_row, plan.element_ops)) or not all(map(is_per_row, (*plan.shift_ops, *plan.row_ops))):
        return False
    inside = {v for op in plan.scores.ops for v in op.outs}
    scales = all(
        op.semantics.is_homogeneous
        and len(op.outs) == 1
        and all(g.value(v).dtype.is_float for v in (op.ins[0], *op.outs))
        and inside.isdisjoint(op.ins[1:])
        for op in plan.weight_ops
    )
    reductions = (g.value(v).dtype is DType.f32 for v in (plan.maximum.outs[0], plan.total.outs[0], plan.shift))
    between = {v for op in (plan.exp, *plan.weight_ops) for v in op.outs}
    return scales and all(reductions) and plan.src in between and domain.reduced == {last}


def _stays_inside(g: Graph, node: FusedOp, plan: FlashAttention) -> bool:
    """Nothing outside of the plan reads a whole row of scores or weights, and row_ops read nothing that is computed per element."""
    block_ops = {*plan.element_ops, plan.maximum, plan.total, plan.values.ops[0]}
    is_plain = all(g.value(v).view is None and g.value(v).layout.is_plain for v in plan.elements)
    is_inside = plan.elements.isdisjoint((*node.outs, *g.outs, *g.viewed))
    return is_plain and is_inside and all(op in block_ops for op in node.ops if not plan.elements.isdisjoint(op.ins))


def _has_rows_of_values(g: Graph, values: Stage) -> bool:
    """The second product reads attention weights row by row, and a block of it can begin at any row of its wei."""
    op = values.ops[0]
    p = product(g, op)
    return op.ins[1] != op.ins[0] and gemv_form(g, op) is None and p.is_matrix_product and p.operands[1][-2:] == (K, N)


def _with_mask(g: Graph, plan: FlashAttention) -> FlashAttention:
    """The plan with its mask, if only casts stand between that and the reductions, and its condition can be bounded for a block."""
    made = {v: op for op in plan.tile_ops for v in op.outs}
    op = made.get(plan.maximum.ins[0])
    while op is not None and op.semantics.is_conversion and g.value(op.ins[0]).dtype.is_float:
        op = made.get(op.ins[0])
    if op is None or op.semantics.computes is not Computes.choice or not is_monotone(g, made, op.ins[0]):
        return plan
    outside = [i for i in (1, 2) if op.ins[i] not in made and g.value(op.ins[i]).type.elements == 1]
    return replace(plan, mask=op, mask_port=outside[0]) if len(outside) == 1 else plan


def is_monotone(g: Graph, made: dict[int, Op], id: int) -> bool:
    """Whether a value is a scalar, or depends monotonically on the position of its element alone, through ops that are monotone."""

    def near(v: int) -> list[int]:
        op = made.get(v)
        return [] if op is None else [i for way, i in zip(op.semantics.monotonicity, op.ins, strict=False) if way]

    def is_fine(v: int) -> bool:
        op = made.get(v)
        if op is None:
            return g.value(v).type.elements == 1
        return len(op.semantics.monotonicity) == len(op.ins) and len(op.outs) == 1

    return all(map(is_fine, closure(id, near)))
