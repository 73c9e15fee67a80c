"""The schedules that a product's nest can have."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import ceil, inf, prod

from benchgraph.core.divisors import block_sizes
from benchgraph.core.errors import ParseError
from benchgraph.schedule.gemm import Gemm
from benchgraph.schedule.primitives import Order, Parallel, Schedule, Tensorize, Tile

CLOSE, CLOSE_GROUPS = 0.9, 0.6  # sizes of blocks, and of groups of panels, that differ by less are not told apart


@dataclass(frozen=True)
class Tiling:
    """Tasks of mb rows in calls of nb columns: of all columns, or with `spreads` a task for each nb columns, or with `ns` first all rows
    with so many columns, then with the next ones."""

    mb: int
    nb: int
    spreads: bool = False
    ns: int = 0

    @classmethod
    def of(cls, schedule: Schedule) -> Tiling:
        """The inverse of `tiled`. Raises ParseError for a schedule that no product has."""
        rows, columns, order = schedule.sizes("m"), schedule.sizes("n"), schedule.order
        batch, taps = ([name for name in names if name[0] == axis] for names, axis in ((order, "b"), (schedule.tensorized, "r")))
        if rows and columns:
            tiling = cls(rows[0], columns[-1], "n.0" in schedule.parallel, columns[0] if order[:1] == ("n.0",) else 0)
            if tiling.schedule(batch, taps) == schedule:
                return tiling
        raise ParseError("is no schedule of a product", where=f"'{schedule}'", fix="write one as `benchgraph explain` prints it")

    def schedule(self, batch: Sequence[str], taps: Sequence[str]) -> Schedule:
        """batch, taps: axes."""
        ns, nb, grouped = self.ns, self.nb, self.ns > self.nb
        if ns:
            order, count = ("n.0", *batch, "m.0", *(("n.1",) if grouped else ())), 2 + len(batch)
        else:
            order, count = (*batch, "m.0", "n.0"), len(batch) + (2 if self.spreads else 1)
        columns = (ns, nb) if grouped else (nb,)
        call = Tensorize(("m.1", f"n.{len(columns)}", *taps, "k"))
        return Schedule((Tile("m", (self.mb,)), Tile("n", columns), Order(order), Parallel(order[:count]), call))


def tiled(gemm: Gemm, tiling: Tiling) -> Schedule:
    return tiling.schedule(gemm.batch_axes, tuple(f"r{i}" for i in range(len(gemm.taps))))


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


def space(gemm: Gemm, widths: Sequence[int], cores: int, *, may_spread: bool) -> Iterator[Schedule]:
    """All schedules with calls of one of these widths, those with the most rows and columns first. may_spread: columns can be tasks, which
    one core gains nothing by."""
    for mb in spaced(gemm.m):
        for nb in widths:
            yield tiled(gemm, Tiling(mb, nb))
            panels = ceil(gemm.n / nb)
            if not may_spread or panels == 1:
                continue
            if cores > 1:
                yield tiled(gemm, Tiling(mb, nb, spreads=True))
            if prod(gemm.batch) * ceil(gemm.m / mb) > 1:
                yield from (tiled(gemm, Tiling(mb, nb, spreads=True, ns=nb * width)) for width in spaced(panels, 2, CLOSE_GROUPS))
