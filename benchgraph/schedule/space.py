"""The schedules that a nest of products can have."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, product
from math import ceil, inf, prod

from benchgraph.core.divisors import block_sizes
from benchgraph.machine.target import Target
from benchgraph.schedule.gemm import Blocks, Gemm
from benchgraph.schedule.primitives import Order, Pack, Parallel, Prefetch, Primitive, Schedule, Tensorize, Tile
from benchgraph.schedule.steps import Nest

# Of a task that works on whole rows between products: more take as long, and memory. docs/measurements/rows-per-task.md
MOST_WHOLE_ROWS = 64
SHORTEST = 16  # rows of a block that is made: sums of fewer terms are stored more often than they are worth
CLOSE = 0.6  # sizes of blocks, and of groups of panels, that differ by less are not told apart


@dataclass(frozen=True)
class Tiling:
    """Tasks of mb rows in calls of nb columns: of all columns, or with `spreads` a task for each nb columns, or with `ns` first all rows
    with so many columns, then with the next ones.

    With ks, weights are read in blocks of ks rows and ns columns, whose columns are tasks with `spreads`. With `makes` each block is made
    right before, with `fetches` of what calls on the block before have fetched."""

    mb: int
    nb: int
    spreads: bool = False
    ns: int = 0
    ks: int = 0
    makes: bool = False
    fetches: bool = False

    @property
    def panels_first(self) -> bool:
        """All rows use some panels of weights while L2 holds them."""
        return self.ns > 0 and not self.ks

    @classmethod
    def of(cls, schedule: Schedule) -> Tiling:
        """The inverse of `tiled`."""
        tiling = cls.read(schedule)
        assert tiling is not None, f"'{schedule}' is no schedule of a product"
        return tiling

    @classmethod
    def read(cls, schedule: Schedule) -> Tiling | None:
        """That of any schedule; None for one that no product has."""
        rows, columns, order = schedule.sizes("m"), schedule.sizes("n"), schedule.order
        batch, taps = ([name for name in names if name[0] == axis] for names, axis in ((order, "b"), (schedule.tensorized, "r")))
        if not rows or not columns:
            return None
        spreads, ks = "n.0" in schedule.parallel, schedule.sizes("k")
        ns = columns[0] if ks or order[:1] == ("n.0",) else 0
        tiling = cls(rows[0], columns[-1], spreads, ns, ks[0] if ks else 0, schedule.packed is not None, schedule.prefetches)
        return tiling if tiling.schedule(batch, taps) == schedule else None

    def schedule(self, batch: Sequence[str], taps: Sequence[str]) -> Schedule:
        """batch, taps: axes."""
        ns, nb, grouped = self.ns, self.nb, self.ns > self.nb
        if self.ks:
            order, count = (*batch, "m.0", "n.0", "k.0", *(("n.1",) if grouped else ())), len(batch) + (2 if self.spreads else 1)
        elif ns:
            order, count = ("n.0", *batch, "m.0", *(("n.1",) if grouped else ())), 2 + len(batch)
        else:
            order, count = (*batch, "m.0", "n.0"), len(batch) + (2 if self.spreads else 1)
        columns = (ns, nb) if grouped else (nb,)
        tiles = (Tile("m", (self.mb,)), Tile("n", columns), *([Tile("k", (self.ks,))] if self.ks else []))
        made: list[Primitive] = [Pack("wei", "k.0")] if self.makes else []
        made += [Prefetch("wei", "k.0")] if self.fetches else []
        call = Tensorize(("m.1", f"n.{len(columns)}", *taps, "k.1" if self.ks else "k"))
        return Schedule((*tiles, Order(order), Parallel(order[:count]), *made, call))


def tiled(gemm: Gemm, tiling: Tiling) -> Schedule:
    return tiling.schedule(gemm.batch_axes, gemm.tap_axes)


def panel_widths(n: int, lanes: int) -> tuple[int, ...]:
    """Columns of a panel, widest first: whole vectors, the last of which may be padded, or all of less than a vector.

    >>> panel_widths(40, 16)
    (48, 32, 16)
    """
    return tuple(vectors * lanes for vectors in block_sizes(ceil(n / lanes))) if n > lanes else (n,)


def spaced(total: int, blocks: int = 1) -> Iterator[int]:
    """Even blocks of so many, at least `blocks` of them, largest first, each at most CLOSE times as large as the one before, and
    those that divide it.

    >>> list(spaced(64))
    [64, 32, 16, 8, 4, 2, 1]
    """
    before = inf
    for size in block_sizes(total, blocks):
        if size <= CLOSE * before or total % size == 0:
            before = size
            yield size


def space(nest: Nest, widths: Sequence[int], target: Target, *, may_spread: bool) -> Iterator[Schedule]:
    """All schedules, those with the most rows and columns first. widths: columns of a call of the only product. may_spread: its columns can
    be tasks, which one core gains nothing by."""
    if len(nest.steps) > 1:
        return row_tilings(nest)
    by_panel = (each for call in calls(nest, widths) for each in around(nest, *call, target.cores, may_spread=may_spread))
    return chain(in_blocks(nest, widths, target.cores, may_spread=may_spread), by_panel)


def calls(nest: Nest, widths: Sequence[int], rows: Sequence[int] = ()) -> Iterator[tuple[int, int]]:
    """Rows and columns of a call of the only product, with so many rows where any are given; none where it makes blocks of its weights, or
    reads them row by row."""
    blocks = nest.first.blocks
    by_panel = blocks is None or (blocks.cycles == 0 and blocks.side_by_side > 1)
    return ((mb, nb) for mb in rows or _rows(nest) for nb in widths if by_panel)


def around(nest: Nest, mb: int, nb: int, cores: int, *, may_spread: bool) -> Iterator[Schedule]:
    """The schedules of the only product with such calls."""
    gemm = nest.first
    yield tiled(gemm, Tiling(mb, nb))
    panels = ceil(gemm.n / nb)
    if not may_spread or panels == 1:
        return
    if cores > 1:
        yield tiled(gemm, Tiling(mb, nb, spreads=True))
    if prod(gemm.batch) * ceil(gemm.m / mb) > 1:
        yield from (tiled(gemm, Tiling(mb, nb, spreads=True, ns=nb * width)) for width in spaced(panels, 2))


def in_blocks(nest: Nest, widths: Sequence[int], cores: int, *, may_spread: bool, rows: Sequence[int] = ()) -> Iterator[Schedule]:
    """Those of the only product that read its weights in blocks."""
    gemm = nest.first
    if gemm.blocks is not None:
        tilings = (_in_blocks(nest, gemm.blocks, nb, cores if may_spread else 1, rows or halves(gemm.m)) for nb in widths)
        yield from (tiled(gemm, tiling) for each in tilings for tiling in each)


def _in_blocks(nest: Nest, blocks: Blocks, nb: int, tasks: int, rows: Sequence[int]) -> Iterator[Tiling]:
    """Of weights in blocks. Those that nothing makes are read some rows at a time, in calls as wide as a block. tasks: most that columns
    are worth."""
    gemm, makes = nest.first, blocks.cycles > 0
    units = halves(ceil(gemm.k / blocks.unit)) if makes else [ceil(blocks.side_by_side / blocks.unit)]
    lengths = dict.fromkeys(min(count * blocks.unit, gemm.k) for count in units if count * blocks.unit >= SHORTEST or count in units[:1])
    fetches = (False, True) if blocks.may_fetch else (False,)
    for width in halves(ceil(gemm.n / nb)):
        spreads = (False, True) if tasks > 1 and width * nb < gemm.n else (False,)
        for ks, is_spread, is_fetched in product(lengths, spreads, fetches):
            columns = width * nb
            for mb in rows if not (is_spread and nest.makes_src) else [each for each in rows if each == gemm.m]:
                yield Tiling(mb, nb if makes else columns, is_spread, columns, ks, makes, is_fetched)


def halves(total: int) -> list[int]:
    """As even blocks of so many as 1, 2, 4, ... of them are, largest first.

    >>> halves(12)
    [12, 6, 3, 2, 1]
    """
    return list(dict.fromkeys(ceil(total / (1 << i)) for i in range(total.bit_length() + 1)))


def _rows(nest: Nest) -> Iterator[int]:
    """Of a task, in whole groups."""
    m, group = nest.first.m, nest.group
    blocks = ceil(m / MOST_WHOLE_ROWS) if nest.works_on_rows else 1
    sizes = spaced(m, blocks)
    return iter(dict.fromkeys(min(ceil(size / group) * group, m) for size in sizes))


def row_tiling(nest: Nest, mb: int, columns: int = 0) -> Schedule:
    """The schedule of several products with tasks of mb rows, and so many columns of scores at a time, 0 for all."""
    batch, blocks = nest.first.batch_axes, ("n.0",) if columns else ()
    tiles = (Tile("m", (mb,)), *([Tile("n", (columns,))] if columns else []))
    return Schedule((*tiles, Order((*batch, "m.0", *blocks)), Parallel((*batch, *(() if nest.has_serial_rows else ("m.0",))))))


def row_tilings(nest: Nest) -> Iterator[Schedule]:
    """All of them."""
    scores, nb = nest.first.n, nest.steps[0].nb
    is_blocked = nest.is_flash and nest.first.m > 1  # one row of scores fits any cache, and no microkernel computes it
    blocks = [nb * count for count in (1, 2, 4) if nb * count < scores] if is_blocked else []
    return (row_tiling(nest, mb, columns) for columns in (0, *blocks) for mb in _rows(nest))
