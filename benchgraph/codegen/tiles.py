"""How a microkernel cuts its columns into panels of vectors and its rows into register tiles; microkernel.py says why."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from math import ceil

from benchgraph.codegen.dot import registers
from benchgraph.core.target import Target
from benchgraph.tir.groups import DTypes

# Of two tiles as high as this or lower that one tile of half the width replaces: it fetches wei once. One Granite Rapids core (L1d 48 KiB,
# L2 2 MiB), f32, shares of the peak with panels of 4 and 2 vectors, panels in turns, best of 15:
#
#     rows           7          8          10         12         14         28
#     k = 512    76, 83     78, 80     84, 84     86, 86     82, 85     86, 84
#     k = 4608   74, 75     73, 73     80, 78     80, 79     75, 72     78, 74
#
# Convolutions by rows of 7 windows take 0.85 to 0.98 of the time so, by rows of 14 1.05 to 1.19.
FEW_ROWS = 4
ACCUMULATORS_IN_FLIGHT = 8  # that keep the multipliers busy: latency 4, two per cycle (Intel since Skylake, Zen)


@dataclass(frozen=True)
class Panels:
    """`count` column panels side by side, each `columns` wide and held in `vectors` vectors, the last of which may be partly used.

    rows: the most a register tile has; the tiles are even_split(m, rows).
    """

    count: int
    columns: int
    vectors: int
    rows: int


def even_split(total: int, most: int) -> tuple[tuple[int, int], ...]:
    """Cut total into the fewest parts of at most `most`, whose sizes differ by at most one: runs of (count, size), larger first.

    >>> even_split(16, 6)
    ((1, 6), (2, 5))
    """
    parts = ceil(total / most)
    size, larger = divmod(total, parts)
    return tuple(run for run in ((larger, size + 1), (parts - larger, size)) if run[0])


def tile_rows(vectors: int, target: Target, dtypes: DTypes, *, src_row_stride: int, ragged: bool = False) -> int:
    """The most rows of a register tile this many vectors wide.

    Accumulators take up to three quarters of the registers, and leave room for what a step needs beside them and the mask of a ragged
    last vector. Rows of src that fall in the same sets of L1 are no more than its ways.
    """
    each, others = registers(dtypes, target.isa)
    accumulators = min(target.isa.registers * 3 // 4, target.isa.registers - vectors * each - others - ragged)
    return min(max(accumulators // vectors, 1), target.rows_in_l1(dtypes[0].nbytes(src_row_stride)))


def register_tiles(n: int, target: Target, dtypes: DTypes, *, m: int, src_row_stride: int, fetches_wei: bool = False) -> tuple[Panels, ...]:
    """How n is cut into column panels of whole vectors, left to right, for m rows of src this many elements apart.

    fetches_wei: every tile of rows has what it reads of wei come from beyond L1.
    """
    vectors = ceil(n / target.lanes)
    rows = partial(tile_rows, target=target, dtypes=dtypes, src_row_stride=src_row_stride)
    narrow = target.panel_width // target.lanes // 2
    is_even = narrow > 1 and vectors % narrow == 0
    is_one_tile = fetches_wei and is_even and rows(2 * narrow) < m <= min(rows(narrow), 2 * FEW_ROWS)
    widest = narrow if is_one_tile else _panel_vectors(vectors, m, target, rows)
    runs = [Panels(count, v * target.lanes, v, rows(v)) for count, v in even_split(vectors, widest)]
    missing = vectors * target.lanes - n
    if not missing:
        return tuple(runs)
    last = runs.pop()
    if last.count > 1:
        runs.append(replace(last, count=last.count - 1))
    return (*runs, Panels(1, last.columns - missing, last.vectors, rows(last.vectors, ragged=True)))


def _panel_vectors(vectors: int, m: int, target: Target, rows: Callable[[int], int]) -> int:
    """The preferred number, or more when m is so short that a tile has too few accumulators, or when a lone vector would be left over
    (it needs one broadcast per fma)."""
    preferred = target.panel_width // target.lanes
    if vectors <= preferred:
        return vectors
    most = min(vectors, target.isa.registers // 2)
    reusing_wei = [v for v in range(preferred, most + 1) if rows(v) >= min(m, 2)]
    in_flight = {v: v * (m // ceil(m / rows(v))) for v in reusing_wei}
    enough = (v for v, count in in_flight.items() if count >= ACCUMULATORS_IN_FLIGHT and vectors // ceil(vectors / v) > 1)
    return next(enough, max(in_flight, key=lambda v: in_flight[v], default=preferred))
