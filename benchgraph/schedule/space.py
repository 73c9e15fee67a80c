"""The schedules that a product's nest can have."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import ceil, inf, prod

from benchgraph.core.divisors import block_sizes
from benchgraph.schedule.gemm import Gemm
from benchgraph.schedule.primitives import Order, Parallel, Schedule, Tensorize, Tile

CLOSE, CLOSE_GROUPS = 0.9, 0.6  # sizes of blocks, and of groups of panels, that differ by less are not told apart


def tiled(gemm: Gemm, mb: int, nb: int, *, spreads: bool = False, ns: int = 0) -> Schedule:
    """Tasks of mb rows in calls of nb columns: of all columns, or with `spreads` a task for each nb columns, or first all rows with ns
    columns, then with the next ones."""
    batch = gemm.batch_axes
    if ns:
        columns, order, count = (ns, nb) if ns > nb else (nb,), ("n.0", *batch, "m.0", *(("n.1",) if ns > nb else ())), 2 + len(batch)
    else:
        columns, order = (nb,), (*batch, "m.0", "n.0")
        count = len(order) if spreads else len(order) - 1
    call = Tensorize(("m.1", f"n.{len(columns)}", *(f"r{i}" for i in range(len(gemm.taps))), "k"))
    return Schedule((Tile("m", (mb,)), Tile("n", columns), Order(order), Parallel(order[:count]), call))


def panel_widths(n: int, lanes: int) -> tuple[int, ...]:
    """Columns of a panel, widest first: whole vectors, the last of which may be padded, or all of less than a vector.

    >>> panel_widths(40, 16)
    (48, 32, 16)
    """
    return tuple(vectors * lanes for vectors in block_sizes(ceil(n / lanes))) if n > lanes else (n,)


def spaced(total: int, blocks: int = 1, close: float = CLOSE) -> Iterator[int]:
    """Even blocks of so many, at least `blocks` of them, largest first, each at most `close` times as large as the one before, and
    those that divide it.

    >>> list(spaced(64))
    [64, 32, 22, 16, 13, 11, 8, 7, 6, 5, 4, 3, 2, 1]
    """
    before = inf
    for size in block_sizes(total, blocks):
        if size <= close * before or total % size == 0:
            before = size
            yield size


def space(gemm: Gemm, widths: Sequence[int], *, may_spread: bool) -> Iterator[Schedule]:
    """All schedules with calls of one of these widths, those with the most rows and columns first. may_spread: columns can be tasks."""
    for mb in spaced(gemm.m):
        for nb in widths:
            yield tiled(gemm, mb, nb)
            panels = ceil(gemm.n / nb)
            if not may_spread or panels == 1:
                continue
            yield tiled(gemm, mb, nb, spreads=True)
            if prod(gemm.batch) * ceil(gemm.m / mb) > 1:
                yield from (tiled(gemm, mb, nb, ns=nb * width) for width in spaced(panels, 2, CLOSE_GROUPS))
