"""The time of a scheduled product, by what takes it. docs/measurements/cost-model.md says how far it is off."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, fields
from functools import cached_property
from math import inf
from typing import Any, cast

from benchgraph.machine.rates import Kernels, Rates
from benchgraph.machine.target import LINE_BYTES, Target
from benchgraph.schedule.gemm import Gemm, Share, share
from benchgraph.schedule.microkernel import cycles, inner_loops
from benchgraph.schedule.primitives import Schedule
from benchgraph.schedule.traffic import Traffic

HELD = 0.75  # share of a cache that operands can fill


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


@dataclass(frozen=True)
class Cost(Breakdown):
    """Nanoseconds of the core with most work: arithmetic; transfers from L2, from the cache that cores share, and from memory; lines of src
    that other cores have written; results that wait in temporaries; calls; fork and join. kernels: which shares of the first five the
    longest of them hides.
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


@dataclass(frozen=True)
class _Calls:
    """All microkernel calls of one size in a batch entry, those of the last rows and columns among them: how many, their cycles, and the
    traffic of one. A core's share of the calls has the same share of the cycles."""

    count: int
    cycles: float
    traffic: Traffic


class Costs:
    """What schedules of one product cost, one execution after others: what caches hold stays there."""

    def __init__(self, gemm: Gemm, target: Target, rates: Rates) -> None:
        self.gemm, self.target, self.rates = gemm, target, rates
        self._cycles = dict[tuple[int, int], float]()
        self._calls = dict[tuple[int, int], _Calls]()

    def __call__(self, schedule: Schedule) -> Cost:
        gemm, target, rates = self.gemm, self.target, self.rates
        own = share(gemm, schedule, target.cores)
        mb, nb = min(schedule.sizes("m")[-1], gemm.m), min(schedule.sizes("n")[-1], gemm.n)
        calls = self._of_size(mb, nb)
        traffic = calls.traffic.inside(own.loops)
        caches = target.l1_bytes, target.l2_bytes, target.llc_bytes or inf
        from_l2, from_l3, from_memory = (traffic.beyond(HELD * nbytes) for nbytes in caches)
        return Cost(
            rates.ns(own.calls / calls.count * calls.cycles),
            from_l2 / rates.read_bytes_per_ns("l2"),
            (from_l3 - from_memory) * own.cores / rates.read_bytes_per_ns("l3", own.cores),
            from_memory * own.cores / rates.read_bytes_per_ns("dram", own.cores),
            self._written_lines(traffic, own.cores) * rates.written.line_ns,
            self._waiting(mb, nb, own),
            own.calls * rates.overheads.kernel_call_ns,
            rates.fork_join_ns(own.cores),
            rates.kernels,
        )

    def _of_size(self, mb: int, nb: int) -> _Calls:
        at = mb, nb
        if at not in self._calls:
            rows, columns = divmod(self.gemm.m, mb), divmod(self.gemm.n, nb)
            sizes = [[(rows[0], mb), (1, rows[1])], [(columns[0], nb), (1, columns[1])]]
            kinds = [(i * j, m, n) for i, m in sizes[0] for j, n in sizes[1] if i and j and m and n]
            traffic = Traffic.of(inner_loops(self.gemm, mb, nb), self.gemm.operands, self.gemm.extents)
            total = sum(count * self._of_call(m, n) for count, m, n in kinds)
            self._calls[at] = _Calls(sum(count for count, _, _ in kinds), total, traffic)
        return self._calls[at]

    def _written_lines(self, traffic: Traffic, cores: int) -> float:
        """Lines of src that a core reads beyond an equal share, which is what it has written itself in the nest before."""
        if not self.gemm.is_made:
            return 0.0
        src = self.gemm.operands[0]
        return max(traffic.nbytes[0][0] - src.nbytes(self.gemm.extents) / cores, 0.0) / LINE_BYTES

    def _waiting(self, mb: int, nb: int, own: Share) -> float:
        """Results of calls are written to temporaries beyond L1, and read again."""
        nbytes = self.gemm.waiting_bytes * mb * nb
        if nbytes <= HELD * self.target.l1_bytes:
            return 0.0
        in_l2 = nbytes <= HELD * self.target.l2_bytes
        rate = self.rates.read_bytes_per_ns("l2") if in_l2 else self.rates.read_bytes_per_ns("l3", own.cores) / own.cores
        return 2 * nbytes * own.calls / rate

    def _of_call(self, rows: int, columns: int) -> float:
        at = rows, columns
        if at not in self._cycles:
            self._cycles[at] = cycles(self.gemm.kernel, rows, columns, self.rates)
        return self._cycles[at]
