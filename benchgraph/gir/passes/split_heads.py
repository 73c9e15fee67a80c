"""split-heads: heads that are adjacent columns of a product become a batch of products, where rows are reduced head by head.

%2: [M,H*N] = MatMul(%0, %1: [K,H*N])                 %a: [H,K,N] = StaticTranspose(StaticReshape(%1))
%3: [M,H,N] = StaticReshape(%2)                       %4: [H,M,N] = MatMul(%0, %a)
%4: [H,M,N] = StaticTranspose(%3)             ->      %5 = SoftMax(%4)
%5 = SoftMax(%4)                                      %b: [H,J,N] = MatMul(%6, %5)
%7: [M,H*N] = StaticReshape(StaticTranspose(%5))      %9: [J,H*N] = StaticReshape(StaticTranspose(%b))
%9: [J,H*N] = MatMul(%6: [J,M], %7)

An example is multi-query attention (MQA), with one set of keys for the queries of all heads. A row of the wide product is not a row of the
softmax, so all scores of a batch entry would have to be stored before the softmax begins; now product and softmax have the same rows.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from benchgraph.core.tensor import Shape
from benchgraph.gir.build import Builder
from benchgraph.gir.closure import closure
from benchgraph.gir.domain import reduction_axes
from benchgraph.gir.ir import Graph, Node, Op
from benchgraph.gir.product import product
from benchgraph.machine.target import Target
from benchgraph.ops.heads import any_element, broadcast_over_heads, merge_head_axis, merged_index, split_head_axis
from benchgraph.ops.spec import LayoutOp, Reduction


@dataclass(frozen=True)
class Step:
    """A layout op or a pointwise op of one tensor and scalars; position: which operand the tensor is."""

    op: Op
    position: int

    @property
    def is_layout_op(self) -> bool:
        return self.op.lowering.is_layout_op

    @property
    def src(self) -> int:
        return self.op.ins[self.position]

    @property
    def dst(self) -> int:
        return self.op.outs[0]


Steps = tuple[Step, ...]


def split_heads(g: Graph, target: Target) -> Graph:
    """Split products until none is left to split."""
    while (split := _split_once(g)) is not g:
        g = split
    return g


def _split_once(g: Graph) -> Graph:
    for op in g.ops:
        if not op.lowering.is_contraction or not product(g, op).is_matrix_product:
            continue
        d = Builder(g.values)
        if after := _steps_to_split(g, op):
            src, wei = broadcast_over_heads(d, op.ins[0]), split_head_axis(d, op.ins[1], g.value(after[-1].dst).shape[-3])
            _rebuilt(d, after, d.op(op.kind, src, wei, attrs=op.attrs, dtype=g.value(op.outs[0]).dtype))
            return _replaced(g, (op, *(step.op for step in after)), d)
        if before := _steps_to_joined_wei(g, op):
            src, wei = broadcast_over_heads(d, op.ins[0]), _rebuilt(d, before, before[0].src)
            merge_head_axis(d, d.op(op.kind, src, wei, attrs=op.attrs, dtype=g.value(op.outs[0]).dtype))
            return _replaced(g, (*(step.op for step in before), op), d)
    return g


def _rebuilt(d: Builder, steps: Steps, value: int) -> int:
    """The pointwise steps, applied to a value that needs no layout ops."""
    for step in steps:
        if not step.is_layout_op:
            ins = (value if i == step.position else v for i, v in enumerate(step.op.ins))
            value = d.op(step.op.kind, *ins, attrs=step.op.attrs, shape=d.type(value).shape, dtype=d.type(step.dst).dtype)
    return value


def _replaced(g: Graph, old: tuple[Op, ...], d: Builder) -> Graph:
    """The graph with the builder's nodes in place of a chain of ops."""
    wanted, last = old[-1].outs[0], d.nodes.pop()
    new = (*d.nodes, replace(last, outs=(wanted,)))
    gone = {v for op in old for v in op.outs if v != wanted} | set(last.outs)
    nodes: list[Node] = []
    for node in g.nodes:
        nodes += new if node is old[-1] else () if any(node is op for op in old) else (node,)
    return replace(g, values=tuple(v for v in d.values.values() if v.id not in gone), nodes=tuple(nodes))


def _steps_to_split(g: Graph, op: Op) -> Steps:
    """The steps after a product that split its heads, whose rows are then reduced; () for any other product."""
    (id,), steps = op.outs, Steps()
    while id not in g.outs and len(g.consumers[id]) == 1:
        step = _step(g, g.consumers[id][0])
        if step is None or step.src != id:
            break
        steps, id = (*steps, step), step.dst
        if step.is_layout_op and _splits_heads(g, steps, g.value(id).shape, g.value(op.outs[0]).shape):
            return steps if _has_reduced_rows(g, id) else ()
    return ()


def _steps_to_joined_wei(g: Graph, op: Op) -> Steps:
    """The steps that join heads, whose rows were reduced, to the wei of a product; () for any other wei."""
    id, reader, steps = op.ins[1], op, Steps()
    while id not in g.outs and g.consumers[id] == (reader,) and reader.ins.count(id) == 1 and id in g.producer:
        step = _step(g, g.producer[id])
        if step is None:
            break
        steps, id, reader = (step, *steps), step.src, step.op
        if step.is_layout_op and _splits_heads(g, steps, g.value(id).shape, g.value(op.ins[1]).shape):
            return steps if _has_reduced_rows(g, id) else ()
    return ()


def _step(g: Graph, op: Node) -> Step | None:
    assert isinstance(op, Op)
    large = [i for i, v in enumerate(op.ins) if g.value(v).type.elements != 1]
    form = op.lowering.form
    if len(large) != 1 or len(op.outs) != 1:
        return None
    if isinstance(form, LayoutOp):
        return Step(op, 0) if len(op.ins) == 1 and form.target is not None else None
    return Step(op, large[0]) if op.lowering.is_pointwise and g.value(op.ins[large[0]]).shape == g.value(op.outs[0]).shape else None


def _splits_heads(g: Graph, steps: Steps, shape: Shape, wide: Shape) -> bool:
    """Whether the steps map between `shape`, [*B, H, M, n], and `wide`, [*B, M, H*n]."""
    if len(shape) != len(wide) + 1 or shape[-3] == 1:
        return False
    at, is_first = any_element(shape), g.value(steps[0].src).shape == shape
    for step in steps if is_first else reversed(steps):
        form = step.op.lowering.form
        if isinstance(form, LayoutOp):
            place = form.target if is_first else form.source
            assert place is not None
            at = place(step.op.attrs, g.value(step.src).shape, g.value(step.dst).shape, at)
    return at == merged_index(shape)


def _has_reduced_rows(g: Graph, id: int) -> bool:
    """Whether an op reduces the rows of the value, or of another value of its shape connected to it by pointwise ops."""
    shape = g.value(id).shape

    def near(v: int) -> list[int]:
        ops = [op for op in (*g.consumers[v], g.maker(v)) if isinstance(op, Op) and op.lowering.is_elementwise]
        return [w for op in ops for w in (*op.ins, *op.outs) if g.value(w).shape == shape]

    readers = ((v, op) for v in closure(id, near) for op in g.consumers[v] if isinstance(op, Op))
    reductions = (op for v, op in readers if isinstance(op.lowering.form, Reduction) and op.ins[0] == v)
    return any(reduction_axes(op, len(shape)) == (len(shape) - 1,) for op in reductions)
