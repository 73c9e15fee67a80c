"""The time of scheduled products, by what takes it: of one, of several that are one nest, of nests one after the other.

docs/measurements/cost-model.md says how far it is off. Ops between products take the same time in one nest and in two, so only what they
read and write counts, but for whether a nest repays fork and join.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property, partial
from itertools import product
from math import ceil, inf, log2, prod
from typing import Any, cast

from benchgraph.core.memoise import memoised_within
from benchgraph.machine.rates import Kernels, Level
from benchgraph.machine.table import rates
from benchgraph.machine.target import LINE_BYTES, Target
from benchgraph.schedule.gemm import Gemm
from benchgraph.schedule.microkernel import cycles, inner_loops
from benchgraph.schedule.nest import F32_BYTES, Loop, Operand
from benchgraph.schedule.primitives import Schedule
from benchgraph.schedule.steps import Nest, Share, Step, share
from benchgraph.schedule.traffic import HELD, Traffic, dropped


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
    nothing fetches ahead, or that tasks pack); calls; fork and join. kernels: which shares of the first five the longest of them hides.
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


@dataclass(frozen=True)
class _Calls:
    """Microkernel calls of one size in a batch entry: how many, and their cycles. A core's share of the calls has the same share of the
    cycles."""

    count: int
    cycles: float


@memoised_within
def _calls(gemm: Gemm, target: Target, mb: int, nb: int, parts: frozenset[str]) -> _Calls:
    """Those of the last rows and columns among them, but for axes of which a core does not go through all blocks."""
    sizes = (_blocks(gemm.m, mb, has_last="m" not in parts), _blocks(gemm.n, nb, has_last="n" not in parts))
    kinds = [(i * j, m, n) for (i, m), (j, n) in product(*sizes)]
    total = sum(count * cycles(gemm.kernel, m, n, rates(target)) for count, m, n in kinds)
    return _Calls(sum(count for count, _, _ in kinds), total)


def _blocks(extent: int, size: int, *, has_last: bool) -> list[tuple[int, int]]:
    """How many have which size."""
    whole, rest = divmod(extent, size)
    return [(count, each) for count, each in ((whole, size), (1, rest)) if count and each and (has_last or each == size)]


@memoised_within
def _traffic(gemm: Gemm, mb: int, nb: int) -> Traffic:
    """Of one call."""
    return Traffic.of(inner_loops(gemm, mb, nb), gemm.operands, gemm.extents)


@dataclass(frozen=True)
class _Part:
    """A step of a scheduled nest: `loops` around its calls of so many rows and columns, which are of a task where there are several."""

    step: Step
    mb: int
    nb: int
    loops: tuple[Loop, ...]
    calls: _Calls

    @property
    def traffic(self) -> Traffic:
        """Of one call."""
        return _traffic(self.step.gemm, self.mb, self.nb)


@dataclass(frozen=True)
class Run:
    """What the core with most work does in a scheduled nest. touched: bytes by tensor; far: those from beyond L2, where it holds none of
    them at first. near: all from beyond L1. beyond: bytes by tensor from beyond a cache of so many bytes that holds none at first.
    waits: names of what nothing fetches ahead. unhidden_ns: of weights that tasks pack or convert, and of sums that wait for the next block
    of weights. starts: in a byte of weights, of rows or columns that hardware follows once it has seen where they begin.
    """

    nest: Nest
    own: Share
    parts: tuple[_Part, ...]
    touched: Mapping[str, float]
    far: Mapping[str, float]
    near: float
    beyond: Callable[[float], Mapping[str, float]]
    is_by_rows: bool
    waits: frozenset[str]
    unhidden_ns: float = 0.0
    starts: float = 0.0

    def from_memory(self, touched: float, target: Target) -> float:
        """Bytes that the last cache has dropped, of so many that are accessed over and over; of weights that are read from end to end half
        of it holds none (`Target.is_far`)."""
        share = dropped(touched, (target.llc_bytes or inf) / (2 if self.starts else 1))
        return share * sum(self.beyond(target.llc_bytes or inf).values()) if share else 0.0


class Costs:
    """What schedules of one nest cost, one execution after others: what caches hold stays there."""

    def __init__(self, nest: Nest, target: Target) -> None:
        self.nest, self.target, self.rates, self._of_blocks = nest, target, rates(target), dict[int, Gemm]()
        self.waits = frozenset(step.tensors[1] for step in nest.steps if step.waits)

    def __call__(self, schedule: Schedule) -> Cost:
        run = self.run(schedule)
        touched = sum(run.touched.values())
        share = dropped(touched, self.target.l2_bytes)
        far = {name: share * nbytes for name, nbytes in run.far.items()}
        return self.cost(run, far, run.from_memory(touched, self.target), self._of_others(run))

    def least(self, mb: int, nb: int) -> float:
        """Nanoseconds below which no schedule of the only product is, with calls of so many rows and columns: an equal share of them."""
        gemm, cores = self.nest.first, self.target.cores
        calls = _calls(gemm, self.target, mb, min(nb, gemm.n), frozenset())
        per_entry = self.rates.ns(calls.cycles) + calls.count * self.rates.overheads.kernel_call_ns
        return prod(gemm.batch) * per_entry / cores

    def run(self, schedule: Schedule) -> Run:
        nest, target, columns = self.nest, self.target, schedule.sizes("n")
        mb, own = min(*schedule.sizes("m"), nest.extents["m"]) if nest.steps else 1, share(nest.extents, schedule, target.cores)
        if len(nest.steps) == 1 and schedule.sizes("k"):
            return self._in_blocks(schedule, mb, own)
        if len(nest.steps) == 1:
            return self._of_one(
                self._part(nest.steps[0], mb, columns[-1], own.loops, own.parts), own, is_by_rows="n.0" not in schedule.parallel
            )
        if columns:
            computed = nest.computed(mb, columns[0])
            own = replace(own, loops=tuple(Loop(axis, trips * computed if axis == "n" else trips) for axis, trips in own.loops))
        steps = nest.in_blocks(columns[0]) if columns else nest.steps
        parts = tuple(self._part(step, mb, step.nb, (Loop("n", ceil(step.gemm.n / step.nb)),), own.parts) for step in steps)
        tasks = _tasks(nest, steps, mb, target).inside(own.loops)
        of_all = dict(zip((operand.name for operand in tasks.operands), tasks.nbytes[0], strict=True))
        beyond, made_ns = partial(_moved, tasks, parts, own), own.tasks * self._made_ns(nest.steps)
        near = sum(beyond(target.l1_bytes).values())
        return Run(nest, own, parts, of_all, beyond(target.l2_bytes), near, beyond, is_by_rows=True, waits=self.waits, unhidden_ns=made_ns)

    def _of_one(self, part: _Part, own: Share, *, is_by_rows: bool) -> Run:
        """Of the only product."""
        traffic, nest, l1_bytes = part.traffic.inside(own.loops), self.nest, self.target.l1_bytes
        near = sum(traffic.beyond(l1_bytes)) * traffic.dropped(l1_bytes)
        box = {axis: min(size, nest.extents[axis]) for axis, size in traffic.box.items()}
        others = {operand.name: operand.nbytes(box) for operand in nest.others}

        def beyond(cache_bytes: float) -> Mapping[str, float]:
            return dict(zip(part.step.tensors, traffic.beyond(cache_bytes), strict=True)) | others

        touched = dict(zip(part.step.tensors, traffic.nbytes[0], strict=True)) | others
        starts = self._starts(nest.first, nest.first.k, part.nb)
        return Run(nest, own, (part,), touched, beyond(self.target.l2_bytes), near, beyond, is_by_rows, self.waits, starts=starts)

    def _in_blocks(self, schedule: Schedule, mb: int, own: Share) -> Run:
        """Weights are read block by block. A block that is made is so in the same place as the one before."""
        target, step, columns, (ks,) = self.target, self.nest.steps[0], schedule.sizes("n"), schedule.sizes("k")
        gemm, blocks, (ns, nb), makes = step.gemm, step.gemm.blocks, (columns[0], columns[-1]), schedule.packed is not None
        assert blocks is not None
        ns, nb = min(ns, gemm.n), min(nb, gemm.n)
        part = self._part(replace(step, gemm=self._of_block(ks)), mb, nb, own.loops, own.parts)
        around = own.loops[: len(own.loops) - (len(columns) > 1)]
        block = Operand("block", blocks.bits * ks * ns, ()) if makes else Operand("", 0, ())
        one = Traffic.of_box((*gemm.operands, block), gemm.extents, {"m": mb, "n": ns, "k": ks})
        every, inner, count = (
            one.inside(around),
            part.traffic.inside((Loop("n", ceil(ns / nb)),)),
            prod(loop.trips for loop in around),
        )
        passing = one.nbytes[0][1] if makes and not schedule.prefetches else 0.0
        not_in_l1, not_in_l2 = (dropped(sum(one.nbytes[0]) - passing, cache) for cache in (target.l1_bytes, target.l2_bytes))
        made = count * block.nbytes({})
        of_src, of_wei, of_dst = inner.beyond(target.l1_bytes)
        near = not_in_l1 * (count * (of_src + of_dst + (of_wei if makes else 0.0)) + made) + every.beyond(target.l1_bytes)[1]
        returning = (1 - self.rates.kernels.hidden_share) * not_in_l1 * count * of_dst if makes and ks < gemm.k else 0.0
        made_ns = count * ks * ns / gemm.n / gemm.k * self._made_ns((step,)) if makes else 0.0
        touched, far = (dict(zip(step.tensors, nbytes, strict=False)) for nbytes in (every.nbytes[0], every.beyond(target.l2_bytes)))
        source = step.tensors[1]
        far[source] += not_in_l2 * far[source] if schedule.prefetches else 0.0
        return Run(
            self.nest,
            own,
            (part,),
            touched,
            far,
            near,
            lambda cache_bytes: dict(zip(step.tensors, every.beyond(cache_bytes), strict=False)),
            "n.0" not in schedule.parallel,
            frozenset({source} if makes and not schedule.prefetches else ())
            | frozenset({step.tensors[2]} if makes and ks < gemm.k else ()),
            made_ns + returning / self.rates.read_bytes_per_ns("l2") + not_in_l2 * made * self._beyond_l2(block.nbytes({})),
            self._starts(gemm, ks, ns),
        )

    def _starts(self, gemm: Gemm, ks: int, ns: int) -> float:
        """In a byte of weights that are read in blocks, how many rows, columns or panels begin."""
        return gemm.blocks.starts(ks, ns, gemm.n) / gemm.operands[1].nbytes({"k": ks, "n": ns}) if gemm.blocks is not None else 0.0

    def _beyond_l2(self, nbytes: float) -> float:
        """Nanoseconds of a byte of a block of so many that is written to and read from beyond L2."""
        level: Level = "dram" if self.target.is_far(int(nbytes)) else "l3"
        return 1 / self.rates.write_bytes_per_ns(level) + 1 / self.rates.read_bytes_per_ns(level)

    def _of_block(self, ks: int) -> Gemm:
        """The product by so many rows of weights."""
        if ks not in self._of_blocks:
            gemm = self.nest.first
            (src, wei, dst), blocks = gemm.operands, gemm.blocks
            assert blocks is not None
            self._of_blocks[ks] = replace(gemm, kernel=replace(gemm.kernel, k=ks), operands=(src, replace(wei, bits=blocks.bits), dst))
        return self._of_blocks[ks]

    def cost(self, run: Run, far: Mapping[str, float], from_memory: float, of_others: float) -> Cost:
        """far: bytes from beyond L2, so many of them from memory. of_others: bytes that other cores have written."""
        rates, own, all_far = self.rates, run.own, sum(far.values())
        l3_ns, memory_ns = (own.cores / rates.read_bytes_per_ns(level, own.cores) for level in ("l3", "dram"))
        share = min(from_memory / all_far, 1.0) if all_far else 0.0
        waits = run.waits | self._unfetched(run)
        each = [
            (part, part.calls, own.calls * (prod(loop.trips for loop in part.loops) if len(run.parts) > 1 else 1)) for part in run.parts
        ]
        awaited = sum(nbytes for name, nbytes in far.items() if name in waits)
        started = run.starts * far[run.parts[0].step.tensors[1]] if run.starts else 0.0
        starts = (1 - share) * started * rates.latency_ns("l3"), share * started * rates.latency_ns("dram")
        starts_wait = bool(run.starts) and run.parts[0].step.tensors[1] in run.waits
        awaited_ns = awaited * ((1 - share) * l3_ns + share * memory_ns) + (sum(starts) if starts_wait else 0.0)
        return Cost(
            rates.ns(sum(count / calls.count * calls.cycles for _, calls, count in each) + self._reduced(run)),
            run.near / rates.read_bytes_per_ns("l2"),
            (1 - share) * (all_far - awaited) * l3_ns + (0.0 if starts_wait else starts[0]),
            share * (all_far - awaited) * memory_ns + (0.0 if starts_wait else starts[1]),
            of_others / LINE_BYTES * rates.written.line_ns,
            awaited_ns + run.unhidden_ns + sum(self._waiting(part, count, own.cores) for part, _, count in each) + self._of_rows(run),
            sum(count for _, _, count in each) * rates.overheads.kernel_call_ns,
            rates.fork_join_ns(own.cores),
            rates.kernels,
        )

    def _unfetched(self, run: Run) -> set[str]:
        """What tasks of the batch entry before do not prefetch."""
        fetches = run.parts and not run.parts[0].step.blocked and run.nest.prefetches(run.parts[0].mb, self.target.l2_bytes)
        return set() if fetches else {*run.nest.ahead}

    def _part(self, step: Step, mb: int, nb: int, loops: tuple[Loop, ...], parts: frozenset[str]) -> _Part:
        nb = min(nb, step.gemm.n)
        return _Part(step, mb, nb, loops, _calls(step.gemm, self.target, mb, nb, parts))

    def _of_others(self, run: Run) -> float:
        """Bytes of src that a core reads beyond an equal share, which is what it has written itself in the nest before."""
        if not self.nest.steps or not self.nest.first.is_made:
            return 0.0
        first, name = self.nest.first, self.nest.steps[0].tensors[0]
        return max(run.touched[name] - first.operands[0].nbytes(first.extents) / run.own.cores, 0.0)

    def _waiting(self, part: _Part, count: float, cores: int) -> float:
        """Results of calls are written to temporaries beyond L1, and read again."""
        nbytes = part.step.gemm.waiting_bytes * part.mb * part.nb
        if nbytes <= HELD * self.target.l1_bytes:
            return 0.0
        in_l2 = nbytes <= HELD * self.target.l2_bytes
        rate = self.rates.read_bytes_per_ns("l2") if in_l2 else self.rates.read_bytes_per_ns("l3", cores) / cores
        return 2 * nbytes * count / rate

    def _made_ns(self, steps: Sequence[Step]) -> float:
        """To pack or convert all weights once."""
        makers = ((step.gemm, step.gemm.blocks) for step in steps)
        return self.rates.ns(sum(gemm.n * gemm.k * blocks.cycles / self.target.lanes for gemm, blocks in makers if blocks is not None))

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


def is_short(nest: Nest, schedule: Schedule, target: Target) -> bool:
    """Whether one thread that runs all tasks takes less time than all threads, which fork and join."""
    if target.cores == 1 or target.shares_all:
        return False
    of_others = rates(target).ns(nest.instructions / target.lanes * rates(target).vector.simple_cycles)
    each = ((Costs(nest, replace(target, cores=cores)), share(nest.extents, schedule, cores).cores) for cores in (1, target.cores))
    one, several = (costs(schedule).total + of_others / cores for costs, cores in each)
    return one < several


def _tasks(nest: Nest, steps: Sequence[Step], mb: int, target: Target) -> Traffic:
    """A task, as a box of the loops over tasks and blocks of scores. What it prefetches is there beside what it reads."""
    found = dict[str, Operand]()
    ahead = nest.ahead if steps == nest.steps and nest.prefetches(mb, target.l2_bytes) else ()
    for step in steps:
        box = {**{axis: extent for axis, extent in step.gemm.extents.items() if axis[0] != "b"}, "m": mb}
        for name, operand in zip(step.tensors, step.gemm.operands, strict=True):
            axes = [axis for axis in operand.axes if axis == "m" or axis[0] == "b"] if name not in nest.temporaries else []
            axes += ["n"] if step.blocked in operand.axes and name not in nest.temporaries else []
            made, before = Operand.dense(name, 8 * operand.nbytes(box), axes, is_written=operand.is_written), found.get(name)
            if before is not None:
                made = replace(max(made, before, key=lambda each: each.bits), is_written=made.is_written or before.is_written)
            found[name] = made
    for operand in nest.others:
        found[operand.name] = Operand.dense(operand.name, 8 * operand.nbytes({"m": mb}), tuple(operand.axes), is_written=operand.is_written)
    found |= {f"{name} ahead": Operand.dense(name, found[name].bits, ()) for name in ahead if name in found}
    return Traffic.of_box(tuple(found.values()), defaultdict(lambda: float("inf")), {})


def _moved(tasks: Traffic, parts: Sequence[_Part], own: Share, cache_bytes: float) -> Mapping[str, float]:
    """By tensor, bytes from beyond a cache: what does not hold a task's data holds those of some calls of one step."""
    share = dropped(sum(tasks.nbytes[-1]), cache_bytes)
    by_task = zip((operand.name for operand in tasks.operands), tasks.beyond(cache_bytes), strict=True) if share < 1 else ()
    found = defaultdict[str, float](float, {name: (1 - share) * nbytes for name, nbytes in by_task})
    for part in parts if share else ():
        traffic = part.traffic.inside(part.loops)
        for name, nbytes in zip(part.step.tensors, traffic.beyond(cache_bytes), strict=True):
            found[name] += share * own.calls * nbytes
    return found


def sequence_ns(nests: Sequence[tuple[Nest, Schedule]], target: Target) -> float:
    """Nanoseconds of these nests, executed one after the other over and over."""
    every = [(costs, costs.run(schedule)) for costs, schedule in ((Costs(nest, target), schedule) for nest, schedule in nests)]
    kept = {name: nbytes for _, run in every for name, nbytes in run.touched.items() if name not in run.nest.temporaries}
    temporary = max(sum(run.touched[name] for name in run.nest.temporaries if name in run.touched) for _, run in every)
    every_bytes = sum(kept.values()) + temporary
    share = dropped(every_bytes, target.l2_bytes)
    written, total = dict[str, Run](), 0.0
    for costs, run in every:
        read = {name: nbytes for name, nbytes in run.touched.items() if name in written}
        there = {name: (1 - dropped(nbytes, target.l2_bytes)) * nbytes for name, nbytes in read.items()}
        far = {name: share * max(nbytes - there.get(name, 0.0), 0.0) for name, nbytes in run.far.items()}
        makers = ((written[name], nbytes) for name, nbytes in read.items())
        of_others = sum(nbytes * (1 - 1 / maker.own.cores) for maker, nbytes in makers if not (maker.is_by_rows and run.is_by_rows))
        cost = costs.cost(run, far, run.from_memory(every_bytes, target), of_others)
        total += min(cost.total, (cost.total - cost.fork_join) * run.own.cores)  # short loops run on one thread
        written |= {name: run for name in run.nest.written if name in run.touched}
    return total
