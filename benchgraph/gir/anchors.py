"""The anchor cost table: where in the nest of a tunable op each of its post-ops runs.

Cost of an anchor = bytes that the post-ops move there, weighted by the cache level that their working set fits (paper: working set and
total accesses). For a task of mb rows and N columns in tiles of nb:

    anchor   working set   accesses of a pointwise chain    extra, when a reduction along rows reads it
    tile     mb x nb       one read, one write of mb x N    one more read of mb x N
    rows     mb x N        one read, one write of mb x N    none: the chain reduces while it writes
"""

from __future__ import annotations

from benchgraph.gir.domain import Domain, domain_of
from benchgraph.gir.ir import Anchor, Graph, Op
from benchgraph.machine.table import table
from benchgraph.machine.target import Target
from benchgraph.ops.spec import Reduction
from benchgraph.schedule.nest import F32_BYTES


def choose_anchors(g: Graph, ops: tuple[Op, ...], mb: int, nb: int, target: Target) -> tuple[tuple[Anchor, ...], str]:
    """Anchors for a tunable op (ops[0]) and its post-ops, and why; '' where there is nothing to choose."""
    domain = domain_of(g, ops)
    n = domain.extents[-1]
    early = _before_reductions(g, domain, ops)
    feeds_reduction = any(isinstance(op.lowering.form, Reduction) for op in ops[1:])
    at_tile = anchor_cost(Anchor.tile, mb, nb, n, feeds_reduction=feeds_reduction, target=target)
    at_rows = anchor_cost(Anchor.rows, mb, nb, n, feeds_reduction=feeds_reduction, target=target)
    prefer = Anchor.tile if at_tile <= at_rows else Anchor.rows
    anchors = (Anchor.kernel, *(prefer if op in early else Anchor.rows for op in ops[1:]))
    why = f"at {prefer.value}, pointwise ops move {min(at_tile, at_rows):.3g} weighted bytes per task"
    return anchors, f"{why} instead of {max(at_tile, at_rows):.3g}" if early and at_tile != at_rows else why if early else ""


def has_tiled_post_ops(g: Graph, ops: tuple[Op, ...]) -> bool:
    """Whether all ops on the result of a tunable op (ops[0]), none of which reduces, can run on its tiles."""
    return len(_before_reductions(g, domain_of(g, ops), ops)) == len(ops) - 1


def anchor_cost(anchor: Anchor, mb: int, nb: int, n: int, *, feeds_reduction: bool, target: Target) -> float:
    """Weighted bytes of one task's post-ops at this anchor."""
    task_bytes = mb * F32_BYTES * n
    working_set = mb * F32_BYTES * nb if anchor is Anchor.tile else task_bytes
    extra = byte_cost(task_bytes, target) if feeds_reduction and anchor is Anchor.tile else 0.0
    return task_bytes * (2 * byte_cost(working_set, target) + extra)


def byte_cost(working_set: int, target: Target) -> float:
    """Cost of a byte of a working set of so many, in bytes from L1, by the level of cache that holds it."""
    machine = table(target)
    if working_set <= machine.working_set(target.l1_bytes):
        return 1.0
    return machine.l2_byte_cost if working_set <= machine.working_set(target.l2_bytes) else machine.l3_byte_cost


def _before_reductions(g: Graph, domain: Domain, ops: tuple[Op, ...]) -> frozenset[Op]:
    """The pointwise post-ops on full tiles that do not depend on a finished reduction."""
    late: set[int] = set()
    early: set[Op] = set()
    for op in ops[1:]:
        is_late = isinstance(op.lowering.form, Reduction) or any(v in late for v in op.ins)
        if is_late or domain.axes.get(op.outs[0], ())[-1:] in ((), (None,)):
            late.update(op.outs)
        else:
            early.add(op)
    return frozenset(early)
