"""Nests of products: one after the other on the same rows, and what the core with most work does of a scheduled one.

    for b in 7: [ for n in 8: 3x3; for n in 8: 1x1 ]    two steps; a task reads all weights of both
    for n in 8: for b in 7: 3x3                         one step, whose loops can have any order

A nest of several steps is cut into tasks of some rows. Two of them with a softmax between can take its rows some columns of scores at a
time (flash attention): the first step's columns are the second step's k.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property
from math import ceil, prod

from benchgraph.machine.target import Target
from benchgraph.schedule.gemm import Gemm
from benchgraph.schedule.nest import F32_BYTES, Loop, Operand
from benchgraph.schedule.primitives import Schedule


@dataclass(frozen=True)
class Step:
    """A product. tensors: names of src, wei and dst, by which steps share them. nb: columns of a call, 0 where the schedule says it.

    waits: nothing fetches wei into L2 ahead. is_reduced: ops on whole rows of the result follow. blocked: its axis along which scores are
    cut, if they are.
    """

    gemm: Gemm
    tensors: tuple[str, str, str] = ("src", "wei", "dst")
    nb: int = 0
    waits: bool = False
    is_reduced: bool = False
    blocked: str = ""


@dataclass(frozen=True)
class Nest:
    """others: what crosses the border beside operands of steps, moved by rows alone. temporaries: names of what each task makes in the
    same place as the one before. ahead: names of what is of one batch entry as a whole, which tasks of the entry before can prefetch.
    group: rows of a task are a multiple of it. has_serial_rows: rows of a batch entry are one task. works_on_rows: ops need whole rows.
    is_flash: scores may be cut; is_masked: about half of them are hidden, in whole blocks. m: rows, where no step has any. makes_src: tasks
    compute the rows of src that they read.
    """

    steps: tuple[Step, ...]
    others: tuple[Operand, ...] = ()
    temporaries: frozenset[str] = frozenset()
    ahead: tuple[str, ...] = ()
    group: int = 1
    has_serial_rows: bool = False
    works_on_rows: bool = False
    is_flash: bool = False
    is_masked: bool = False
    m: int = 0
    makes_src: bool = False

    @property
    def first(self) -> Gemm:
        return self.steps[0].gemm

    @cached_property
    def extents(self) -> Mapping[str, int]:
        """By axis; n is that of the first step."""
        return self.first.extents if self.steps else {"m": self.m}

    @cached_property
    def written(self) -> frozenset[str]:
        """Names of what it leaves for others."""
        found = [step.tensors[2] for step in self.steps] + [operand.name for operand in self.others if operand.is_written]
        return frozenset(found) - self.temporaries

    def prefetches(self, rows: int, target: Target) -> bool:
        """Whether L2 holds what two batch entries read as a whole and so many rows of the widest product."""
        if not self.ahead:
            return False
        entry = self.first.extents | dict.fromkeys(self.first.batch_axes, 1)
        each = {operand.name: operand.nbytes(entry) for operand in self.others}
        for step in self.steps:
            box = step.gemm.extents | dict.fromkeys(self.first.batch_axes, 1)
            each |= {name: operand.nbytes(box) for name, operand in zip(step.tensors, step.gemm.operands, strict=True)}
        widest = max(step.gemm.k + step.gemm.n for step in self.steps)
        return 2 * sum(each[name] for name in self.ahead if name in each) + F32_BYTES * rows * widest <= target.l2_bytes

    def in_blocks(self, columns: int) -> tuple[Step, ...]:
        """The steps on so many columns of scores."""
        scores, values = self.steps
        one, other = (step.gemm for step in self.steps)
        return (
            replace(scores, gemm=replace(one, n=columns), blocked="n"),
            replace(values, gemm=replace(other, kernel=replace(other.kernel, k=columns)), blocked="k"),
        )

    def computed_share(self, rows: int, columns: int) -> float:
        """Of blocks of scores, with tasks of so many rows: under a causal mask a task computes those up to its last row's column."""
        if not self.is_masked:
            return 1.0
        tasks, blocks = ceil(self.first.m / rows), ceil(self.first.n / columns)
        return sum(ceil(min((i + 1) * rows / self.first.m, 1.0) * blocks) for i in range(tasks)) / (tasks * blocks)


def follow_each_other(entries: int, target: Target) -> bool:
    """Whether a core works on several of so many batch entries, so that it can prefetch the next."""
    return entries >= 2 * target.cores


def occupies_all(tasks: int, target: Target) -> bool:
    """Whether so many tasks are enough for all cores."""
    return tasks >= target.cores


def idle_share(tasks: int, target: Target) -> float:
    """Of the cores' time, what so many equal tasks leave unused."""
    return 1 - tasks / (ceil(tasks / target.cores) * target.cores)


def alone(gemm: Gemm, *, makes_src: bool = False) -> Nest:
    """One product, whose schedules say all of it."""
    return Nest((Step(gemm),), makes_src=makes_src)


@dataclass(frozen=True)
class Share:
    """What the core with most work does: `loops` around its microkernel calls, or around all steps, outermost first; `tasks`, on so many
    `cores` in use. parts: axes of which it does not go through all blocks, and so not through the last, which may be smaller."""

    loops: tuple[Loop, ...]
    tasks: int
    cores: int
    parts: frozenset[str] = frozenset()

    @property
    def calls(self) -> float:
        return prod(loop.trips for loop in self.loops)


def share(extents: Mapping[str, int], schedule: Schedule, cores: int) -> Share:
    """Tasks are in the order of the parallel loops; each core has as many neighbouring ones.

    >>> rows = Schedule.parse("tile m by 32; tile n by 64; order m.0, n.0; parallel m.0")
    >>> own = share({"m": 128, "n": 256, "k": 64}, rows, 2)
    >>> own.loops, own.tasks, own.parts
    ((Loop(axis='m', trips=2.0), Loop(axis='n', trips=4)), 2, frozenset({'m'}))
    """
    parallel = len(schedule.parallel)
    loops = [_loop(extents, schedule, name) for name in schedule.order]
    outer, inner = loops[:parallel], loops[parallel:]
    tasks = int(prod(loop.trips for loop in outer))
    own = ceil(tasks / cores)
    first = _first(outer, own)
    parts = frozenset(loop.axis for loop, all_of_it in zip(first, outer, strict=True) if loop.trips < all_of_it.trips)
    return Share((*first, *inner), own, min(tasks, cores), parts)


def _first(loops: Sequence[Loop], count: int) -> tuple[Loop, ...]:
    """The loops of the first so many iterations of the innermost. The last of 36 iterations of `for b in 9: for m in 8` are half of a b."""
    shorter, left = list[Loop](), float(count)
    for loop in reversed(loops):
        trips = min(loop.trips, left)
        shorter.insert(0, Loop(loop.axis, trips))
        left /= trips
    return tuple(shorter)


def _loop(extents: Mapping[str, int], schedule: Schedule, name: str) -> Loop:
    axis, level = _axis_and_level(name)
    sizes, around = schedule.sizes(axis), extents[axis]
    if level is None:
        return Loop(axis, around)
    if level > 0:
        around = sizes[level - 1]
    return Loop(axis, ceil(around / sizes[level]) if level < len(sizes) else around)


@cache
def _axis_and_level(name: str) -> tuple[str, int | None]:
    axis, _, level = name.partition(".")
    return axis, int(level) if level else None
