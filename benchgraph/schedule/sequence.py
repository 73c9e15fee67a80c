"""Nests that run one after the other, and their time together: whether two should be one is which of two sequences takes less.

A task of a nest of several products computes all of them for its rows, so it reads all their weights, over and over where L2 does not hold
them; a product that is alone in its nest can have any order of loops:

    for b in 7: [ for n in 8: 3x3; for n in 8: 1x1 ]            weights of both, 7 times
    for n in 8: for b in 7: 3x3     for b in 7: for n in 8: 1x1     those of 3x3 once, a panel at a time

Ops between products take the same time in one nest and in two, so only what they read and write counts.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import ceil, prod

from benchgraph.machine.rates import Rates
from benchgraph.machine.target import LINE_BYTES, Target
from benchgraph.schedule.cost import HELD, Cost
from benchgraph.schedule.gemm import Gemm
from benchgraph.schedule.microkernel import cycles, inner_loops
from benchgraph.schedule.nest import Loop


@dataclass(frozen=True)
class Data:
    """Of a tensor, nbytes for one iteration of the innermost loop, and the axes of loops that move it.

    is_temporary: a task makes and reads it, so that the next one does in the same place. waits: nothing fetches it into L2 ahead.
    """

    name: str
    nbytes: float
    axes: tuple[str, ...]
    is_written: bool = False
    is_temporary: bool = False
    waits: bool = False

    def within(self, loops: Iterable[Loop]) -> float:
        """Bytes for all iterations of these loops."""
        return self.nbytes * prod(loop.trips for loop in loops if loop.axis in self.axes)

    def times(self, loops: Sequence[Loop]) -> float:
        """How often it is fetched if one iteration of these loops fits a cache: it stays while the inner ones do not move it."""
        moving = max((at for at, loop in enumerate(loops) if loop.axis in self.axes and loop.trips > 1), default=-1)
        return prod(loop.trips for loop in loops[: moving + 1])


@dataclass(frozen=True)
class Step:
    """A product of a nest: microkernel calls of rows x columns, in the loops `inner` of a task. data: of a call."""

    gemm: Gemm
    rows: int
    columns: int
    inner: tuple[Loop, ...]
    data: tuple[Data, ...]

    @property
    def calls(self) -> float:
        """Of a task."""
        return prod(loop.trips for loop in self.inner)


@dataclass(frozen=True)
class Nest:
    """tasks: the loops of the core with most work, of `cores` that have any. others: what ops beside the products read and write, of a
    task."""

    tasks: tuple[Loop, ...]
    cores: int
    steps: tuple[Step, ...]
    others: tuple[Data, ...] = ()

    @cached_property
    def data(self) -> tuple[Data, ...]:
        """Of a task, each tensor once."""
        found = {d.name: d for d in self.others}
        for d in (replace(d, nbytes=d.within(step.inner)) for step in self.steps for d in step.data):
            other = found.get(d.name, d)
            found[d.name] = replace(max(d, other, key=lambda each: each.nbytes), is_written=d.is_written or other.is_written)
        return tuple(found.values())

    @property
    def is_by_rows(self) -> bool:
        """Whether tasks have whole rows, so that a core reads the rows that it has written in another such nest."""
        return all(loop.axis != "n" for loop in self.tasks)


def of_one_core(parallel: Sequence[Loop], cores: int) -> tuple[Loop, ...]:
    """The first of `cores` equal parts of the iterations of nested loops.

    >>> of_one_core([Loop("batch", 7), Loop("n", 8)], 2)
    (Loop(axis='batch', trips=4), Loop(axis='n', trips=8))
    """
    left, own = ceil(prod(loop.trips for loop in parallel) / cores), list[Loop]()
    for loop in reversed(parallel):
        own.insert(0, Loop(loop.axis, min(loop.trips, left)))
        left = ceil(left / own[0].trips)
    return tuple(own)


# ---- traffic ---------------------------------------------------------------------------------------------------------


def missing(nbytes: float, cache_bytes: int) -> float:
    """The share of so many bytes, accessed over and over, that a cache has dropped before the next access: none of what it can hold, all of
    what is twice its size.

    >>> missing(1024, 2048), missing(4096, 2048)
    (0.0, 1.0)
    """
    return min(max((nbytes / cache_bytes - HELD) / (2 - HELD), 0.0), 1.0)


def fetched(loops: Sequence[Loop], data: Sequence[Data], cache_bytes: int) -> dict[str, float]:
    """By tensor, the bytes from beyond a cache for all iterations, those written back included; each at least once."""
    depth = next((at for at in range(len(loops)) if not missing(_touched(data, loops[at:]), cache_bytes)), len(loops))
    share = missing(_touched(data, loops[depth - 1 :]), cache_bytes) if depth else 1.0
    return _mixed(share, _moved(loops, depth, data), _moved(loops, max(depth - 1, 0), data))


def _touched(data: Iterable[Data], loops: Sequence[Loop]) -> float:
    return sum(d.within(loops) for d in data)


def _moved(loops: Sequence[Loop], depth: int, data: Iterable[Data]) -> dict[str, float]:
    """Bytes if the cache holds what one iteration of the first `depth` loops accesses, and no more."""
    each = ((d, d.within(loops[depth:]) * d.times(loops[:depth])) for d in data if not d.is_temporary)
    return {d.name: (1 + d.is_written) * nbytes for d, nbytes in each}


def _mixed(share: float, first: dict[str, float], second: dict[str, float]) -> dict[str, float]:
    return {name: share * first.get(name, 0.0) + (1 - share) * second.get(name, 0.0) for name in {**first, **second}}


def _from_l3(nest: Nest, l2_bytes: int) -> dict[str, float]:
    by_task = fetched(nest.tasks, nest.data, l2_bytes)
    if not nest.steps or not (share := missing(_touched(nest.data, ()), l2_bytes)):
        return by_task
    by_call = defaultdict[str, float](float, _moved(nest.tasks, 0, nest.others))
    for step in nest.steps:  # what a task makes for itself does not stay either
        all_of_step = [replace(d, is_temporary=False) for d in step.data]
        for name, nbytes in fetched((*nest.tasks, *step.inner), all_of_step, l2_bytes).items():
            by_call[name] += nbytes
    return _mixed(share, by_call, by_task)


# ---- time ------------------------------------------------------------------------------------------------------------


def sequence_ns(nests: Sequence[Nest], target: Target, rates: Rates) -> float:
    """Nanoseconds of these nests, executed one after the other over and over."""
    touched = {d.name: d.within(nest.tasks) for nest in nests for d in nest.data if not d.is_temporary}
    temporary = max(sum(d.nbytes for d in nest.data if d.is_temporary) for nest in nests)
    share = missing(sum(touched.values()) + temporary, target.l2_bytes)
    written, total = dict[str, Nest](), 0.0
    for nest in nests:
        read = [(d, written[d.name]) for d in nest.data if d.name in written]
        still_there = {d.name: (1 - missing(nbytes := d.within(nest.tasks), target.l2_bytes)) * nbytes for d, _ in read}
        all_far = _from_l3(nest, target.l2_bytes).items()
        far = {name: share * max(nbytes - still_there.get(name, 0.0), 0.0) for name, nbytes in all_far}
        total += _nest_ns(nest, far, _handed(nest, read, target), sum(_of_others(d, maker, nest) for d, maker in read), target, rates)
        written |= {d.name: nest for d in nest.data if d.is_written}
    return total


def _handed(nest: Nest, read: Iterable[tuple[Data, Nest]], target: Target) -> float:
    """Bytes that other nests or products leave for this one or within it, and that L1 does not hold until then."""
    between = [(d.within(nest.tasks), d.within(nest.tasks)) for d, _ in read]
    between += [(d.within(nest.tasks), d.nbytes) for d in nest.data if d.is_temporary]
    return sum(nbytes for nbytes, alive in between if alive > HELD * target.l1_bytes)


def _of_others(data: Data, maker: Nest, reader: Nest) -> float:
    """Bytes of what a nest has written that a core of its reader fetches from other cores."""
    return 0.0 if maker.is_by_rows and reader.is_by_rows else data.within(reader.tasks) * (1 - 1 / maker.cores)


def _nest_ns(nest: Nest, far: Mapping[str, float], handed: float, of_others: float, target: Target, rates: Rates) -> float:
    calls = [(step, prod(loop.trips for loop in nest.tasks) * step.calls) for step in nest.steps]
    waiting = {d.name for d in nest.data if d.waits}
    l3_ns = {name: nbytes * nest.cores / rates.read_bytes_per_ns("l3", nest.cores) for name, nbytes in far.items()}
    of_calls = sum(count * _from_l2(step, target.l1_bytes) for step, count in calls)
    cost = Cost(
        rates.ns(sum(count * cycles(step.gemm.kernel, step.rows, step.columns, rates) for step, count in calls)),
        (of_calls + handed) / rates.read_bytes_per_ns("l2") + handed / rates.write_bytes_per_ns("l2"),
        sum(ns for name, ns in l3_ns.items() if name not in waiting),
        0.0,
        of_others / LINE_BYTES * rates.written.line_ns,
        0.0,
        sum(count for _, count in calls) * rates.overheads.kernel_call_ns,
        rates.fork_join_ns(nest.cores),
        rates.kernels,
    )
    together = cost.total + sum(ns for name, ns in l3_ns.items() if name in waiting)
    return min(together, (together - cost.fork_join) * nest.cores)  # short loops run on one thread


def _from_l2(step: Step, l1_bytes: int) -> float:
    """Bytes of a call."""
    gemm = step.gemm
    summed, (of_src, of_wei, of_dst) = ("k", *(f"r{i}" for i in range(len(gemm.taps)))), gemm.operands
    src, wei = Data("src", of_src.bits / 8, ("m", *summed)), Data("wei", of_wei.bits / 8, ("n", *summed))
    dst = Data("dst", of_dst.bits / 8, ("m", "n"), is_written=True)
    return sum(fetched(inner_loops(gemm, step.rows, step.columns), (src, wei, dst), l1_bytes).values())
