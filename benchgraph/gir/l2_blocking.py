"""L2 blocking: many batch entries of few rows share one matrix of weights that L2 does not hold.

Every entry, such as one row of windows of a convolution, would read all weights. Instead, all entries use one block of the weights while L2
holds it, then the next block. A block is a group of B panels, or one part of a panel along the last reduced axis.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import accumulate
from math import ceil, prod
from operator import mul

from benchgraph.core.divisors import block_sizes, divisors
from benchgraph.gir.layouts import panel_columns
from benchgraph.gir.load_balance import MOST_IDLE, idle_share, idle_share_of_groups
from benchgraph.gir.product import Product
from benchgraph.machine.table import table
from benchgraph.machine.target import LINE_BYTES, Target


def is_l2_blocked(p: Product, nb: int, target: Target) -> bool:
    """Whether all batch entries use some panels of nb columns while L2 holds them, then the next panels. This pays where entries have few
    rows and read far more weights than the other loop order reads src again."""
    *batch, _, n = p.call.outs[0].shape
    src, wei = p.call.ins
    if _panel_bytes(p, nb) > table(target).l2_panel_share * target.l2_bytes or not _has_short_entries(p, target):
        return False
    read = wei.nbytes + ceil(n / l2_block_columns(p, nb, target)) * src.nbytes
    return prod(batch) * wei.nbytes >= table(target).l2_blocking_saving * read


def _panel_bytes(p: Product, nb: int) -> int:
    return p.call.ins[1].dtype.nbytes(prod(p.reduced) * nb)


def _has_short_entries(p: Product, target: Target) -> bool:
    """Whether all batch entries have few rows and share one whole matrix of weights, which L2 does not hold."""
    *_, m, n = p.call.outs[0].shape
    return m < table(target).rows_to_stream_weights and p.columns == n and p.has_one_wei and p.call.ins[1].nbytes > target.l2_bytes


def l2_block_columns(p: Product, nb: int, target: Target) -> int:
    """Columns of the panels that L2 holds at a time: whole panels of nb, at least one, in groups of equal size. Groups are smaller where
    that balances the load: of 16 panels in groups of three one of two cores gets 9, in groups of two each gets 8."""
    panels = ceil(p.columns / nb)
    most = max(int(table(target).l2_panel_group_share * target.l2_bytes) // max(_panel_bytes(p, nb), 1), 1)
    entries, least = prod(p.call.outs[0].shape[:-2]), ceil(panels / most)
    even = (w for w in block_sizes(panels, least) if idle_share_of_groups(entries, panels, w, target.cores) <= MOST_IDLE)
    return nb * next(even, ceil(panels / least))


def l2_panel_columns(p: Product, target: Target) -> int:
    """Columns of one panel of a product with L2 blocking by panels; 0 for products without."""
    fits = int(table(target).l2_panel_share * target.l2_bytes) // max(_panel_bytes(p, 1), 1) // target.lanes * target.lanes
    nb = min(fits, panel_columns(p.columns, target))
    return nb if nb >= table(target).l2_panel_vectors * target.lanes and is_l2_blocked(p, nb, target) else 0


@dataclass(frozen=True)
class L2Parts:
    """L2 blocking within panels: `count` parts of each panel along the last reduced axis, and `groups` of batch entries, each a task."""

    count: int
    groups: int


def l2_parts(p: Product, nb: int, target: Target) -> L2Parts | None:
    """The fewest parts of a panel that L2 holds, and as few groups as keep the cores busy; None where that does not save reads. For sums
    over taps only: there an entry is a row of windows, and the partial sums of all entries fit into L2 or L3."""
    *batch, _, n = p.call.outs[0].shape
    src, wei = p.call.ins
    panels, k, machine = ceil(n / nb), p.reduced[-1], table(target)
    if prod(p.reduced) == k or not _has_short_entries(p, target):
        return None
    least = ceil(_panel_bytes(p, nb) / (machine.l2_panel_share * target.l2_bytes))
    unit = LINE_BYTES * 8 // src.dtype.bits  # parts of src are whole lines
    most = k // max(unit, machine.l2_part_terms)
    count = next((c for c in divisors(k // unit) if max(least, 2) <= c <= most), None) if k % unit == 0 else None
    groups = next((g for g in accumulate(batch, mul, initial=1) if idle_share(panels * g, target.cores) <= MOST_IDLE), None)
    if count is None or groups is None:
        return None
    fetched = groups * wei.nbytes + panels * src.nbytes
    return L2Parts(count, groups) if prod(batch) * wei.nbytes >= machine.l2_blocking_saving * fetched else None
