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
        nbytes = tuple([operand.nbytes(box) for operand in operands])
        return cls(tuple(operands), extents, (), (nbytes,), box, (sum(nbytes) + _crowded(operands, box),))

    def inside(self, loops: Sequence[Loop]) -> Traffic:
        """With loops around these."""
        operands, extents, box, sizes = self.operands, self.extents, dict(self.box), self.nbytes[0]
        steps = {axis: min(size, extents[axis]) for axis, size in box.items()}
        around, nbytes, held = list[Loop](), list[tuple[float, ...]](), list[float]()  # innermost first
        for loop in reversed(loops):
            axis, trips = loop
            if trips <= 1:
                continue
            box[axis] = box.get(axis, 1) * trips
            steps[axis] = min(box[axis], extents[axis])
            sizes = tuple([each.nbytes(steps) if axis in each.axes else size for each, size in zip(operands, sizes, strict=True)])
            around.append(loop)
            nbytes.append(sizes)
            held.append(sum(sizes) + _crowded(operands, steps))
        further = (*reversed(around), *self.loops), (*reversed(nbytes), *self.nbytes), box, (*reversed(held), *self.held)
        return Traffic(operands, extents, *further)

    def dropped(self, cache_bytes: float) -> float:
        """The share of all that is accessed which a cache has dropped when the loops run again."""
        return dropped(self.held[0], cache_bytes)

    def beyond(self, cache_bytes: float, stays: float = 1.0) -> tuple[float, ...]:
        """By operand, bytes per execution of all loops, those written back included, from beyond a cache; each element at least once.

        stays: how often it is fetched, if no loop moves it."""
        most = HELD * cache_bytes
        depth = next((depth for depth, held in enumerate(self.held) if held <= most), len(self.loops))
        moved = self._moved(depth, stays)
        share = dropped(self.held[depth - 1], cache_bytes) if depth else 1.0
        if share == 1:
            return moved
        return tuple([share * some + (1 - share) * less for some, less in zip(moved, self._moved(depth - 1, stays), strict=True)])

    def _moved(self, depth: int, stays: float) -> tuple[float, ...]:
        """Bytes where the cache holds what one iteration of the outermost so many loops accesses: each operand stays while the innermost of
        these do not move it."""
        loops, moved = self.loops[:depth], list[float]()
        for operand, nbytes in zip(self.operands, self.nbytes[depth], strict=True):
            axes, times, through = operand.axes, stays, 1.0
            for axis, trips in loops:
                through *= trips
                if axis in axes:
                    times = through
            moved.append((1 + operand.is_written) * nbytes * times)
        return tuple(moved)


def _crowded(operands: Sequence[Operand], box: Mapping[str, float]) -> float:
    """Bytes of a cache that a box takes beside its own: rows that are apart may fall in few sets."""
    return sum(operand.held_bytes(box) - operand.nbytes(box) for operand in operands if operand.apart)
