"""The schedules of a partition's product: the one that the compiler chooses, and all that are legal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod

from benchgraph.core.dtypes import DType
from benchgraph.core.errors import Unimplemented
from benchgraph.core.options import Forced
from benchgraph.explain import explain
from benchgraph.gir.search_space import legal
from benchgraph.machine.table import rates
from benchgraph.machine.target import Target, current
from benchgraph.ops import spec
from benchgraph.partition.ir import Partition
from benchgraph.schedule.cost import cost
from benchgraph.schedule.gemm import Gemm, Tiling


@dataclass(frozen=True)
class Candidates:
    """chosen: by the compiler without a tuning file; it is one of `legal`, and so is `cheapest`, of least cost (schedule/cost.py)."""

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
    own = Forced(chosen.problem, p["mb"], p["nb"], bool(p["split_n"]))
    # all ops after the product run on its tiles, so that its columns can be split over tasks
    may_split = len(nest.sections) == 1 and {op.anchor for op in section.ops} <= {"kernel", "tile"}
    every = tuple(legal(chosen.problem, p["m"], p["n"], target, may_split=may_split))
    every = every if own in every else (own, *every)
    return Candidates(chosen.problem, own, every, _cheapest(every, _gemm(partition, chosen.problem, p, target), target))


def _gemm(partition: Partition, problem: str, sizes: Mapping[str, int], target: Target) -> Gemm:
    """The nest of the partition's product. problem, sizes: as `gir.product.Product.problem` and `gir.parameters.Parameters` have them."""
    src, dtype = (DType[name] for name in problem.split()[0].split(":"))
    batch, m, n, k = (sizes[name] for name in ("batch", "m", "n", "k"))
    wei = [op.inputs[1].shape for op in partition.ops if spec(op.kind).lowering.is_contraction]
    has_one_wei = all(prod(shape or ()) <= k * n for shape in wei)
    return Gemm(batch, m, n, k, src, dtype, has_one_wei, target.in_tiles(src), target.lanes)


def _cheapest(every: Sequence[Forced], gemm: Gemm, target: Target) -> Forced:
    machine = rates(target)
    return min(every, key=lambda c: cost(gemm, Tiling(c.mb, c.nb, c.split_n), target, machine).total)
