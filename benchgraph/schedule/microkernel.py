"""Cycles of a microkernel's calls, all of whose operands L1 holds: on vector registers, and on tile registers; what L1 does not hold.

docs/measurements/cost-model.md
"""

from __future__ import annotations

from dataclasses import replace
from math import ceil, log2

from benchgraph.core.divisors import even_split
from benchgraph.core.dtypes import DType
from benchgraph.machine.rates import Rates
from benchgraph.machine.table import rates, table
from benchgraph.machine.target import LINE_BYTES, TILE_COLUMNS, TILE_ROWS, Target, lanes_for
from benchgraph.schedule.gemm import Gemm, Kernel
from benchgraph.schedule.nest import Loop
from benchgraph.schedule.tile_block import register_rows, tile_block


def cycles(kernel: Kernel, rows: int, columns: int, rates: Rates) -> float:
    """Of one call."""
    if kernel.dots:
        return _dot_products(kernel, rows, columns, rates)
    return _in_tiles(kernel, rows, columns, rates) if kernel.in_tiles else _in_vectors(kernel, rows, columns, rates)


def cycles_of_taps(kernel: Kernel, taps: int, rows: int, columns: int, target: Target) -> float:
    """Of one call for some of the taps, with what it takes to call."""
    known = rates(target)
    return cycles(replace(kernel, taps=taps), rows, columns, known) + known.overheads.kernel_call_ns * known.clock_ghz


def wei_ahead(kernel: Kernel, wei: DType, columns: int, target: Target) -> int:
    """How many rows of weights ahead calls load them into L1: none where these take less than half of L1, which keeps them from one tile of
    rows to the next, or where loads from L2 keep up with the products."""
    columns = columns if kernel.in_tiles else min(columns, kernel.most_vectors * kernel.lanes)
    is_kept = wei.nbytes(columns * kernel.k * kernel.taps) < target.l1_bytes // 2
    machine = table(target)
    return 0 if is_kept or (machine.l2_loads_keep_up and not kernel.in_tiles) else machine.weight_prefetch_rows


def inner_loops(gemm: Gemm, rows: int, columns: int) -> tuple[Loop, ...]:
    """Of one call, outermost first: register tiles, k, and a register tile."""
    kernel = gemm.kernel
    if kernel.in_tiles:
        block: tuple[float, int] = (TILE_ROWS, 4 * TILE_COLUMNS) if rows <= TILE_ROWS else (2 * TILE_ROWS, 2 * TILE_COLUMNS)
        order = "mn"
    elif kernel.dots:
        block, order = (rows, kernel.dots), "mn"
    else:
        vectors = min(kernel.most_vectors, ceil(columns / kernel.lanes))
        block = rows / tiles_of_rows(kernel, rows, columns), vectors * kernel.lanes  # tiles have equally many rows, or one less
        order = "nm"
    taps = map(Loop, gemm.tap_axes, gemm.taps)
    inner = {"m": min(block[0], rows), "n": min(block[1], columns)}
    outer = (Loop(axis, {"m": rows, "n": columns}[axis] / inner[axis]) for axis in order)
    return (*outer, *taps, Loop("k", gemm.k), *(Loop(axis, size) for axis, size in inner.items()))


def tiles_of_rows(kernel: Kernel, rows: int, columns: int) -> int:
    """How many register tiles of rows a call has for each panel, one after the other."""
    if kernel.in_tiles:
        return ceil(rows / (2 * TILE_ROWS))
    if kernel.dots:
        return 1
    return ceil(rows / _register_rows(min(kernel.most_vectors, ceil(columns / kernel.lanes)), kernel))


def _register_rows(vectors: int, kernel: Kernel) -> int:
    return register_rows(vectors, kernel.registers, vectors + 1)  # the vectors of wei, and an element of src in all lanes


def _in_vectors(kernel: Kernel, rows: int, columns: int, rates: Rates) -> float:
    """A step of a group of k loads the vectors of wei and a group of each row of src, into as many lanes, and multiplies all pairs. Calls
    with few columns have vectors of as few lanes."""
    product, total = rates.product_or_f32(kernel.src), 0.0
    group = 1 if product is rates.products.f32 else DType.f32.bits // kernel.src.bits
    lanes = lanes_for(columns, kernel.lanes)
    share = rates.share_of_vector(lanes)
    multiplied = product.macs_per_cycle / kernel.lanes / group  # vectors in a cycle
    loads = 2 * rates.l1.read_bytes_per_cycle / (LINE_BYTES * 3 / 2)
    for panels, vectors in even_split(ceil(columns / lanes), kernel.most_vectors):
        for count, high in even_split(rows, _register_rows(vectors, kernel)):
            step = max(share * vectors * high / multiplied, share * (vectors + high) / loads, product.latency_cycles)
            total += panels * count * (kernel.taps * kernel.k / group * step + share * vectors * high * rates.kernels.vector_end_cycles)
    return total


def _dot_products(kernel: Kernel, rows: int, columns: int, rates: Rates) -> float:
    """A step of k loads a vector of each row and column, and multiplies all pairs; in the end lanes are added up."""
    product, total, vector = rates.product_or_f32(kernel.src), 0.0, rates.vector
    across = log2(kernel.lanes) * (vector.shuffle_cycles + vector.simple_cycles)
    for count, wide in even_split(columns, kernel.dots):
        pairs, loads = rows * wide, (rows + wide) * LINE_BYTES / rates.l1.read_bytes_per_cycle
        step = max(pairs * kernel.lanes / product.macs_per_cycle, loads * kernel.lanes * 4 / LINE_BYTES)
        total += count * (ceil(kernel.k / kernel.lanes) * step + product.latency_cycles + pairs * across)
    return total


def _in_tiles(kernel: Kernel, rows: int, columns: int, rates: Rates) -> float:
    """A block of up to four tiles of sums at a time: square, or one tile high where rows of src begin within lines or are few."""
    tiles, taken = rates.tiles, rates.kernels
    assert tiles is not None, "the machine has tile registers"
    row_bytes, group = kernel.src.nbytes(kernel.k), 32 // kernel.src.bits
    steps, remainder = divmod(kernel.k, TILE_ROWS * group)
    high, wide = ceil(rows / TILE_ROWS), ceil(columns / TILE_COLUMNS)
    block = tile_block(high, wide, apart=kernel.row_bytes, nbytes=int(row_bytes), has_batch=kernel.taps > 1)
    height = rows / high
    load = taken.split_tile_cycles if block.is_split else tiles.load_cycles
    total = 0.0
    for row in range(0, high, block.rows):
        for column in range(0, wide, block.columns):
            r, c = min(block.rows, high - row), min(block.columns, wide - column)
            step = max(r * c * height, r * load * height / TILE_ROWS + c * tiles.load_cycles)
            total += kernel.taps * (steps + (remainder > 0)) * step + r * c * taken.tile_end_cycles * height / TILE_ROWS
    if block.is_copied:
        total += rows * (taken.copied_row_cycles + ceil(row_bytes / LINE_BYTES) * taken.copied_line_cycles)
    elif remainder:
        total += kernel.taps * rows * ceil(wide / block.columns) * taken.padded_src_row_cycles
    if remainder:
        copies = 1 if kernel.taps == 1 else kernel.taps * ceil(high / block.rows)  # of wei; for all blocks once where there are no taps
        total += copies * wide * TILE_ROWS * taken.padded_wei_row_cycles
    shapes = 1 + (rows % high > 0 or columns % TILE_COLUMNS > 0)
    return total + (1 + shapes) * tiles.configure_ns * rates.clock_ghz
