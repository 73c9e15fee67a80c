"""cancel-layout-ops: layout ops that together leave elements in their order become one StaticReshape, or nothing.

Convolutions on channels first are products between such layout ops. Views do not replace this: of a value with several readers each would
get a copy of its own, and rows that are read through a view are no rows to fuse-coarse. docs/measurements/whole-networks.md, Channels first
"""

from __future__ import annotations

from benchgraph.core.attrs import Attrs
from benchgraph.core.tensor import Shape
from benchgraph.gir.ir import Graph
from benchgraph.gir.rewrite import Pattern, Site, rewrite
from benchgraph.gir.views import Index, layout_form, zeroed
from benchgraph.machine.target import Target
from benchgraph.ops import spec
from benchgraph.ops.spec import LayoutOp
from benchgraph.ops.steps import reshaped
from benchgraph.tir.index import Simplifier
from benchgraph.tir.ir import Var

LONGEST = 8  # layout ops in a run
RESHAPE = "StaticReshape"


def cancel_layout_ops(g: Graph, target: Target) -> Graph:
    return rewrite(g, target, RUNS)


def _origin(s: Site) -> int | None:
    """The farthest value from which the layout ops up to this one, several, take the elements in their order, in the shape of the result;
    None if there is none."""
    g, shape = s.g, s.d.type(s.op.outs[0]).shape
    axes = zeroed(shape, tuple(Var(f"${i}") for i in range(len(shape))))
    simple = Simplifier({axis.name: (0, extent - 1) for axis, extent in zip(axes, shape, strict=True) if isinstance(axis, Var)})
    found, op, index = None, s.op, axes
    for count in range(LONGEST):
        form = layout_form(op)
        if form is None or form.source is None:
            break
        src = g.value(op.ins[0])
        index = zeroed(src.shape, tuple(map(simple, form.source(op.attrs, src.shape, g.value(op.outs[0]).shape, index))))
        is_whole = src.type.elements == s.d.type(s.op.outs[0]).elements
        if count and is_whole and index == _in_order(src.shape, shape, axes, simple):
            found = src.id
        maker = g.maker(src.id)
        if maker is None:
            break
        op = maker
    return None if found is None else reshaped(s.d, found, shape)


RUNS = Pattern(
    root=lambda row: row.lowering.is_layout_op,
    build=_origin,
    example="""graph(%0: f32[16,24], %1: f32[24,8]) {
      %2: f32[24,16] = StaticTranspose(%0) {order=[1,0]}
      %3: f32[24,4,4] = StaticReshape(%2) {shape=[24,4,4], special_zero=false}
      %4: f32[4,4,24] = StaticTranspose(%3) {order=[1,2,0]}
      %5: f32[4,4,8] = MatMul(%4, %1)
      %6: f32[4,4,24] = Exp(%4)
      ->
      %4: f32[4,4,24] = StaticReshape(%0) {shape=[4,4,24], special_zero=false}
      %5: f32[4,4,8] = MatMul(%4, %1)
      %6: f32[4,4,24] = Exp(%4)
      return %5, %6 }""",
    near_misses=(("[1,2,0]", "[2,1,0]"),),
)


def _in_order(src: Shape, dst: Shape, at: Index, simple: Simplifier) -> Index:
    """The index in src of the element at this index of dst, which has the same elements in the same order."""
    form = spec(RESHAPE).lowering.form
    assert isinstance(form, LayoutOp)
    assert form.source is not None
    return zeroed(src, tuple(map(simple, form.source(Attrs(shape=dst, special_zero=False), src, dst, at))))
