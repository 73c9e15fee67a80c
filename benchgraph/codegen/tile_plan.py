"""How a microkernel is split into tiles for tile registers (amx.py), decided before any code is written."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil

from benchgraph.codegen.kernel import Kernel
from benchgraph.codegen.microkernel_base import SRC
from benchgraph.codegen.tile_registers import LANES, ROW_BYTES, TILE_ROWS, Shapes
from benchgraph.core.divisors import even_split
from benchgraph.schedule.tile_block import tile_block

ACC_TILES = range(4)


@dataclass(frozen=True)
class BlockRange:
    """Along rows or columns: `count` blocks of `tiles` tiles of `size` rows or columns each. The first block starts at `first`."""

    first: int
    count: int
    tiles: int
    size: int


def block_ranges(sizes: Sequence[tuple[int, int]], most: int) -> tuple[BlockRange, ...]:
    """Tiles, given as pairs of (count, size), in blocks of at most `most` tiles.

    >>> block_ranges(((3, 16),), 2)
    (BlockRange(first=0, count=1, tiles=2, size=16), BlockRange(first=32, count=1, tiles=1, size=16))
    """
    ranges, first = list[BlockRange](), 0
    for count, size in sizes:
        for blocks, tiles in ((count // most, most), (1, count % most)):
            if blocks and tiles:
                ranges.append(BlockRange(first, blocks, tiles, size))
                first += blocks * tiles * size
    return tuple(ranges)


@dataclass(frozen=True)
class Block:
    """A rectangle of acc tiles."""

    rows: BlockRange
    columns: BlockRange

    @property
    def acc(self) -> dict[tuple[int, int], int]:
        """The register of each tile, by its row and column of tiles."""
        places = [(r, c) for r in range(self.rows.tiles) for c in range(self.columns.tiles)]
        return dict(zip(places, ACC_TILES, strict=False))


@dataclass(frozen=True)
class TilePlan:
    """rows, columns: blocks of acc. src, wei: registers for their tiles. k is `steps` steps of `groups` groups, and `remainder` elements.

    copied_lines: cache lines of each row of src in the aligned copy that a block makes of its rows; 0 where it makes none.
    """

    rows: tuple[BlockRange, ...]
    columns: tuple[BlockRange, ...]
    src: range
    wei: range
    groups: int
    steps: int
    remainder: int
    copied_lines: int


def plan(kernel: Kernel) -> TilePlan:
    rows = even_split(kernel.m, TILE_ROWS)
    columns = tuple(part for part in ((kernel.n // LANES, LANES), (1, kernel.n % LANES)) if all(part))
    row_tiles, column_tiles = (sum(count for count, _ in sizes) for sizes in (rows, columns))
    nbytes = kernel.dtypes[SRC].nbytes
    apart, has_batch = nbytes(kernel.src_row_stride), bool(kernel.batch)
    block = tile_block(row_tiles, column_tiles, apart=apart, nbytes=nbytes(kernel.k), has_batch=has_batch)
    src = range(4, {1: 5, 2: 6, 4: 7}[block.rows])
    all_groups, odd = divmod(kernel.k, kernel.group)
    steps = ceil(all_groups / TILE_ROWS)
    groups = TILE_ROWS if odd or all_groups % steps else all_groups // steps
    steps = all_groups // groups
    lines = ceil(nbytes(kernel.k) / ROW_BYTES) if block.is_copied else 0
    remainder = kernel.k - steps * groups * kernel.group
    ranges = block_ranges(rows, block.rows), block_ranges(columns, block.columns)
    return TilePlan(*ranges, src, range(src.stop, 8), groups, steps, remainder, lines)


def common_shapes(kernel: Kernel) -> Shapes | None:
    """The shapes of the tile registers, None where blocks need different ones."""
    p = plan(kernel)
    shapes = {block_shapes(p, Block(row, column)) for row in p.rows for column in p.columns}
    return shapes.pop() if len(shapes) == 1 else None


def block_shapes(p: TilePlan, block: Block) -> Shapes:
    """The shapes of the tile registers for a block, one for all tiles of an operand."""
    rows, columns = block.rows.size, block.columns.size
    return (*((rows, columns) for _ in ACC_TILES), *((rows, p.groups) for _ in p.src), *((p.groups, columns) for _ in p.wei))


def k_steps(kernel: Kernel) -> int:
    """Steps of K loops that one entry of the batch takes."""
    p = plan(kernel)
    return (p.steps + bool(p.remainder)) * sum(row.count for row in p.rows) * sum(column.count for column in p.columns)
