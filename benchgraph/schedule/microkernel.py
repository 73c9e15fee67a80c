"""Cycles of a microkernel's calls, all of whose operands L1 holds: on vector registers, and on tile registers.

What code besides the products takes is in cycles here, since it scales with the clock of a core; rates are the machine table's.
docs/measurements/cost-model.md
"""

from __future__ import annotations

from functools import lru_cache
from math import ceil

from benchgraph.core.divisors import even_split
from benchgraph.machine.rates import Rates
from benchgraph.machine.target import LINE_BYTES, TILE_ROWS
from benchgraph.schedule.gemm import Gemm
from benchgraph.schedule.nest import Loop
from benchgraph.schedule.tile_block import tile_block

REGISTERS, MOST_VECTORS = 32, 4  # of a core; and of the columns of a register tile
TILE_COLUMNS = 16
VECTOR_END = 3.0  # cycles of a vector of sums, to clear and to store it
TILE_END = 45.0  # the same of a tile of sums
SPLIT_LOAD = 5.0  # times a load, of a tile whose rows begin within cache lines
COPIED_LINE = 7.5  # cycles of a line of such rows, where a call copies them
REMAINDER_ROWS = 1.0, 3.0  # cycles of a row of src and of wei, to pad what is left of k


@lru_cache(maxsize=4096)
def cycles(gemm: Gemm, rows: int, columns: int, rates: Rates) -> float:
    """Of one call."""
    return _in_tiles(gemm, rows, columns, rates) if gemm.in_tiles else _in_vectors(gemm, rows, columns, rates)


def inner_loops(gemm: Gemm, rows: int, columns: int) -> tuple[Loop, ...]:
    """Of one call, outermost first: register tiles, k, and a register tile."""
    if gemm.in_tiles:
        block = (TILE_ROWS, 4 * TILE_COLUMNS) if rows <= TILE_ROWS else (2 * TILE_ROWS, 2 * TILE_COLUMNS)
        outer = [Loop("m", ceil(rows / block[0])), Loop("n", ceil(columns / block[1]))]
    else:
        vectors = min(MOST_VECTORS, ceil(columns / gemm.lanes))
        block = _register_rows(vectors), vectors * gemm.lanes
        outer = [Loop("n", ceil(columns / block[1])), Loop("m", ceil(rows / block[0]))]
    return (*outer, Loop("k", gemm.k), Loop("m", min(block[0], rows)), Loop("n", min(block[1], columns)))


def _register_rows(vectors: int) -> int:
    return max(min(REGISTERS * 3 // 4, REGISTERS - vectors - 1) // vectors, 1)


def _in_vectors(gemm: Gemm, rows: int, columns: int, rates: Rates) -> float:
    """A step of k loads the vectors of wei and a number of each row of src, and multiplies all pairs."""
    product, total = rates.product(gemm.src), 0.0
    per_step = product.macs_per_cycle / gemm.lanes  # vectors of multiply-adds, over the elements of a group
    loads = 2 * rates.l1.read_bytes_per_cycle / (LINE_BYTES * 3 / 2)
    for panels, vectors in even_split(ceil(columns / gemm.lanes), MOST_VECTORS):
        for count, high in even_split(rows, _register_rows(vectors)):
            step = max(vectors * high / per_step, (vectors + high) / loads, product.latency_cycles)
            total += panels * count * (gemm.k * step + vectors * high * VECTOR_END)
    return total


def _in_tiles(gemm: Gemm, rows: int, columns: int, rates: Rates) -> float:
    """A block of up to four tiles of sums at a time: square, or one tile high where rows of src begin within lines or are few."""
    tiles = rates.tiles
    assert tiles is not None, "the machine has tile registers"
    row_bytes, group = gemm.src.nbytes(gemm.k), 32 // gemm.src.bits
    steps, remainder = divmod(gemm.k, TILE_ROWS * group)
    high, wide = ceil(rows / TILE_ROWS), ceil(columns / TILE_COLUMNS)
    block = tile_block(high, wide, apart=int(row_bytes), nbytes=int(row_bytes))
    height = rows / high
    load = tiles.load_cycles * (SPLIT_LOAD if block.is_split else 1.0)
    total = 0.0
    for row in range(0, high, block.rows):
        for column in range(0, wide, block.columns):
            r, c = min(block.rows, high - row), min(block.columns, wide - column)
            step = max(r * c * height, r * load * height / TILE_ROWS + c * tiles.load_cycles)
            total += (steps + (remainder > 0)) * step + r * c * TILE_END * height / TILE_ROWS
    if block.is_copied:
        total += rows * ceil(row_bytes / LINE_BYTES) * COPIED_LINE
    if remainder:
        of_src, of_wei = REMAINDER_ROWS
        total += rows * ceil(wide / block.columns) * of_src + wide * TILE_ROWS * of_wei
    shapes = 1 + (rows % high > 0 or columns % TILE_COLUMNS > 0)
    return total + (1 + shapes) * tiles.configure_ns * rates.clock_ghz
