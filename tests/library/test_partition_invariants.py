"""What must hold for the partitions of any graph, on thousands of random ones, through the programming model."""

from __future__ import annotations

from itertools import count
from random import Random

import pytest

from benchgraph import DType, Graph, LogicalTensor, Op, Partition, Policy
from tests.library.run import built

GRAPHS = 2000
UNARY = ("ReLU", "Exp", "Tanh", "Sigmoid", "SoftMax", "StaticTranspose", "Reorder")
BINARY = ("MatMul", "MatMul", "Add", "Multiply", "Divide")
ATTRS: dict[str, dict[str, object]] = {"StaticTranspose": {"order": [1, 0]}}


def random_ops(random: Random) -> list[Op]:
    """2 to 14 ops on square tensors, each reading any earlier tensors, in any order; Wildcards and Ends among them."""
    ids = count(100)

    def tensor() -> LogicalTensor:
        return LogicalTensor(next(ids), DType.f32, (8, 8))

    tensors, ops = [tensor(), tensor()], list[Op]()
    for id in range(random.randint(2, 14)):
        roll = random.random()
        if roll < 0.06 and ops:
            ops.append(Op(id, "End", inputs=[random.choice(tensors[2:])]) if tensors[2:] else Op(id, "Wildcard"))
            continue
        kind = "Wildcard" if roll < 0.12 else random.choice(UNARY if roll < 0.5 else BINARY)
        sources = [random.choice(tensors[-5:]) for _ in range(2 if kind in BINARY or kind == "Wildcard" else 1)]
        outs = [tensor() for _ in range(2 if kind == "Wildcard" else 1)]
        tensors += outs
        ops.append(Op(id, kind, inputs=sources, outputs=outs, **ATTRS.get(kind, {})))
    random.shuffle(ops)
    return ops


def wires(ops: list[Op]) -> set[tuple[int, int]]:
    """(producer, consumer) op ids."""
    made = {t.id: op.id for op in ops for t in op.outputs}
    return {(made[t.id], op.id) for op in ops for t in op.inputs if t.id in made}


def reachable(flow: set[tuple[int, int]], ops: list[Op]) -> dict[int, set[int]]:
    """Op id -> the ops that depend on it."""
    after: dict[int, set[int]] = {op.id: set() for op in ops}
    changed = True
    while changed:
        changed = False
        for a, b in flow:
            more = ({b} | after[b]) - after[a]
            after[a] |= more
            changed = changed or bool(more)
    return after


def check_cover(ops: list[Op], cut: tuple[Partition, ...]) -> None:
    """Every op in exactly one partition; ids of their own."""
    assert sorted(id for p in cut for id in p.ops) == sorted(op.id for op in ops)
    assert all(p.ops_num == len(p.ops) >= 1 for p in cut)
    assert len({p.id for p in cut}) == len(cut)


def check_order(flow: set[tuple[int, int]], cut: tuple[Partition, ...]) -> None:
    """The order is one in which they can run, which also means that no two wait for each other."""
    home = {id: n for n, p in enumerate(cut) for id in p.ops}
    assert all(home[a] <= home[b] for a, b in flow)


def check_shape(flow: set[tuple[int, int]], after: dict[int, set[int]], p: Partition) -> None:
    """Connected, and convex: no path leaves it and comes back."""
    members, seen, todo = set(p.ops), set[int](), [p.ops[0]]
    while todo:
        at = todo.pop()
        seen.add(at)
        todo += [b for a, b in flow if a == at and b in members - seen] + [a for a, b in flow if b == at and a in members - seen]
    assert seen == members
    left = set().union(*(after[m] for m in members)) - members
    assert not any(after[o] & members for o in left)


def check_ports(ops: list[Op], p: Partition) -> None:
    """In: each use of what is made outside, with the dtype of the graph. Out: what is read outside, or by nobody, or marked by End."""
    members = [op for op in ops if op.id in p.ops]
    made = {t.id for op in members for t in op.outputs}
    read = [t.id for op in members for t in op.inputs if t.id not in made]
    outside = {t.id for op in ops if op.id not in p.ops for t in op.inputs}
    anywhere = {t.id for op in ops for t in op.inputs}
    assert sorted(t.id for t in p.input_ports) == sorted(read)
    assert sorted(t.id for t in p.output_ports) == sorted(id for id in made if id in outside or id not in anywhere)
    assert all(t.dtype is DType.f32 for t in (*p.input_ports, *p.output_ports))


@pytest.mark.parametrize("block", range(4))
def test_partitions_of_random_graphs(block: int) -> None:
    """Cover, order, no cycles, connected, convex, ports, policies, again the same; unsupported ops alone."""
    fused = 0
    for seed in range(block * GRAPHS // 4, (block + 1) * GRAPHS // 4):
        ops = random_ops(Random(seed))
        flow, graph = wires(ops), built([op.described for op in ops])
        after = reachable(flow, ops)
        counts = {}
        for policy in Policy:
            cut = graph.get_partitions(policy)
            check_cover(ops, cut)
            check_order(flow, cut)
            for p in cut:
                check_shape(flow, after, p)
                check_ports(ops, p)
                kinds = {op.kind for op in ops if op.id in p.ops}
                assert p.is_supported == (not kinds & {"End", "Wildcard"}), seed
                assert p.is_supported or p.ops_num == 1
            counts[policy] = len(cut)
        assert counts[Policy.fusion] <= counts[Policy.post_ops] <= counts[Policy.debug] == len(ops)
        assert [(p.ops, p.input_ports, p.output_ports) for p in graph.get_partitions(Policy.debug)] == [
            (p.ops, p.input_ports, p.output_ports) for p in graph.get_partitions(Policy.debug)
        ]
        fused += counts[Policy.debug] - counts[Policy.fusion]
    assert fused > GRAPHS // 4, "the graphs are worth cutting"


def test_ids_are_unique_across_graphs_and_partitions_outlive_them() -> None:
    """Nothing of a partition is lost with its graph."""
    ops = random_ops(Random(7))
    graphs: list[Graph] = [built([op.described for op in ops]) for _ in range(3)]
    cuts = [g.get_partitions() for g in graphs]
    del graphs
    assert len({p.id for cut in cuts for p in cut}) == sum(map(len, cuts))
    for cut in cuts:
        for p in cut:
            check_ports(ops, p)
