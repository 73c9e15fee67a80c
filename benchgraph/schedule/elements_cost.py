"""The time of a scheduled nest without a product and without a window, by what takes it, and the schedule of least cost."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from math import ceil, log2, prod

from benchgraph.machine.rates import Kernels, Level
from benchgraph.machine.table import rates
from benchgraph.machine.target import LINE_BYTES, PAGE_BYTES, Target, lanes_for
from benchgraph.schedule.choose import Choice
from benchgraph.schedule.cost import Breakdown, overlapped
from benchgraph.schedule.elements import Access, Axes, ElementNest, axes_of, axis_of, regions, space
from benchgraph.schedule.nest import F32_BYTES
from benchgraph.schedule.primitives import Schedule, UnrollJam
from benchgraph.schedule.traffic import HELD, dropped

CORES = 2  # for which it is decided in which order results are summed, so that their bits do not depend on threads
SHORT_ROW_BYTES = 2 * LINE_BYTES  # rows of so many, far apart in memory, take 2.2 times as long (docs/measurements/lowering.md)
TOLERANCE = 0.03  # costs that differ by less are equal, so that nests after each other have equal loops, which are merged


@dataclass(frozen=True)
class ElementCost(Breakdown):
    """Nanoseconds of the core with most work: vectors; what loops begin and end with; operands; what is accessed
    again; results of tasks that are combined; fork and join. kernels: what the longer of work and memory hides of the other."""

    vectors: float
    loops: float
    memory: float
    passes: float
    parts: float
    fork_join: float
    kernels: Kernels

    @property
    def total(self) -> float:
        operands = overlapped(self.vectors + self.loops, self.memory, self.kernels.hidden_share)
        return operands + self.passes + self.parts + self.fork_join


@lru_cache(maxsize=4096)
def rows_together(nest: ElementNest, target: Target) -> UnrollJam:
    """Of ops that are part of a task of a nest of products."""
    costs = ElementCosts(nest, target)
    return _best([(s, costs(s, 1)) for s in regions(nest, target.isa.registers)])[0].jam


def _best(costed: Sequence[tuple[Schedule, ElementCost]]) -> tuple[Schedule, ElementCost]:
    """The first of those which cost nearly the least."""
    least = min(cost.total for _, cost in costed)
    return next(each for each in costed if each[1].total <= (1 + TOLERANCE) * least)


@lru_cache(maxsize=4096)
def choose_elements(nest: ElementNest, target: Target) -> Choice:
    """The schedule of least cost; of those that cost nearly the same, the first. In which order results are summed is decided for CORES."""
    costs = ElementCosts(nest, target)
    by_cores = [(s, costs(s, CORES)) for s in space(nest, target)]
    usual, _ = min(by_cores, key=lambda each: each[1].total)
    least_cores = CORES if nest.is_shared else 1  # a split reduction beside it is decided for CORES, and their loops may be merged
    most_cores = CORES if usual.split else max(target.cores, least_cores)
    sums = _sums(nest, usual)
    costed = [(s, cost if most_cores == CORES else costs(s, most_cores)) for s, cost in by_cores if _sums(nest, s) == sums]
    return Choice.of(_best(costed), costed)


def _sums(nest: ElementNest, schedule: Schedule) -> tuple[object, ...]:
    """What schedules have in common that add the same numbers in the same order: a split, the loop in vectors if it is reduced, and rows
    that are added together."""
    inner, rows = axes_of(schedule, schedule.vectorized), axes_of(schedule, schedule.jam.loop) if schedule.jam.count > 1 else ()
    reduced = (axes if nest.reduced.intersection(axes) else () for axes in (inner, rows))
    return (schedule.split, *schedule.sizes(schedule.split), *reduced)


class ElementCosts:
    """What schedules of one nest cost."""

    def __init__(self, nest: ElementNest, target: Target) -> None:
        self.nest, self.target, self.rates = nest, target, rates(target)

    def __call__(self, schedule: Schedule, most_cores: int) -> ElementCost:
        nest, rates, phases = self.nest, self.rates, range(len(self.nest.instructions))
        tasks = prod(self._trips(schedule, loop) for loop in schedule.parallel)
        cores = min(max(tasks, 1), most_cores)
        inner, length = axes_of(schedule, schedule.vectorized), self._length(schedule, schedule.vectorized)
        total, elements = nest.size(inner), nest.size(nest.axes)
        task = self._task_elements(schedule)
        largest = task if len(schedule.parallel) == 1 else elements / max(tasks, 1)  # the rest of a loop is a smaller task
        ns = rates.ns(min(ceil(tasks / cores) * largest, elements) if schedule.parallel else elements) / max(total, 1)
        is_far, (full, rest) = self._is_far(cores), divmod(total, max(length, 1))
        vectors = full * ceil(length / lanes_for(length, self.target.lanes)) + ceil(rest / self.target.lanes)
        return ElementCost(
            ns * vectors * sum(self._of_vector(schedule, phase, inner, length) for phase in phases),
            ns * (full + (rest > 0)) * sum(self._of_run(phase, inner) for phase in phases) / schedule.jam.count,
            (self._nbytes + self._late(schedule)) / (self._far_bytes_per_ns(cores) if is_far else self._l2_bytes_per_ns(schedule, cores)),
            self._passes(schedule, inner, length, task, cores),
            self._parts(schedule, tasks),
            (len(phases) if schedule.split else 1) * nest.share * self._fork_join(cores) if schedule.parallel else 0.0,
            rates.kernels,
        )

    def _fork_join(self, cores: int) -> float:
        """Of a parallel loop, which is a call on one core too."""
        return max(self.rates.fork_join_ns(cores), self.rates.overheads.kernel_call_ns)

    def _task_elements(self, schedule: Schedule) -> int:
        """Of a task, or what would be one."""
        kept = [loop for loop in schedule.order if loop.endswith(".0") or axis_of(loop) not in self.nest.reduced]
        around = [loop for loop in kept if loop != schedule.vectorized and not loop.endswith(".1")]
        rows = schedule.jam.count if schedule.jam.loop in around else 1
        return rows * prod(self._length(schedule, loop) for loop in schedule.order if loop not in around and not loop.endswith(".0"))

    def _size(self, schedule: Schedule, loop: str) -> int:
        return self.nest.size(axes_of(schedule, loop))

    def _trips(self, schedule: Schedule, loop: str) -> int:
        """Iterations of a loop: over blocks, where it has them."""
        sizes = schedule.sizes(loop.split(".")[0])
        return ceil(self._size(schedule, loop) / sizes[0]) if sizes else self._size(schedule, loop)

    def _length(self, schedule: Schedule, loop: str) -> int:
        """Iterations of a loop in a block."""
        return min((self._size(schedule, loop), *schedule.sizes(loop.split(".")[0])))

    def _of_vector(self, schedule: Schedule, phase: int, inner: Axes, length: int) -> float:
        """Cycles of the statements of a phase on a vector."""
        nest, rates = self.nest, self.rates
        accesses = [a for a in nest.accesses if a.phase == phase and (not nest.reduced or a.axes & nest.reduced)]
        tiles = [self._length(schedule, loop) for loop in schedule.order if loop.endswith(".1")] if nest.is_pointwise else []
        stored = nest.stored_with(schedule.recomputed)
        loads = sum(self._access(a, inner, length, min(tiles) if len(tiles) > 1 else 0, stored) for a in accesses)
        work = nest.instructions[phase] * rates.vector.simple_cycles
        sums = 0.0 if inner[-1] in nest.reduced else self.nest.sums[phase] * rates.windows.sum_cycles / schedule.jam.count
        return overlapped(loads, work, rates.windows.load_hidden_share) + sums + rates.overheads.iteration_cycles / 4

    def _access(self, a: Access, inner: Axes, length: int, tile: int, stored: frozenset[int]) -> float:
        """Cycles of a vector that is read or written. tile: the shorter side of a tile that is transposed."""
        v, step, lanes = self.rates.vector, a.steps[inner[-1]], self.target.lanes
        if (a.is_private and a.name not in stored) or step == 0 or not a.bits:
            return 0.0
        load = a.bits / 8 * lanes / self.rates.l1.read_bytes_per_cycle
        if step == 1 or a.is_private:
            return load
        if tile:
            return v.transpose_cycles * max(lanes / tile, 1)
        span = LINE_BYTES if step is None else min(abs(step) * a.bits / 8, LINE_BYTES)  # that an element takes of lines
        strided = v.gather_cycles if step is None else min(abs(step) * (load + v.shuffle_cycles), v.gather_cycles)
        return min(length / lanes, 1) * max(strided, lanes * span / self.rates.l2.read_bytes_per_cycle)

    def _of_run(self, phase: int, inner: Axes) -> float:
        """Cycles at the end of the innermost loop of a phase."""
        ends = self.rates.overheads.iteration_cycles + 2 * self.rates.windows.condition_cycles
        if inner[-1] not in self.nest.reduced:
            return ends
        v = self.rates.vector
        return ends + self.nest.sums[phase] * log2(self.target.lanes) * (v.simple_cycles + v.shuffle_cycles)

    def _parts(self, schedule: Schedule, tasks: int) -> float:
        """The results of tasks are combined by one thread."""
        if not schedule.split:
            return 0.0
        kept = tasks * sum(self.nest.sums) * self.nest.size(a for a in self.nest.axes if a not in self.nest.reduced)
        beyond = 2 * F32_BYTES * kept * dropped(F32_BYTES * kept, self.target.l2_bytes) / self._far_bytes_per_ns(1)
        return self.rates.ns(ceil(kept / self.target.lanes) * 3 * self.rates.windows.sum_cycles) + beyond

    def _passes(self, schedule: Schedule, inner: Axes, length: int, task: int, cores: int) -> float:
        """What later phases, or the next nest, access again, from beyond the caches that hold what a task accesses; rows of sums; and what
        short rows that are far apart take longer."""
        nest, target, elements = self.nest, self.target, self.nest.size(self.nest.axes)
        if nest.is_pointwise:
            return 0.0
        read = self.rates.read_bytes_per_ns("l2", cores)
        moved, n_stored = nest.again_bytes(schedule.recomputed), len(nest.stored_with(schedule.recomputed))
        of_task = (F32_BYTES * n_stored + self._nbytes / max(elements, 1)) * task
        sums = 2 * F32_BYTES * sum(nest.sums) if inner[-1] not in nest.reduced else 0
        together = 1 if schedule.jam.phases else schedule.jam.count
        near = moved * dropped(of_task, target.l1_bytes) + sums * elements / together * dropped(sums * length, target.l1_bytes)
        if not self._is_far(cores):
            return near / read
        apart = sum(self._apart(a, inner, length) + self._begun(a, schedule, length, cores) for a in nest.memory) if sums else 0.0
        gone = min(of_task / target.l2_bytes, 1.0)
        far = (apart + nest.is_shared * gone * self._nbytes) / self._far_bytes_per_ns(cores)
        return near / read + far + moved * gone / self.rates.read_bytes_per_ns("l3", cores)

    def _apart(self, a: Access, inner: Axes, length: int) -> float:
        """Bytes that take as long as what an access of short rows takes longer than one of long rows."""
        total = self.nest.size(inner)
        if inner[-1] not in a.axes or (length == total and total in a.steps):
            return 0.0
        return 1.2 * (8 * SHORT_ROW_BYTES / max(length * a.bits, 1)) ** 4 * a.bits / 8 * self.nest.size(a.axes)

    def _begun(self, a: Access, schedule: Schedule, length: int, cores: int) -> float:
        """Bytes that take as long as the beginnings of rows that are at least a page apart, where no more than their sums is kept: the
        latency of each, of which a row hides as much as it is long."""
        nest, rows = self.nest, [loop for loop in schedule.order[:-1] if axis_of(loop) in self.nest.reduced]
        step = a.steps[axes_of(schedule, rows[-1])[-1]] if rows else 0
        if nest.stored or nest.is_shared or (step is not None and abs(step) * a.bits < 8 * PAGE_BYTES):
            return 0.0
        row, coming = length * a.bits / 8, self.rates.latency_ns(self._far) * self._far_bytes_per_ns(cores) / cores
        return coming / (row + coming) * a.bits / 8 * nest.size(a.axes)

    def _late(self, schedule: Schedule) -> float:
        """Bytes that take as long as several rows of a page, accessed together by less than a line at once, take longer from memory.
        Stores to rows that begin inside of a line are parts of two."""
        jam, nest = schedule.jam, self.nest
        if jam.count == 1 or not self.target.is_far(int(self._nbytes)):
            return 0.0
        row, most = axes_of(schedule, jam.loop)[-1], 8 * PAGE_BYTES // jam.count
        near = [(a, step) for a in nest.memory if 0 < (step := (a.steps[row] or 0) * a.bits) <= most]
        at_once, line = min(self.target.lanes, self.rates.datapath_bits // (8 * F32_BYTES)), 8 * LINE_BYTES
        late = [a for a, step in near if at_once * a.bits < line or (a.is_store and step % line)]
        return self.rates.page_rows_late * sum(a.bits / 8 * nest.size(a.axes) for a in late)

    def _l2_bytes_per_ns(self, schedule: Schedule, cores: int) -> float:
        """Of operands and results that L2 holds, by rows one after the other or several side by side, which take half a page or more."""
        jam, is_near = schedule.jam, self._nbytes <= HELD * self.target.l1_bytes * cores
        if jam.count > 1 and not is_near:
            row, least = axes_of(schedule, jam.loop)[-1], 8 * PAGE_BYTES / 2 / jam.count
            if any(abs(a.steps[row] or 0) * a.bits >= least for a in self.nest.memory):
                return self.rates.l2_rows_read_bytes_per_ns(cores)
        return self.rates.read_bytes_per_ns("l2", cores)

    @cached_property
    def _nbytes(self) -> float:
        """Of operands and results."""
        return sum({a.name: a.bits / 8 * self.nest.size(a.axes) for a in self.nest.memory}.values())

    def _is_far(self, cores: int) -> bool:
        """Whether operands are beyond L2."""
        return self._nbytes > HELD * self.target.l2_bytes * cores

    @cached_property
    def _far(self) -> Level:
        """Where operands are that are beyond L2."""
        return "dram" if self.target.is_far(int(self._nbytes)) else "l3"

    def _far_bytes_per_ns(self, cores: int) -> float:
        return self.rates.read_bytes_per_ns(self._far, cores)
