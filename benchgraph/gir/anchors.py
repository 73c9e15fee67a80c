"""Anchors: where in the nest of a tunable op each of its post-ops runs.

    anchor   when                                   accesses of a pointwise chain    extra, when a reduction along rows reads it
    tile     a call has computed its tile           one read, one write of mb x N    one more read of mb x N
    rows     all N columns of a task are done       one read, one write of mb x N    none: the chain reduces while it writes

So the chain runs on tiles, but for one that is reduced, of a task whose rows L1 holds.
"""

from __future__ import annotations

from benchgraph.gir.domain import Domain, domain_of
from benchgraph.gir.ir import Anchor, Graph, Op
from benchgraph.machine.target import Target
from benchgraph.schedule.limits import sums_stay_in_l1


def choose_anchors(g: Graph, ops: tuple[Op, ...], mb: int, target: Target) -> tuple[tuple[Anchor, ...], str]:
    """Anchors for a tunable op (ops[0]) and its post-ops, and why; '' where there is nothing to choose."""
    domain = domain_of(g, ops)
    early = _before_reductions(domain, ops)
    feeds_reduction = any(op.lowering.is_reduction for op in ops[1:])
    prefer = Anchor.rows if feeds_reduction and sums_stay_in_l1(mb * domain.extents[-1], target) else Anchor.tile
    anchors = (Anchor.kernel, *(prefer if op in early else Anchor.rows for op in ops[1:]))
    why = "L1 holds the rows of a task until they are reduced" if prefer is Anchor.rows else "each tile as soon as it is computed"
    return anchors, f"at {prefer.value}: {why}" if early else ""


def has_tiled_post_ops(g: Graph, ops: tuple[Op, ...]) -> bool:
    """Whether all ops on the result of a tunable op (ops[0]), none of which reduces, can run on its tiles."""
    return len(_before_reductions(domain_of(g, ops), ops)) == len(ops) - 1


def _before_reductions(domain: Domain, ops: tuple[Op, ...]) -> frozenset[Op]:
    """The pointwise post-ops on full tiles that do not depend on a finished reduction."""
    late: set[int] = set()
    early: set[Op] = set()
    for op in ops[1:]:
        is_late = op.lowering.is_reduction or any(v in late for v in op.ins)
        if is_late or domain.axes.get(op.outs[0], ())[-1:] in ((), (None,)):
            late.update(op.outs)
        else:
            early.add(op)
    return frozenset(early)
