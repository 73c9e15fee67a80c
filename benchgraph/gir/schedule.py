"""The heuristic: parameters of the GEMM template from shapes and machine.

Rows are the parallel axis: a task is mb rows of one batch entry, all columns. Only when there are fewer tasks than cores are columns
split too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from math import ceil, prod
from operator import mul

from benchgraph.core.divide import block_sizes, divisors
from benchgraph.core.layout import Layout
from benchgraph.core.target import LINE_BYTES, PAGE_BYTES, TILE_ROWS, Target
from benchgraph.core.tensor import Shape
from benchgraph.gir.ir import Graph, Op
from benchgraph.gir.load_balance import IDLE, idle, idle_of_groups
from benchgraph.gir.product import Product, product
from benchgraph.ops import spec
from benchgraph.ops.spec import Contraction, Elementwise, Reduction

F32_BYTES, BF16_BYTES = 4, 2
# By what share a task has more or fewer rows where their number divides all rows, and what that is best a multiple of. There is no last
# task of fewer then, for which other kernels are compiled, and rows of a known number are folded four at a time
# (unroll-and-interleave). Two Zen 4 cores, bf16 attention over 1500, 1000 rows, gradients over 784, those over 32 rows and a rest: times
# 0.97, 0.97, 0.99, first compile of the first two 0.80, 1.00.
SPREAD, GROUP = 0.25, 4
# Rows of a task beyond which nothing is gained: on a Zen 4 core 64 and 128 rows of MHA_1 at batch 32 take 8.36 and 8.33 ms (32: 8.24).
MOST_ROWS, MOST_ROWS_WORKED_ON = 64, 32

# On tile registers products take a tenth of the time, and what they read takes as long as ever: more rows go past weights of more than one
# L2, and between products there are at most 16 bits for an element. Two Granite Rapids cores (L2 2 MiB), MLP_2, times with 256 rows and 16
# bits over those with 64 and 32, minima (medians): bf16 at batch 128, 256, 512 0.99 (0.97), 0.81 (0.81), 0.75 (0.75), int8 1.05 (1.03),
# 0.87 (0.84), 0.73 (0.72). With weights that L2 keeps: MLP_1 0.94 to 1.05 (0.96 to 1.02), 512 x 512 x 256 1.28. Attention: 0.97 to 1.02.
MOST_ROWS_OF_TILES = 256
# Columns of a call that keeps rows of src in L1 meanwhile. It copies those first, of more bytes than this, that begin within cache lines.
# The same cores, k = 479, times of 256 columns over those of 64: a call alone 0.67, MLP_2 bf16 at batch 128, 512 0.94 (0.94), 0.92 (0.95);
# MLP_1, k = 13: 1.02 to 1.09. What is given is read as it lies, by as many columns, from so many bytes of a row on and where all cores have
# rows. 128 and 512 rows, u8 512x256 0.92, 0.94, 1024x1024 0.89, 0.87, 1024x512 0.89, 0.89, bf16 256x128 0.94, 0.95, 512x256 0.89, 0.82,
# 1024x1024 0.93, 0.96, 1024x512 0.95, 0.88; 128 columns lie between. What a product of the same task has left gains less, and in 8 bits
# alone: int8 at batch 64 to 512 MLP_1 0.94 to 0.99 (medians 0.95 to 0.98), MLP_2 0.92 to 1.03 (0.91 to 1.00); bf16 1.00 to 1.08.
COLUMNS_PER_READ, COPIED_BYTES, READ_BYTES = 256, 256, 512
# Of four tile registers in a square: blocks of other numbers of rows load weights more often for each product. Two Granite Rapids cores, in
# u8, times of such blocks alone over those of any, minima: 479 x 1024 at batch 32, 128, 512 0.83, 0.68, 0.67, 1024 x 1024 0.98, 1.00, 0.89,
# 13 x 512 0.89, 0.88, 0.85, 512 x 256 and 256 x 128 0.83 to 0.96.
SQUARE_ROWS = 2 * TILE_ROWS

# Rows that leave the time to fetch the next panel of weights into L2 while one is multiplied. Measured on Cascade Lake cores, f32 weights
# of 8.4 MB (MLP_2), times with it over those without, medians (minima) of 80 turns:
#
#     rows of a task      8            16           24           32           40           64
#     one core       0.84 (1.04)  0.87 (0.91)               0.79 (0.84)  0.87 (0.82)
#     two cores      1.08 (1.09)  1.00 (1.06)  0.84 (0.92)  0.93 (0.98)  0.92 (0.97)  0.97 (0.99)
#
# The second number is for weights that come from memory, which hardware fetches well for fewer rows alone: one tile of 7 or 8 rows and
# two vectors reads half of a panel's lines, then the others. Zen 4 cores, constant weights of 4096 x 14336, minima, one core (two), f32 and
# bf16: 7 rows 0.67, 0.68 (0.77, 0.75), 8 0.63, 0.65 (0.54, 0.49), 9 0.91, 0.89 (0.89, 1.04), 12 0.97, 0.95 (0.85, 0.88), 16 0.96, 0.97
# (0.93, 0.86), 20 0.94, 0.94 (0.92, 0.89). Calls of up to 6 rows are too short for it.
ROWS_FOR_A_PANEL = 24, 7
# Rows of a task that are enough for it to go through all weights of two products, when L2 does not keep them: with fewer, a nest for each
# product, in which every core has its own part of the weights, fetches less. The same cores, two nests over one, medians (minima):
#
#     rows of a task                        2            8            16           24           32           48           64
#     MLP_2 f32                        0.65 (0.74)  0.86 (0.79)  1.02 (1.00)  0.84 (0.91)  0.93 (0.93)  1.01 (1.03)
#     MLP_2 int8                                    0.98 (0.96)  0.97 (1.04)               1.00 (1.01)  1.02 (1.02)
#     MLP_2 f32, weights that change                0.70 (0.61)  0.84 (0.69)               0.83 (0.81)               0.92 (0.92)
#     MLP_2 int8, weights that change                            0.84 (0.71)                                         2.01 (1.45)
#     gated 4096 x 14336, the same     0.56 (0.61)  0.31 (0.33), 0.10 (0.10) at 256 rows, of which 7 fill half of L2
ROWS_FOR_ALL_WEIGHTS = 48
# On tile registers, and of which share of L2 on: loading weights takes longer than multiplying by them. Two Granite Rapids cores, MLP_2, a
# nest for each product over one or two, minima: tasks of 16, 32, 64 rows, bf16 0.78, 0.96, 1.11, int8 0.83, 1.10, 1.11. At batch 32 weights
# of a tenth, a quarter and half of L2 on over those of more than L2: int8 0.74, 0.69, 0.77, bf16 0.92, 0.92, 0.91.
ROWS_FOR_ALL_WEIGHTS_OF_TILES, SHARE_OF_L2 = 24, 0.25
# Where the entries of a batch go past one panel after the other: the share of L2 that a panel may take, beside rows and results; vectors of
# columns without which a microkernel call waits for its loads; how many times less must be fetched. 3x3 convolutions of f32 with as many
# channels out as in, in turns, times over those of all weights past each row of windows, minima, one thread (two) of a Cascade Lake:
#
#     images                             16x512x7x7    1x512x7x7    16x256x14x14
#     panel after panel                  0.51 (0.56)   0.59 (0.72)  0.69 (0.98)
#     row after row, in panels as narrow 0.63          0.64         1.01
#
# Together: the share that several panels may take, for which src is fetched less often. One Granite Rapids core (L2 2 MiB), 50 images, 1x1
# convolutions of f32, times with panels of 0.75, 0.5, 0.3 of L2 over those with single ones (the first: with all weights past each row),
# minima: 1024x14x14 to 2048 by a stride of 2 0.81, 0.76, 0.68; 2048x7x7 to 512 1.21, 1.07, 0.99; 512x7x7 to 2048 1.06, 0.96, 0.94.
HELD, HELD_TOGETHER, FEWEST_VECTORS, FETCHED_LESS = 0.75, 0.3, 2, 4
# Where L2 holds one part of a panel at a time: of how many terms of each tap at least. Zen 4 (L2 1 MiB, L3 32), convolutions padded to
# keep their size, times over those of all weights past each row of windows, in turns, minima, one thread (two): 3x3, 1024 channels, f32, 8
# images of 7x7 0.66 (0.58), 1 0.72 (0.66), 2 of 14x14 0.88 (0.88), 1 0.88 (0.88); bf16, 2048 channels to 512, 8 of 7x7 0.92 (0.93), to
# 1024, 1 0.74 (0.57), to 128, 1 of 24x24 0.99 (1.01); 5x5, 512 channels, f32, 64 of 7x7, parts of 64 terms 0.74 (0.79); 7x7, 256 channels,
# 1 of 16x16, parts of 32 terms 1.05 (1.08).
LEAST_TERMS_OF_PART = 64
# Columns without which the next product reads whole rows: each block is an entry of its batch, whose loop along k is as short as that. One
# Zen 3 core, AVX2, times with whole rows over those with blocks of 16, minima at batch 32, 128, 512, the middle of three runs: MLP_1 f32
# 1.00, 1.00, 1.00, int8 0.98, 0.99, 0.99; MLP_2 f32 0.99, 0.97, 0.96, int8 0.97, 0.95, 0.91.
BLOCKED = 32
# Rows of a single product, more than meet a panel of the widest calls at once and up to many, for which panels have so many vectors where
# wider ones take such a share of L2, and weights so many times L2: each pass over a panel but the first reads it from there. Two Zen 5
# cores (one), constant weights, 8, 16, 32, 64 rows, perceptrons 8, 16, times over those with four vectors, minima (MLP_2 f32 1.00 to 1.02):
#     4096 x 14336    f32 0.89 (0.91), 0.90 (0.81), 0.87 (0.87), 0.91    bf16 0.65 (0.86), 0.82 (0.84), 1.00 (1.00), 0.99
#     2048 x 8192     f32 0.72, 0.66; bf16 0.87, 0.89    4096 x 14336 and back, int8 0.77, 0.80; gated, f32 0.80 (0.85), 0.86 (0.82)
NARROW_ROWS, NARROW_VECTORS, SHARE_OF_PANEL, LARGE = range(8, 65), 2, 0.25, 4
TIMES_L2 = 2  # so many times what L2 holds is kept well enough: MLP_2 int8, two products of which have 1.5 times, gains nothing above


def panel(n: int, target: Target, most: int = 0) -> int:
    """Columns of one packed weight panel: at most so many, or the target's preferred width, whole vectors, panels as even as that allows.

    >>> panel(96, avx512_core), panel(1024, avx512_core), panel(13, avx512_core)
    (48, 64, 13)
    """
    lanes = target.lanes
    count = ceil(n / (most or target.panel_width))
    return min(n, ceil(n / count / lanes) * lanes)


def has_wide_calls(p: Product, target: Target) -> bool:
    """Whether calls of the microkernel are to have many columns, for what they read of src."""
    src = p.call.ins[0]
    if not target.in_tiles(src.dtype) or not p.is_row_wise:
        return False
    nbytes, rows = src.dtype.nbytes(src.shape[-1]), prod(src.shape[:-1])
    is_copied = nbytes > COPIED_BYTES and nbytes % LINE_BYTES > 0
    is_read = p.has_given_src or src.dtype.bits == 8
    return is_copied or (is_read and nbytes >= READ_BYTES and rows >= SQUARE_ROWS * target.cores)


def column_blocked(rank: int, block: int) -> Layout:
    """[..., N/block, M, block] for a value [..., M, N]."""
    batch = tuple(range(rank - 2))
    return Layout((*batch, rank - 1, rank - 2), ((rank - 1, block),))


def packed(rank: int, block: int, group: int) -> Layout:
    """Panels of columns of a weight [..., K, N], each lane's group of k together: [..., N/block, K/group, block, group]."""
    if group == 1:
        return column_blocked(rank, block)
    batch = tuple(range(rank - 2))
    return Layout((*batch, rank - 1, rank - 2), ((rank - 1, block), (rank - 2, group)))


def goes_by_panels(p: Product, nb: int, target: Target) -> bool:
    """Whether all batch entries are to go past some panels of nb columns, which L2 holds meanwhile, then past the next ones.

    That is worth it where entries have few rows, as windows along x are, and fetch far more weights than they would fetch src again.
    """
    *batch, _, n = p.call.outs[0].shape
    src, wei = p.call.ins
    if wei.dtype.nbytes(prod(p.reduced) * nb) > HELD * target.l2_bytes or not _has_short_entries(p, target):
        return False
    return prod(batch) * wei.nbytes >= FETCHED_LESS * (wei.nbytes + ceil(n / columns_held(p, nb, target)) * src.nbytes)


def _has_short_entries(p: Product, target: Target) -> bool:
    """Whether batch entries of few rows all meet one matrix of weights, whole, that L2 does not hold."""
    *_, m, n = p.call.outs[0].shape
    return m < ROWS_FOR_ALL_WEIGHTS and p.columns == n and p.has_one_wei and p.call.ins[1].nbytes > target.l2_bytes


def columns_held(p: Product, nb: int, target: Target) -> int:
    """Columns, of whole panels of nb, that L2 holds while all batch entries go past them: one panel at least, groups of even size.

    Groups may be smaller where the cores have more alike of them: of 16 panels by threes one of two cores has 9, by twos each has 8.
    """
    panels = ceil(p.columns / nb)
    most = max(int(HELD_TOGETHER * target.l2_bytes) // max(p.call.ins[1].dtype.nbytes(prod(p.reduced) * nb), 1), 1)
    entries, least = prod(p.call.outs[0].shape[:-2]), ceil(panels / most)
    even = (w for w in block_sizes(panels, least) if idle_of_groups(entries, panels, w, target.cores) <= IDLE)
    return nb * next(even, ceil(panels / least))


def held_columns(p: Product, target: Target) -> int:
    """Columns of the panels that batch entries go by; 0 where all weights go past each entry."""
    held = int(HELD * target.l2_bytes) // max(p.call.ins[1].dtype.nbytes(prod(p.reduced)), 1) // target.lanes * target.lanes
    nb = min(held, panel(p.columns, target))
    return nb if nb >= FEWEST_VECTORS * target.lanes and goes_by_panels(p, nb, target) else 0


@dataclass(frozen=True)
class Parts:
    """How batch entries go past panels of weights that L2 does not hold: past one of `count` parts of each at a time, along the last
    reduced axis, and in `groups` of entries, each a task of its own."""

    count: int
    groups: int


def parts_held(p: Product, nb: int, target: Target) -> Parts | None:
    """The fewest parts of a panel that L2 holds, and as few groups as keep the cores busy; None where less is fetched otherwise.

    Of sums over taps: there an entry is a row of windows, and all entries together are few enough that their sums wait in L2 or L3.
    """
    *batch, _, n = p.call.outs[0].shape
    src, wei = p.call.ins
    panels, k = ceil(n / nb), p.reduced[-1]
    if prod(p.reduced) == k or not _has_short_entries(p, target):
        return None
    least = ceil(wei.dtype.nbytes(prod(p.reduced) * nb) / (HELD * target.l2_bytes))
    unit = LINE_BYTES * 8 // src.dtype.bits  # parts of src are whole lines
    most = k // max(unit, LEAST_TERMS_OF_PART)
    count = next((c for c in divisors(k // unit) if max(least, 2) <= c <= most), None) if k % unit == 0 else None
    groups = next((g for g in accumulate(batch, mul, initial=1) if idle(panels * g, target.cores) <= IDLE), None)
    if count is None or groups is None:
        return None
    fetched = groups * wei.nbytes + panels * src.nbytes
    return Parts(count, groups) if prod(batch) * wei.nbytes >= FETCHED_LESS * fetched else None


def column_block(p: Product, target: Target) -> int:
    """Columns of one microkernel call, and of one panel of packed weights. It divides the columns of a group, if there are several."""
    if p.forced is not None:
        return p.forced.nb
    n = p.columns
    if held := held_columns(p, target):
        return held
    block = panel(n, target, COLUMNS_PER_READ if has_wide_calls(p, target) else 0)
    block = min(block, NARROW_VECTORS * target.lanes) if is_narrow(p, block, target) else block
    if n == p.call.outs[0].shape[-1] or n % block == 0:
        return block
    whole_vectors = (d for d in range(block, 0, -target.lanes) if n % d == 0 and d % target.lanes == 0)
    return next(whole_vectors, n)


def is_narrow(p: Product, block: int, target: Target) -> bool:
    """Whether a panel of so many columns would take too much of L2 for several passes over it. See NARROW_ROWS."""
    (*batch, m, _), (src, wei) = p.call.outs[0].shape, p.call.ins
    if prod(batch) > 1 or m not in NARROW_ROWS or target.in_tiles(src.dtype) or not p.has_constant_wei:
        return False
    return wei.nbytes > LARGE * target.l2_bytes and wei.dtype.nbytes(prod(p.reduced) * block) >= SHARE_OF_PANEL * target.l2_bytes


def result_block(p: Product, target: Target) -> int:
    """Columns of the blocks in which the result best waits for the next product; 0 where whole rows are read faster. See BLOCKED."""
    n, block = p.call.outs[0].shape[-1], column_block(p, target)
    return block if n % block == 0 and block >= min(n, BLOCKED) else 0


def columns_per_call(g: Graph, op: Op, target: Target) -> int:
    """Columns of one microkernel call of a product in a graph whose layouts are settled."""
    wei = g.value(op.ins[1])
    return wei.layout.blocks[0][1] if wei.layout.blocks else column_block(product(g, op), target)


@dataclass(frozen=True)
class Rows:
    """How the rows of a nest become tasks."""

    mb: int
    why: str


def rows_per_task(batch: int, m: int, columns: int, target: Target, *, works_on_rows: bool, waits: bool = False) -> Rows:
    """As many rows as keep what a task holds at a time within half of L2, evenly over the cores, but no more than pays.

    batch: batch entries, which are tasks of their own. columns: f32 columns of one row that are live together. works_on_rows: there are
    ops between the products that go over whole rows. waits: the products wait for their weights.
    """
    nbytes, enough = (BF16_BYTES, MOST_ROWS_OF_TILES) if waits else (F32_BYTES, MOST_ROWS)
    if works_on_rows:
        nbytes, enough = F32_BYTES, MOST_ROWS_WORKED_ON
    fits = max(1, target.l2_bytes // 2 // (nbytes * columns))
    most = min(m, enough, fits)
    why = f"all {m} rows" if most == m else f"more than {enough} gain nothing" if most == enough else f"{most} rows fill half of L2"
    tasks = ceil(m / most)
    if batch * tasks < 4 * target.cores:
        per_batch = ceil(target.cores / batch)
        even = ceil(tasks / per_batch) * per_batch
        why += f"; cut so that {target.cores} cores have the same" if even > tasks else ""
        return Rows(ceil(m / min(even, m)), why)
    mb = ceil(m / tasks)
    close = range(ceil(mb * (1 - SPREAD)), min(int(mb * (1 + SPREAD)), fits) + 1)
    best = max((rows for rows in close if m % rows == 0), key=lambda rows: (rows % GROUP == 0, -abs(rows - mb)), default=mb)
    return Rows(best, why + f"; {best} divide {m}" * (best != mb))


# Columns of weights that lie by columns whose sums go on side by side: each of their streams is fetched ahead, and they share what they
# read of src. One Zen 4 core, the same weights by columns, with 1, 2, 4, 8, minima in ms: bf16, 1 row 6.3, 6.8, 5.5, 4.7, 4 rows 15.7,
# 11.7, 8.1, 9.3 (32 sums spill); f32, 1 row 8.1, 9.5, 8.8, 8.8, 4 rows 21.6, 16.5, 12.5, 13.0. Columns of a page at most are read one after
# the other, from end to end: bf16, 64 times 512 x 2048, with 1, 2, 4, 8: 5.3, 11.0, 13.0, 11.5; 64 times 128 x 8192: 4.4, 12.7, 11.4, 5.6.
#
# To cores that one stream comes to as fast, columns come one after the other for one row, and some abreast for what is read of src alone.
# One Zen 5 core (two), 14336 columns of 4096, times over those with as many as above, minima:
#
#     rows             1, 1 abreast    2, 1, 2, 3, 4 abreast       3, the same                 4, the same
#     f32              0.90 (1.01)     0.93, 0.78, 0.79, 0.77      1.18, 0.79, 0.73, 0.71      1.45, 0.95, 0.92, 1.00
#     bf16, fetched    0.82 (0.80)     1.24, 1.05, 0.93, 0.88      1.25, 0.88, 0.76, 0.71      1.51, 0.85, 0.80, 0.77
MOST_ABREAST, MOST_OF_ONE_STREAM = 8, 4


def columns_abreast(rows: int, nbytes: int, target: Target) -> int:
    """Of weights that lie by columns of so many bytes: how many meet so few rows at a time."""
    if nbytes <= PAGE_BYTES or (target.one_stream and rows == 1):
        return 1
    return max(min(MOST_OF_ONE_STREAM if target.one_stream else MOST_ABREAST, target.isa.registers // 2 // rows), 1)


@dataclass(frozen=True)
class Step:
    """Columns of scores at a time, and the f32 columns of a task's row that are held with them."""

    columns: int
    held: int
    why: str


# Blocks of columns in a row of scores from which on it pays to leave out what a causal mask hides, and to do so two blocks at a time.
# Measured at two threads, d = 64, nb = 64, whole rows against a step: 512 keys 13.9 and 8.2 ms, 1024 keys 28.8 and 19.3 ms (19.8 at two).
HIDDEN, HIDDEN_BY_TWO = 8, 16


def columns_at_a_time(rows: int, n: int, heads: int, nb: int, target: Target, *, some_hidden: bool) -> Step | None:
    """The columns of scores that a task of so many rows works on at a time, None when whole rows do as well.

    n: columns of a row of scores. heads: the sizes of a query and of a value, together. nb: columns of one microkernel call. some_hidden:
    about half of the scores may turn out to be hidden, in stretches of columns, which short steps leave out. Otherwise whole rows do
    as long as half of L2 holds them; beyond, the step is what half of L2 holds of the scores, of the keys and values that belong to them,
    and of the rows of queries and results.
    """
    half = target.l2_bytes // 2 // F32_BYTES
    if some_hidden and n >= HIDDEN * nb:
        columns = nb * (2 if n >= HIDDEN_BY_TWO * nb else 1)
        return Step(columns, columns + heads, f"whatever is hidden is left out, {columns} columns at a time")
    if rows * (n + heads) <= half:
        return None
    most = max((half - rows * heads) // (rows + heads) // nb, 1) * nb
    steps = ceil(n / most)
    columns = min(ceil(n / steps / nb) * nb, n)
    if columns == n:
        return None
    return Step(
        columns, columns + heads, f"{rows} rows of {n} scores do not fit half of L2; {columns} of them with their keys and values do"
    )


def wait_for_weights(g: Graph, products: Sequence[Op], target: Target) -> bool:
    """Whether all of these products are for tile registers, and L2 does not keep their weights."""
    return are_in_tiles(g, products, target) and weights_bytes(g, products) > target.l2_bytes


def are_in_tiles(g: Graph, products: Sequence[Op], target: Target) -> bool:
    """Whether all of these products are for tile registers."""
    return all(target.in_tiles(g.value(op.ins[0]).dtype) for op in products)


def weights_bytes(g: Graph, products: Sequence[Op]) -> int:
    """Of all different weights of these products."""
    return sum(g.value(v).type.nbytes for v in {op.ins[1] for op in products})


def columns_at_once(g: Graph, products: Sequence[Op]) -> int:
    """Columns that one row of a task holds in cache at a time: the operand and the result of its widest product."""
    return max(g.value(op.ins[0]).shape[-1] + g.value(op.outs[0]).shape[-1] for op in products)


def has_one_matrix(g: Graph, op: Op) -> bool:
    """Whether all batch entries of a product have the same weights, of several columns."""
    wei = g.value(op.ins[1])
    return wei.shape[-1] > 1 and prod(wei.shape[:-2]) == 1


def few_rows_for_all_weights(g: Graph, nests: Sequence[Sequence[Op]], rows: Shape, target: Target) -> int:
    """The rows of a task of all these nests as one, if they are so few that apart they fetch less; else 0.

    Apart, a nest without folds gives each core a part of its weights, and one with them has rows enough if it holds no wider ones. With
    folds, rows are enough that leave the time to fetch a panel, and only constants count: rows of attention, whose keys may be one matrix,
    stay whole.
    """
    if not all(isinstance(spec(op.kind).lowering.form, Contraction | Elementwise | Reduction) for nest in nests for op in nest):
        return 0
    has_folds = [any(isinstance(spec(op.kind).lowering.form, Reduction) for op in nest) for nest in nests]

    def counts(op: Op) -> bool:
        return spec(op.kind).lowering.is_contraction and has_one_matrix(g, op) and (g.value(op.ins[1]).is_constant or not any(has_folds))

    products = [list(filter(counts, nest)) for nest in nests]
    kernels = [op for each in products for op in each]
    in_tiles, waits = are_in_tiles(g, kernels, target), wait_for_weights(g, kernels, target)
    if weights_bytes(g, kernels) <= (SHARE_OF_L2 if in_tiles else TIMES_L2) * target.l2_bytes:
        return 0

    def mb(some: Sequence[Op], *, works_on_rows: bool) -> int:
        columns = columns_at_once(g, some)
        return rows_per_task(prod(rows[:-1]), rows[-1], columns, target, works_on_rows=works_on_rows, waits=waits).mb

    few = mb(kernels, works_on_rows=any(has_folds))
    apart = [mb(own, works_on_rows=True) if folds else rows[-1] for own, folds in zip(products, has_folds, strict=True) if own]
    enough = ROWS_FOR_A_PANEL[False] if any(has_folds) else ROWS_FOR_ALL_WEIGHTS_OF_TILES if in_tiles else ROWS_FOR_ALL_WEIGHTS
    return few if few < min(max(apart), enough) else 0


def columns_reason(p: Product, nb: int, target: Target) -> str:
    """Why `column_block` is what it is."""
    vectors = ceil(nb / target.lanes)
    if nb == p.columns:
        return f"all {nb} columns, in {vectors} vectors"
    if is_narrow(p, panel(p.columns, target), target):
        return f"{vectors} vectors of {target.lanes}: a wider panel would take too much of L2 for several passes over it"
    return f"{vectors} vectors of {target.lanes}: the widest register tile, and panels of even width"
