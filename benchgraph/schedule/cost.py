"""The time of scheduled products, by what takes it: of one, of several that are one nest, of nests one after the other.

docs/measurements/cost-model.md says how far it is off. Ops between products take the same time in one nest and in two, so only what they
read and write counts, but for whether a nest repays fork and join.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from math import ceil, inf, log2, prod
from typing import Any, cast

from benchgraph.machine.rates import Kernels
from benchgraph.machine.table import rates, table
from benchgraph.machine.target import LINE_BYTES, Target
from benchgraph.schedule.microkernel import tiles_of_rows
from benchgraph.schedule.nest import F32_BYTES
from benchgraph.schedule.primitives import Schedule
from benchgraph.schedule.run import Part, Run, Runs, anew, calls_of
from benchgraph.schedule.steps import Nest, share
from benchgraph.schedule.traffic import HELD, dropped


class Breakdown(ABC):
    """Nanoseconds by what takes them, in the fields of a dataclass."""

    @property
    @abstractmethod
    def total(self) -> float:
        """Of all, less what hides behind something else."""

    def __str__(self) -> str:
        parts = ((field.name.replace("_", " "), getattr(self, field.name)) for field in fields(cast(Any, self)))
        shown = (f"{name} {ns / 1000:.3g}" for name, ns in parts if isinstance(ns, float) and ns >= self.total / 100)
        return f"{self.total / 1000:.3g} us ({', '.join(shown)})"


def overlapped(first: float, second: float, hidden_share: float) -> float:
    """The longer of two times, and what it does not hide of the shorter.

    >>> overlapped(8.0, 4.0, 0.75)
    9.0
    """
    return max(first, second) + (1 - hidden_share) * min(first, second)


@dataclass(frozen=True)
class Cost(Breakdown):
    """Nanoseconds of the core with most work: arithmetic; transfers from L2, from the cache that cores share, and from memory; lines that
    other cores have written; what nothing hides (results that wait in temporaries, rows that ops read between products, weights that
    nothing fetches ahead, or that tasks pack, lines that hardware takes from the core that writes them); calls; fork and join. kernels:
    which shares of the first five the longest of them hides.
    """

    arithmetic: float
    l2: float
    l3: float
    memory: float
    written: float
    waiting: float
    calls: float
    fork_join: float
    kernels: Kernels

    @cached_property
    def total(self) -> float:
        rest, rest_of_l2 = 1 - self.kernels.hidden_share, 1 - self.kernels.l2_hidden_share
        overlapping = [(ns, rest * ns) for ns in (self.arithmetic, self.l3, self.memory, self.written)] + [(self.l2, rest_of_l2 * self.l2)]
        longest, its_rest = max(overlapping)
        return longest + sum(each for _, each in overlapping) - its_rest + self.waiting + self.calls + self.fork_join

    @property
    def work(self) -> float:
        """Of all, as if nothing hid behind anything."""
        return self.arithmetic + self.l2 + self.l3 + self.memory + self.written + self.waiting + self.calls + self.fork_join


class Costs:
    """What schedules of one nest cost, one execution after others: what caches hold stays there."""

    def __init__(self, nest: Nest, target: Target) -> None:
        self.nest, self.target, self.rates, self.run = nest, target, rates(target), Runs(nest, target)

    def __call__(self, schedule: Schedule) -> Cost:
        run = self.run(schedule)
        touched = sum(run.touched.values())
        share = dropped(touched, self.target.l2_bytes)
        far = {name: share * nbytes for name, nbytes in run.beyond_l2.items()}
        return self.cost(run, far, run.from_memory(touched, self.target), self._of_others(run))

    def least(self, mb: int, nb: int, *, is_in_l1: bool = False) -> float:
        """Nanoseconds below which no schedule of the only product is, with calls of so many rows and columns: an equal share of them, what
        each of them reads from beyond L1, wherever other loops are around, and what all access at least once. is_in_l1: as if L1 held all
        that calls read, which is found faster."""
        gemm, nb, rates = self.nest.first, min(nb, self.nest.first.n), self.rates
        calls, entries = calls_of(gemm, rates, mb, nb, frozenset()), prod(gemm.batch)
        arithmetic, count = entries * rates.ns(calls.cycles), entries * calls.count
        near = 0.0 if is_in_l1 else count * anew(gemm, mb, nb, self.target.l1_bytes)
        rest, rest_of_l2 = 1 - rates.kernels.hidden_share, 1 - rates.kernels.l2_hidden_share
        found = list[float]()
        for cores, (l2, l3), fork_join in self._once:
            l2 = max(l2, near / cores / rates.read_bytes_per_ns("l2"))
            longest = (1 - max(rest, rest_of_l2)) * max(arithmetic / cores, l2, l3)
            hidden = rest * (arithmetic / cores + l3) + rest_of_l2 * l2
            found.append(longest + hidden + count / cores * rates.overheads.kernel_call_ns + fork_join)
        return min(found)

    @cached_property
    def _once(self) -> list[tuple[int, tuple[float, float], float]]:
        """For one core and for all, nanoseconds of what an equal share of them accesses of the only product at least once, from beyond L1
        and from beyond L2, and those of fork and join."""
        gemm, target, rates = self.nest.first, self.target, self.rates
        sizes = [operand.nbytes(gemm.extents) for operand in gemm.operands]
        moved = sum((1 + operand.is_written) * nbytes for operand, nbytes in zip(gemm.operands, sizes, strict=True))
        is_near = gemm.blocks is None and not dropped(sum(sizes), target.llc_bytes or inf)
        found = list[tuple[int, tuple[float, float], float]]()
        for cores in {1, target.cores}:
            l2 = dropped(sum(sizes) / cores, target.l1_bytes) * moved / cores / rates.read_bytes_per_ns("l2")
            l3 = dropped(sum(sizes) / cores, target.l2_bytes) * moved / rates.read_bytes_per_ns("l3", cores) if is_near else 0.0
            found.append((cores, (l2, l3), rates.fork_join_ns(min(cores, 2))))
        return found

    def least_in_blocks(self, nb: int) -> float:
        """Nanoseconds below which no schedule of the only product is that makes blocks of its weights, with calls of so many columns: an
        equal share of arithmetic, and of what it takes to make all once. 0 for blocks that are read in place, by calls as wide as they are.
        """
        gemm, nb = self.nest.first, min(nb, self.nest.first.n)
        if gemm.blocks is None or not gemm.blocks.cycles:
            return 0.0
        cycles = calls_of(gemm, self.rates, gemm.m, nb, frozenset()).cycles
        ns = prod(gemm.batch) * self.rates.ns(cycles) + self.run.made_ns(self.nest.steps)
        return min(ns, ns / self.target.cores + self.rates.fork_join_ns(2))

    def cost(self, run: Run, far: Mapping[str, float], from_memory: float, of_others: float) -> Cost:
        """far: bytes from beyond L2, so many of them from memory. of_others: bytes that other cores have written."""
        rates, own, all_far = self.rates, run.own, sum(far.values())
        l3_ns, memory_ns = (own.cores / rates.read_bytes_per_ns(level, own.cores) for level in ("l3", "dram"))
        share = min(from_memory / all_far, 1.0) if all_far else 0.0
        waits = run.waits | self._unfetched(run)
        each = [(part, own.calls * (prod([loop.trips for loop in part.loops]) if len(run.parts) > 1 else 1)) for part in run.parts]
        awaited = sum([nbytes for name, nbytes in far.items() if name in waits])
        started = run.starts * far[run.parts[0].step.tensors[1]] if run.starts else 0.0
        starts = (1 - share) * started * rates.latency_ns("l3"), share * started * rates.latency_ns("dram")
        starts_wait = bool(run.starts) and run.parts[0].step.tensors[1] in run.waits
        awaited_ns = awaited * ((1 - share) * l3_ns + share * memory_ns) + (sum(starts) if starts_wait else 0.0)
        waiting_ns = sum([self._waiting(part, count, own.cores) for part, count in each])
        return Cost(
            rates.ns(sum([count / part.calls.count * part.calls.cycles for part, count in each]) + self._reduced(run)),
            run.beyond_l1 / rates.read_bytes_per_ns("l2"),
            (1 - share) * (all_far - awaited) * l3_ns + (0.0 if starts_wait else starts[0]),
            share * (all_far - awaited) * memory_ns + (0.0 if starts_wait else starts[1]),
            (of_others / LINE_BYTES + self._lines_behind_columns(run)) * rates.written.line_ns,
            awaited_ns + run.unhidden_ns + waiting_ns + (self._of_rows(run) + self._lines_behind_rows(run)),
            sum([count for _, count in each]) * rates.overheads.kernel_call_ns,
            rates.fork_join_ns(own.cores),
            rates.kernels,
        )

    def _unfetched(self, run: Run) -> set[str]:
        """What tasks of the batch entry before do not prefetch."""
        fetches = run.parts and not run.parts[0].step.blocked and run.nest.prefetches(run.parts[0].mb, self.target)
        return set() if fetches else {*run.nest.ahead}

    def _of_others(self, run: Run) -> float:
        """Bytes of src that a core reads beyond an equal share, which is what it has written itself in the nest before."""
        if not self.nest.steps or not self.nest.first.is_made:
            return 0.0
        first, name = self.nest.first, self.nest.steps[0].tensors[0]
        return max(run.touched[name] - first.operands[0].nbytes(first.extents) / run.own.cores, 0.0)

    def _lines_behind_rows(self, run: Run) -> float:
        """Nanoseconds, where another core writes the rows of dst below those of a core: hardware that has followed a call's stores from one
        register tile to the next fetches the tile behind the last."""
        if not run.own.parts - {"n", "k"} or not run.parts:
            return 0.0
        part, gemm = run.parts[-1], run.parts[-1].step.gemm
        tiles = tiles_of_rows(gemm.kernel, part.mb, part.nb)
        is_stored = not gemm.waiting_bytes and part.step.tensors[2] not in run.nest.temporaries  # by calls, as dst has it
        if not is_stored or tiles < table(self.target).followed_tiles:
            return 0.0
        calls = prod(loop.trips for loop in part.loops if loop.axis == "n")
        lines = ceil(gemm.operands[2].bits * part.nb / 8 / LINE_BYTES)
        return calls * part.mb / tiles * lines * self.rates.written.line_ns

    def _lines_behind_columns(self, run: Run) -> float:
        """Where another core writes the other columns of each row of dst: hardware fetches the line behind those that a core writes."""
        if "n" not in run.own.parts:
            return 0.0
        return run.parts[0].mb * prod(loop.trips for loop in run.own.loops if loop.axis not in ("n", "k"))

    def _waiting(self, part: Part, count: float, cores: int) -> float:
        """Results of calls are written to temporaries beyond L1, and read again."""
        nbytes = part.step.gemm.waiting_bytes * part.mb * part.nb
        if nbytes <= HELD * self.target.l1_bytes:
            return 0.0
        in_l2 = nbytes <= HELD * self.target.l2_bytes
        rate = self.rates.read_bytes_per_ns("l2") if in_l2 else self.rates.read_bytes_per_ns("l3", cores) / cores
        return 2 * nbytes * count / rate

    def _of_rows(self, run: Run) -> float:
        """Ops on whole rows, or on blocks of them, read and write what L1 does not hold between products."""
        sizes = (F32_BYTES * part.mb * part.step.gemm.n for part in run.parts if part.step.is_reduced)
        beyond = sum(nbytes * dropped(nbytes, self.target.l1_bytes) for nbytes in sizes)
        times = run.own.calls if len(run.parts) > 1 else run.own.tasks
        return times * beyond * (1 / self.rates.read_bytes_per_ns("l2") + 1 / self.rates.write_bytes_per_ns("l2"))

    def _reduced(self, run: Run) -> float:
        """Cycles of running reductions, and of sums that they rescale, for each row of a block of scores."""
        if not run.parts or not run.parts[0].step.blocked:
            return 0.0
        scores, values = run.parts
        vector, lanes = self.rates.vector, self.target.lanes
        across = 2 * log2(lanes) * (vector.shuffle_cycles + vector.latency_cycles)
        rescaled = 3 * vector.simple_cycles * ceil(values.step.gemm.n / lanes)
        return run.own.calls * scores.mb * (across + rescaled + 3 * self.rates.overheads.iteration_cycles)


def is_short(nest: Nest, schedule: Schedule, instructions: int, target: Target) -> bool:
    """Whether one thread that runs all tasks takes less time than all threads, which fork and join. instructions: of ops besides products,
    on all elements."""
    if target.cores == 1 or target.shares_all:
        return False
    of_others = rates(target).ns(instructions / target.lanes * rates(target).vector.simple_cycles)
    each = ((Costs(nest, replace(target, cores=cores)), share(nest.extents, schedule, cores).cores) for cores in (1, target.cores))
    one, several = (costs(schedule).total + of_others / cores for costs, cores in each)
    return one < several


def border_ns(target: Target) -> float:
    """What threads may wait where one nest ends and the next begins."""
    return rates(target).overheads.fork_join_ns


def sequence_ns(runs: Sequence[Run], target: Target) -> float:
    """Nanoseconds of these scheduled nests, of which there may be none, executed one after the other over and over."""
    kept = {name: nbytes for run in runs for name, nbytes in run.touched.items() if name not in run.nest.temporaries}
    temporary = max((sum(run.touched[name] for name in run.nest.temporaries if name in run.touched) for run in runs), default=0.0)
    every_bytes = sum(kept.values()) + temporary
    share = dropped(every_bytes, target.l2_bytes)
    written, total = dict[str, Run](), 0.0
    for run in runs:
        read = {name: nbytes for name, nbytes in run.touched.items() if name in written}
        there = {name: (1 - dropped(nbytes, target.l2_bytes)) * nbytes for name, nbytes in read.items()}
        far = {name: share * max(nbytes - there.get(name, 0.0), 0.0) for name, nbytes in run.beyond_l2.items()}
        makers = ((written[name], nbytes) for name, nbytes in read.items())
        of_others = sum(nbytes * (1 - 1 / maker.own.cores) for maker, nbytes in makers if not (maker.is_by_rows and run.is_by_rows))
        total += Costs(run.nest, target).cost(run, far, run.from_memory(every_bytes, target), of_others).total
        written |= {name: run for name in run.nest.written if name in run.touched}
    return total
