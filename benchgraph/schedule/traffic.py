"""Bytes that come from beyond a cache while loops run over and over, by their footprints.

The cache holds what the loops from some depth on access: the outermost depth at which all of that fits. Each iteration of the loops around
fetches it anew, but for operands that do not move along the innermost of these, which stay.

    for m.0 in 8: for n.0 in 4: [src 64 x 256, wei 256 x 64, dst 64 x 64]     the box fits, with n.0 around it does not:
        src is fetched 8 times, since it stays while n.0 runs; wei and dst 32 times
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from benchgraph.schedule.nest import Loop, Operand, boxes


def fetched(loops: Sequence[Loop], operands: Sequence[Operand], capacity: float) -> float:
    """Bytes per execution of all loops, those written back included. loops: outermost first. capacity: bytes that the cache holds.

    0 where all operands fit, since they stay from one execution to the next.
    """
    by_depth = boxes(loops)
    fits = (depth for depth, box in enumerate(by_depth) if sum(operand.nbytes(box) for operand in operands) <= capacity)
    depth = next(fits, len(loops))
    if depth == 0:
        return 0.0
    return sum((1 + operand.is_written) * operand.nbytes(by_depth[depth]) * _times(loops[:depth], operand) for operand in operands)


def _times(around: Sequence[Loop], operand: Operand) -> int:
    """How often the loops around a box fetch an operand's part of it."""
    *outer, inner = around
    stays = inner.axis not in operand.axes
    return prod(loop.trips for loop in outer) * (1 if stays else inner.trips)
