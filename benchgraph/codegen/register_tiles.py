"""How a microkernel splits its columns into register panels, a few vectors wide, and its rows into register tiles.

docs/measurements/microkernel.md has the measurements behind it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from math import ceil

from benchgraph.codegen.dot import registers
from benchgraph.core.divisors import even_split
from benchgraph.machine.target import Target, rows_in_sets
from benchgraph.schedule.tile_block import register_rows
from benchgraph.tir.groups import DTypes

IN_FLIGHT = 8  # accumulators: a multiply-add has up to four cycles of latency, and up to two begin in a cycle (measurements/microkernel.md)
NARROW_TILE_ROWS = 4  # one tile of half the width, which loads wei once, is faster than two tiles of at most so many rows


@dataclass(frozen=True)
class Panels:
    """`count` neighbouring register panels of `columns` columns and `vectors` vectors, the last of which may be partly used.

    rows: the most rows of a register tile; the tiles are even_split(m, rows).
    """

    count: int
    columns: int
    vectors: int
    rows: int


def tile_rows(vectors: int, target: Target, dtypes: DTypes, *, src_row_stride: int, has_partial_vector: bool = False) -> int:
    """The most rows of a register tile this many vectors wide.

    The mask of a partial vector takes a register too (on AVX2 it is in a vector register). Rows of src that fall in the same sets of L1 are
    at most as many as these hold.
    """
    each, others = registers(dtypes, target.isa)
    rows = register_rows(vectors, target.isa.registers, vectors * each + others + has_partial_vector)
    return min(rows, rows_in_sets(dtypes[0].nbytes(src_row_stride)))


def register_tiles(n: int, target: Target, dtypes: DTypes, *, m: int, src_row_stride: int, reloads_wei: bool = False) -> tuple[Panels, ...]:
    """How n is split into register panels of whole vectors, left to right.

    m: rows of src, src_row_stride elements apart. reloads_wei: L1 does not keep wei from one tile of rows to the next.
    """
    vectors = ceil(n / target.lanes)
    rows = partial(tile_rows, target=target, dtypes=dtypes, src_row_stride=src_row_stride)
    narrow = target.panel_width // target.lanes // 2
    is_even = narrow > 1 and vectors % narrow == 0
    is_one_tile = reloads_wei and is_even and rows(2 * narrow) < m <= min(rows(narrow), 2 * NARROW_TILE_ROWS)
    widest = narrow if is_one_tile else _panel_vectors(vectors, m, target, rows)
    panels = [Panels(count, v * target.lanes, v, rows(v)) for count, v in even_split(vectors, widest)]
    missing = vectors * target.lanes - n
    if not missing:
        return tuple(panels)
    last = panels.pop()
    if last.count > 1:
        panels.append(replace(last, count=last.count - 1))
    return (*panels, Panels(1, last.columns - missing, last.vectors, rows(last.vectors, has_partial_vector=True)))


def _panel_vectors(vectors: int, m: int, target: Target, rows: Callable[[int], int]) -> int:
    """The preferred width of a panel, or more where m is so small that a tile has too few accumulators, or where a single vector would be
    left, which needs one broadcast per FMA."""
    preferred = target.panel_width // target.lanes
    if vectors <= preferred:
        return vectors
    most = min(vectors, target.isa.registers // 2)
    reusing_wei = [v for v in range(preferred, most + 1) if rows(v) >= min(m, 2)]
    in_flight = {v: v * (m // ceil(m / rows(v))) for v in reusing_wei}
    enough = (v for v, count in in_flight.items() if count >= IN_FLIGHT and vectors // ceil(vectors / v) > 1)
    return next(enough, max(in_flight, key=lambda v: in_flight[v]))
