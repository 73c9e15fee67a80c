"""fuse-fine: every op joins the loop nest of the op that made its input, where it can; the rest begin nests of their own.

    %2 = MatMul(%0, %1)               %4 = fused {
    %3 = Add(%2, %b)           ->       %2 = MatMul(%0, %1)
    %4 = ReLU(%3)                       %3 = Add(%2, %b)
                                        %4 = ReLU(%3) }
"""

from __future__ import annotations

from dataclasses import replace

from benchgraph.core.target import Target
from benchgraph.gir.domain import trace
from benchgraph.gir.ir import Anchor, Fused, Graph, Op, Stage
from benchgraph.ops import spec
from benchgraph.ops.spec import Contraction


def fuse_fine(g: Graph, target: Target) -> Graph:
    """An op may join the *last* nest that makes one of its inputs: everything else it needs then runs before."""
    groups: list[list[Op]] = []
    made_in: dict[int, int] = {}
    for op in g.nodes:
        assert isinstance(op, Op)
        home = max((made_in[g.root(v)] for v in op.ins if g.root(v) in made_in), default=-1)
        if home >= 0 and _fits(g, groups[home], op):
            groups[home].append(op)
        else:
            home = len(groups)
            groups.append([op])
        made_in.update({g.root(v): home for v in op.outs})
    fused = tuple(_fused(g, i, (Stage(tuple(ops), (Anchor.rows,) * len(ops)),)) for i, ops in enumerate(groups))
    return replace(g, nodes=tuple(with_border(g, node, fused) for node in fused))


def _fits(g: Graph, group: list[Op], op: Op) -> bool:
    if _is_constant(g, op) != _is_constant(g, group[0]):
        return False
    domain = trace(g, [*group, op])
    if domain is None:
        return False
    has_kernel = isinstance(spec(group[0].kind).lower, Contraction)
    return not has_kernel or domain.reduced <= {len(domain.extents) - 1}


def _is_constant(g: Graph, op: Op) -> bool:
    return all(g.value(v).is_constant for v in op.outs)


def _fused(g: Graph, number: int, stages: tuple[Stage, ...]) -> Fused:
    return Fused(f"nest{number}", stages, (), ())


def with_border(g: Graph, node: Fused, nodes: tuple[Fused, ...]) -> Fused:
    """The same node with ins and outs as its ops and everybody else's say."""
    made = dict.fromkeys(g.root(v) for op in node.ops for v in op.outs)
    read = dict.fromkeys(g.root(v) for op in node.ops for v in op.ins)
    elsewhere = {g.root(v) for other in nodes if other is not node for op in other.ops for v in op.ins}
    needed = elsewhere | set(g.outs)
    return replace(node, ins=tuple(v for v in read if v not in made), outs=tuple(v for v in made if v in needed))
