"""What tuning may say of a nest of products: the schedules that it can have, which are those that it may be prescribed.

All passes before `schedule` see the graph as it is without tuning, so that a prescribed schedule finds the nest that it was found for. Only
the panels of packed weights are made anew, as wide as the calls of the schedule, be it prescribed, or the one of weights that change:

    %3: f32[K,N] Ba64b = Reorder(%1)       tile n by 32       %3: f32[K,N] Ba32b = Reorder(%1)
    %2 = MatMul(%0, %3)                    ->                 %2 = MatMul(%0, %3)
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from benchgraph.core.layout import Layout
from benchgraph.core.memoise import memoised_within
from benchgraph.gir.anchors import has_tiled_post_ops
from benchgraph.gir.column_blocks import call_widths, columns_in, columns_per_call
from benchgraph.gir.ir import FusedOp, Graph, Op, Stage, Value
from benchgraph.gir.nest_cost import product_nest
from benchgraph.gir.on_the_fly_packing import packing_stages
from benchgraph.gir.packed_blocks import stage_nest
from benchgraph.gir.product import product
from benchgraph.machine.target import Target
from benchgraph.schedule.primitives import Schedule
from benchgraph.schedule.space import Tiling, panel_widths, space
from benchgraph.schedule.steps import Nest, alone
from benchgraph.schedule.tuning import forced_schedule


@dataclass(frozen=True)
class ProductSpace:
    """nest: as its cost sees it. widths: columns that calls of its only product can have. may_spread: they can be tasks. text: the nest as
    tuning files name it: its products, one after the other, and what else its space depends on, so that equal texts have equal spaces.

    f32:f32 381x19x49 variable, in place
    """

    nest: Nest
    widths: tuple[int, ...]
    may_spread: bool
    text: str

    def schedules(self, target: Target) -> Iterator[Schedule]:
        """All that the nest can have."""
        return space(self.nest, self.widths, target, may_spread=self.may_spread)


@memoised_within
def product_space(g: Graph, node: FusedOp, target: Target) -> ProductSpace:
    """Of a nest of products."""
    kernels = node.row_products
    grid = grid_nest(g, node, kernels[0], target) if len(kernels) == 1 else None
    nest, words, widths = grid or product_nest(g, node, target), dict[str, bool](), tuple[int, ...]()
    if len(kernels) == 1:
        widths, every = _widths(g, node, kernels[0], target), panel_widths(nest.first.n, target.lanes)
        words = {"by rows": grid is None, f"panels of {widths}": widths != every, "src made": nest.makes_src}
    words |= {"whole rows": nest.works_on_rows, "flash": nest.is_flash, f"rows by {nest.group}": nest.group > 1}
    if (blocks := nest.first.blocks) is not None and len(kernels) == 1:
        words |= {"in place": blocks.cycles == 0, f"blocks of {blocks.unit}": blocks.cycles > 0, "fetched": blocks.may_fetch}
    products = " + ".join(product(g, stage.ops[0]).text for stage in kernels)
    text = ", ".join([products, *(word for word, is_so in words.items() if is_so)])
    return ProductSpace(nest, widths, grid is not None, text)


def grid_nest(g: Graph, node: FusedOp, stage: Stage, target: Target) -> Nest | None:
    """The only product of a nest, if its columns can be tasks: its post-ops all run on its tiles. Other ops may only make src of a product
    whose weights are made block by block."""
    *before, last = node.stages
    if last is not stage or any(op.lowering.is_reduction for op in node.ops) or not has_tiled_post_ops(g, stage.ops):
        return None
    gemm, makers = stage_nest(g, node, stage, target), [s for s in before if not s.is_packing]
    makes_src = all(not s.is_batch_invariant and all(op.lowering.is_elementwise for op in s.ops) for s in makers)
    if before and (gemm.blocks is None or not makes_src):
        return None
    return alone(replace(gemm, is_made=gemm.is_made and not makers), makes_src=bool(makers))


def _widths(g: Graph, node: FusedOp, stage: Stage, target: Target) -> tuple[int, ...]:
    """All that are whole vectors, where nothing but this product says how wide its panels are; else those that it has."""
    op = stage.ops[0]
    n, units = g.value(op.outs[0]).shape[-1], [cut.unit for maker in packing_stages(node, stage) if (cut := maker.cuts[1]) is not None]
    if product(g, op).columns != n or _panels(g, op) is None:
        return (columns_per_call(g, op, target),)
    return tuple(nb for nb in panel_widths(n, target.lanes) if all(nb % unit == 0 for unit in units))


def _panels(g: Graph, op: Op) -> tuple[Value, ...] | None:
    """The weights of a product, if they are in panels, and what these are made of panel by panel; None where others read or make them."""
    makers, found, work = {v: each for each in g.ops for v in each.outs}, dict[int, Op](), [(op.ins[1], op)]
    while work:
        v, reader = work.pop()
        if not (value := g.value(v)).layout.blocks:
            continue
        has_other_readers = v in (*g.outs, *g.viewed) or any(v in each.ins for each in g.ops if each is not reader)
        if value.view is not None or v not in makers or has_other_readers:
            return None
        found[v] = reader
        work += [(source, makers[v]) for source in makers[v].ins]
    return tuple(map(g.value, found))


def with_scheduled_panels(g: Graph, target: Target) -> Graph:
    """Raises ParseError for a schedule that its nest cannot have."""
    changed = dict[int, Value]()
    for node in (nest for nest in g.nests if len(nest.row_products) == 1):
        found = product_space(g, node, target)
        schedule = forced_schedule(g.forced_by_nest, found.text, found.schedules(target))
        nb, op = scheduled_columns(g, node, target) if schedule is None else Tiling.of(schedule).nb, node.row_products[0].ops[0]
        if nb != columns_per_call(g, op, target):
            changed |= {v.id: replace(v, layout=_in_panels(v.layout, nb)) for v in _panels(g, op) or ()}
    return g.with_values(changed)


def scheduled_columns(g: Graph, node: FusedOp, target: Target) -> int:
    """Columns of a call of the only product of a nest: those of constant weights are chosen with their layout, and those of others are as
    wide as a register panel, where that divides all columns."""
    stage = node.row_products[0]
    p, usual = product(g, stage.ops[0]), columns_per_call(g, stage.ops[0], target)
    if p.has_constant_wei or p.columns % usual == 0:
        return usual
    found = product_space(g, node, target)
    widths = (usual, *(nb for nb in call_widths(p, target) if nb in found.widths and nb != usual))
    return columns_in(found.nest, widths, target, may_spread=found.may_spread)


def _in_panels(layout: Layout, columns: int) -> Layout:
    (axis, _), *groups = layout.blocks
    return replace(layout, blocks=((axis, columns), *groups))
