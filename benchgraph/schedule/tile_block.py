"""Register tiles: how many rows of sums a microkernel adds to at a time on vector registers; on tile registers how many tiles, and whether
it copies rows of src first."""

from __future__ import annotations

from dataclasses import dataclass

from benchgraph.machine.target import LINE_BYTES, TILES_OF_SUMS

MAX_COPIED_BYTES = 2048  # of a row of src: two tiles of rows are 64 KiB of stack


def register_rows(vectors: int, registers: int, others: int) -> int:
    """The most rows of a register tile so many vectors wide, whose sums take up to three quarters of the vector registers, less where the
    others of a step need more."""
    return max(min(registers * 3 // 4, registers - others) // vectors, 1)


@dataclass(frozen=True)
class TileBlock:
    """rows, columns: at most so many tiles of sums. is_split: loads of src fetch parts of two lines a row. is_copied: rows are copied
    to where they begin at lines, for all blocks of columns."""

    rows: int
    columns: int
    is_split: bool
    is_copied: bool


def tile_block(high: int, wide: int, *, apart: int, nbytes: int, has_batch: bool = False) -> TileBlock:
    """For sums of so many tiles. apart: bytes between rows of src; nbytes: of a row. has_batch: of operands that are summed over.

    Blocks are square, if rows of src begin at cache lines or are copied to such; where they do not, loads take longer, so each tile of src
    then serves as many tiles of columns as there can be. All of them need no copy, since each tile is loaded once.
    docs/measurements/microkernel.md, Tile registers (AMX)
    """
    begins_within = apart % LINE_BYTES > 0
    is_copied = begins_within and not has_batch and wide > TILES_OF_SUMS and nbytes <= MAX_COPIED_BYTES
    is_split = begins_within and not is_copied
    rows, columns = (1, TILES_OF_SUMS) if high == 1 or (is_split and wide > 2) else (TILES_OF_SUMS, 1) if wide == 1 else (2, 2)
    return TileBlock(rows, columns, is_split, is_copied)
