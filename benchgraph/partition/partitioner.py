"""Partition a graph: every op in exactly one partition, partitions in topological order."""

from __future__ import annotations

import heapq
from dataclasses import dataclass
from itertools import count

from benchgraph.core.tensor import LogicalTensor
from benchgraph.graph.ir import END, Graph, Op
from benchgraph.ops import spec
from benchgraph.ops.spec import Role
from benchgraph.partition.convexity import Group, Reachability, bits, union
from benchgraph.partition.ir import Partition, Policy
from benchgraph.partition.rules import RULES, Growth, Rule
from benchgraph.partition.rules.rule import Condition

_ids = count()  # ids are unique in the process, so that partitions of several graphs can share a cache

END_KIND, UNSUPPORTED_KIND = "end", "unsupported"
END_REASON = "it marks a graph output and computes nothing"


@dataclass(frozen=True)
class _Draft:
    """A partition without ports: its ops as a bitset, the rule's name, and why it is unsupported ('' when it is supported)."""

    members: int
    kind: str
    reason: str = ""


def partitions(graph: Graph, policy: Policy) -> tuple[Partition, ...]:
    """The partitions of a graph, each convex and connected, in topological order; no two wait for each other.

    Shapes do not matter, so the graph need not be shape-inferred, but the partitions contain its tensors: infer first.
    Raises NoSuchOpKind for an op without a row and InvalidGraph for a cycle.
    """
    reach = Reachability(graph)
    drafts = [draft for i, op in enumerate(reach.ops) if (draft := _alone(i, op)) is not None]
    free = (1 << len(reach.ops)) - 1 & ~union(draft.members for draft in drafts)
    for rule in RULES[policy]:
        grow = _grow_anywhere if rule.growth is Growth.anywhere else _grow_line
        starts, fits = _matching(reach, free, rule.starts), _matching(reach, free, rule.joins)
        while starts:
            group = grow(rule, reach, next(bits(starts)), fits, free)
            reach.contract(group)
            drafts.append(_Draft(group.members, rule.name))
            starts, fits, free = starts & ~group.members, fits & ~group.members, free & ~group.members
    named = frozenset(graph.output_ports or ())
    return tuple(_partition(graph, draft, reach, named) for draft in _executable_order(drafts, reach))


def _alone(position: int, op: Op) -> _Draft | None:
    """The draft of an op that the compiler cannot compute, else None."""
    if op.kind == END:
        return _Draft(1 << position, END_KIND, END_REASON)
    reason = spec(op.kind).lowering.unsupported
    return _Draft(1 << position, UNSUPPORTED_KIND, reason) if reason else None


def _matching(reach: Reachability, among: int, condition: Condition) -> int:
    return union(1 << i for i in bits(among) if condition(reach.ops[i]))


def _grow_anywhere(rule: Rule, reach: Reachability, start: int, fits: int, free: int) -> Group:
    """Add every neighbour that fits, with all ops on paths between it and the group, if all of those fit too.

    A neighbour refused once stays refused: the ops on those paths only become more as the group grows, except for ops that fit.
    """
    group = reach.single(start)
    added, border, refused = group.members, 0, 0
    while True:
        border |= union(reach.producers[i] | reach.consumers[i] for i in bits(added))
        candidates = border & fits & ~(group.members | refused)
        if not candidates:
            return group
        nearest = next(bits(candidates))
        path = reach.between(group, nearest)
        if path & ~fits:
            refused, added = refused | 1 << nearest, 0
        else:
            added = path | 1 << nearest
            group = reach.joined(group, added)


def _grow_line(rule: Rule, reach: Reachability, start: int, fits: int, free: int) -> Group:
    """Add the ops that prepare the first op's operands, then one op after the other on the running value.

    An op with post-ops keeps no intermediate result, so the line ends where all values but the last stay inside. Thus x * sigmoid(x) joins
    as a whole or not at all, and no path can leave the group and come back.
    """
    group = complete = _with_preparation(rule, reach, start, free)
    last, leaving = start, group.members  # ops whose results may leave; one that stays inside does so in every longer line
    while users := reach.consumers[last] & fits & ~group.members:
        last = next(bits(users))
        group = reach.joined(group, 1 << last)
        leaving = union(1 << i for i in bits(leaving) if not reach.stays_inside(i, group))
        if not leaving:
            complete = group
        leaving |= 1 << last
    return complete


def _with_preparation(rule: Rule, reach: Reachability, start: int, free: int) -> Group:
    """The first op and the ops that prepare its operands and have no other readers."""
    group, added = reach.single(start), 1 << start
    while rule.prepares is not None and added:
        sources = union(reach.producers[i] for i in bits(added)) & free & ~group.members
        added = union(1 << i for i in bits(_matching(reach, sources, rule.prepares)) if reach.stays_inside(i, group))
        group = reach.joined(group, added)
    return group


def _executable_order(drafts: list[_Draft], reach: Reachability) -> list[_Draft]:
    """Topological order; among drafts that are ready, the one whose first op comes first in the graph."""
    home = {i: n for n, draft in enumerate(drafts) for i in bits(draft.members)}
    sources = [{home[s] for i in bits(p.members) for s in bits(reach.producers[i])} - {n} for n, p in enumerate(drafts)]
    users: list[list[int]] = [[] for _ in drafts]
    for n, needed in enumerate(sources):
        for source in needed:
            users[source].append(n)
    waiting = [len(needed) for needed in sources]
    ready = [(next(bits(draft.members)), n) for n, draft in enumerate(drafts) if not waiting[n]]
    heapq.heapify(ready)
    ordered = list[_Draft]()
    while ready:
        _, n = heapq.heappop(ready)
        ordered.append(drafts[n])
        for user in users[n]:
            waiting[user] -= 1
            if not waiting[user]:
                heapq.heappush(ready, (next(bits(drafts[user].members)), user))
    return ordered


def _partition(graph: Graph, draft: _Draft, reach: Reachability, named: frozenset[int]) -> Partition:
    """The partition of a draft. Both sides of a border get the producer's description of the tensor. named: tensors that the user wants
    to see."""
    ops = tuple(reach.ops[i] for i in bits(draft.members))
    members = {op.id for op in ops}
    made = {t.id for op in ops for t in op.outputs}
    read = dict.fromkeys(t.id for op in ops for t in op.inputs if t.id not in made)

    def leaves(t: LogicalTensor) -> bool:
        users = graph.consumers.get(t.id, ())
        return not users or t.id in named or any(op.id not in members for op in users)

    inputs = tuple(graph.tensors[id] for id in read)
    outputs = tuple(graph.tensors[t.id] for op in ops for t in op.outputs if leaves(t))
    inherited = graph.engine_kind, graph.fpmath_mode, graph.fpmath_apply_to_int
    movers = () if draft.reason else (op for op in ops if spec(op.kind).lowering.role is Role.layout_op)
    prepared = tuple(t.id for op in movers for t in op.outputs if not graph.consumers.get(t.id))
    return Partition(next(_ids), draft.kind, ops, inputs, outputs, draft.reason, *inherited, prepared)
