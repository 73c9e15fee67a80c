"""Every choice of template parameters that is legal for a product: what exhaustive search goes through.

The template cuts evenly, so what is free is the number of row blocks and of panels: each number that makes a block of another size counts.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import ceil

from benchgraph.core.options import Forced
from benchgraph.core.target import Target


def row_blocks(m: int) -> tuple[int, ...]:
    """Rows of a task, largest first: m cut into 1, 2, ... m blocks.

    >>> row_blocks(10)
    (10, 5, 4, 3, 2, 1)
    """
    return tuple(_block_sizes(m))


def panel_widths(n: int, target: Target) -> tuple[int, ...]:
    """Columns of a panel, widest first: whole vectors, or all n.

    >>> panel_widths(40, avx512_core)
    (40, 32, 16)
    """
    lanes = target.lanes
    return tuple(dict.fromkeys(min(n, vectors * lanes) for vectors in _block_sizes(ceil(n / lanes))))


def _block_sizes(total: int) -> Iterator[int]:
    """ceil(total / blocks) for 1, 2, ... total blocks, each once, largest first: no more than twice the root of total."""
    blocks = 1
    while blocks <= total:
        size = -(-total // blocks)
        yield size
        blocks = total + 1 if size == 1 else (total - 1) // (size - 1) + 1  # the first with smaller ones


def legal(problem: str, m: int, n: int, target: Target, *, may_split: bool) -> Iterator[Forced]:
    """may_split: the columns may be spread over tasks, which changes nothing when there is but one panel."""
    for mb in row_blocks(m):
        for nb in panel_widths(n, target):
            yield Forced(problem, mb, nb)
            if may_split and nb < n:
                yield Forced(problem, mb, nb, split_n=True)
