"""The schedules of a partition's nest of products: the one that the compiler chooses, and all that are legal."""

from __future__ import annotations

from dataclasses import dataclass, replace

from benchgraph.core.errors import Unimplemented
from benchgraph.core.options import Forced
from benchgraph.core.passes import run
from benchgraph.gir.build import from_partition
from benchgraph.gir.gemm_nest import stage_nest
from benchgraph.gir.ir import FusedOp
from benchgraph.gir.nest_cost import kernel_stages, nest_text, product_nest, schedule_of
from benchgraph.gir.passes import PIPELINE
from benchgraph.gir.passes.schedule import has_tiled_post_ops
from benchgraph.gir.product import product
from benchgraph.gir.text import print_gir
from benchgraph.gir.verify import verify as verify_gir
from benchgraph.machine.target import Target, current
from benchgraph.partition.ir import Partition
from benchgraph.schedule.cost import Costs
from benchgraph.schedule.primitives import Schedule
from benchgraph.schedule.space import panel_widths, space
from benchgraph.schedule.steps import alone


@dataclass(frozen=True)
class Candidates:
    """nest: its text. chosen: by the compiler without a tuning file; it is one of `legal`, and so is `cheapest`, of least cost with panels
    of any width."""

    nest: str
    chosen: Forced
    legal: tuple[Forced, ...]
    cheapest: Forced


def candidates(partition: Partition, target: Target | None = None) -> Candidates:
    """The legal schedules of the partition's only nest with products, and the compiler's choice. Raises Unimplemented unless it has exactly
    one, without groups of columns, and what compile_partition raises."""
    target, where = target or current(), f"partition {' '.join(op.kind for op in partition.ops)}"
    free = replace(partition, options=replace(partition.options, forced=()))
    g = run(PIPELINE, from_partition(free), target, show=print_gir, verify=verify_gir, observe=lambda *_: None, off=free.options.off)
    nodes = [node for node in g.nodes if isinstance(node, FusedOp) and node.parameters and not g.value(node.outs[0]).is_constant]
    if len(nodes) != 1:
        what = f"{len(nodes) or 'none'} of its nests have matrix products, and one nest is tuned at a time"
        raise Unimplemented(what, where=where, fix="take cases of single products, or of products that become one nest")
    (node,) = nodes
    text, nest, stage, may_spread = nest_text(g, node), product_nest(g, node, target), kernel_stages(node)[0], False
    if len(nest.steps) == 1:
        nest = alone(stage_nest(g, stage, target))
        may_spread = len(node.stages) == 1 and has_tiled_post_ops(stage)
        if product(g, stage.ops[0]).columns != nest.first.n:
            raise Unimplemented("its product has groups of columns", where=where, fix="take cases of one group")
    schedules = tuple(space(nest, panel_widths(nest.first.n, target.lanes), target.cores, may_spread=may_spread))
    costs, chosen = Costs(nest, target), schedule_of(nest, node)
    cheapest = min(schedules, key=lambda s: costs(s).total)

    def forced(schedule: Schedule) -> Forced:
        return Forced(text, str(schedule))

    return Candidates(text, forced(chosen), tuple(map(forced, dict.fromkeys((chosen, *schedules)))), forced(cheapest))
