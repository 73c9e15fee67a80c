"""The schedules of a partition's product: the one that the compiler chooses, and all that are legal."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from benchgraph.core.errors import Unimplemented
from benchgraph.core.options import Forced
from benchgraph.core.passes import run
from benchgraph.gir.build import from_partition
from benchgraph.gir.gemm_nest import stage_nest
from benchgraph.gir.ir import FusedOp, Graph, Stage
from benchgraph.gir.parameters import Parameters
from benchgraph.gir.passes import PIPELINE
from benchgraph.gir.passes.schedule import has_tiled_post_ops
from benchgraph.gir.product import product
from benchgraph.gir.text import print_gir
from benchgraph.gir.verify import verify as verify_gir
from benchgraph.machine.table import rates
from benchgraph.machine.target import Target, current
from benchgraph.partition.ir import Partition
from benchgraph.schedule.cost import Costs
from benchgraph.schedule.primitives import Schedule
from benchgraph.schedule.space import Tiling, panel_widths, space, tiled


@dataclass(frozen=True)
class Candidates:
    """nest: its text. chosen: by the compiler without a tuning file; it is one of `legal`, and so is `cheapest`, of least cost with panels
    of any width."""

    nest: str
    chosen: Forced
    legal: tuple[Forced, ...]
    cheapest: Forced


def candidates(partition: Partition, target: Target | None = None) -> Candidates:
    """The legal schedules of the partition's only product, and the compiler's choice. Raises Unimplemented unless the partition has exactly
    one product, without groups of columns, and what compile_partition raises."""
    target, where = target or current(), f"partition {' '.join(op.kind for op in partition.ops)}"
    free = replace(partition, options=replace(partition.options, forced=()))
    g = run(PIPELINE, from_partition(free), target, show=print_gir, verify=verify_gir, observe=lambda *_: None, off=free.options.off)
    products = list(_products(g))
    if len(products) != 1:
        what = f"it has {len(products) or 'no'} matrix products, and one is tuned at a time"
        raise Unimplemented(what, where=where, fix="take cases of single products")
    ((node, stage, parameters),) = products
    p, gemm = product(g, stage.ops[0]), stage_nest(g, stage, target)
    if p.columns != gemm.n:
        raise Unimplemented("its product has groups of columns", where=where, fix="take cases of one group")
    may_spread = len(node.stages) == 1 and has_tiled_post_ops(stage)
    schedules = tuple(space(gemm, panel_widths(gemm.n, target.lanes), target.cores, may_spread=may_spread))
    costs = Costs(gemm, target, rates(target))
    own = Tiling(parameters.mb, parameters.nb, parameters.split_n, parameters.ns if parameters.panels_first else 0)
    chosen, cheapest = tiled(gemm, own), min(schedules, key=lambda s: costs(s).total)

    def forced(schedule: Schedule) -> Forced:
        return Forced(p.text, str(schedule))

    return Candidates(p.text, forced(chosen), tuple(map(forced, dict.fromkeys((chosen, *schedules)))), forced(cheapest))


def _products(g: Graph) -> Iterator[tuple[FusedOp, Stage, Parameters]]:
    """Those that every execution computes."""
    for node in g.nodes:
        if isinstance(node, FusedOp) and not g.value(node.outs[0]).is_constant:
            yield from ((node, stage, stage.parameters) for stage in node.stages if stage.parameters is not None)
