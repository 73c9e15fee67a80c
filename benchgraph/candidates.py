"""The schedules of a partition's product: the one that the compiler chooses, and all that are legal."""

from __future__ import annotations

from dataclasses import dataclass, replace

from benchgraph.core.errors import Unimplemented
from benchgraph.core.options import Forced
from benchgraph.explain import explain
from benchgraph.gir.search_space import legal
from benchgraph.machine.target import Target, current
from benchgraph.partition.ir import Partition


@dataclass(frozen=True)
class Candidates:
    """chosen: by the compiler without a tuning file; it is one of `legal`."""

    problem: str
    chosen: Forced
    legal: tuple[Forced, ...]


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
    return Candidates(chosen.problem, own, every if own in every else (own, *every))
