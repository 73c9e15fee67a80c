"""make-views: a layout op that its producer or reader can do while it writes or reads becomes a view: no buffer and no op.

%2 = StaticTranspose(%1)              %2 = view of %1         (readers of %2 read %1 through the transposition)
%3 = MatMul(%0, %2)            ->     %3 = MatMul(%0, %2)
%4 = Reorder(%3)                      %3 = view of %4         (the MatMul writes where the Reorder would have put it)
return %4                             return %4

An op of several sources becomes views of parts of its result, each of them written by the source's producer, or by a copy:

%2 = ReLU(%0)                         %2 = view of %3 from row 0 on, %4 = view of %3 from row 8 on
%3 = Concat(%2, %1)            ->     %2 = ReLU(%0)
return %3                             %4 = Reorder(%1)
                                      return %3
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from math import prod

from benchgraph.core.attrs import Attrs
from benchgraph.core.layout import plain
from benchgraph.core.memoise import memoised
from benchgraph.gir.build import CONVERT, COPY
from benchgraph.gir.channel_order import product_axis, products_read_along
from benchgraph.gir.ir import Graph, Op, Value, View
from benchgraph.gir.product import depends_on_product
from benchgraph.gir.views import Index, chain, is_short, layout_form, longer, moved_inputs, result_dims
from benchgraph.machine.target import Target
from benchgraph.ops.spec import LayoutOp
from benchgraph.ops.unit_steps import unit_steps


def make_views(g: Graph, target: Target) -> Graph:
    """First from the outputs back (producers write in place), then from the inputs on (consumers read in place)."""
    border = {*g.ins, *g.outs}
    changed: dict[int, Value] = {}
    chains: dict[int, Index] = {}

    def value(id: int) -> Value:
        return changed[id] if id in changed else g.value(id)

    def is_short_with(view: View) -> bool:
        """Whether the chain of views stays short."""
        return is_short(longer(view, chain(value, chains, view.base)))

    instead: dict[int, tuple[Op, ...]] = {}  # id of a layout op -> the ops that take its place
    for node in reversed(g.ops):
        if not node.lowering.is_layout_op:
            continue
        if _parts(g, node) is not None:
            instead[id(node)] = _assemble(g, node, border, changed)
        elif _can_write_through(g, node, 0, node.attrs, border):
            view = _view(g, node, 0, node.attrs, inverse=True)
            if is_short_with(view):
                changed[node.ins[0]] = replace(g.value(node.ins[0]), view=view)
                instead[id(node)] = ()
    for node in g.ops:
        out = g.value(node.outs[0])
        if not node.lowering.is_layout_op or id(node) in instead or out.id in border or out.id in changed or out.layout.blocks:
            continue  # packed panels are a copy
        if is_short_with(view := _view(g, node, 0, node.attrs, inverse=False)):
            changed[out.id] = replace(out, view=view)
            instead[id(node)] = ()
    kept = [new for node in g.ops for new in instead.get(id(node), (node,))]
    return replace(g.with_values(changed), nodes=tuple(kept)) if instead else g


def _parts(g: Graph, op: Op) -> tuple[Attrs, ...] | None:
    """The attributes of each source's part of the result; None for an op of one source."""
    form = op.lowering.form
    assert isinstance(form, LayoutOp)
    return None if form.parts is None else form.parts(op.attrs, tuple(g.value(v).shape for v in op.ins))


def _view(g: Graph, op: Op, position: int, attrs: Attrs, *, inverse: bool) -> View:
    src, dst = op.ins[position], op.outs[0]
    return View(dst if inverse else src, op.kind, attrs, g.value(src).shape, g.value(dst).shape, inverse)


def _assemble(g: Graph, op: Op, border: set[int], changed: dict[int, Value]) -> tuple[Op, ...]:
    """Make every source a view of its part of the result, added to `changed`; return the copies of sources that must keep their buffers."""
    result = g.value(op.outs[0])
    copies: list[Op] = []
    for position, (v, attrs) in enumerate(zip(op.ins, _parts(g, op) or (), strict=True)):
        src = g.value(v)
        if not src.type.elements and (result.type.elements or position):
            continue  # an empty part; of an empty result one source stays, so that something writes it
        view = _view(g, op, position, attrs, inverse=True)
        if _can_write_through(g, op, position, attrs, border):
            changed[v] = replace(src, view=view)
        else:
            part = 1 + max(*g.by_id, *changed)
            changed[part] = Value(part, src.dtype, src.shape, plain(len(src.shape)), result.constness, view=view)
            copies.append(Op(COPY, (v,), (part,)))
    return tuple(copies)


def _can_write_through(g: Graph, op: Op, position: int, attrs: Attrs, border: set[int]) -> bool:
    """Whether the producer has no other reader, and still writes efficiently: a microkernel needs rows of unit stride."""
    src, dst = g.value(op.ins[position]), g.value(op.outs[0])
    producer = g.maker(src.id)
    form = op.lowering.form
    if isinstance(form, LayoutOp) and form.target is None:
        return False
    if src.id in border or producer is None or g.readers(src.id) != (op,) or op.ins.count(src.id) > 1 or src.constness != dst.constness:
        return False
    if len(op.ins) == 1 and src.id in moved_inputs(g):
        return False  # its readers read the input through views instead
    if producer.lowering.is_contraction:
        row, col = unit_steps(op.kind, attrs, src.shape, dst.shape, inverse=True)[-2:]
        return row is not None and col == len(dst.shape) - 1
    return not _scatters(g, op, position, attrs) and not _transposes_operand(g, op) and not _is_moved_back(g, op)


def _scatters(g: Graph, op: Op, position: int, attrs: Attrs) -> bool:
    """Whether tiles of a product would be stored element by element through this layout op: what is dense in dst is neither along its rows
    nor along its columns."""
    v, dst = op.ins[position], g.value(op.outs[0]).shape
    dense = max((dim for dim, extent in enumerate(dst) if extent > 1), default=None)
    if dense is None:
        return False
    along = unit_steps(op.kind, attrs, g.value(v).shape, dst, inverse=False)[dense]
    return product_axis(g, v, along) not in (None, -1, -2)


def _transposes_operand(g: Graph, op: Op) -> bool:
    """Whether a run of layout ops transposes an operand of products, which is better packed a tile at a time than written store by store.

    This holds for (1) wei that all batch entries share, or that is a converted input, which propagate-layout packs; (2) src of batch
    entries that another product computed, e.g. attention scores: a product that reduces over their rows can read them while a task
    holds these rows. docs/measurements/weight-packing.md, Transposed operands.
    """
    if len(op.ins) > 1:
        return False
    run = _layout_op_runs(g)[op.outs[0]]
    made, *_, moved = run
    dst, readers = g.value(moved).shape, g.readers(moved)
    if len(dst) < 2 or not readers:
        return False
    maker = g.maker(made)
    is_converted_input = maker is not None and maker.kind == CONVERT and maker.ins[0] in moved_inputs(g)
    port = 1 if prod(dst[:-2]) == 1 or is_converted_input else 0
    if port == 0 and not depends_on_product(g, made):
        return False
    if not all(r.lowering.is_contraction and r.ins[1 - port] != moved for r in readers):
        return False
    transposed = op.outs[0], moved  # ops before the one that transposes may be written through
    return all(run[v] == len(g.value(v).shape) - 2 for v in transposed)


def _is_moved_back(g: Graph, op: Op) -> bool:
    """Whether a run of layout ops moves the columns of its source, and all products behind it read along them nevertheless."""
    if len(op.ins) > 1:
        return False
    *_, (moved, axis) = _layout_op_runs(g)[op.outs[0]].items()
    return axis is not None and axis < len(g.value(moved).shape) - 1 and products_read_along(g, moved, axis)


@memoised
def _layout_op_runs(g: Graph) -> Mapping[int, Mapping[int, int | None]]:
    """By the result of a layout op, the run of layout ops that it is in, whose results have no other readers: in order, the values from the
    source on, each with the dim along which the source's last dim has unit steps."""
    runs = dict[int, dict[int, int | None]]()
    for op in g.ops:
        if layout_form(op) is None:
            continue
        (src,), (dst,) = op.ins, op.outs
        is_next = src in runs and len(g.readers(src)) == 1 and src not in g.outs
        run: dict[int, int | None] = runs[src] if is_next else {src: len(g.value(src).shape) - 1}
        columns = run[src]
        run[dst] = None if columns is None or columns < 0 else result_dims(g, op)[columns]
        runs[dst] = run
    return runs
