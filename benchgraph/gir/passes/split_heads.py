"""split-heads: heads that are adjacent columns of a product become a batch of products, where rows are reduced head by head.

An example is multi-query attention (MQA), with one set of keys for the queries of all heads. A row of the wide product is not a row of the
softmax, so all scores of a batch entry would have to be stored before the softmax begins; now product and softmax have the same rows.
docs/measurements/passes.md
"""

from __future__ import annotations

from collections.abc import Sequence

from benchgraph.core.tensor import Shape
from benchgraph.gir.closure import closure
from benchgraph.gir.domain import reduction_axes
from benchgraph.gir.ir import Graph, Op
from benchgraph.gir.product import product
from benchgraph.gir.rewrite import Pattern, Site, rewrite
from benchgraph.gir.views import layout_form
from benchgraph.machine.target import Target
from benchgraph.ops.heads import any_element, broadcast_over_heads, merge_head_axis, merged_index, split_head_axis


def split_heads(g: Graph, target: Target) -> Graph:
    return rewrite(g, target, SPLIT, MERGED)


def _split(s: Site) -> int | None:
    """The last of the layout ops after a product that split its columns."""
    steps, shape = [s.op], s.d.type(s.op.outs[0]).shape
    for wide in s.sole_makers():
        if wide.lowering.is_contraction:
            break
        steps.insert(0, wide)
    else:
        return None
    is_split = product(s.g, wide).is_matrix_product and _maps_heads(s.g, steps, shape, s.d.type(wide.outs[0]).shape, inverse=True)
    if not (is_split and _has_reduced_rows(s.g, s.op.outs[0])):
        return None
    src, wei = broadcast_over_heads(s.d, wide.ins[0]), split_head_axis(s.d, wide.ins[1], shape[-3])
    return _rebuilt(s, steps, s.d.op(wide.kind, src, wei, attrs=wide.attrs, dtype=s.d.type(wide.outs[0]).dtype))


SPLIT = Pattern(
    root=lambda row: row.lowering.is_layout_op,
    build=_split,
    example="""graph(%0: f32[33,16], %1: f32[16,188], %2: f32[1]) {
      %3: f32[33,188] = MatMul(%0, %1)    %4: f32[33,188] = Divide(%3, %2)
      %5: f32[33,4,47] = StaticReshape(%4) {shape=[33,4,47], special_zero=false}
      %6: f32[4,33,47] = StaticTranspose(%5) {order=[1,0,2]}
      %7: f32[4,33,1] = ReduceSum(%6) {axes=[2], keep_dims=true}
      ->
      %8: f32[1,33,16] = StaticReshape(%0) {shape=[1,33,16], special_zero=false}
      %9: f32[16,4,47] = StaticReshape(%1) {shape=[16,4,47], special_zero=false}
      %10: f32[4,16,47] = StaticTranspose(%9) {order=[1,0,2]}
      %11: f32[4,33,47] = MatMul(%8, %10)    %6: f32[4,33,47] = Divide(%11, %2)
      %7: f32[4,33,1] = ReduceSum(%6) {axes=[2], keep_dims=true}
      return %7 }""",
    near_misses=(
        ("%2: f32[1]", "%2: f32[188]"),
        ("return %7", "return %7, %4"),
        ("4,33,1] = ReduceSum(%6) {axes=[2]", "4,1,47] = ReduceSum(%6) {axes=[1]"),
    ),
    error=2**-20,
)


def _merged(s: Site) -> int | None:
    """The product whose wei are heads side by side."""
    steps, wide = list[Op](), s.call.ins[1].shape
    if not product(s.g, s.op).is_matrix_product:
        return None
    for maker in s.sole_makers(1):
        steps.insert(0, maker)
        heads = maker.ins[0]
        if _maps_heads(s.g, steps, s.d.type(heads).shape, wide, inverse=False):
            if not _has_reduced_rows(s.g, heads):
                return None
            src, wei = broadcast_over_heads(s.d, s.op.ins[0]), _rebuilt(s, steps, heads)
            return merge_head_axis(s.d, s.d.op(s.op.kind, src, wei, attrs=s.op.attrs, dtype=s.call.outs[0].dtype))
    return None


MERGED = Pattern(
    root=lambda row: row.lowering.is_contraction,
    build=_merged,
    example="""graph(%0: f32[4,33,47], %1: f32[8,33]) {
      %2: f32[4,33,1] = ReduceSum(%0) {axes=[2], keep_dims=true}    %3: f32[4,33,47] = Divide(%0, %2)
      %4: f32[33,4,47] = StaticTranspose(%3) {order=[1,0,2]}
      %5: f32[33,188] = StaticReshape(%4) {shape=[33,188], special_zero=false}
      %6: f32[8,188] = MatMul(%1, %5)
      ->
      %2: f32[4,33,1] = ReduceSum(%0) {axes=[2], keep_dims=true}    %3: f32[4,33,47] = Divide(%0, %2)
      %7: f32[1,8,33] = StaticReshape(%1) {shape=[1,8,33], special_zero=false}
      %8: f32[4,8,47] = MatMul(%7, %3)
      %9: f32[8,4,47] = StaticTranspose(%8) {order=[1,0,2]}
      %6: f32[8,188] = StaticReshape(%9) {shape=[8,188], special_zero=false}
      return %6 }""",
    near_misses=(("4,33,1] = ReduceSum(%0) {axes=[2]", "4,1,47] = ReduceSum(%0) {axes=[1]"), ("return %6", "return %6, %5")),
    error=2**-20,
)


def _rebuilt(s: Site, steps: Sequence[Op], value: int) -> int:
    """The pointwise steps, applied to a value that needs no layout ops."""
    for op in steps:
        if layout_form(op) is None:
            value = s.d.op(op.kind, value, *op.ins[1:], attrs=op.attrs, shape=s.d.type(value).shape, dtype=s.d.type(op.outs[0]).dtype)
    return value


def _maps_heads(g: Graph, steps: Sequence[Op], heads: Shape, wide: Shape, *, inverse: bool) -> bool:
    """Whether steps map `heads`, [*B, H, M, n], to `wide`, [*B, M, H*n], or, inverse, `wide` to `heads`; they are layout ops, the one at
    the end of the heads among them, and pointwise ops of their first operand and single numbers."""
    if len(heads) != len(wide) + 1 or heads[-3] == 1 or layout_form(steps[-1 if inverse else 0]) is None:
        return False
    at = any_element(heads)
    for op in reversed(steps) if inverse else steps:
        src, dst = g.value(op.ins[0]).shape, g.value(op.outs[0]).shape
        if (form := layout_form(op)) is not None:
            if (place := form.source if inverse else form.target) is None:
                return False
            at = place(op.attrs, src, dst, at)
        elif not op.lowering.is_pointwise or src != dst or any(g.value(v).type.elements != 1 for v in op.ins[1:]):
            return False
    return at == merged_index(heads)


def _has_reduced_rows(g: Graph, id: int) -> bool:
    """Whether an op reduces the rows of the value, or of another value of its shape connected to it by pointwise ops."""
    shape = g.value(id).shape

    def near(v: int) -> list[int]:
        ops = [op for op in (*g.readers(v), g.maker(v)) if op is not None and op.lowering.is_elementwise]
        return [w for op in ops for w in (*op.ins, *op.outs) if g.value(w).shape == shape]

    readers = ((v, op) for v in closure(id, near) for op in g.readers(v))
    reductions = (op for v, op in readers if op.lowering.is_reduction and op.ins[0] == v)
    return any(reduction_axes(op, len(shape)) == (len(shape) - 1,) for op in reductions)
