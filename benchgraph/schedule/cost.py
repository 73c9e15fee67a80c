"""The time of a tiled product, by what takes it. docs/measurements/cost-model.md says how far it is off."""

from __future__ import annotations

from dataclasses import dataclass

from benchgraph.machine.rates import Rates
from benchgraph.machine.target import Target
from benchgraph.schedule.gemm import Gemm, Share, Tiling, share
from benchgraph.schedule.microkernel import cycles, inner_loops
from benchgraph.schedule.traffic import fetched

HELD = 0.75  # share of a cache that operands can fill
HIDDEN = 0.6  # share of the shorter of arithmetic and transfers that the longest hides


@dataclass(frozen=True)
class Cost:
    """Nanoseconds of the core with most work: arithmetic; transfers from L2, and from what cores share; calls; fork and join."""

    arithmetic: float
    l2: float
    l3: float
    calls: float
    fork_join: float

    @property
    def total(self) -> float:
        overlapping = self.arithmetic, self.l2, self.l3
        longest = max(overlapping)
        return longest + (1 - HIDDEN) * (sum(overlapping) - longest) + self.calls + self.fork_join


def cost(gemm: Gemm, tiling: Tiling, target: Target, rates: Rates) -> Cost:
    """Of one execution, after others: what caches hold stays there."""
    own = share(gemm, tiling, target.cores)
    mb, nb = min(tiling.mb, gemm.m), min(tiling.nb, gemm.n)
    loops = (*own.loops, *inner_loops(gemm, mb, nb))
    from_l2, from_l3 = (fetched(loops, gemm.operands, HELD * nbytes) for nbytes in (target.l1_bytes, target.l2_bytes))
    return Cost(
        rates.ns(_arithmetic(gemm, Tiling(mb, nb), own, rates)),
        from_l2 / rates.read_bytes_per_ns("l2"),
        from_l3 / (rates.read_bytes_per_ns("l3", own.cores) / own.cores),
        own.calls * rates.overheads.kernel_call_ns,
        rates.fork_join_ns(own.cores),
    )


def _arithmetic(gemm: Gemm, tiling: Tiling, own: Share, rates: Rates) -> float:
    """Cycles of the calls of a core, of which as many are of the last rows or columns as of all calls."""
    rows, columns = divmod(gemm.m, tiling.mb), divmod(gemm.n, tiling.nb)
    sizes = [[(rows[0], tiling.mb), (1, rows[1])], [(columns[0], tiling.nb), (1, columns[1])]]
    kinds = [(i * j, m, n) for i, m in sizes[0] for j, n in sizes[1] if i and j and m and n]
    all_calls = sum(count for count, _, _ in kinds)
    return own.calls / all_calls * sum(count * cycles(gemm, m, n, rates) for count, m, n in kinds)
