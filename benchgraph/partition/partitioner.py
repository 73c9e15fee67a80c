"""Cut a graph into partitions: every op in exactly one, in an order in which they can be executed."""

from __future__ import annotations

import heapq
from dataclasses import dataclass
from itertools import count

from benchgraph.core.tensor import LogicalTensor
from benchgraph.graph.ir import END, Graph, Op
from benchgraph.ops import spec
from benchgraph.partition.convexity import Group, Reachability, bits, union
from benchgraph.partition.ir import Partition, Policy
from benchgraph.partition.rules import RULES, Growth, Rule
from benchgraph.partition.rules.rule import Ask
from benchgraph.partition.streams import streamed

_ids = count()  # ids are unique in the process, so that partitions of several graphs can share a cache

END_KIND, UNSUPPORTED_KIND = "end", "unsupported"
END_REASON = "it marks a graph output and computes nothing"


@dataclass(frozen=True)
class _Piece:
    """A partition before it has ports: its ops as a bitset, the rule's name, and why it is unsupported ('' when it is not)."""

    members: int
    kind: str
    reason: str = ""


def partitions(graph: Graph, policy: Policy) -> tuple[Partition, ...]:
    """The partitions of a graph, each convex and connected, in topological order; no two wait for each other.

    Shapes play no part, so the graph need not be shape-inferred, but the partitions carry its tensors: infer first.
    Raises NoSuchOpKind for an op without a row and InvalidGraph for a cycle.
    """
    reach = Reachability(graph)
    pieces = [piece for i, op in enumerate(reach.ops) if (piece := _alone(i, op)) is not None]
    free = (1 << len(reach.ops)) - 1 & ~union(piece.members for piece in pieces)
    for rule in RULES[policy]:
        grow = _grow_anywhere if rule.growth is Growth.anywhere else _grow_line
        starts, fits = _matching(reach, free, rule.starts), _matching(reach, free, rule.joins)
        while starts:
            group = grow(rule, reach, next(bits(starts)), fits, free)
            reach.contract(group)
            pieces.append(_Piece(group.members, rule.name))
            starts, fits, free = starts & ~group.members, fits & ~group.members, free & ~group.members
    blocked, named = streamed(graph), frozenset(graph.output_ports or ())
    return tuple(_partition(graph, piece, reach, blocked, named) for piece in _executable_order(pieces, reach))


def _alone(position: int, op: Op) -> _Piece | None:
    """The piece of an op that nothing can compute, else None."""
    if op.kind == END:
        return _Piece(1 << position, END_KIND, END_REASON)
    reason = spec(op.kind).lowering.unsupported
    return _Piece(1 << position, UNSUPPORTED_KIND, reason) if reason else None


def _matching(reach: Reachability, among: int, ask: Ask) -> int:
    return union(1 << i for i in bits(among) if ask(reach.ops[i]))


def _grow_anywhere(rule: Rule, reach: Reachability, start: int, fits: int, free: int) -> Group:
    """Take in every neighbour that fits, with all that lies between it and the group, as long as all of that fits too.

    A neighbour refused once stays refused: what lies between only grows with the group, but for ops that fit.
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
    """Take in what prepares the first op's operands, then one op after the other on the running value.

    An op with post-ops keeps no intermediate result, so the line is cut back to where everything but the last value stays inside.
    x * sigmoid(x) thereby joins whole or not at all, and no path can leave the group and come back.
    """
    group = complete = _with_preparation(rule, reach, start, free)
    last, leaving = start, group.members  # all that may not stay inside; what does so once does in every longer line
    while users := reach.consumers[last] & fits & ~group.members:
        last = next(bits(users))
        group = reach.joined(group, 1 << last)
        leaving = union(1 << i for i in bits(leaving) if not reach.stays_inside(i, group))
        if not leaving:
            complete = group
        leaving |= 1 << last
    return complete


def _with_preparation(rule: Rule, reach: Reachability, start: int, free: int) -> Group:
    """The first op and, above its operands, the ops whose results only this group reads."""
    group, added = reach.single(start), 1 << start
    while rule.prepares is not None and added:
        sources = union(reach.producers[i] for i in bits(added)) & free & ~group.members
        added = union(1 << i for i in bits(_matching(reach, sources, rule.prepares)) if reach.stays_inside(i, group))
        group = reach.joined(group, added)
    return group


def _executable_order(pieces: list[_Piece], reach: Reachability) -> list[_Piece]:
    """Topological over pieces; among those that are ready, the one whose first op comes first in the graph."""
    home = {i: n for n, piece in enumerate(pieces) for i in bits(piece.members)}
    sources = [{home[s] for i in bits(p.members) for s in bits(reach.producers[i])} - {n} for n, p in enumerate(pieces)]
    users: list[list[int]] = [[] for _ in pieces]
    for n, needed in enumerate(sources):
        for source in needed:
            users[source].append(n)
    waiting = [len(needed) for needed in sources]
    ready = [(next(bits(piece.members)), n) for n, piece in enumerate(pieces) if not waiting[n]]
    heapq.heapify(ready)
    ordered = list[_Piece]()
    while ready:
        _, n = heapq.heappop(ready)
        ordered.append(pieces[n])
        for user in users[n]:
            waiting[user] -= 1
            if not waiting[user]:
                heapq.heappush(ready, (next(bits(pieces[user].members)), user))
    return ordered


def _partition(graph: Graph, piece: _Piece, reach: Reachability, blocked: frozenset[int], named: frozenset[int]) -> Partition:
    """Give a piece its ports. Both sides of a border see the producer's description of the tensor.

    blocked: the tensors that may lie in blocks. named: those that the user wants to see.
    """
    ops = tuple(reach.ops[i] for i in bits(piece.members))
    members = {op.id for op in ops}
    made = {t.id for op in ops for t in op.outputs}
    read = dict.fromkeys(t.id for op in ops for t in op.inputs if t.id not in made)

    def leaves(t: LogicalTensor) -> bool:
        users = graph.consumers.get(t.id, ())
        return not users or t.id in named or any(op.id not in members for op in users)

    inputs = tuple(graph.tensors[id] for id in read)
    outputs = tuple(graph.tensors[t.id] for op in ops for t in op.outputs if leaves(t))
    inherited = graph.engine_kind, graph.fpmath_mode, graph.fpmath_apply_to_int
    in_blocks = () if piece.reason else tuple(t.id for t in outputs if t.id in blocked)
    return Partition(next(_ids), piece.kind, ops, inputs, outputs, piece.reason, *inherited, in_blocks)
