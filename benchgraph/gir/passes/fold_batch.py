"""fold-batch: batch entries that share their weights become rows of one product, where that takes less time.

%2: [32,1,N] = MatMul(%0: [32,1,K], %1: [K,N])        %2: [1,32,N] = MatMul(%0: [1,32,K], %1: [K,N])
%3: [32,1,N] = Add(%2, bias)                   ->     %3: [1,32,N] = Add(%2, bias)
%5: [32,8,N/8] = StaticReshape(%3)                    %4: [32,1,N] = StaticReshape(%3)
                                                      %5: [32,8,N/8] = StaticReshape(%4)

Examples are entries of few rows: the tokens that a language model generates for several users, and the queries of the heads that share a
head of keys. All ops on such rows are folded. Inputs and outputs of the graph take the other shape without a copy; StaticReshapes connect
what is not folded.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from itertools import pairwise
from math import prod

from benchgraph.core.attrs import Attrs
from benchgraph.core.tensor import Shape
from benchgraph.gir.build import Builder
from benchgraph.gir.column_blocks import takes_less_time
from benchgraph.gir.domain import reduction_axes
from benchgraph.gir.ir import Graph, Node, Op, Value
from benchgraph.gir.product import Product, product
from benchgraph.gir.views import layout_form, result_dims, source_dims
from benchgraph.machine.target import Target
from benchgraph.ops import spec
from benchgraph.ops.steps import reshaped


@dataclass(frozen=True)
class Fold:
    """dims: the batch dims that become rows, and, last, the rows: the dims of a value before its last one."""

    dims: Shape

    def is_in(self, shape: Shape) -> bool:
        """Whether a value has all of these dims."""
        return len(shape) > len(self.dims) and shape[-1 - len(self.dims) : -1] == self.dims

    def is_broadcast(self, shape: Shape) -> bool:
        """Whether a value is the same for all rows of all entries."""
        return prod(shape[-1 - len(self.dims) : -1]) == 1

    def axes(self, shape: Shape) -> frozenset[int]:
        """The positions of these dims."""
        return frozenset(range(len(shape) - 1 - len(self.dims), len(shape) - 1))

    def folded(self, shape: Shape) -> Shape:
        """The shape after folding, with as many dims."""
        return (*shape[: -1 - len(self.dims)], *(1,) * (len(self.dims) - 1), prod(self.dims), shape[-1])

    def strides(self, border: Value) -> Shape | None:
        """The strides of a border value in the folded shape; None where its entries do not follow each other in memory."""
        *outer, last = border.known_strides
        steps, outer = outer[-len(self.dims) :], outer[: -len(self.dims)]
        moving = [(extent, step) for extent, step in zip(self.dims, steps, strict=True) if extent != 1]
        if any(step != extent * inner for (_, step), (extent, inner) in pairwise(moving)):
            return None
        row = moving[-1][1]
        return (*outer, *(row * prod(self.dims),) * (len(self.dims) - 1), row, last)


def fold_batch(g: Graph, target: Target) -> Graph:
    """One group of ops after the other, each grown from its first product of few rows."""
    left_alone: list[Op] = []
    while True:
        products = (op for op in g.ops if op.lowering.is_contraction and op not in left_alone)
        seed, fold = next(((op, fold) for op in products if (fold := _fold_of(g, op, target)) is not None), (None, None))
        if seed is None or fold is None:
            return g
        if (ops := _group(g, seed, fold)) is None:
            left_alone.append(seed)
        else:
            g = _Folded(g, fold, ops).graph()


def _fold_of(g: Graph, op: Op, target: Target) -> Fold | None:
    """The innermost batch entries of a product that share one matrix of weights, if as rows of one product they take less time."""
    p = product(g, op)
    if not p.is_matrix_product:
        return None
    *batch, rows, _ = g.value(op.outs[0]).shape
    wei = g.value(op.ins[1]).shape
    own = (1,) * (len(batch) + 2 - len(wei)) + wei[:-2]
    shared = batch[max((i for i, extent in enumerate(own, start=1) if extent != 1), default=0) :]
    fold = Fold((*shared, rows))
    folded = _folded(p, fold) if prod(shared) > 1 else None
    return fold if folded is not None and takes_less_time(folded, p, target) else None


def _folded(p: Product, fold: Fold) -> Product | None:
    """The product of folded src, if its dst is folded. A convolution of one row by a stride of 2 skips the next row."""
    (src, wei), (dst,) = p.call.ins, p.call.outs
    src, dst = (replace(t, shape=fold.folded(t.shape)) for t in (src, dst))
    call = replace(p.call, ins=(src, wei), outs=(dst,))
    return replace(p, call=call) if spec(call.kind).semantics.infer(call.attrs, call.ins)[0] == dst.shape else None


def _group(g: Graph, seed: Op, fold: Fold) -> list[Op] | None:
    """The ops that are folded with a product; None where an op that is left could have shared a nest with them, or transposes rows and
    columns, as where channels come first. Windows and means over images stay (docs/measurements/whole-networks.md)."""
    ops, work = [seed], [seed]
    while work:
        op = work.pop()
        rows = [v for v in (*op.ins, *op.outs) if fold.is_in(g.value(v).shape)]
        for v, near in ((value, node) for value in rows for node in (*g.readers(value), g.maker(value))):
            if near is None or near in ops:
                continue
            if _can_fold(g, near, fold):
                ops.append(near)
                work.append(near)
            elif not (_has_own_nest(g, near, fold) or (layout_form(near) is not None and _keeps_rows(g, near, v))):
                return None
    return ops


def _has_own_nest(g: Graph, op: Op, fold: Fold) -> bool:
    """Whether an op shares no nest with the product that makes its operand: a product, a window, a reduction over the product's rows."""
    if op.lowering.is_reduction:
        src = g.value(op.ins[0]).shape
        return fold.is_in(src) and any(src[axis] > 1 for axis in fold.axes(src).intersection(reduction_axes(op, len(src))))
    return op.lowering.is_contraction or op.lowering.is_window


def _keeps_rows(g: Graph, layout_op: Op, v: int) -> bool:
    """Whether a layout op to or from a value leaves elements of its rows adjacent."""
    dims = result_dims(g, layout_op) if v in layout_op.outs else source_dims(g, layout_op)
    return dims[-1:] == (len(g.value(v).shape) - 1,)


def _can_fold(g: Graph, op: Op, fold: Fold) -> bool:
    """Whether an op, one of whose values has these dims, computes each row in the same way."""
    ins = [g.value(v).shape for v in op.ins]
    if op.lowering.is_contraction:
        by_rows = fold.is_in(ins[0]) and fold.is_broadcast((*ins[1][:-2], 1, 1))
        return by_rows and product(g, op).is_matrix_product and _folded(product(g, op), fold) is not None
    if op.lowering.is_reduction:
        return op.attrs.flag("keep_dims") and fold.is_in(ins[0]) and fold.axes(ins[0]).isdisjoint(reduction_axes(op, len(ins[0])))
    return op.lowering.is_pointwise and all(fold.is_in(shape) or fold.is_broadcast(shape) for shape in ins)


@dataclass
class _Folded:
    """A group of ops on values of the folded shape. inside, outside: value -> the same value for the group's ops, and for all others, where
    that is another one. reshapes: value -> the op between the two, after the value's producer."""

    g: Graph
    fold: Fold
    ops: list[Op]
    inside: dict[int, int] = field(default_factory=dict)
    outside: dict[int, int] = field(default_factory=dict)
    reshapes: dict[int, list[Op]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.builder = Builder(self.g.values)

    def graph(self) -> Graph:
        """The graph in which the ops are folded; outputs of open layout become row-major, as ops of few rows write them."""
        for v in sorted({v for op in self.ops for v in (*op.ins, *op.outs) if self.fold.is_in(self.g.value(v).shape)}):
            self.reshapes[v] = self._reshape(v)
        nodes: list[Node] = [op for v, ops in self.reshapes.items() if v not in self.g.producer for op in ops]
        for op in self.g.ops:
            ids = self.inside if op in self.ops else self.outside
            outs = tuple(self.inside.get(v, v) if op in self.ops else v for v in op.outs)
            nodes.append(replace(op, ins=tuple(ids.get(v, v) for v in op.ins), outs=outs))
            nodes += (reshape for v in op.outs for reshape in self.reshapes.get(v, ()))
        values = self.builder.values
        open_layouts = tuple((v, layout) for v, layout in self.g.open_layouts if values[v].shape == self.g.value(v).shape)
        return replace(self.g, values=tuple(values.values()), nodes=tuple(nodes), open_layouts=open_layouts)

    def _reshape(self, v: int) -> list[Op]:
        """The op that takes a value from the group to other ops or from those to the group; none where no op needs it."""
        value, is_made_here = self.g.value(v), self.g.maker(v) in self.ops
        if (is_made_here or v in self.g.ins) and (changed := self._in_place(value)) is not None:
            self.builder.values[v] = changed
            if all(op in self.ops for op in self.g.readers(v)):
                return []
            self.outside[v] = reshaped(self.builder, v, value.shape)
        elif is_made_here:
            self.inside[v] = self.builder.new_value(value.dtype, self.fold.folded(value.shape))
            return [Op("StaticReshape", (self.inside[v],), (v,), Attrs(shape=value.shape, special_zero=False))]
        else:
            self.inside[v] = reshaped(self.builder, v, self.fold.folded(value.shape))
        return [self.builder.nodes.pop()]

    def _in_place(self, value: Value) -> Value | None:
        """A value in the folded shape; None for a border tensor that would have to be copied for it."""
        is_fixed = value.layout.blocks or any(v == value.id and layout for v, layout in self.g.open_layouts)
        strides = None if is_fixed else self.fold.strides(value)
        if strides is None and value.id in {*self.g.ins, *self.g.outs}:
            return None
        return replace(value, shape=self.fold.folded(value.shape), strides=None if value.strides is None else strides)
