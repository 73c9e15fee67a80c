"""Layered drawing of an acyclic graph: each node below its inputs, few crossings, mostly straight lines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import fmean

SWEEPS = 12
SOURCE_WEIGHT = 0.1  # weight of nodes without predecessors, so that chains stay straight and inputs move aside
GAP = 24.0  # between neighbours of a layer


@dataclass(frozen=True)
class Drawing:
    """centre: node -> x; layer: node -> its layer from the top. paths: edge -> the (x, layer) points of its line."""

    centre: dict[str, float]
    layer: dict[str, int]
    paths: dict[tuple[str, str], tuple[tuple[float, int], ...]]


def lay_out(widths: Mapping[str, float], edges: Sequence[tuple[str, str]]) -> Drawing:
    """widths: of every node. Long edges get a node of no width in each layer they cross, so that lines avoid boxes."""
    layer = _layers(list(widths), edges)
    size, steps, chains = dict(widths), list[tuple[str, str]](), dict[tuple[str, str], list[str]]()
    for a, b in edges:
        chain = [a, *(f"{a}>{b}@{i}" for i in range(layer[a] + 1, layer[b])), b]
        chains[a, b] = chain
        steps += pairwise(chain)
        for i, node in enumerate(chain[1:-1], layer[a] + 1):
            size[node], layer[node] = 0.0, i
    rows = _ordered(layer, steps)
    x = _placed(rows, size, steps)
    paths = {edge: tuple((x[node], layer[node]) for node in chain) for edge, chain in chains.items()}
    return Drawing({n: x[n] for n in widths}, {n: layer[n] for n in widths}, paths)


def _layers(nodes: list[str], edges: Sequence[tuple[str, str]]) -> dict[str, int]:
    """The longest path from a source; then sources move down to just above their first reader."""
    layer = dict.fromkeys(nodes, 0)
    for _ in nodes:
        moved = False
        for a, b in edges:
            if layer[b] <= layer[a]:
                layer[b], moved = layer[a] + 1, True
        if not moved:
            break
    made = {b for _, b in edges}
    for node in nodes:
        readers = [layer[b] for a, b in edges if a == node]
        if node not in made and readers:
            layer[node] = min(readers) - 1
    return layer


def _neighbours(steps: Sequence[tuple[str, str]]) -> dict[str, list[str]]:
    by_node: dict[str, list[str]] = {}
    for a, b in steps:
        by_node.setdefault(a, []).append(b)
        by_node.setdefault(b, []).append(a)
    return by_node


def _ordered(layer: Mapping[str, int], steps: Sequence[tuple[str, str]]) -> list[list[str]]:
    """The layers, each sorted by the mean position of the neighbours above, then below, and so on: the barycentre method."""
    rows = [[n for n in layer if layer[n] == i] for i in range(max(layer.values(), default=-1) + 1)]
    near = _neighbours(steps)
    for sweep in range(SWEEPS):
        towards = -1 if sweep % 2 == 0 else 1
        for i in range(len(rows)) if towards < 0 else reversed(range(len(rows))):
            if not 0 <= i + towards < len(rows):
                continue
            place = {n: p for p, n in enumerate(rows[i + towards])}
            own = {n: p for p, n in enumerate(rows[i])}
            rows[i].sort(key=lambda n: (fmean([place[m] for m in near.get(n, ()) if m in place] or [own[n]]), own[n]))
    return rows


def _placed(rows: list[list[str]], size: Mapping[str, float], steps: Sequence[tuple[str, str]]) -> dict[str, float]:
    """x of every node: near the mean of its neighbours, but apart from those of its layer."""
    near, x = _neighbours(steps), dict[str, float]()
    made = {b for _, b in steps}
    weight = {n: 1.0 if n in made else SOURCE_WEIGHT for n in size}
    for row in rows:
        _spread(row, dict.fromkeys(row, 0.0), size, weight, x)
    for sweep in range(SWEEPS):
        for row in rows if sweep % 2 == 0 else reversed(rows):
            _spread(row, {n: _mean(near.get(n) or [n], x, weight) for n in row}, size, weight, x)
    left = min((x[n] - size[n] / 2 for n in x), default=0.0)
    return {n: at - left for n, at in x.items()}


def _mean(nodes: Sequence[str], value: Mapping[str, float], weight: Mapping[str, float]) -> float:
    return sum(value[n] * weight[n] for n in nodes) / sum(weight[n] for n in nodes)


def _spread(
    row: list[str], wanted: Mapping[str, float], size: Mapping[str, float], weight: Mapping[str, float], x: dict[str, float]
) -> None:
    """Place a layer as near to the wanted x as its order allows: touching nodes form a block, placed at their mean."""
    offset, blocks = dict[str, float](), list[list[str]]()
    at = 0.0
    for before, node in pairwise(["", *row]):
        at += (size[before] + size[node]) / 2 + GAP if before else 0.0
        offset[node] = at
    wish = {n: wanted[n] - offset[n] for n in row}
    for node in row:
        blocks.append([node])
        while len(blocks) > 1 and _mean(blocks[-2], wish, weight) >= _mean(blocks[-1], wish, weight):
            last = blocks.pop()
            blocks[-1] += last
    for block in blocks:
        at = _mean(block, wish, weight)
        x.update({node: at + offset[node] for node in block})
