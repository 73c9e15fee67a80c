"""What the core with most work does in a scheduled nest of products: its calls, and what it accesses, from which their cost follows."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from math import ceil, inf, prod

from benchgraph.core.memoise import memoised_by, memoised_within
from benchgraph.machine.rates import Level, Rates
from benchgraph.machine.table import rates, table
from benchgraph.machine.target import PAGE_BYTES, Target
from benchgraph.schedule.gemm import Gemm
from benchgraph.schedule.microkernel import cycles, inner_loops
from benchgraph.schedule.nest import Loop, Operand
from benchgraph.schedule.primitives import Schedule
from benchgraph.schedule.steps import Nest, Share, Step, share
from benchgraph.schedule.traffic import Traffic, dropped


@dataclass(frozen=True)
class Calls:
    """Microkernel calls of one size in a batch entry: how many, and their cycles. A core's share of the calls has the same share of the
    cycles."""

    count: int
    cycles: float


@memoised_within
def calls_of(gemm: Gemm, rates: Rates, mb: int, nb: int, parts: frozenset[str]) -> Calls:
    """Those of the last rows and columns among them, but for axes of which a core does not go through all blocks."""
    sizes = (_blocks(gemm.m, mb, has_last="m" not in parts), _blocks(gemm.n, nb, has_last="n" not in parts))
    kinds = [(i * j, m, n) for (i, m), (j, n) in product(*sizes)]
    total = sum(count * cycles(gemm.kernel, m, n, rates) for count, m, n in kinds)
    return Calls(sum(count for count, _, _ in kinds), total)


def _blocks(extent: int, size: int, *, has_last: bool) -> list[tuple[int, int]]:
    """How many have which size."""
    whole, rest = divmod(extent, size)
    return [(count, each) for count, each in ((whole, size), (1, rest)) if count and each and (has_last or each == size)]


@memoised_by
def _traffic(gemm: Gemm, mb: int, nb: int) -> Traffic:
    """Of one call."""
    return Traffic.of(inner_loops(gemm, mb, nb), gemm.operands, gemm.extents)


@memoised_by
def anew(gemm: Gemm, mb: int, nb: int, cache_bytes: int) -> float:
    """Bytes of one call from beyond a cache, without those that may stay there from call to call."""
    traffic = _traffic(gemm, mb, nb)
    return sum(traffic.beyond(cache_bytes, stays=0.0)) * traffic.dropped(cache_bytes)


@memoised_by
def _of_all_columns(gemm: Gemm, mb: int, nb: int, cache_bytes: float) -> tuple[float, ...]:
    """By operand, bytes of calls that go through all columns, from beyond a cache."""
    return _traffic(gemm, mb, nb).inside((_columns(gemm, nb),)).beyond(cache_bytes)


def _columns(gemm: Gemm, nb: int) -> Loop:
    return Loop("n", ceil(gemm.n / nb))


@dataclass(frozen=True)
class Part:
    """A step of a scheduled nest: `loops` around its calls of so many rows and columns, which are of a task where there are several."""

    step: Step
    mb: int
    nb: int
    loops: tuple[Loop, ...]
    calls: Calls

    @property
    def traffic(self) -> Traffic:
        """Of one call."""
        return _traffic(self.step.gemm, self.mb, self.nb)


@dataclass(frozen=True)
class Run:
    """What the core with most work does in a scheduled nest: its share of the tasks, its calls by step, and the bytes that it accesses.

    touched: by tensor, each element once. beyond: by tensor, from beyond a cache of a given size that is empty at first. beyond_l2: the
    same for L2, and what is fetched twice as L2 does not keep what is prefetched. beyond_l1: of all tensors. is_by_rows: tasks compute
    whole rows of dst. waits: tensors that nothing prefetches. unhidden_ns: of what nothing else runs beside: packing and converting
    weights, storing and loading sums between two blocks of weights. starts: how many rows or columns of weights begin in a byte of them;
    hardware prefetches each only after the first accesses to it.
    """

    nest: Nest
    own: Share
    parts: tuple[Part, ...]
    touched: Mapping[str, float]
    beyond_l2: Mapping[str, float]
    beyond_l1: float
    beyond: Callable[[float], Mapping[str, float]]
    is_by_rows: bool
    waits: frozenset[str]
    unhidden_ns: float = 0.0
    starts: float = 0.0

    def from_memory(self, touched: float, target: Target) -> float:
        """Bytes that the last-level cache does not hold. touched: bytes that are accessed over and over. Of weights that are read from end
        to end it holds none if they are half as large as it (`Target.is_far`)."""
        share = dropped(touched, (target.llc_bytes or inf) / (4 if self.starts else 1))
        return share * sum(self.beyond(target.llc_bytes or inf).values()) if share else 0.0


class Runs:
    """Of schedules of one nest."""

    def __init__(self, nest: Nest, target: Target) -> None:
        self.nest, self.target, self.rates, self._of_blocks = nest, target, rates(target), dict[int, Gemm]()
        self.waits = frozenset(step.tensors[1] for step in nest.steps if step.waits)

    def __call__(self, schedule: Schedule) -> Run:
        nest, target, columns = self.nest, self.target, schedule.sizes("n")
        mb, own = min(*schedule.sizes("m"), nest.extents["m"]) if nest.steps else 1, share(nest.extents, schedule, target.cores)
        if len(nest.steps) == 1 and schedule.sizes("k"):
            return self._in_blocks(schedule, mb, own)
        if len(nest.steps) == 1:
            return self._of_one(
                self._part(nest.steps[0], mb, columns[-1], own.loops, own.parts), own, is_by_rows="n.0" not in schedule.parallel
            )
        if columns:
            share_of_n = nest.computed_share(mb, columns[0])
            own = replace(own, loops=tuple(Loop(axis, trips * share_of_n if axis == "n" else trips) for axis, trips in own.loops))
        steps = nest.in_blocks(columns[0]) if columns else nest.steps
        parts = tuple(self._part(step, mb, step.nb, (_columns(step.gemm, step.nb),), own.parts) for step in steps)
        names, task = _tasks(nest, steps, mb, target)
        tasks = task.inside(own.loops)
        beyond, made_ns = partial(_moved, names, tasks, parts, own), own.tasks * self.made_ns(nest.steps)
        of_all = dict(zip(names, tasks.nbytes[0], strict=True))
        near = sum(beyond(target.l1_bytes).values())
        return Run(nest, own, parts, of_all, beyond(target.l2_bytes), near, beyond, is_by_rows=True, waits=self.waits, unhidden_ns=made_ns)

    def _of_one(self, part: Part, own: Share, *, is_by_rows: bool) -> Run:
        """Of the only product."""
        traffic, nest, l1_bytes = part.traffic.inside(own.loops), self.nest, self.target.l1_bytes
        of_src, of_wei, of_dst = (traffic.dropped(l1_bytes) * nbytes for nbytes in traffic.beyond(l1_bytes))
        box = {axis: min(size, nest.extents[axis]) for axis, size in traffic.box.items()}
        others = {operand.name: operand.nbytes(box) for operand in nest.others}

        def beyond(cache_bytes: float) -> Mapping[str, float]:
            return dict(zip(part.step.tensors, traffic.beyond(cache_bytes), strict=True)) | others

        touched = dict(zip(part.step.tensors, traffic.nbytes[0], strict=True)) | others
        starts = self._starts(nest.first, nest.first.k, part.nb)
        waiting_ns = 0.0 if table(self.target).l2_loads_keep_up else starts * of_wei * self.rates.latency_ns("l2")
        near, far, apart = of_src + of_wei + of_dst, beyond(self.target.l2_bytes), starts * self._pages(nest.first)
        return Run(nest, own, (part,), touched, far, near, beyond, is_by_rows, self.waits, waiting_ns, apart)

    def _in_blocks(self, schedule: Schedule, mb: int, own: Share) -> Run:
        """Weights are read block by block. A block that is made is so in the same place as the one before."""
        target, step, columns, (ks,) = self.target, self.nest.steps[0], schedule.sizes("n"), schedule.sizes("k")
        gemm, blocks, (_, wei, dst) = step.gemm, step.gemm.blocks, step.tensors
        assert blocks is not None
        ns, nb = min(columns[0], gemm.n), min(columns[-1], gemm.n)
        makes, fetches = schedule.packed is not None, schedule.prefetches
        sums_wait = makes and ks < gemm.k
        part = self._part(replace(step, gemm=self._of_block(ks)), mb, nb, own.loops, own.parts)
        around = own.loops[: len(own.loops) - (len(columns) > 1)]
        block = Operand("block", blocks.bits * ks * ns, ()) if makes else Operand("", 0, ())
        one = Traffic.of_box((*gemm.operands, block), gemm.extents, {"m": mb, "n": ns, "k": ks})
        every, inner = one.inside(around), part.traffic.inside((Loop("n", ceil(ns / nb)),))
        count = prod(loop.trips for loop in around)
        passing = one.nbytes[0][1] if makes and not fetches else 0.0
        not_in_l1, not_in_l2 = (dropped(one.held[0] - passing, cache) for cache in (target.l1_bytes, target.l2_bytes))
        made = count * block.nbytes({})
        of_src, of_wei, of_dst = inner.beyond(target.l1_bytes)
        near = not_in_l1 * (count * (of_src + of_dst + (of_wei if makes else 0.0)) + made) + every.beyond(target.l1_bytes)[1]
        returning = (1 - self.rates.kernels.hidden_share) * not_in_l1 * count * of_dst if sums_wait else 0.0
        made_ns = count * ks * ns / gemm.n / gemm.k * self.made_ns((step,)) if makes else 0.0
        touched, far = (dict(zip(step.tensors, nbytes, strict=False)) for nbytes in (every.nbytes[0], every.beyond(target.l2_bytes)))
        far[wei] += not_in_l2 * far[wei] if fetches else 0.0
        waits = {*((wei,) if makes and not fetches else ()), *((dst,) if sums_wait else ())}
        return Run(
            self.nest,
            own,
            (part,),
            touched,
            far,
            near,
            lambda cache_bytes: dict(zip(step.tensors, every.beyond(cache_bytes), strict=False)),
            "n.0" not in schedule.parallel,
            frozenset(waits),
            made_ns + returning / self.rates.read_bytes_per_ns("l2") + not_in_l2 * made * self._beyond_l2(block.nbytes({})),
            self._starts(gemm, ks, ns) * self._pages(gemm),
        )

    def _starts(self, gemm: Gemm, ks: int, ns: int) -> float:
        """In a byte of weights that are read in blocks, how many rows, columns or panels begin."""
        return gemm.blocks.starts(ks, ns, gemm.n) / gemm.operands[1].nbytes({"k": ks, "n": ns}) if gemm.blocks is not None else 0.0

    def _pages(self, gemm: Gemm) -> float:
        """Pages of memory for each row of weights that are read where they are, within which hardware fetches ahead."""
        apart = gemm.operands[1].apart
        return min(apart / PAGE_BYTES, 1.0) if apart else 1.0

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

    def _part(self, step: Step, mb: int, nb: int, loops: tuple[Loop, ...], parts: frozenset[str]) -> Part:
        nb = min(nb, step.gemm.n)
        return Part(step, mb, nb, loops, calls_of(step.gemm, self.rates, mb, nb, parts))

    def made_ns(self, steps: Sequence[Step]) -> float:
        """To pack or convert all weights once."""
        makers = ((step.gemm, step.gemm.blocks) for step in steps)
        return self.rates.ns(sum(gemm.n * gemm.k * blocks.cycles / self.target.lanes for gemm, blocks in makers if blocks is not None))


def _tasks(nest: Nest, steps: Sequence[Step], mb: int, target: Target) -> tuple[tuple[str, ...], Traffic]:
    """A task, as a box of the loops over tasks and blocks of scores, and the names of its operands. What it prefetches is there beside what
    it reads."""
    found = dict[str, Operand]()
    for step in steps:
        for port, name in enumerate(step.tensors):
            made, before = _of_task(step.gemm, port, mb, step.blocked, name in nest.temporaries), found.get(name)
            found[name] = made if before is None else _merged(before, made)
    for operand in nest.others:
        found[operand.name] = _of_rows(operand, mb)
    ahead = [name for name in nest.ahead if name in found] if steps == nest.steps and nest.prefetches(mb, target) else []
    fetched = (Operand.dense(name, found[name].bits, ()) for name in ahead)
    return (*found, *ahead), Traffic.of_box((*found.values(), *fetched), defaultdict(lambda: inf), {})


@memoised_by
def _of_task(gemm: Gemm, port: int, mb: int, blocked: str, is_temporary: bool) -> Operand:
    """What a task of so many rows has of an operand of the product: one element, which moves from task to task. blocked: see Step."""
    operand = gemm.operands[port]
    box = {**{axis: extent for axis, extent in gemm.extents.items() if axis[0] != "b"}, "m": mb}
    moving = [axis for axis in operand.axes if axis == "m" or axis[0] == "b"] + (["n"] if blocked in operand.axes else [])
    return Operand.dense(operand.name, 8 * operand.nbytes(box), () if is_temporary else moving, is_written=operand.is_written)


@memoised_by
def _of_rows(operand: Operand, mb: int) -> Operand:
    """The same of what crosses the border of a nest."""
    return Operand.dense(operand.name, 8 * operand.nbytes({"m": mb}), tuple(operand.axes), is_written=operand.is_written)


def _merged(first: Operand, other: Operand) -> Operand:
    """One of two accesses to a tensor: the larger one, written where one of them is."""
    more, less = sorted((first, other), key=lambda each: (each.bits, each.is_written), reverse=True)
    return replace(more, is_written=True) if less.is_written and not more.is_written else more


def _moved(names: Sequence[str], tasks: Traffic, parts: Sequence[Part], own: Share, cache_bytes: float) -> Mapping[str, float]:
    """By tensor, bytes from beyond a cache: what does not hold a task's data holds those of some calls of one step."""
    share = dropped(tasks.held[-1], cache_bytes)
    by_task = zip(names, tasks.beyond(cache_bytes), strict=True) if share < 1 else ()
    found = defaultdict[str, float](float, {name: (1 - share) * nbytes for name, nbytes in by_task})
    for part in parts if share else ():
        of_columns = _of_all_columns(part.step.gemm, part.mb, part.nb, cache_bytes)
        for name, nbytes in zip(part.step.tensors, of_columns, strict=True):
            found[name] += share * own.calls * nbytes
    return found
