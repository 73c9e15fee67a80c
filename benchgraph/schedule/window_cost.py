"""The time of a scheduled window nest, by what takes it, and the schedule of least cost. docs/measurements/stencils.md"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import product
from math import ceil, prod

from benchgraph.core.dtypes import DType
from benchgraph.machine.rates import Kernels
from benchgraph.machine.table import rates
from benchgraph.machine.target import LINE_BYTES, Target, lanes_for
from benchgraph.schedule.choose import Choice, until_worse
from benchgraph.schedule.cost import Breakdown, overlapped
from benchgraph.schedule.primitives import Schedule
from benchgraph.schedule.traffic import HELD
from benchgraph.schedule.window import TAP_GROUP, Passed, Read, WindowNest, axis, groups, space, tap


@dataclass(frozen=True)
class WindowCost(Breakdown):
    """Nanoseconds of the core with most work: vectors; elements at the ends of rows, and rows at the ends of other axes; planes that are
    copied; what tasks take to find out where they are; memory beyond caches of one core; fork and join. kernels: what the longer of work
    and memory hides of the other."""

    vectors: float
    borders: float
    planes: float
    tasks: float
    memory: float
    fork_join: float
    kernels: Kernels

    @property
    def total(self) -> float:
        return overlapped(self.vectors + self.borders + self.planes + self.tasks, self.memory, self.kernels.hidden_share) + self.fork_join


@lru_cache(maxsize=4096)
def choose_window(nest: WindowNest, target: Target) -> Choice:
    """The schedule of least cost; of those that cost the same, the simplest."""
    every = space(nest, target.isa.registers)
    costed = until_worse(every, lambda schedule: schedule.with_parallel(()), WindowCosts(nest, target))
    first, *others = sorted(costed, key=lambda each: (target.shares_all and not each[1].fork_join, each[1].total))
    return Choice(*first, others[0] if others else None)


class WindowCosts:
    """What schedules of one window nest cost."""

    def __init__(self, nest: WindowNest, target: Target) -> None:
        self.nest, self.target, self.rates = nest, target, rates(target)

    def __call__(self, schedule: Schedule) -> WindowCost:
        nest, target, rates, y = self.nest, self.target, self.rates, self.nest.y
        tasks, by = prod(nest.shape[int(loop[1:])] for loop in schedule.parallel), 1.0
        rows = prod(nest.shape) / max(nest.x_size, 1)
        if schedule.jam.loop and y is not None:
            head, count, tail = groups(nest, nest.planes if schedule.packed else None, schedule.jam.count)
            size, number = nest.shape[y.axis], len(head) + count + len(tail)
            by, rows = size / number, rows / size * number
            tasks = tasks // size * (count + bool(head) + bool(tail)) if schedule.jam.loop in schedule.parallel else tasks
        tasks = max(tasks, 1)
        cores = min(tasks, target.cores)
        share = ceil(tasks / cores) / tasks
        ns = rates.ns(rows * share)
        vectors, borders = self._row(schedule, by)
        planes = rates.ns(share * self._copies()) if schedule.packed else 0.0
        divisions = 2 * max(len(schedule.parallel) - 1, 0)  # parallel loops become one, whose index each task divides
        divided = rates.ns(share * tasks * divisions * rates.windows.condition_cycles)
        memory = self._memory(schedule, by, cores)
        return WindowCost(ns * vectors, ns * borders, planes, divided, memory, rates.fork_join_ns(cores), rates.kernels)

    def _row(self, schedule: Schedule, by: float) -> tuple[float, float]:
        """Cycles of a row of x of windows that are jammed: of vectors, and of borders."""
        nest, every = self.nest, tuple(range(len(self.nest.taps)))
        inner = nest.x_size if schedule.packed else nest.inner
        lanes = lanes_for(ceil(inner / nest.rows), self.target.lanes)
        vectors = nest.rows * ceil(inner / nest.rows / lanes)
        along_y = nest.y.taps if nest.y and schedule.jam.loop else ()
        rolled = vectors * self._reduced(schedule, by, along_y)
        unrolled = vectors * self._reduced(schedule, by, every) if schedule.unrolled == tuple(map(tap, every)) else rolled
        counts = 1.0 if schedule.packed else nest.y.unrolled if nest.y and schedule.jam.loop else nest.unrolled
        condition = self.rates.windows.condition_cycles / max(by * prod(nest.taps[k] for k in along_y), 1)
        ends = (nest.x_size - inner) * by * prod(nest.taps) * (nest.instructions * self.rates.vector.simple_cycles + condition)
        return (counts * unrolled, (1 - counts) * rolled + ends) if unrolled is not rolled else (rolled, ends)

    def _reduced(self, schedule: Schedule, by: float, unrolled: tuple[int, ...]) -> float:
        """Cycles of a vector of x of jammed windows. unrolled: axes of taps in one expression, or in groups of one."""
        nest, rates, of_sum = self.nest, self.rates, self.rates.windows.sum_cycles
        is_grouped = any(".1" in loop for loop in schedule.unrolled)
        sizes = {k: TAP_GROUP if is_grouped else nest.taps[k] for k in unrolled}
        terms = prod(sizes.values())
        loops = prod(nest.taps) / max(terms, 1)
        loads = sum(self._distinct(read, by, sizes) * self._load(read) for read in nest.reads)
        work = by * terms * nest.instructions * rates.vector.simple_cycles
        each = overlapped(loads, work, rates.windows.load_hidden_share)
        if loops <= 1:
            return each + by * of_sum
        if schedule.order[-1:] == (axis(nest.x),):
            return loops * (each + by * of_sum + rates.overheads.iteration_cycles) + 2 * by * of_sum
        return loops * (each + 2 * rates.overheads.iteration_cycles) + by * of_sum

    def _distinct(self, read: Read, by: float, sizes: Mapping[int, int]) -> float:
        """How many different elements of an operand the taps in one expression read for all windows that are jammed."""
        along_y = self.nest.y.taps if self.nest.y else ()
        moving = {k: size for k, size in sizes.items() if read.along_taps[k] != 0}
        others = prod(size for k, size in moving.items() if k not in along_y)
        steps = [(read.along_y, by), *((read.along_taps[k], size) for k, size in moving.items() if k in along_y)]
        if any(step is None for step, _ in steps):
            return others * prod(size for _, size in steps) / (self.nest.y.step if self.nest.y else 1)
        places = product(*(range(ceil(size)) for _, size in steps))
        return others * len({sum(i * (step or 0) for i, (step, _) in zip(at, steps, strict=True)) for at in places})

    def _load(self, read: Read) -> float:
        """Cycles of a vector of an operand, converted to f32."""
        v = self.rates.vector
        load = LINE_BYTES / self.rates.l1.read_bytes_per_cycle
        if read.along_x is None:
            load = v.gather_cycles
        elif abs(read.along_x) > 1:
            load = abs(read.along_x) * (load + v.shuffle_cycles)
        return load + (v.conversion_cycles(read.dtype, DType.f32) if read.along_x != 0 else 0.0)

    def _copies(self) -> float:
        """Cycles of the copies of all planes."""
        planes = self.nest.planes
        assert planes is not None
        windows, (*others, row) = self.rates.windows, planes.shape
        src = replace(self.nest.reads[0], along_x=1)
        each = ceil(row / self.target.lanes) * (self._load(src) + windows.sum_cycles) + 2 * windows.condition_cycles
        nbytes = DType.f32.nbytes(prod(planes.shape))
        beyond = 2 * nbytes / self.rates.l2.read_bytes_per_cycle if nbytes > HELD * self.target.l1_bytes else 0.0
        return prod(self.nest.shape[a] for a in planes.outer) * (prod(others) * each + beyond)

    def _memory(self, schedule: Schedule, by: float, cores: int) -> float:
        """Of src and dst, from where they are after the nest before, but for temporaries of which L1 holds a part at a time."""
        nest, target, rates = self.nest, self.target, self.rates
        nbytes = sum(read.nbytes for read in nest.reads) + nest.dst.nbytes(prod(nest.shape))
        nbytes -= sum(passed.nbytes for passed in nest.passed if self._stays_in_l1(passed, schedule))
        if nbytes <= HELD * target.l2_bytes * cores:
            return nbytes / rates.read_bytes_per_ns("l2", cores)
        sizes = {k: nest.taps[k] for k in range(len(nest.taps)) if tap(k) in schedule.unrolled}
        streams = sum(self._distinct(read, by, sizes) for read in nest.reads if read.along_x is not None)
        beyond = 1 - HELD * target.l2_bytes * cores / nbytes
        scattered = 1 + beyond * streams / rates.windows.scattered_streams
        return nbytes / rates.read_bytes_per_ns("dram" if target.is_far(nbytes) else "l3", cores) * scattered

    def _stays_in_l1(self, passed: Passed, schedule: Schedule) -> bool:
        outer = range(passed.outer)
        part = passed.nbytes / max(prod(self.nest.shape[a] for a in outer), 1)
        return {*map(axis, outer)} <= {*schedule.parallel} and part <= HELD * self.target.l1_bytes
