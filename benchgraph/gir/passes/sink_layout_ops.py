"""sink-layout-ops: pointwise ops run before the layout op whose result they read.

%2 = StaticTranspose(%1)                %6 = StaticTranspose(%0), which moves back
%3 = Add(%2, %0)                        %7 = Add(%1, %6)
%4 = Sigmoid(%3)               ->       %8 = Sigmoid(%7)
%5 = Multiply(%3, %4)                   %9 = Multiply(%7, %8)
                                        %5 = StaticTranspose(%9)

They then join the nest that makes %1, and their consumer's view or one copy does the layout op (make-views). Their other operands are
scalars, or results of the same layout op, or are moved back. Operands are moved back only if the layout op moves the result of a product
and the operand can be moved back through every layout op since that product, because post-ops read operands along the product's rows. A
layout op is never duplicated: it moves behind the longest run of pointwise ops after which a single value remains to be moved.

Where channels come first, this makes one nest of a convolution, its Add and what follows. docs/measurements/fusion.md, Layout ops behind
pointwise ops.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, reduce
from heapq import heappop, heappush

from benchgraph.core.attrs import Attrs
from benchgraph.core.tensor import Shape, TensorType
from benchgraph.gir.build import Builder
from benchgraph.gir.ir import Graph, Node, Op
from benchgraph.gir.views import is_moved_input, layout_form
from benchgraph.machine.target import Target
from benchgraph.ops.broadcast import broadcast
from benchgraph.ops.steps import reshaped

MOST_SUNK = 64  # most pointwise ops that one layout op moves behind; each further layout op would rebuild all of them


def sink_layout_ops(g: Graph, target: Target) -> Graph:
    """Layout ops from last to first, so that an earlier one can move behind the same pointwise ops."""
    for layout_op in reversed([op for op in g.ops if layout_form(op) is not None and not is_moved_input(g, op.ins[0])]):
        if g.producer.get(layout_op.outs[0]) is layout_op and (ops := _ops_to_pass(g, layout_op)):
            g = _Sunk(g, layout_op, ops).graph()
    return g


def _is_pointwise(op: Op) -> bool:
    return op.lowering.is_pointwise and len(op.outs) == 1


def _since_product(g: Graph, layout_op: Op) -> tuple[Op, ...]:
    """The layout ops from a product to this one, last first, with pointwise ops between them; () if it moves something else."""
    layout_ops, v = [layout_op], layout_op.ins[0]
    while isinstance(op := g.producer.get(v), Op) and not op.lowering.is_contraction:
        same = [i for i in op.ins if layout_form(op) or g.value(i).shape == g.value(v).shape]
        if not same or not (_is_pointwise(op) or layout_form(op)):
            return ()
        layout_ops += [op] * (layout_form(op) is not None)
        v = same[0]
    return tuple(layout_ops) if op is not None else ()


def _ops_to_pass(g: Graph, layout_op: Op) -> tuple[Op, ...]:
    """The pointwise ops that the layout op moves behind. Nothing else reads its result or theirs, except that of the last op."""
    (moved,) = layout_op.outs
    ops, inside = list[Op](), {moved}
    layout_ops = cache(lambda: _since_product(g, layout_op))

    def is_available(v: int) -> bool:
        value = g.value(v)
        return v in inside or value.type.elements == 1 or _can_move_back(g, layout_ops(), value.type)

    for op in _reached(g, moved, inside):
        if g.value(op.outs[0]).shape == g.value(moved).shape and all(map(is_available, op.ins)):
            ops.append(op)
            inside.add(op.outs[0])
    return _leaving_one(g, moved, ops)


def _reached(g: Graph, moved: int, inside: set[int]) -> Iterator[Op]:
    """Pointwise ops that depend on `moved` directly or through ops with results in `inside`, in graph order; ends after MOST_SUNK."""
    waiting, seen = list[int](), set[int]()

    def wait_for_readers(v: int) -> None:
        fresh = {g.positions[op.outs[0]] for op in g.consumers[v]} - seen
        seen.update(fresh)
        for place in fresh:
            heappush(waiting, place)

    wait_for_readers(moved)
    while waiting and len(inside) <= MOST_SUNK:
        op = g.nodes[heappop(waiting)]
        if isinstance(op, Op) and _is_pointwise(op):
            yield op
            if op.outs[0] in inside:
                wait_for_readers(op.outs[0])


def _leaving_one(g: Graph, moved: int, ops: Sequence[Op]) -> tuple[Op, ...]:
    """The longest prefix of `ops` after which exactly one value remains to be moved."""
    place = {op.outs[0]: n for n, op in enumerate(ops)}
    count, last = 0, -1  # last: the position of the last reader of the values so far
    for n, v in enumerate((moved, *place)):
        if 0 <= last < n:
            count = n
        readers = (place.get(op.outs[0], len(ops)) for op in g.consumers[v])
        last = max(last, len(ops) if v in g.outs else max(readers, default=-1))
    return tuple(ops[:count])


def _can_move_back(g: Graph, layout_ops: tuple[Op, ...], type: TensorType) -> bool:
    """Whether an operand of this type can be moved back through all these layout ops, last first."""
    for layout_op in layout_ops:
        attrs = _back(g, layout_op, type.shape)
        if attrs is None:
            return False
        whole = replace(type, shape=_with_dims(type.shape, len(g.value(layout_op.outs[0]).shape)))
        type = replace(type, shape=layout_op.semantics.infer(attrs, (whole,))[0])
    return bool(layout_ops)


def _back(g: Graph, layout_op: Op, shape: Shape) -> Attrs | None:
    """Attributes of the inverse layout op for an operand of this shape, padded with leading 1s to dst's rank; None if there is none."""
    form, src, dst = layout_form(layout_op), g.value(layout_op.ins[0]).shape, g.value(layout_op.outs[0]).shape
    if form is None or form.inverse is None or len(shape) > len(dst):
        return None
    return form.inverse(layout_op.attrs, src, dst, _with_dims(shape, len(dst)))


def _with_dims(shape: Shape, rank: int) -> Shape:
    return (1,) * (rank - len(shape)) + shape


@dataclass
class _Sunk:
    """The ops that a layout op moves behind, rebuilt before it. early: value -> the same value before the layout op. gone: results of
    removed ops."""

    g: Graph
    layout_op: Op
    ops: tuple[Op, ...]
    early: dict[int, int] = field(default_factory=dict)
    nodes: list[Op] = field(default_factory=list)
    gone: set[int] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.builder = Builder(self.g.values)

    def graph(self) -> Graph:
        """The graph with the layout op after the ops."""
        last = self.ops[-1]
        self.early[self.layout_op.outs[0]] = self.layout_op.ins[0]
        self.gone.update(op.outs[0] for op in (self.layout_op, *self.ops))
        for op in self.ops:
            self._put(op)
        late = replace(self.layout_op, ins=(self.early[last.outs[0]],), outs=last.outs)
        nodes: list[Node] = []
        for node in self.g.nodes:
            nodes += [*self.nodes, late] if node is last else [] if node.outs[0] in self.gone else [node]
        return self.builder.graph(self.g, nodes)

    def _put(self, op: Op) -> None:
        ins = tuple(map(self._before, op.ins))
        shape = reduce(broadcast, (self.builder.values[v].shape for v in ins))
        self.early[op.outs[0]] = self.builder.new_value(self.g.value(op.outs[0]).dtype, shape)
        self.nodes.append(replace(op, ins=ins, outs=(self.early[op.outs[0]],)))

    def _before(self, v: int) -> int:
        """An operand before the layout op: the operand of an equal layout op, or computed from operands moved back, or moved back."""
        if v not in self.early:
            made_by = self.g.producer.get(v)
            is_kept = v in self.g.outs or v in self.early.values()  # moved values stay if others read them
            is_ours = isinstance(made_by, Op) and not is_kept and all(op.outs[0] in self.gone for op in self.g.consumers[v])
            if self.g.value(v).type.elements == 1:
                self.early[v] = self._scalar(v)
            elif isinstance(made_by, Op) and self._is_alike(made_by):
                self.gone.update((v,) * is_ours)
                self.early[v] = made_by.ins[0]
            elif isinstance(made_by, Op) and is_ours and self._may_be_early(made_by):
                self.gone.add(v)
                self._put(made_by)
            else:
                self.early[v] = self._moved_back(v)
        return self.early[v]

    def _is_alike(self, op: Op) -> bool:
        """Whether an op is the same layout op, from the same shape, of another value."""
        is_same = replace(op, ins=self.layout_op.ins, outs=self.layout_op.outs) == self.layout_op
        return is_same and self.g.value(op.ins[0]).shape == self.g.value(self.layout_op.ins[0]).shape

    def _scalar(self, v: int) -> int:
        """A scalar with no more dims than the layout op's operand."""
        if len(self.g.value(v).shape) <= len(self.g.value(self.layout_op.ins[0]).shape):
            return v
        return self._appended(reshaped(self.builder, v, ()))

    def _moved_back(self, v: int) -> int:
        shape, rank = self.g.value(v).shape, len(self.g.value(self.layout_op.outs[0]).shape)
        attrs = _back(self.g, self.layout_op, shape)
        assert attrs is not None, "asked before"
        whole = reshaped(self.builder, v, _with_dims(shape, rank))
        return self._appended(self.builder.op(self.layout_op.kind, whole, attrs=attrs))

    def _appended(self, v: int) -> int:
        """Append the builder's nodes."""
        self.nodes += self.builder.taken()
        return v

    def _may_be_early(self, op: Op) -> bool:
        """Whether an op's operands can be moved back instead of its result."""
        values = map(self.g.value, op.ins)
        return _is_pointwise(op) and all(v.type.elements == 1 or _back(self.g, self.layout_op, v.shape) is not None for v in values)
