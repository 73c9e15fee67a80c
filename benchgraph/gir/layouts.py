"""Blocked layouts of activations and weights, and the width of a B panel."""

from __future__ import annotations

from collections.abc import Iterable
from math import ceil

from benchgraph.core.layout import Layout
from benchgraph.gir.ir import Graph
from benchgraph.machine.target import Target


def panel_columns(n: int, target: Target, most: int = 0) -> int:
    """Columns of one packed B panel: at most so many, or the target's preferred width, whole vectors, panels as equal as that allows.

    The last panel may be padded, so that all rows of panels begin on a cache line; columns of less than a vector are not.

    With panels of at most 64 columns, and 16 lanes: 96 -> 48, 46 -> 48, 13 -> 13.
    """
    lanes = target.lanes
    count = ceil(n / (most or target.panel_width))
    return n if n <= lanes else ceil(n / count / lanes) * lanes


def packed(rank: int, block: int, group: int) -> Layout:
    """B panels of a weight [..., K, N], each lane's group of k together: [..., N/block, K/group, block, group]."""
    blocks = ((rank - 1, block), (rank - 2, group))[: 1 + (group > 1)]
    return Layout((*range(rank - 2), rank - 1, rank - 2), blocks)


def layout_block(g: Graph, values: Iterable[int]) -> int:
    """The outermost block size of the first value whose layout is blocked; 0 where none is."""
    layouts = (g.value(v).layout for v in values)
    return next((layout.blocks[0][1] for layout in layouts if layout.blocks), 0)


def is_packed(layout: Layout, rank: int, group: int) -> bool:
    """Whether a weight is in B panels, of any width."""
    return bool(layout.blocks) and layout == packed(rank, layout.blocks[0][1], group)
