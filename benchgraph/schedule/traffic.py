"""Bytes that come from beyond a cache while loops run over and over, by their footprints.

The cache holds what the loops from some depth on access: the outermost depth at which all of that fits. Each iteration of the loops around
fetches it anew, but for operands that do not move along the innermost of these, which stay.

    for m.0 in 8: for n.0 in 4: [src 64 x 256, wei 256 x 64, dst 64 x 64]     the box fits, with n.0 around it does not:
        src is fetched 8 times, since it stays while n.0 runs; wei and dst 32 times
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod

from benchgraph.schedule.nest import Loop, Operand


@dataclass(frozen=True)
class Traffic:
    """loops: outermost first. nbytes: for each depth, what each operand has in the box of the loops from there on. box: the steps that all
    loops take along each axis, which blocks may make more than its extent."""

    operands: tuple[Operand, ...]
    extents: Mapping[str, int]
    loops: tuple[Loop, ...]
    nbytes: tuple[tuple[float, ...], ...]
    box: Mapping[str, float]

    @classmethod
    def of(cls, loops: Sequence[Loop], operands: Sequence[Operand], extents: Mapping[str, int]) -> Traffic:
        """extents: of the axes."""
        return cls(tuple(operands), extents, (), (tuple(operand.nbytes({}) for operand in operands),), {}).inside(loops)

    def inside(self, loops: Sequence[Loop]) -> Traffic:
        """With loops around these."""
        box, nbytes, around = dict(self.box), [*self.nbytes], [loop for loop in loops if loop.trips > 1]
        steps = {axis: min(size, self.extents[axis]) for axis, size in box.items()}
        for loop in reversed(around):
            box[loop.axis] = box.get(loop.axis, 1) * loop.trips
            steps[loop.axis] = min(box[loop.axis], self.extents[loop.axis])
            below = zip(self.operands, nbytes[0], strict=True)
            nbytes.insert(0, tuple(operand.nbytes(steps) if loop.axis in operand.axes else size for operand, size in below))
        return Traffic(self.operands, self.extents, (*around, *self.loops), tuple(nbytes), box)

    def beyond(self, capacity: float) -> float:
        """Bytes per execution of all loops, those written back included, from beyond a cache of so many bytes; 0 where all operands fit,
        since they stay from one execution to the next."""
        depth = next((depth for depth, each in enumerate(self.nbytes) if sum(each) <= capacity), len(self.loops))
        if depth == 0:
            return 0.0
        each = zip(self.operands, self.nbytes[depth], strict=True)
        return sum((1 + operand.is_written) * nbytes * self._times(depth, operand) for operand, nbytes in each)

    def _times(self, depth: int, operand: Operand) -> float:
        """How often the loops around a box fetch an operand's part of it."""
        *outer, inner = self.loops[:depth]
        stays = inner.axis not in operand.axes
        return prod(loop.trips for loop in outer) * (1 if stays else inner.trips)
