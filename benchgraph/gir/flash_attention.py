"""Softmax in one pass: what a nest must be like so that scores need not be whole rows before they meet the next product.

A sum over a row of exp(x - c) * v, and a sum of exp(x - c) alone, can be taken piece by piece while c, which grows with the maximum so far,
changes: whenever it does, what has been summed is multiplied by exp(c before - c now). So of

    x = post-ops(src @ wei);  m = max(x);  c = f(m);  e = exp(x - c);  s = sum(e);  p = g(e);  acc = p @ wei'

only some columns of x, e and p are held at a time, if g is pointwise and scales as e does (casts, dropout). All else (ops on s, statistics,
the division, post-ops of the second product) waits until the last columns are in.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from benchgraph.core.dtypes import DType
from benchgraph.gir.domain import Domain, trace
from benchgraph.gir.ir import Fused, Graph, Op, Stage
from benchgraph.gir.product import K, N, product, thin
from benchgraph.ops import spec
from benchgraph.ops.spec import Computes
from benchgraph.tir.ir import BinOp


@dataclass(frozen=True)
class Online:
    """The stages of the two products, and the first one's post-ops sorted by when they run.

    early: pointwise, on a tile of x. maximum: the fold of x. shift: ops on it that make c. difference, exp, total: x - c, e and s.
    weights: pointwise, from e to the second product's src. late: everything that needs finished folds.
    """

    scores: Stage
    values: Stage
    early: tuple[Op, ...]
    maximum: Op
    shift: tuple[Op, ...]
    difference: Op
    exp: Op
    total: Op
    weights: tuple[Op, ...]
    late: tuple[Op, ...]
    choice: Op | None = None
    hiding: int = 0

    @property
    def src(self) -> int:
        """The second product's."""
        return self.values.ops[0].ins[0]

    @property
    def c(self) -> int:
        return self.difference.ins[1]


def online(g: Graph, node: Fused) -> Online | None:
    """How a nest of two products and a softmax between them goes through the scores in pieces; None when it is something else."""
    stages = [s for s in node.stages if not s.is_per_entry]
    kernels = [s for s in stages if spec(s.ops[0].kind).lowering.is_contraction]
    if len(kernels) != 2 or stages[-2:] != kernels:
        return None
    scores, values = kernels
    domain = trace(g, scores.ops)
    found = None if domain is None else _sorted(g, domain, scores, values)
    return found if found is not None and _stays_inside(g, node, domain, found) and _can_be_cut(g, values) else None


def _sorted(g: Graph, domain: Domain, scores: Stage, values: Stage) -> Online | None:
    after = scores.ops[1:]
    maxima = [op for op in after if _folds_with(op, BinOp.max)]
    totals = [op for op in after if _folds_with(op, BinOp.add)]
    if len(maxima) != 1 or len(totals) != 1 or any(not (spec(op.kind).lowering.is_elementwise or op in (*maxima, *totals)) for op in after):
        return None
    (maximum,), (total,) = maxima, totals
    made = {v: op for op in after for v in op.outs}
    exp = made.get(total.ins[0])
    difference = None if exp is None or spec(exp.kind).semantics.computes is not Computes.exp else made.get(exp.ins[0])
    if exp is None or difference is None or spec(difference.kind).semantics.computes is not Computes.difference:
        return None
    if difference.ins[0] != maximum.ins[0]:
        return None
    waits = {op: _needs(made, op) for op in after}
    early = tuple(op for op in after if maximum not in waits[op])
    shift = tuple(op for op in after if op not in (maximum, difference) and op in waits[difference] and maximum in waits[op])
    weights = tuple(op for op in after if exp in waits[op] and op is not exp and total not in waits[op] and op is not total)
    known = {*early, maximum, *shift, difference, exp, total, *weights}
    late = tuple(op for op in after if op not in known)
    found = Online(scores, values, early, maximum, shift, difference, exp, total, weights, late)
    return _with_choice(g, found) if _is_sound(g, domain, found) else None


def _folds_with(op: Op, how: BinOp) -> bool:
    """Whether it folds with this op, whatever it makes of NaN: that is in all sums, too."""
    folds_with = spec(op.kind).lowering.reduces_with
    return folds_with is not None and folds_with.by_order is how


def _needs(made: dict[int, Op], op: Op) -> frozenset[Op]:
    """op and all ops that it waits for."""
    seen, work = {op}, [op]
    while work:
        sources = {made[v] for v in work.pop().ins if v in made} - seen
        seen |= sources
        work.extend(sources)
    return frozenset(seen)


def _is_sound(g: Graph, domain: Domain, o: Online) -> bool:
    """Ops on elements go through whole rows before and after the folds, those in between once per row, and weights scale as e does."""
    last = len(domain.extents) - 1

    def is_per_row(op: Op) -> bool:
        return all(domain.axes.get(v, (last,))[-1] is None for v in op.outs)

    per_element = (*o.early, o.difference, o.exp, *o.weights)
    if any(is_per_row(op) for op in per_element) or not all(is_per_row(op) for op in (*o.shift, *o.late)):
        return False
    inside = {v for op in o.scores.ops for v in op.outs}
    scales = all(
        spec(op.kind).semantics.is_homogeneous
        and len(op.outs) == 1
        and all(g.value(v).dtype.is_float for v in (op.ins[0], *op.outs))
        and inside.isdisjoint(op.ins[1:])
        for op in o.weights
    )
    folds = (g.value(v).dtype is DType.f32 for v in (o.maximum.outs[0], o.total.outs[0], o.c))
    is_between = {v for op in (o.exp, *o.weights) for v in op.outs}
    return scales and all(folds) and o.src in is_between and domain.reduced == {last}


def _stays_inside(g: Graph, node: Fused, domain: Domain | None, o: Online) -> bool:
    """No whole row of scores or weights is wanted by anybody else; what is read early is not needed late."""
    per_element = {v for op in (o.scores.ops[0], *o.early, o.difference, o.exp, *o.weights) for v in op.outs}
    readers = {v: [op for op in node.ops if v in op.ins] for v in per_element}
    tile_ops = {*o.early, o.maximum, o.difference, o.exp, o.total, *o.weights, o.values.ops[0]}
    plain = all(g.value(v).view is None and g.value(v).layout.is_plain for v in per_element)
    return plain and not per_element & {*node.outs, *g.outs, *g.viewed} and all(op in tile_ops for ops in readers.values() for op in ops)


def _can_be_cut(g: Graph, values: Stage) -> bool:
    """The second product needs the weights row by row, and its wei can be entered at any of its rows."""
    op = values.ops[0]
    p = product(g, op)
    return op.ins[1] != op.ins[0] and thin(g, op) is None and p.is_matrix_product and p.operands[1][-2:] == (K, N)


def _with_choice(g: Graph, o: Online) -> Online:
    """The plan with the op that hides columns, if nothing but casts stands between it and the folds, and its condition can be foreseen."""
    made = {v: op for op in o.early for v in op.outs}
    op = made.get(o.maximum.ins[0])
    while op is not None and spec(op.kind).semantics.is_conversion and g.value(op.ins[0]).dtype.is_float:
        op = made.get(op.ins[0])
    if op is None or spec(op.kind).semantics.computes is not Computes.choice or not is_foreseen(g, made, op.ins[0]):
        return o
    outside = [i for i in (1, 2) if op.ins[i] not in made and g.value(op.ins[i]).type.elements == 1]
    return replace(o, choice=op, hiding=outside[0]) if len(outside) == 1 else o


def is_foreseen(g: Graph, made: dict[int, Op], id: int) -> bool:
    """A value is one number, or rises and falls with the place alone, by ops that say so."""
    work, seen = [id], {id}
    while work:
        v = work.pop()
        if (op := made.get(v)) is None:
            if g.value(v).type.elements != 1:
                return False
            continue
        ways = spec(op.kind).semantics.monotonicity
        if len(ways) != len(op.ins) or len(op.outs) != 1:
            return False
        fresh = {v for way, v in zip(ways, op.ins, strict=True) if way} - seen
        work += fresh
        seen |= fresh
    return True
