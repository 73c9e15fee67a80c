"""Windows as nests: dst[d0, d1, ..] reduces a box of taps t0, t1, .. of each window, and the schedules that such a nest can have.

order d0, d1, d2, d3, t0, t1; parallel d0, d1, d2; vectorize d3              window by window, tap by tap
unroll t0, t1; ...                                                           all taps in one expression, where all count
unroll_jam d2 by 8; unroll t1; ...                                           neighbours share the elements that they load
pack src with padding at d1; ...                                             a plane is copied with its padding, so that all taps count
tile t1 by 8; unroll_jam d2 by 3; unroll t1.1; order d0, d1, d2, t0, t1.0, d3; ...     by rows of x, eight taps at a time
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from math import ceil, prod

from benchgraph.core.dtypes import DType
from benchgraph.core.tensor import Shape
from benchgraph.schedule.primitives import Order, Pack, Parallel, Primitive, Schedule, Tile, Unroll, UnrollJam, Vectorize

MOST_TERMS = 256  # of expressions in the code of a nest: taps times windows
TAP_GROUP = 8  # taps that one expression has, of windows with many
REGISTERS_PER_SUM = 4  # vector registers for each sum of windows that are jammed: the others hold what sums are computed from


@dataclass(frozen=True)
class Read:
    """An element of an operand that a tap reads. nbytes: of the operand. along_x, along_y: the step with an index of dst, None where it is
    uneven, or too large for vectors. along_taps: by axis of the box of taps."""

    port: int
    dtype: DType
    nbytes: int
    along_x: int | None
    along_y: int | None
    along_taps: tuple[int | None, ...]


@dataclass(frozen=True)
class Neighbours:
    """Windows at neighbouring indices along an axis of dst, y. taps: axes of the box of taps along y. step: so many windows further, taps
    exist under the same conditions. interior: first and end of y where all taps along it count. unrolled: as of the nest, but for y."""

    axis: int
    taps: tuple[int, ...]
    step: int
    interior: tuple[int, int]
    unrolled: float


@dataclass(frozen=True)
class Planes:
    """Copies of src with its padding. axes: (dim of src that numbers planes, its axis of dst). dims: the others, that along x last; for
    each the first index that windows have taps at and the one after the last, and its size in src."""

    axes: tuple[tuple[int, int], ...]
    dims: tuple[int, ...]
    bounds: tuple[tuple[int, int], ...]
    sizes: Shape
    padding: float

    @property
    def shape(self) -> Shape:
        """Of one of them."""
        return tuple(high - low for low, high in self.bounds)

    @property
    def outer(self) -> tuple[int, ...]:
        """The axes of dst that number them."""
        return tuple(sorted(axis for _, axis in self.axes))


@dataclass(frozen=True)
class Passed:
    """A temporary that windows make for others, of which an iteration of the loops over so many outer axes of both has its own part. Where
    these loops are parallel, merge-parallel makes them one, and shrink-tensors leaves the part alone."""

    nbytes: int
    outer: int


@dataclass(frozen=True)
class WindowNest:
    """One window over all of dst. x: its axis that runs in vectors. rows: as many a row of windows falls into, those of even and odd x for
    example. inner: of x, where no condition on it is left. unrolled: the share of other indices where all taps count, 0 where taps cannot
    be unrolled. instructions: per tap, but for loads. passed: to or from other nests of windows."""

    shape: Shape
    taps: Shape
    x: int
    rows: int
    inner: int
    unrolled: float
    instructions: int
    reads: tuple[Read, ...]
    dst: DType
    y: Neighbours | None = None
    planes: Planes | None = None
    passed: tuple[Passed, ...] = ()

    @property
    def x_size(self) -> int:
        return self.shape[self.x] if self.shape else 1

    @cached_property
    def is_contiguous(self) -> bool:
        """Whether loops over taps can be inside of vectors of x."""
        return all(read.along_x in (0, 1) for read in self.reads)


def axis(number: int) -> str:
    return f"d{number}"


def tap(number: int) -> str:
    return f"t{number}"


def parts(size: int, interior: tuple[int, int], block: int, step: int = 1) -> tuple[list[range], int, list[range]]:
    """An axis in parts of at most `block` indices: those before whole blocks in the interior, of which the first is at a multiple of
    `step`, their number, and those after.

    >>> parts(20, (1, 19), 8)
    ([range(0, 1)], 2, [range(17, 20)])
    """
    first, end = interior
    begin = ceil(first / step) * step
    count = max((end - begin) // block, 0)
    if count < 2:
        return _even_parts(0, size, block), 0, []
    return _even_parts(0, begin, block), count, _even_parts(begin + count * block, size, block)


def groups(nest: WindowNest, planes: Planes | None, by: int) -> tuple[list[range], int, list[range]]:
    """Windows along y that are computed together: see `parts`."""
    y = nest.y
    assert y is not None
    size = nest.shape[y.axis]
    return parts(size, (0, size) if planes else y.interior, by, y.step)


def _even_parts(first: int, end: int, most: int) -> list[range]:
    """As few parts of at most so many as possible, of nearly equal size."""
    count = ceil((end - first) / most)
    bounds = [first + (end - first) * i // count for i in range(count + 1)] if count else []
    return [range(a, b) for a, b in pairwise(bounds)]


def space(nest: WindowNest, registers: int) -> Iterator[Schedule]:
    """All schedules, the simplest first, each on one thread, then with its loops parallel, more and more of them."""
    for schedule in _on_all_threads(nest, registers):
        loops = schedule.parallel
        yield from (schedule.with_parallel(loops[:count]) for count in range(len(loops) + 1))


def _on_all_threads(nest: WindowNest, registers: int) -> Iterator[Schedule]:
    every = tuple(range(len(nest.taps)))
    for planes in (None, nest.planes) if nest.planes else (None,):
        can_unroll = every and prod(nest.taps) <= MOST_TERMS and (planes or nest.unrolled)
        yield _schedule(nest, planes)
        if can_unroll:
            yield _schedule(nest, planes, unrolled=every)
        for by in _jams(nest, registers):
            yield from _jammed(nest, planes, by)


def _jams(nest: WindowNest, registers: int) -> Iterator[int]:
    """How many windows may be jammed."""
    y, steps = nest.y, registers // REGISTERS_PER_SUM // nest.y.step if nest.y else 0
    while y is not None and steps:
        if 1 < steps * y.step < 2 * nest.shape[y.axis]:
            yield steps * y.step
        steps //= 2


def _jammed(nest: WindowNest, planes: Planes | None, by: int) -> Iterator[Schedule]:
    y = nest.y
    assert y is not None
    head, count, tail = groups(nest, planes, by)
    windows = sum(map(len, (*head, *tail))) + by * (count > 0)
    if prod(nest.taps) * windows <= MOST_TERMS and (planes or y.unrolled):
        yield _schedule(nest, planes, by, tuple(range(len(nest.taps))))
    elif nest.is_contiguous and (along_y := prod(nest.taps[k] for k in y.taps)) <= 2 * TAP_GROUP and along_y * windows <= MOST_TERMS:
        yield _schedule(nest, planes, by, y.taps)
    elif len(y.taps) == 1 and not planes and 3 * TAP_GROUP * windows <= MOST_TERMS:
        yield _schedule(nest, planes, by, y.taps, group=TAP_GROUP)


def _schedule(nest: WindowNest, planes: Planes | None, by: int = 1, unrolled: tuple[int, ...] = (), group: int = 0) -> Schedule:
    """by: windows that are jammed. group: of so many taps."""
    y = nest.y
    first = planes.outer if planes else ()
    outer = (*first, *(a for a in range(len(nest.shape)) if a not in (*first, nest.x, y.axis if y and by > 1 else -1)))
    outer = (*outer, y.axis) if y and by > 1 else outer
    blocks = {tap(k): f"{tap(k)}.0" for k in unrolled} if group else {}
    taps = tuple(blocks.get(tap(k), tap(k)) for k in range(len(nest.taps)))
    x = (axis(nest.x),) if nest.shape else ()
    inner = (*taps, *x) if group or not nest.is_contiguous else (*x, *taps)
    primitives: list[Primitive] = [Pack("src", axis(first[-1]), is_padded=True)] if planes else []
    primitives += [Tile(tap(k), (group,)) for k in unrolled] if group else []
    primitives += [UnrollJam(axis(y.axis), by)] if y and by > 1 else []
    primitives += [Unroll(tuple(f"{tap(k)}.1" if group else tap(k) for k in unrolled))] if unrolled else []
    primitives += [Order((*map(axis, outer), *inner))] if nest.shape else []
    primitives += [Parallel(tuple(map(axis, first or outer)))] if outer else []
    return Schedule((*primitives, *([Vectorize(x)] if x else [])))
