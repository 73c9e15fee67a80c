"""Every legal choice of template parameters for a product: what `benchgraph tune` searches.

Blocks are even, so the free parameters are the numbers of row blocks and of panels: each number that gives another block size counts.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import ceil

from benchgraph.core.divisors import block_sizes
from benchgraph.core.options import Forced
from benchgraph.machine.target import Target


def row_blocks(m: int) -> tuple[int, ...]:
    """Rows of a task, largest first: m cut into 1, 2, ... m blocks.

    >>> row_blocks(10)
    (10, 5, 4, 3, 2, 1)
    """
    return tuple(block_sizes(m))


def panel_widths(n: int, target: Target) -> tuple[int, ...]:
    """Columns of a panel, widest first: whole vectors, the last of which may be padded, or all of less than a vector.

    >>> panel_widths(40, avx512_core)
    (48, 32, 16)
    """
    lanes = target.lanes
    return tuple(vectors * lanes for vectors in block_sizes(ceil(n / lanes))) if n > lanes else (n,)


def legal(problem: str, m: int, n: int, target: Target, *, may_split: bool) -> Iterator[Forced]:
    """may_split: the columns may be spread over tasks, which changes nothing when there is one panel only."""
    for mb in row_blocks(m):
        for nb in panel_widths(n, target):
            yield Forced(problem, mb, nb)
            if may_split and nb < n:
                yield Forced(problem, mb, nb, split_n=True)
