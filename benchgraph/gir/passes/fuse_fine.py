"""fuse-fine: every op joins the loop nest of the op that made its input, where it can; the rest begin nests of their own.

%2 = MatMul(%0, %1)               %4 = fused {
%3 = Add(%2, %b)           ->       %2 = MatMul(%0, %1)
%4 = ReLU(%3)                       %3 = Add(%2, %b)
                                    %4 = ReLU(%3) }

A fold of what no nest made joins one that reads it already and folds the same axes, so that it is read once. Then a nest of pointwise ops,
begun by one that reads nothing of another nest, joins as a whole one whose result it reads, element by element, where all of their memory
lies alike: so do what is done to a residual and its addition to a product. NestGraph that fold the same axes of what is as large become
one, if one reads what the other makes: LayerNormBackward then folds what it makes of two operands in one loop, and holds no differences
meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from math import prod

from benchgraph.core.record import is_recorded, note
from benchgraph.core.target import Target
from benchgraph.gir.domain import Domain, extended, trace
from benchgraph.gir.ir import Anchor, FusedOp, Graph, Op, Stage
from benchgraph.gir.nest_graph import NestGraph, merge_pairs, topological, with_borders
from benchgraph.gir.row_blocks import rows_that_refetch_weights
from benchgraph.ops import spec
from benchgraph.ops.spec import Reduction


def fuse_fine(g: Graph, target: Target) -> Graph:
    groups: list[list[Op]] = []
    domains: list[Domain | None] = []  # of each group
    needs: list[set[int]] = []  # for each group, the groups that run before it
    made_in: dict[int, set[int]] = {}  # buffer -> the groups that write it, each a part of it
    for op in g.ops:
        sources = set[int]().union(*(made_in.get(g.root(v), ()) for v in op.ins))
        home, joint = len(groups), None
        for i in sorted(sources, reverse=True) or _that_read_it(groups, op):
            if _may_join(i, sources, needs) and isinstance(found := _joined(g, groups[i], domains[i], op, target), Domain):
                home, joint = i, found
                break
        if joint is None:
            if sources and is_recorded():
                note(op.outs[0], why="; ".join(_misfits(g, groups, domains, sources, needs, op, target)))
            groups.append([])
            domains.append(None)
            needs.append(set())
            joint = trace(g, [op])
        groups[home].append(op)
        domains[home] = joint
        before = (sources - {home}).union(*(needs[i] for i in sources if i != home))
        for later in (home, *(i for i, earlier in enumerate(needs) if home in earlier)):
            needs[later] |= before
        for v in op.outs:
            made_in.setdefault(g.root(v), set()).add(home)
    fused = [FusedOp(f"nest{i}", (Stage(tuple(ops), (Anchor.rows,) * len(ops)),), (), ()) for i, ops in enumerate(groups)]
    nodes = merge_pairs(g, with_borders(g, fused), lambda nests, i, j: _as_one(g, nests, i, j, target)).nodes
    place = {op: n for n, op in enumerate(g.nodes)}
    return replace(g, nodes=topological(sorted(nodes, key=lambda node: min(place[op] for op in node.ops))))


def _as_one(g: Graph, nests: NestGraph, i: int, j: int, target: Target) -> FusedOp | None:
    """NestGraph i and j, which reads a result of i, as one, if one of the ways to do so is open."""
    ops = _continued(g, nests, i, j, target) or _folded_alike(g, nests, i, j, target)
    return None if ops is None else replace(nests[j], stages=(Stage(ops, (Anchor.rows,) * len(ops)),))


def _continued(g: Graph, nests: NestGraph, i: int, j: int, target: Target) -> tuple[Op, ...] | None:
    """The ops of a nest that begins as i or j, which reads a result of i, does, and goes on with the pointwise ops of the other.

    None where elements would be made more than once, or after a fold, whose rows would have to be held; or where chains alone run along
    the memory (PReLUBackward took 2.1 times as long with slopes of 4 columns, twice with those of channels that lie last).
    """
    (first,), (second,) = nests[i].stages, nests[j].stages
    if _is_pointwise(second.ops):
        head, tail, rest = first.ops, second.ops, tuple[Op, ...]()
    else:
        reader = next(k for k, op in enumerate(second.ops) if any(g.root(v) in nests[i].outs for v in op.ins))
        head, tail, rest = second.ops[:reader], first.ops, second.ops[reader:]
    domain = trace(g, head)
    if domain is None or domain.reduced or not domain.is_whole or not _is_pointwise(tail):
        return None
    if any(prod(g.value(op.outs[0]).shape) != prod(domain.extents) for op in tail):
        return None
    domain = _lengthened(g, head, domain, (*tail, *rest), target)
    ops = (*head, *tail, *rest)
    return ops if domain is not None and _run_along_memory(g, ops, domain, lambda v: nests.is_read_beyond(v, (i, j)), target) else None


def _folded_alike(g: Graph, nests: NestGraph, i: int, j: int, target: Target) -> tuple[Op, ...] | None:
    """The ops of nests i and j, which reads a result of i, where both fold the same axes of as large a domain; None where they do not."""
    (first,), (second,) = nests[i].stages, nests[j].stages
    domain, other = trace(g, first.ops), trace(g, second.ops)
    if domain is None or other is None or not domain.reduced or (domain.extents, domain.reduced) != (other.extents, other.reduced):
        return None
    return None if _lengthened(g, first.ops, domain, second.ops, target) is None else (*first.ops, *second.ops)


def _lengthened(g: Graph, ops: Iterable[Op], domain: Domain, more: Iterable[Op], target: Target) -> Domain | None:
    """The domain of ops, given for the first of them, when all the others have joined; None where one cannot."""
    done = [*ops]
    for op in more:
        joint = _joined(g, done, domain, op, target)
        if isinstance(joint, str):
            return None
        domain = joint
        done.append(op)
    return domain


def _run_along_memory(g: Graph, ops: Iterable[Op], domain: Domain, is_read: Callable[[int], bool], target: Target) -> bool:
    """Whether all that is given or handed on lies alike, and folds, if there are some, run along it, or along rows that fill vectors.

    is_read: whether others read a buffer.
    """
    values = {g.root(v) for op in ops for v in (*op.ins, *op.outs) if g.root(v) not in domain.written or is_read(g.root(v))}
    whole = [v for v in map(g.value, values) if v.shape == domain.extents]
    found = {v.known_strides for v in whole}
    if len(found) > 1 or not domain.reduced:
        return len(found) <= 1
    last = len(domain.extents) - 1
    closest = next((axis for axis, step in enumerate(next(iter(found), ())) if step == 1 and domain.extents[axis] != 1), last)
    return closest in domain.reduced or (closest == last and domain.extents[last] >= target.lanes)


def _is_pointwise(ops: Iterable[Op]) -> bool:
    return all(spec(op.kind).lowering.is_elementwise for op in ops)


def _may_join(home: int, sources: set[int], needs: list[set[int]]) -> bool:
    """Everything else the op needs can run before `home`."""
    return not any(home in needs[other] for other in sources)


def _that_read_it(groups: list[list[Op]], op: Op) -> list[int]:
    """For a fold of what comes from outside: the groups without a product that read this too, so that it is read once."""
    if not isinstance(spec(op.kind).lowering.form, Reduction):
        return []
    return [
        i for i, ops in enumerate(groups) if not spec(ops[0].kind).lowering.is_contraction and any(op.ins[0] in other.ins for other in ops)
    ]


def _joined(g: Graph, ops: list[Op], group: Domain | None, op: Op, target: Target) -> Domain | str:
    """The domain of a group of ops with one more op; why the op cannot join it if it cannot."""
    first = ops[0]
    if spec(op.kind).lowering.is_contraction:
        return "a product begins a nest of its own"
    if _is_constant(g, op) != _is_constant(g, first):
        return "one is computed once, by init, the other at every execution"
    if _changes_blocks(g, first):
        return f"the {first.kind} before it goes into or out of blocks, which is walked block by block"
    domain = None if group is None else extended(g, group, op)
    if domain is None:
        return f"its elements do not run over the axes of the nest of {first.kind}"
    if not domain.reduced or not spec(first.kind).lowering.is_contraction:
        return domain
    if not domain.reduced <= {len(domain.extents) - 1}:
        return f"it reduces over rows that {first.kind} makes in several tasks"
    if few := rows_that_refetch_weights(g, (ops, [op]), domain.extents[:-1], target):
        return f"L2 does not keep the weights, and each task, of whole rows, would fetch all of them for {few}"
    return domain


def _misfits(
    g: Graph, groups: list[list[Op]], domains: list[Domain | None], sources: set[int], needs: list[set[int]], op: Op, target: Target
) -> list[str]:
    """For each group that the op reads of, why it cannot join it."""
    waits = "another of its inputs is made later"
    reasons = (_joined(g, groups[i], domains[i], op, target) if _may_join(i, sources, needs) else waits for i in sorted(sources))
    return list(dict.fromkeys(reason for reason in reasons if isinstance(reason, str)))


def _is_constant(g: Graph, op: Op) -> bool:
    return all(g.value(v).is_constant for v in op.outs)


def _changes_blocks(g: Graph, op: Op) -> bool:
    """A copy or a conversion into or out of blocks is walked block by block, which suits no other op."""
    row = spec(op.kind)
    return (row.lowering.is_data_movement or row.semantics.is_conversion) and len(
        {g.value(v).layout.blocks for v in (*op.ins, *op.outs)}
    ) > 1
