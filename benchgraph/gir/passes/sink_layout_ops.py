"""sink-layout-ops: pointwise ops run before the layout op whose result they read.

They then join the nest that makes what is moved, and their consumer's view or one copy does the layout op (make-views). Their other
operands are scalars, or results of the same layout op, or are moved back. Operands are moved back only if the layout op moves the result of
a product and the operand can be moved back through every layout op since that product, because post-ops read operands along the product's
rows. A layout op is never duplicated: it moves behind an op, and those between the two, if nothing else reads their results. Padding with
zeros moves behind conversions to a narrower dtype.

Where channels come first, this makes one nest of a convolution, its Add and what follows. docs/measurements/fusion.md, Layout ops behind
pointwise ops.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property, reduce
from itertools import islice

from benchgraph.core.attrs import Attrs
from benchgraph.core.tensor import Shape, TensorType
from benchgraph.gir.closure import closure
from benchgraph.gir.ir import Graph, Op
from benchgraph.gir.rewrite import Pattern, Site, rewrite
from benchgraph.gir.views import layout_form, moved_inputs
from benchgraph.machine.target import Target
from benchgraph.ops.broadcast import broadcast
from benchgraph.ops.internal import PAD
from benchgraph.ops.steps import reshaped

MOST_SUNK = 64  # most pointwise ops that a layout op moves behind at once


def sink_layout_ops(g: Graph, target: Target) -> Graph:
    return rewrite(g, target, POINTWISE, NARROWING)


def _sunk(s: Site) -> int | None:
    """The layout op nearest to a product goes first. Ops that read a product in its own order are in its nest already."""
    ops = _PointwiseOps(s)
    makers = {v: op for v in ops.values if (op := ops.maker(v)) is not None}
    if any(op.lowering.is_contraction for op in makers.values()):
        return None
    moved = (v for v, op in makers.items() if layout_form(op) is not None and op.ins[0] not in moved_inputs(s.g))
    tried = [_Sinking(ops, v, makers[v]) for v in moved]
    if len(tried) > 1:
        tried.sort(key=lambda sinking: len(sinking.layout_ops) or MOST_SUNK)
    return next((sinking.result() for sinking in tried if sinking.is_possible()), None)


POINTWISE = Pattern(
    root=lambda row: row.lowering.is_pointwise,
    build=_sunk,
    example="""graph(%0: f32[16,8], %1: f32[8,24], %2: f32[24,16]) {
      %3: f32[16,24] = MatMul(%0, %1)    %4: f32[24,16] = StaticTranspose(%3) {order=[1,0]}
      %5: f32[24,16] = Add(%4, %2)       %6: f32[24,16] = Sigmoid(%5)    %7: f32[24,16] = Multiply(%5, %6)
      ->
      %3: f32[16,24] = MatMul(%0, %1)    %8: f32[16,24] = StaticTranspose(%2) {order=[1,0]}
      %5: f32[16,24] = Add(%3, %8)       %6: f32[16,24] = Sigmoid(%5)    %9: f32[16,24] = Multiply(%5, %6)
      %7: f32[24,16] = StaticTranspose(%9) {order=[1,0]}
      return %7 }""",
    near_misses=(
        ("%3: f32[16,24] = MatMul(%0, %1)", "%8: f32[16,24] = MatMul(%0, %1) %3: f32[16,24] = SoftMax(%8)"),
        ("return %7", "return %7, %4"),
    ),
    error=2**-20,
)


def _padded_narrow(s: Site) -> int | None:
    pad = next(s.sole_makers(), None)
    if pad is None or pad.kind != PAD or pad.attrs.integer("value") or pad.ins[0] in moved_inputs(s.g):
        return None
    src, dst = s.d.type(pad.ins[0]).dtype, s.call.outs[0].dtype
    return s.d.op(PAD, s.d.op(s.op.kind, pad.ins[0], attrs=s.op.attrs, dtype=dst), attrs=pad.attrs) if dst.bits < src.bits else None


NARROWING = Pattern(
    root=lambda row: row.semantics.is_conversion,
    build=_padded_narrow,
    example="""graph(%0: f32[4,4,24]) {
      %1: f32[4,4,24] = Exp(%0)
      %2: f32[5,6,24] = _Pad(%1) {high=[1,1,0], interior=[0,0,0], low=[0,1,0], value=0}    %3: bf16[5,6,24] = TypeCast(%2)
      ->
      %1: f32[4,4,24] = Exp(%0)
      %4: bf16[4,4,24] = TypeCast(%1)    %3: bf16[5,6,24] = _Pad(%4) {high=[1,1,0], interior=[0,0,0], low=[0,1,0], value=0}
      return %3 }""",
    near_misses=(("_Pad(%1)", "_Pad(%0)"), ("value=0", "value=1"), ("return %3", "return %3, %2")),
)


@dataclass(frozen=True)
class _PointwiseOps:
    """The pointwise ops up to that of a site, on values of its result's shape."""

    s: Site

    @property
    def last(self) -> int:
        return self.s.op.outs[0]

    @cached_property
    def values(self) -> tuple[int, ...]:
        """Their results and operands of that shape."""
        return tuple(islice(closure(self.last, self.operands), MOST_SUNK))

    def maker(self, v: int) -> Op | None:
        return self.s.op if v == self.last else self.s.made.get(v)

    def operands(self, v: int) -> list[int]:
        op, shape = self.maker(v), self.s.d.type(self.last).shape
        return [i for i in op.ins if self.s.d.type(i).shape == shape] if op is not None and _is_pointwise(op) else []


class _Sinking:
    """A layout op, which makes `moved`, behind pointwise ops. early: value -> the same value before the layout op."""

    def __init__(self, ops: _PointwiseOps, moved: int, layout_op: Op) -> None:
        self.s, self.ops, self.moved, self.layout_op = ops.s, ops, moved, layout_op
        self.inside = {v for v in ops.values if moved in closure(v, ops.operands)}
        self.early = {moved: layout_op.ins[0]}

    @cached_property
    def layout_ops(self) -> tuple[Op, ...]:
        """Those from a product to this one, last first, with pointwise ops between them; () if it moves something else."""
        layout_ops, v, type = [self.layout_op], self.layout_op.ins[0], self.s.d.type
        while (op := self.s.made.get(v)) is not None and not op.lowering.is_contraction:
            same = [i for i in op.ins if layout_form(op) or type(i).shape == type(v).shape]
            if not same or not (_is_pointwise(op) or layout_form(op)):
                return ()
            layout_ops += [op] * (layout_form(op) is not None)
            v = same[0]
        return tuple(layout_ops) if op is not None else ()

    def is_possible(self) -> bool:
        """Whether only the last result is read elsewhere, and every operand can be had before the layout op."""
        is_closed = all(map(self._is_read_inside, self.inside - {self.ops.last}))
        operands = {i for v in self.inside - {self.moved} if (op := self.ops.maker(v)) is not None for i in op.ins} - self.inside
        return is_closed and all(t.elements == 1 or self._can_move_back(t) for t in map(self.s.d.type, operands))

    def _can_move_back(self, type: TensorType) -> bool:
        """Whether an operand of this type can be moved back through all layout ops since the product."""
        for layout_op in self.layout_ops:
            attrs = _back(self.s, layout_op, type.shape)
            if attrs is None:
                return False
            whole = replace(type, shape=_with_dims(type.shape, len(self.s.d.type(layout_op.outs[0]).shape)))
            type = replace(type, shape=layout_op.semantics.infer(attrs, (whole,))[0])
        return bool(self.layout_ops)

    def result(self) -> int:
        shape = self.s.d.type(self.ops.last).shape
        return self.s.d.op(self.layout_op.kind, self._before(self.ops.last), attrs=self.layout_op.attrs, shape=shape)

    def _is_read_inside(self, v: int) -> bool:
        return v not in self.s.g.outs and self.inside.issuperset(op.outs[0] for op in self.s.g.readers(v))

    def _before(self, v: int) -> int:
        if v not in self.early:
            self.early[v] = self._made_before(v)
        return self.early[v]

    def _made_before(self, v: int) -> int:
        """Computed from operands before the layout op, or the operand of an equal layout op, or moved back."""
        d, op, type, rank = self.s.d, self.ops.maker(v), self.s.d.type(v), len(self.s.d.type(self.moved).shape)
        if v not in self.inside and type.elements == 1:
            return v if len(type.shape) <= len(d.type(self.layout_op.ins[0]).shape) else reshaped(d, v, ())
        if op is not None and (v in self.inside or self._may_be_early(op)):
            self.inside.add(v)
            ins = tuple(map(self._before, op.ins))
            return d.op(op.kind, *ins, attrs=op.attrs, shape=reduce(broadcast, (d.type(i).shape for i in ins)), dtype=type.dtype)
        if op is not None and self._is_alike(op):
            return op.ins[0]
        attrs = _back(self.s, self.layout_op, type.shape)
        assert attrs is not None, "asked before"
        return d.op(self.layout_op.kind, reshaped(d, v, _with_dims(type.shape, rank)), attrs=attrs)

    def _may_be_early(self, op: Op) -> bool:
        """Whether nothing else reads an op's result, and its operands can be moved back instead."""
        types = map(self.s.d.type, op.ins)
        can_move = all(t.elements == 1 or _back(self.s, self.layout_op, t.shape) is not None for t in types)
        return _is_pointwise(op) and can_move and self._is_read_inside(op.outs[0])

    def _is_alike(self, op: Op) -> bool:
        """Whether an op is the same layout op, from the same shape, of another value."""
        this, type = self.layout_op, self.s.d.type
        return (op.kind, op.attrs) == (this.kind, this.attrs) and type(op.ins[0]).shape == type(this.ins[0]).shape


def _is_pointwise(op: Op) -> bool:
    return op.lowering.is_pointwise and len(op.outs) == 1


def _back(s: Site, layout_op: Op, shape: Shape) -> Attrs | None:
    """Attributes of the inverse layout op for an operand of this shape, padded with leading 1s to dst's rank; None if there is none."""
    form, src, dst = layout_form(layout_op), s.d.type(layout_op.ins[0]).shape, s.d.type(layout_op.outs[0]).shape
    if form is None or form.inverse is None or len(shape) > len(dst):
        return None
    return form.inverse(layout_op.attrs, src, dst, _with_dims(shape, len(dst)))


def _with_dims(shape: Shape, rank: int) -> Shape:
    return (1,) * (rank - len(shape)) + shape
