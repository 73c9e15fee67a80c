"""Nests of products as their cost sees them."""

from __future__ import annotations

from collections.abc import Sequence
from math import lcm, prod

from benchgraph.core.memoise import memoised_within
from benchgraph.core.tensor import Shape, dense_strides
from benchgraph.gir.column_blocks import columns_per_call
from benchgraph.gir.flash_attention import flash_attention
from benchgraph.gir.ir import FusedOp, Graph, Stage, Value
from benchgraph.gir.packed_blocks import stage_nest
from benchgraph.gir.product import k_group, product, weights_bytes
from benchgraph.machine.target import Target
from benchgraph.schedule.nest import Operand
from benchgraph.schedule.steps import Nest, Step, follow_each_other
from benchgraph.schedule.traffic import beyond_l2


@memoised_within
def product_nest(g: Graph, node: FusedOp, target: Target) -> Nest:
    """As its cost sees it, before it has a schedule or after."""
    made = {g.root(v) for op in node.ops for v in op.outs}
    steps = tuple(_step(g, node, stage, target) for stage in node.row_products)
    flash, known = flash_attention(g, node), {name for step in steps for name in step.tensors}
    rows = product_rows(g, node) or (_rows(g, node),)
    others = tuple(_crossing(g, v, node, rows) for v in dict.fromkeys((*node.ins, *node.outs)) if _name(g, v) not in known)
    return Nest(
        steps,
        others,
        frozenset(_name(g, v) for v in made.difference(node.outs)),
        tuple(_name(g, v) for v in whole_entries(g, node, target)),
        lcm(*(k_group(g, stage.ops[0]) for stage in node.stages if stage.reduces_rows)),
        not all(stage.is_per_task for stage in node.stages),
        any(op.lowering.is_reduction for op in node.ops),
        flash is not None,
        flash is not None and flash.mask is not None and 2 * rows[-1] >= steps[0].gemm.n,
        rows[-1],
    )


def whole_entries(g: Graph, node: FusedOp, target: Target) -> tuple[int, ...]:
    """Of inputs that are dense per batch entry, those that an entry reads as a whole, where there are entries enough to prefetch the next.

    docs/measurements/prefetch.md, The next batch entry and the next rows.
    """
    whole = _read_whole(g, node)
    return tuple(v.id for v in _dense_entries(g, node, target) if v.id in whole)


def next_rows(g: Graph, node: FusedOp, target: Target) -> tuple[int, ...]:
    """Of inputs that are dense per batch entry, those that tasks read by rows: src of products, and what L2 does not hold of others."""
    by_row = {stage.ops[0].ins[0] for stage in node.row_products}
    others = {v for stage in node.stages if stage.is_per_task for op in stage.ops for v in op.ins}
    by_row |= {v for v in others if beyond_l2(g.value(v).type.nbytes, target)}
    by_row -= _read_whole(g, node)
    return tuple(v.id for v in _dense_entries(g, node, target) if v.id in by_row and v.shape[:-1] == product_rows(g, node))


def _read_whole(g: Graph, node: FusedOp) -> set[int]:
    """The buffers of which a batch entry reads all that is its own."""
    per_entry = (op for stage in node.stages if stage.is_batch_invariant for op in stage.ops)
    return {g.root(v) for op in per_entry for v in op.ins} | {g.root(v) for stage in node.row_products for v in stage.ops[0].ins[1:]}


def _dense_entries(g: Graph, node: FusedOp, target: Target) -> list[Value]:
    """Inputs that are dense per batch entry, where there are entries enough."""
    rows = product_rows(g, node)
    if len(rows) < 2 or not follow_each_other(prod(rows[:-1]), target):
        return []
    inputs = (v for v in map(g.value, g.ins) if not v.is_constant)
    return [v for v in inputs if v.shape[:-2] == rows[:-1] and v.strides == dense_strides(v.shape)]


def product_rows(g: Graph, node: FusedOp) -> Shape:
    """The extents of batch entries and rows of a nest's products; () where it has none."""
    return g.value(node.row_products[0].ops[0].outs[0]).shape[:-1] if node.row_products else ()


def fetches_weights_anew(g: Graph, node: FusedOp, target: Target) -> bool:
    """Whether tasks fetch weights again, since L2 does not hold all of the nest's."""
    return beyond_l2(weights_bytes(g, node.ops), target)


def prefetches_panels(g: Graph, node: FusedOp, stage: Stage, nb: int, target: Target) -> bool:
    """Whether calls prefetch the next packed panel, if they last long enough: from beyond L2. Not in init, which has just packed it."""
    wei = g.value(stage.ops[0].ins[1])
    is_packed = wei.is_constant and bool(wei.layout.blocks) and not g.is_init(stage.ops[0])
    return is_packed and wei.shape[-1] > nb and fetches_weights_anew(g, node, target)


def _step(g: Graph, node: FusedOp, stage: Stage, target: Target) -> Step:
    op, p = stage.ops[0], stage.parameters
    of = product(g, op)
    nb = p.nb if p is not None else columns_per_call(g, op, target)
    return Step(
        stage_nest(g, node, stage, target),
        (_name(g, op.ins[0]), _name(g, op.ins[1]), _result(g, node, stage)),
        nb,
        waits=of.has_constant_wei and not (prefetches_panels(g, node, stage, nb, target) or (p is not None and p.panels_first)),
        is_reduced=any(other.lowering.is_reduction for other in stage.ops),
    )


def _result(g: Graph, node: FusedOp, stage: Stage) -> str:
    """What the stage leaves for others: the last value of the product's shape, or the product itself."""
    elements = g.value(stage.ops[0].outs[0]).type.elements
    made = [v for op in stage.ops for v in op.outs if g.value(v).type.elements == elements]
    leaving = [v for v in made if g.root(v) in node.outs]
    return _name(g, (leaving or made)[-1])


def _rows(g: Graph, node: FusedOp) -> int:
    """Of a nest without a product, whose rows are those of its largest value."""
    largest = max((g.value(v).type for op in node.ops for v in (*op.ins, *op.outs)), key=lambda t: t.elements)
    return prod(largest.shape[:-1])


def _crossing(g: Graph, v: int, node: FusedOp, rows: Sequence[int]) -> Operand:
    """What crosses the nest's border: few elements are the same in all tasks, others are some for each row."""
    t = g.value(v).type
    axes = (*(f"b{i}" for i in range(len(rows) - 1)), "m") if t.elements >= prod(rows) else ()
    return Operand.dense(_name(g, v), 8 * t.nbytes / (prod(rows) if axes else 1), axes, is_written=v in node.outs)


def _name(g: Graph, v: int) -> str:
    return f"%{g.root(v)}"
