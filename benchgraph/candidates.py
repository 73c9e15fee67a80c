"""The schedules of a partition's product: the one that the compiler chooses, and all that are legal."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import prod

from benchgraph.core.dtypes import DType
from benchgraph.core.errors import Unimplemented
from benchgraph.core.options import Forced
from benchgraph.explain import explain
from benchgraph.machine.table import rates
from benchgraph.machine.target import Target, current
from benchgraph.ops import spec
from benchgraph.partition.ir import Partition
from benchgraph.schedule.cost import Costs
from benchgraph.schedule.gemm import Gemm, dense
from benchgraph.schedule.primitives import Schedule
from benchgraph.schedule.space import panel_widths, space


@dataclass(frozen=True)
class Candidates:
    """chosen: by the compiler without a tuning file; it is one of `legal`, and so is `cheapest`, of least cost with panels of any width."""

    problem: str
    chosen: Forced
    legal: tuple[Forced, ...]
    cheapest: Forced


def candidates(partition: Partition, target: Target | None = None) -> Candidates:
    """The legal schedules of the partition's only product, and the compiler's choice. Raises Unimplemented unless the partition has exactly
    one product, and what compile_partition raises."""
    target = target or current()
    free = replace(partition, options=replace(partition.options, forced=()))
    nests = [n for n in explain(free, target, with_tuning=False).nests if n.when == "main"]
    products = [(n, s) for n in nests for s in n.sections if s.chosen is not None]
    if len(products) != 1:
        what = f"it has {len(products) or 'no'} matrix products, and one is tuned at a time"
        raise Unimplemented(what, where=f"partition {' '.join(op.kind for op in partition.ops)}", fix="take cases of single products")
    ((nest, section),) = products
    chosen = section.chosen
    assert chosen is not None
    p = chosen.parameters
    own = Forced(chosen.problem, p["mb"], p["nb"], bool(p["split_n"]), p["ns"] if p["panels_first"] else 0)
    # all ops after the product run on its tiles, so that its columns can be split over tasks
    may_spread = len(nest.sections) == 1 and {op.anchor for op in section.ops} <= {"kernel", "tile"}
    gemm = _gemm(partition, chosen.problem, p, target)
    schedules = tuple(space(gemm, panel_widths(gemm.n, target.lanes), may_spread=may_spread))
    every = tuple(_forced(chosen.problem, s) for s in schedules)
    costs = Costs(gemm, target, rates(target))
    cheapest = _forced(chosen.problem, min(schedules, key=lambda s: costs(s).total))
    return Candidates(chosen.problem, own, every if own in every else (own, *every), cheapest)


def _forced(problem: str, schedule: Schedule) -> Forced:
    """The schedule for a problem."""
    (mb,), (*groups, nb) = schedule.sizes("m"), schedule.sizes("n")
    is_first = schedule.order[0] == "n.0"
    return Forced(problem, mb, nb, "n.0" in schedule.parallel, (groups[0] if groups else nb) if is_first else 0)


def _gemm(partition: Partition, problem: str, sizes: Mapping[str, int], target: Target) -> Gemm:
    """The nest of the partition's product. problem, sizes: as `gir.product.Product.problem` and `gir.parameters.Parameters` have them."""
    src, dtype = (DType[name] for name in problem.split()[0].split(":"))
    batch, m, n, k = (sizes[name] for name in ("batch", "m", "n", "k"))
    wei = [op.inputs[1].shape for op in partition.ops if spec(op.kind).lowering.is_contraction]
    has_one_wei = all(prod(shape or ()) <= k * n for shape in wei)
    return dense(batch, m, n, k, src, dtype, target, has_one_wei=has_one_wei)
