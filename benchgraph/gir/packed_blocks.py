"""The size of the pieces of weights that are packed on the fly (gir/on_the_fly_packing.py) or read as they lie, and how often."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil, lcm, prod

from benchgraph.core.dtypes import DType
from benchgraph.core.target import Target
from benchgraph.gir.ir import Graph, Op, Stage
from benchgraph.gir.load_balance import IDLE
from benchgraph.gir.product import group_of, has_rows, is_given_for_rows, operand_axes, product
from benchgraph.gir.schedule import F32_BYTES, MOST_ROWS, column_block
from benchgraph.tir.groups import PACKED_FROM, SIDE_BY_SIDE

# Rows and columns of a piece of wei that is made before the microkernel reads it, for up to so many rows of dst and for more. Long rows
# are fetched ahead as they lie in memory; short sums cost loads and stores of dst. Measured on one thread of a Cascade Lake core that
# others use too, weights in memory, minima of 9 in ms:
#
#     rows of dst, weights           16x256  8x512  16x512  4x1024  16x1024  8x2048  16x2048  4x4096
#     1, f16 4096 x 14336              58.7   35.7    37.5    30.4     33.3    28.0     24.3    27.6
#     1, s8 per channel, the same      86.2   68.9    68.7    56.9     64.8    41.2     38.4    46.7
#     1, s4 by 32 rows: 32x512 44.9, 32x1024 38.5, 32x2048 28.1, 32x4096 25.0
#
#     rows of dst, weights          128x256  256x256  64x512  128x512  32x1024  64x1024
#     12, f16 4096 x 4096              24.7     18.9    16.0     15.8     15.4     15.2
#     64, f16, the same                57.3     49.0    47.9     42.8     47.1     48.2
#     12, s8 per channel               18.4     20.3    15.2     17.6     15.1     13.6
#     64, s8 per channel               56.9     52.1    56.6     49.8     61.2     52.4
FEW_ROWS, PIECES = 6, ((16, 2048), (128, 512))
# The same of weights that lie by rows, and are read as they lie: so many rows go through the columns side by side, since the more of them,
# the fewer are fetched ahead, and whoever reads panel after panel jumps from row to row. One row of dst that takes half of L1 is summed
# there where weights are narrow and no other core's too, so that they are read from end to end. And the rows of dst up to which all that
# pays, of weights beyond L2 and of those beyond all caches. One Zen 4 core, weights in memory, minima in ms:
#
#     rows of dst, weights        panels   8x2048  8x4096  8x16384  16x2048  16x16384  32x16384
#     1, f32 4096 x 14336           19.2     11.0    10.5      7.9     10.7       9.8      16.2
#     4, f32, the same              19.9     12.8    12.3     10.3     13.6      15.4      18.3
#     1, bf16, the same             11.6      7.0     6.7      4.7      7.7       7.7       8.9
#     6, 8, 12, f32 4096 x 4096     6.5, 6.3, 8.4    3.9, 5.1, 6.7 (8x4096)
#     1, 2, 4, 6, f32 1024 x 1024   0.073, 0.072, 0.077, 0.113    0.050, 0.055, 0.086, 0.130 (8x1024)
#
#     weights, rows side by side         1      2      4      8     16
#     1, bf16 4096 x 14336             9.5    6.8           4.7
#     1, bf16 4096 x 4096             0.91   1.73          1.31
#     1, bf16 64 times 2048 x 512      5.4   11.1   15.2   11.7   11.1
#     1, bf16 64 times 8192 x 128      4.2    4.5    4.3    4.0    4.0
#     4, f32 8192 x 1024              2.47                 1.48
#
# Zen 5, one core (two), 1 row unless said, times with 8 side by side, and no K loop in the kernel, over those with one after the other:
#
#     weights       4096 x 4096    8192 x 2048    2048 x 2048    64 times 2048 x 512, 8192 x 128    2 rows by 4096 x 2048
#     f32           0.49 (0.57)    0.48 (0.41)    0.86 (0.57)    0.76 (0.87)          0.86 (0.91)   0.99 (0.26)
#     bf16          1.15 (0.62)    1.10 (0.57)    0.81 (0.86)    1.36 (1.09)          1.63 (1.15)   0.56 (0.46)
WIDEST_IN_TURN = 16384
ROWS_IN_TURN = 2, 8
# Of weights in several panels that are packed from rows: a few rows of all panels of a piece at once (SIDE_BY_SIDE), which hardware fetches
# ahead, if weights are so many times what L2 holds. One Zen 4 core, weights in memory, minima in ms, rows of dst, weights:
#
#                                    512x64  64x1024  64x2048  128x2048  256x2048
#     16, bf16 4096 x 14336            26.0     15.1     13.9      13.4      13.0
#     64, bf16, the same               49.9     44.3     42.6      40.7      39.0
#     16, f32, the same (not packed 34.2)       28.4     28.3      28.1      28.2
#     16, bf16 2048 x 2048             0.98                                  0.80
#     16, bf16 1024 x 1024            0.190                                 0.192
PACKED_BY_ROWS, TIMES_L2_PACKED = (256, 2048), 4
# The same where microkernel calls fetch what the next piece is packed from, for which both have to fit into L2: memory rested while they
# multiplied, and hardware foresees no row of another piece. Two Zen 4 cores, weights in memory, minima in ms:
#
#     rows of dst, weights        not fetched, 256x2048   512x64  512x128  512x256  1024x128  384x256
#     16, f32 4096 x 14336                         16.1     11.1     10.9     11.6      11.9     11.1
#     16, bf16, the same                            7.8     13.0      5.5      5.5       5.7      5.6     (of 512x64 a call is too short)
#     64, f32, the same                            41.3     35.7     35.9     36.6      36.9     36.5
#     64, bf16, the same                           20.0     17.9     18.5     18.0      18.0     18.6
#
# Times over those not fetched, by rows f32, bf16, by columns f32, bf16: 12 (9) rows 0.72, 0.69, 0.75, 0.72; 16 0.85, 0.72, 0.72, 0.67;
# 32 0.79, 0.81, 0.83, 0.79; 64 0.88, 0.88, 0.91, 0.88; 128 0.93, 0.92, 0.96, 0.94; of weights in L3, 48 by 1024 x 1024, 0.97 to 1.00. One
# core alike. In pieces of one panel weights of four times L2 or less: by more 64 rows take 1.12 times as long for 768 x 3072.
FETCHED_BY_ROWS = 512, 256
PANEL_ROWS = 512  # of a piece of one panel, which is what a transposition makes
MOST_ROWS_OF_PIECES = 256  # rows of a task that has each piece made for itself
# How often the weights of a nest may be converted, once by each block of rows. One f32 more in memory and back costs a core 0.8 ns, at some
# 10 GB/s; converting one element 0.1 to 0.2 ns.
MOST_TIMES = 4


def times_converted(m: int, target: Target) -> int:
    """Blocks of rows of a nest of several products."""
    return max(ceil(m / MOST_ROWS), min(target.cores, m))


def piece(k: int, n: int, nb: int, unit: int, most: tuple[int, int], cores: int) -> tuple[int, int]:
    """Rows and columns of a piece of wei, at most so many; unit: of what its rows are a multiple, if they are not all of k.

    cores: those that share one matrix.
    """
    longest, widest = most
    ks = min(k, max(longest // unit, 1) * unit)
    panels = ceil(n / nb)
    widths = range(max(min(widest // nb, panels), 1), 0, -1)
    even = (w for w in widths if panels >= (1 - IDLE) * cores * ceil(ceil(panels / w) / cores) * w)
    return ks, nb * ceil(panels / ceil(panels / next(even, 1)))  # no wider than as many pieces need, so that they come out even


def rows_in_turn(g: Graph, op: Op, target: Target) -> bool:
    """Whether weights that lie by rows, of several panels, come from beyond L2 for few rows of src."""
    nbytes, p = g.value(op.ins[1]).type.nbytes, product(g, op)
    if nbytes <= target.cores * target.l2_bytes or p.columns <= column_block(p, target):
        return False
    return is_given_for_rows(g, op, op.ins[1], ROWS_IN_TURN[target.is_far(nbytes)]) and operand_axes(g, op, 1) is not None


def rows_read_in_turn(rows: int, n: int, wei: DType, cores: int, target: Target) -> tuple[int, int]:
    """Rows, and columns at most, of a piece of weights that lie by rows of n, for so many rows of src; cores: those that share them."""
    is_summed_in_l1 = rows == cores == 1 and wei is not DType.f32 and F32_BYTES * n <= target.l1_bytes // 2
    return 1 if is_summed_in_l1 else SIDE_BY_SIDE, WIDEST_IN_TURN


def piece_of(
    g: Graph, op: Op, makers: Sequence[Stage], rows: int, nb: int, kb: int, target: Target, *, are_fetched: bool
) -> tuple[int, int]:
    """Rows and columns of a piece of wei, in whole blocks of src and whole groups of what makes the piece; 0, 0 where wei is whole.

    makers: the stages that make pieces; are_fetched: see `are_fetched_ahead`.
    """
    if not makers and not rows_in_turn(g, op, target):
        return 0, 0
    p, wei = product(g, op), g.value(op.ins[1])
    k, n = p.reduced[-1], p.columns
    units = (cut.unit for maker in makers if (cut := maker.cuts[0]) is not None)
    unit = lcm(kb if kb < k else 1, group_of(g, op), *units)
    sharing = ceil(target.cores / prod(p.call.outs[0].shape[:-2]))
    if not makers:
        most = rows_read_in_turn(rows, n, wei.dtype, sharing, target)
    elif not wei.layout.blocks:
        most = PIECES[rows > FEW_ROWS]
    else:
        is_large = wei.type.nbytes > TIMES_L2_PACKED * target.l2_bytes
        by_rows = FETCHED_BY_ROWS if are_fetched else PACKED_BY_ROWS
        most = by_rows if is_large and all(_packs_rows(g, maker) for maker in makers) else (PANEL_ROWS, nb)
    return piece(k, n, nb, unit, most, sharing)


def are_fetched_ahead(g: Graph, op: Op, makers: Sequence[Stage], target: Target) -> bool:
    """Whether what a product's pieces are packed from is given, and comes from beyond L2. Tile registers multiply too fast to fetch it
    meanwhile."""
    if len(makers) != 1 or not _packs(g, makers[0]) or target.in_tiles(g.value(op.ins[0]).dtype):
        return False
    src = g.value(makers[0].ops[0].ins[0])
    return g.root(src.id) in g.ins and src.type.nbytes > target.l2_bytes


def _packs_rows(g: Graph, maker: Stage) -> bool:
    """Whether all that is done for a piece is to pack it, from rows."""
    return _packs(g, maker) and has_rows(g, maker.ops[0].ins[0])


def _packs(g: Graph, maker: Stage) -> bool:
    src, dst = g.value(maker.ops[0].ins[0]), g.value(maker.ops[-1].outs[0])
    is_packing = len(maker.ops) == 1 and bool(dst.layout.blocks) and src.dtype in PACKED_FROM.get(dst.dtype, ())
    return is_packing and not g.value(g.root(src.id)).layout.blocks
