"""Bytes that come from beyond a cache while loops run over and over, by their footprints.

The cache holds what the loops from some depth on access: the outermost depth at which all of that fits. Each iteration of the loops around
fetches it anew, but for operands that do not move along the innermost of these, which stay. What is a little larger than the cache is
dropped in part.

    for m.0 in 8: for n.0 in 4: [src 64 x 256, wei 256 x 64, dst 64 x 64]     the box fits, with n.0 around it does not:
        src is fetched 8 times, since it stays while n.0 runs; wei and dst 32 times
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from benchgraph.machine.target import Target
from benchgraph.schedule.nest import Loop, Operand

HELD, GONE = 0.75, 2.0  # shares of a cache: of what is accessed over and over, so much is held, and of so much nothing


def dropped(nbytes: float, cache_bytes: float) -> float:
    """The share of so many bytes, accessed over and over, that a cache has dropped before the next access.

    >>> dropped(1024, 2048), dropped(4096, 2048)
    (0.0, 1.0)
    """
    return min(max((nbytes / cache_bytes - HELD) / (GONE - HELD), 0.0), 1.0)


def beyond_l2(nbytes: float, target: Target, cores: int = 1) -> bool:
    """Whether the L2 caches of so many cores have dropped any of so many bytes, accessed over and over."""
    return dropped(nbytes, target.l2_bytes * cores) > 0


def beyond_all_l2(nbytes: float, target: Target) -> bool:
    """The same of all cores."""
    return beyond_l2(nbytes, target, target.cores)


@dataclass(frozen=True)
class Traffic:
    """loops: outermost first. nbytes: for each depth, what each operand has in the box of the loops from there on. box: the steps that all
    loops take along each axis, which blocks may make more than its extent. held: for each depth, bytes of a cache that the box takes."""

    operands: tuple[Operand, ...]
    extents: Mapping[str, float]
    loops: tuple[Loop, ...]
    nbytes: tuple[tuple[float, ...], ...]
    box: Mapping[str, float]
    held: tuple[float, ...]

    @classmethod
    def of(cls, loops: Sequence[Loop], operands: Sequence[Operand], extents: Mapping[str, float]) -> Traffic:
        """extents: of the axes."""
        return cls.of_box(operands, extents, {}).inside(loops)

    @classmethod
    def of_box(cls, operands: Sequence[Operand], extents: Mapping[str, float], box: Mapping[str, float]) -> Traffic:
        """Of one box, without loops around it."""
        held = sum(operand.held_bytes(box) for operand in operands)
        return cls(tuple(operands), extents, (), (tuple(operand.nbytes(box) for operand in operands),), box, (held,))

    def inside(self, loops: Sequence[Loop]) -> Traffic:
        """With loops around these."""
        box, nbytes, held, around = dict(self.box), [*self.nbytes], [*self.held], [loop for loop in loops if loop.trips > 1]
        steps = {axis: min(size, self.extents[axis]) for axis, size in box.items()}
        apart = [operand for operand in self.operands if operand.apart]
        for loop in reversed(around):
            box[loop.axis] = box.get(loop.axis, 1) * loop.trips
            steps[loop.axis] = min(box[loop.axis], self.extents[loop.axis])
            below = zip(self.operands, nbytes[0], strict=True)
            nbytes.insert(0, tuple(operand.nbytes(steps) if loop.axis in operand.axes else size for operand, size in below))
            held.insert(0, sum(nbytes[0]) + sum(operand.held_bytes(steps) - operand.nbytes(steps) for operand in apart))
        return Traffic(self.operands, self.extents, (*around, *self.loops), tuple(nbytes), box, tuple(held))

    def dropped(self, cache_bytes: float) -> float:
        """The share of all that is accessed which a cache has dropped when the loops run again."""
        return dropped(self.held[0], cache_bytes)

    def beyond(self, cache_bytes: float, stays: float = 1.0) -> tuple[float, ...]:
        """By operand, bytes per execution of all loops, those written back included, from beyond a cache; each element at least once.

        stays: how often it is fetched, if no loop moves it."""
        depth = next((depth for depth, held in enumerate(self.held) if held <= HELD * cache_bytes), len(self.loops))
        moved = self._moved(depth, stays)
        share = dropped(self.held[depth - 1], cache_bytes) if depth else 1.0
        if share == 1:
            return moved
        return tuple(share * some + (1 - share) * less for some, less in zip(moved, self._moved(depth - 1, stays), strict=True))

    def _moved(self, depth: int, stays: float) -> tuple[float, ...]:
        """Bytes where the cache holds what one iteration of the outermost so many loops accesses."""
        each = zip(self.operands, self.nbytes[depth], strict=True)
        return tuple((1 + operand.is_written) * nbytes * self._times(depth, operand, stays) for operand, nbytes in each)

    def _times(self, depth: int, operand: Operand, stays: float) -> float:
        """How often these loops fetch an operand's part of a box: it stays while the innermost of them do not move it."""
        times, through = stays, 1.0
        for axis, trips in self.loops[:depth]:
            through *= trips
            if axis in operand.axes:
                times = through
        return times
