"""How a microkernel is cut into tiles for tile registers (amx.py): known before any code is written."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil

from benchgraph.codegen.kernel import Kernel
from benchgraph.codegen.reduction import SRC
from benchgraph.codegen.tile_registers import LANES, ROW_BYTES, TILE_ROWS, Shapes
from benchgraph.codegen.tiles import even_split

ACC_TILES = range(4)
MOST_COPIED = 2048  # bytes of a row of src: two tiles of rows are 64 KiB of stack


@dataclass(frozen=True)
class Run:
    """`count` blocks one after the other, from `first` on, each of `tiles` tiles side by side that have `size` rows or columns."""

    first: int
    count: int
    tiles: int
    size: int


def runs(sizes: Sequence[tuple[int, int]], most: int) -> tuple[Run, ...]:
    """Tiles, given as runs of (count, size), in blocks of at most `most`.

    >>> runs(((3, 16),), 2)
    (Run(first=0, count=1, tiles=2, size=16), Run(first=32, count=1, tiles=1, size=16))
    """
    found, first = list[Run](), 0
    for count, size in sizes:
        for blocks, tiles in ((count // most, most), (1, count % most)):
            if blocks and tiles:
                found.append(Run(first, blocks, tiles, size))
                first += blocks * tiles * size
    return tuple(found)


@dataclass(frozen=True)
class Block:
    """A rectangle of acc tiles."""

    rows: Run
    columns: Run

    @property
    def acc(self) -> dict[tuple[int, int], int]:
        """The register of the tile in each row and column of tiles."""
        places = [(r, c) for r in range(self.rows.tiles) for c in range(self.columns.tiles)]
        return dict(zip(places, ACC_TILES, strict=False))


@dataclass(frozen=True)
class Plan:
    """How a kernel goes in tiles.

    rows, columns: blocks of acc. src, wei: the registers that their tiles pass through. k is `steps` steps of `groups` groups, and `rest`
    elements. lines: of each row of src in a copy that a block makes of its rows first; 0 where it makes none.
    """

    rows: tuple[Run, ...]
    columns: tuple[Run, ...]
    src: range
    wei: range
    groups: int
    steps: int
    rest: int
    lines: int


def plan(kernel: Kernel) -> Plan:
    """Rows of src that begin within cache lines are copied where more than one block of columns reads them."""
    rows = even_split(kernel.m, TILE_ROWS)
    columns = tuple(part for part in ((kernel.n // LANES, LANES), (1, kernel.n % LANES)) if all(part))
    high, wide = (sum(count for count, _ in sizes) for sizes in (rows, columns))
    most, src = ((1, 4), range(4, 5)) if high == 1 else ((4, 1), range(4, 7)) if wide == 1 else ((2, 2), range(4, 6))
    whole, odd = divmod(kernel.k, kernel.group)
    steps = ceil(whole / TILE_ROWS)
    groups = TILE_ROWS if odd or whole % steps else whole // steps
    steps = whole // groups
    nbytes = kernel.dtypes[SRC].nbytes
    is_apart = nbytes(kernel.src_row_stride) % ROW_BYTES and wide > most[1] and not kernel.batch
    lines = ceil(nbytes(kernel.k) / ROW_BYTES) if is_apart and nbytes(kernel.k) <= MOST_COPIED else 0
    rest = kernel.k - steps * groups * kernel.group
    return Plan(runs(rows, most[0]), runs(columns, most[1]), src, range(src.stop, 8), groups, steps, rest, lines)


def shapes(kernel: Kernel) -> Shapes | None:
    """What the tile registers are to be like all the time, None where they change."""
    p = plan(kernel)
    found = {block_shapes(p, Block(row, column)) for row in p.rows for column in p.columns}
    return found.pop() if len(found) == 1 else None


def block_shapes(p: Plan, block: Block) -> Shapes:
    """Tiles of one operand have one shape in a block."""
    rows, columns = block.rows.size, block.columns.size
    return (*((rows, columns) for _ in ACC_TILES), *((rows, p.groups) for _ in p.src), *((p.groups, columns) for _ in p.wei))


def steps(kernel: Kernel) -> int:
    """Steps of K loops that one entry of the batch takes."""
    p = plan(kernel)
    return (p.steps + bool(p.rest)) * sum(row.count for row in p.rows) * sum(column.count for column in p.columns)
