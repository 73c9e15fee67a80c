"""Where a nest of several stages over the same rows is cut in two or more: the sequence of nests that takes the least time.

    nest0 { MatMul; MatMul; MatMul }     ->     nest0 { MatMul; MatMul }   nest1 { MatMul }

A task of one nest computes all stages for its rows, so that rows stay in a cache; but it reads all their weights, which L2 may not hold,
and all its products have tasks of as many rows. Apart they have schedules of their own, but the next nest reads what one has written. All
that is in the cost of nests in order (`nests_ns`). The search goes along the stages and keeps the cheapest beginnings of a sequence (a
beam): each goes on with the next stage in its last nest, or with a nest of its own. Whether a reduction joins its product is the same
question for one pair (`slower_than_apart`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from benchgraph.gir.ir import FusedOp, Graph, Stage
from benchgraph.gir.nest_cost import fetches_weights_anew
from benchgraph.gir.nest_graph import nest_of
from benchgraph.gir.nest_schedule import nests_ns
from benchgraph.machine.target import Target
from benchgraph.schedule.cost import border_ns

TOLERANCE = 0.07  # costs that differ by less are equal, as far as they can be trusted: fewer nests are then taken
BEAM = 2  # beginnings that are kept: four choose the same for all of 1,377 partitions
LONGEST = 8  # stages of a nest that is weighed against two: that rows stay in a cache is local, and so the search is linear


@dataclass(frozen=True)
class _Beginning:
    """Nests of the first stages, and what they take, one after the other; with more for each cut than it may seem to save."""

    nests: tuple[FusedOp, ...]
    ns: float


def cheapest_sequence(g: Graph, node: FusedOp, target: Target) -> tuple[tuple[FusedOp, ...], str]:
    """The nests that take the place of one, (node,) where it stays whole, and why they are apart."""
    if len(node.stages) == 1 or not _may_be_cut(g, node, target):
        return (node,), ""
    begun = [_Beginning((), 0.0)]
    for stage in node.stages:
        longer = (each for beginning in begun for each in _longer(g, beginning, stage, target))
        begun = sorted(longer, key=lambda each: each.ns)[:BEAM]
    best, whole = begun[0], nests_ns(g, (node,), target)
    if len(best.nests) == 1 or whole <= best.ns:
        return (node,), ""
    return best.nests, f"as one nest they would take {whole / 1e3:.3g} us, as {len(best.nests)} at most {best.ns / 1e3:.3g}"


def _longer(g: Graph, begun: _Beginning, stage: Stage, target: Target) -> Iterator[_Beginning]:
    """With one more stage: in a nest of its own, or in the last one."""
    last, new = begun.nests[-1:], nest_of(g, (stage,))
    both_ns = nests_ns(g, (*last, new), target)
    cut_ns = max(TOLERANCE * both_ns, border_ns(target)) if last else 0.0  # threads may wait at one more border
    yield _Beginning((*begun.nests, new), begun.ns - nests_ns(g, last, target) + both_ns + cut_ns)
    if last and len(last[0].stages) < LONGEST:
        one_before = begun.nests[-2:-1]
        both = nest_of(g, (*last[0].stages, stage))
        added = nests_ns(g, (*one_before, both), target) - nests_ns(g, (*one_before, *last), target)
        yield _Beginning((*begun.nests[:-1], both), begun.ns + added)


def slower_than_apart(g: Graph, one: FusedOp, apart: Sequence[FusedOp], target: Target) -> str:
    """Why these nests, each with its own schedule, take less time than one nest of all their ops; '' where they do not."""
    if not fetches_weights_anew(g, one, target):
        return ""
    as_one, in_sequence = nests_ns(g, [one], target), nests_ns(g, apart, target)
    saved = as_one - in_sequence
    if saved <= max(TOLERANCE * as_one, border_ns(target)):  # less than threads may wait at one more border
        return ""
    return f"as one nest they would take {as_one / 1e3:.3g} us, apart they take {in_sequence / 1e3:.3g}"


def _may_be_cut(g: Graph, node: FusedOp, target: Target) -> bool:
    """Whether L2 does not hold its weights, each stage can be a nest, and it is no attention, whose scores need not be stored in one nest
    (gir/flash_attention.py)."""
    if not all(stage.is_per_task for stage in node.stages):
        return False
    is_attention = any(op.lowering.is_reduction for op in node.ops)
    if is_attention and not all(g.value(op.ins[1]).is_constant for op in node.ops if op.lowering.is_contraction):
        return False
    return fetches_weights_anew(g, node, target)
