"""Results of cases and runs. Raw samples are kept; statistics are properties. Free of numpy, which `benchgraph --help` must not import."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from statistics import median, quantiles
from typing import TypeAlias

from benchgraph.core.implementation import ByPartition
from benchgraph.results.accuracy import Accuracy
from benchgraph.results.difference import Difference
from benchgraph.results.exit_codes import ExitCode
from benchgraph.results.fallback_kind import FallbackKind
from benchgraph.results.layers import LayerProfile, LayerTiming
from benchgraph.results.machine import Machine, as_one, kinds, united
from benchgraph.results.mode import Mode
from benchgraph.results.roofline import Roofline
from benchgraph.results.sketch import Sketch

# Version of the JSON report. 2 added: a case per line, source, phases_s, ops of partitions, accuracy of outputs. 3 added: bandwidth,
# arithmetic intensity and shares of peaks; cold caches and streams; the graph.
SCHEMA_VERSION = 4
SEVERAL_MACHINES = 5  # of a document whose results ran on several


class Status(Enum):
    """benchdnn's statuses; the value is what the status line prints."""

    PASSED = "PASSED"
    EXECUTED = "EXECUTED"
    INITIALIZED = "INITIALIZED"
    MISTRUSTED = "MISTRUSTED"
    SKIPPED = "SKIPPED"
    LISTED = "LISTED"
    FAILED = "FAILED"
    UNIMPLEMENTED = "UNIMPLEMENTED"
    INVALID_ARGUMENTS = "INVALID_ARGUMENTS"
    UNTESTED = "UNTESTED_FAILED"

    @property
    def is_failure(self) -> bool:
        return self in (Status.FAILED, Status.UNIMPLEMENTED, Status.INVALID_ARGUMENTS, Status.UNTESTED)

    @property
    def is_pass(self) -> bool:
        return self in (Status.PASSED, Status.EXECUTED, Status.INITIALIZED)


# Statuses that --fail-on may name besides failures
UNWANTED = {s.value.lower(): s for s in (Status.SKIPPED, Status.MISTRUSTED)}


@dataclass(frozen=True)
class Timing:
    """samples_s: seconds per execution, one number per sample; times: executions in each sample."""

    samples_s: tuple[float, ...]
    times: int

    @property
    def min_s(self) -> float:
        return min(self.samples_s)

    @property
    def median_s(self) -> float:
        return median(self.samples_s)

    @property
    def spread(self) -> float:
        """Distance between the quartiles as a share of the median."""
        return spread(self.samples_s)


def spread(samples: tuple[float, ...]) -> float:
    """(p75 - p25) / median; 0 for fewer than two samples."""
    if len(samples) < 2:
        return 0.0
    low, middle, high = quantiles(samples, n=4, method="inclusive")
    return (high - low) / middle if middle else 0.0


@dataclass(frozen=True)
class PartitionTiming:
    """One partition on its own. id: its position in the order of execution; kind: the rule that made it; ops: ids.

    is_warm: it was read from the disk cache, and compile_s is the time of that.
    """

    id: int
    kind: str
    ops: tuple[int, ...]
    flops: int
    bytes: int
    compile_s: float
    timing: Timing
    is_warm: bool = False


@dataclass(frozen=True)
class PolicyTiming:
    """The whole graph under one policy, as one native call, and its partitions one by one.

    called: the same executions called from Python, partition by partition; None where that takes no measurable time. layers: where the
    time goes, if that was asked for.
    """

    policy: str
    timing: Timing
    partitions: tuple[PartitionTiming, ...]
    called: Timing | None = None
    layers: LayerProfile | None = None

    @property
    def execute_s(self) -> float | None:
        """The overhead of calling from Python over the native call: the difference of their medians over the same rounds."""
        return None if self.called is None else self.called.median_s - self.timing.median_s

    @property
    def compile_s(self) -> float:
        return sum(p.compile_s for p in self.partitions)

    @property
    def is_warm(self) -> bool:
        """Whether compile_s lacks the compile time of some partition, which came from the disk cache."""
        return any(p.is_warm for p in self.partitions)


@dataclass(frozen=True)
class ContenderOutcome:
    """The status of one contender, where several libraries were run."""

    label: str
    status: Status
    reason: str = ""


@dataclass(frozen=True)
class Result:
    """The result of one problem.

    errors, total: wrong and compared points. n_partitions: by policy, without End-only ones; partitions: the ids of their ops.
    implementations: what each partition ran on, by contender.
    flops, bytes: of the graph, from the op table and from the logical tensors that enter and leave it; input_bytes: those that enter.
    accuracy: of every compared output. peak_samples: FLOP/s in f32 that the machine reached between the samples, which shows its clock;
    arithmetic: that of the graph's products (measure/arithmetic.py); arithmetic_samples: operations/s in it, empty for f32.
    bandwidth_samples: bytes/s when reading so many bytes repeatedly, by that number. cold_cache, num_streams: option values of the timings.
    warnings: reasons to distrust the timings. no_memory: whether memory did not suffice for a better result; memory_needed: the bytes
    that would, 0 if unknown. graph: None if none could be made. outcomes, differences: of several libraries. notes: further
    remarks, a line each. fallback: ops that numpy executes, by kind.
    """

    status: Status
    reason: str = ""
    errors: int = 0
    total: int = 0
    n_partitions: dict[str, int] = field(default_factory=dict)
    partitions: dict[str, tuple[tuple[int, ...], ...]] = field(default_factory=dict)
    implementations: dict[str, ByPartition] = field(default_factory=dict)
    flops: int = 0
    bytes: int = 0
    input_bytes: int = 0
    accuracy: tuple[Accuracy, ...] = ()
    timings: tuple[PolicyTiming, ...] = ()
    peak_samples: tuple[float, ...] = ()
    arithmetic: str = "f32"
    arithmetic_samples: tuple[float, ...] = ()
    bandwidth_samples: dict[int, tuple[float, ...]] = field(default_factory=dict)
    cold_cache: str = "none"
    num_streams: int = 1
    warnings: tuple[str, ...] = ()
    no_memory: bool = False
    memory_needed: int = 0
    graph: Sketch | None = None
    outcomes: tuple[ContenderOutcome, ...] = ()
    differences: tuple[Difference, ...] = ()
    notes: tuple[str, ...] = ()
    fallback: tuple[FallbackKind, ...] = ()

    @property
    def right(self) -> tuple[str, ...]:
        """The contenders whose outputs are all within tolerance."""
        return tuple(t.label for t in self.outcomes if t.status.is_pass or t.status is Status.MISTRUSTED)

    @property
    def wrong(self) -> tuple[str, ...]:
        """The contenders with a wrong output. One that is neither right nor wrong could not be run."""
        return tuple(t.label for t in self.outcomes if any(a.errors and a.policy == t.label for a in self.accuracy))

    @property
    def peak(self) -> float:
        """The best operations/s, in the graph's arithmetic, that the machine reached while the case was measured; 0 when not measured. The
        best, so that shares of it are never too high.
        """
        return max(self.arithmetic_samples or self.peak_samples, default=0.0)

    def bandwidth(self, nbytes: int) -> float:
        """The best bytes/s for reading that much memory repeatedly; 0 when not measured.

        From the smallest probe that is large enough, else from the largest, which no cache holds.
        """
        larger = [size for size in self.bandwidth_samples if size >= nbytes]
        size = min(larger) if larger else max(self.bandwidth_samples, default=0)
        return max(self.bandwidth_samples.get(size, ()), default=0.0)

    def roofline(self, t: PolicyTiming | PartitionTiming | LayerTiming) -> Roofline:
        """The median execution of the whole graph under a policy, of one partition, or of one layer, against the peaks.

        Each stream has its own data, and all share the caches.
        """
        work = self if isinstance(t, PolicyTiming) else t
        seconds = t.median_s if isinstance(t, LayerTiming) else t.timing.median_s
        return Roofline(work.flops, work.bytes, seconds, self.peak, self.bandwidth(work.bytes * self.num_streams))


@dataclass(frozen=True)
class CaseResult:
    """A result and its place in the run. phases: seconds by phase (measure/phases.py); elapsed_s: of all. machine: that it ran on; None for
    that of the run.
    """

    index: int
    repro: str
    elapsed_s: float
    result: Result
    phases: dict[str, float] = field(default_factory=dict)
    machine: Machine | None = None

    @property
    def line(self) -> str:
        r = self.result
        reason = f" ({r.reason})" if r.reason else ""
        errors = f" (errors:{r.errors} total:{r.total})" if r.errors else ""
        return f"{self.index}:{r.status.value}{reason}{errors} ({self.elapsed_s * 1e3:.0f} ms) __REPRO: {self.repro}"


@dataclass(frozen=True)
class FinishedCase:
    """A finished case, and its output on stdout and stderr."""

    case: CaseResult
    out: str = ""
    err: str = ""


@dataclass(frozen=True)
class Origin:
    """The identity of a run. uid: unique; a resumed run keeps it. started: seconds since 1970 (UTC). commit: the code that was measured, ''
    when unknown; is_dirty: it had uncommitted changes.
    """

    uid: str
    started: float
    commit: str = ""
    is_dirty: bool = False


@dataclass(frozen=True)
class Shard:
    """Which part of a run: --shard=part/parts. cases: how many all parts have; batch: a digest of their repro lines, equal in all parts."""

    part: int
    parts: int
    cases: int
    batch: str


@dataclass(frozen=True)
class ResultSet:
    """A run. machine, origin: None if it is empty or they were not looked up. machine: where results ran that name no other; reports ask
    `machines`, `machine_of` and `by_kind`. planned: how many cases it has, done or not; 0 if unknown.

    shard: None for a whole run. source: a digest of the source code that ran it (json_report.source), '' for the present code; runs of
    different code may have equal results.
    """

    mode: Mode
    machine: Machine | None
    cases: tuple[CaseResult, ...]
    elapsed_s: float
    origin: Origin | None = None
    planned: int = 0
    shard: Shard | None = None
    source: str = field(default="", compare=False)

    def __post_init__(self) -> None:
        """A result that names the machine of the run names none, so that a run of one machine has no table of machines."""
        if any(c.machine is not None for c in self.cases):
            object.__setattr__(self, "cases", placed(self.cases, self, self.machine))

    @property
    def named_machines(self) -> dict[str, Machine]:
        """Those that results name, by key (machine.united)."""
        return united(c.machine for c in self.cases if c.machine is not None)

    @property
    def machines(self) -> tuple[Machine, ...]:
        """Those that results ran on; that of the run first, also if there are no results."""
        is_in_use = not self.cases or any(c.machine is None for c in self.cases)
        return (*([self.machine] if self.machine is not None and is_in_use else []), *self.named_machines.values())

    def machine_of(self, case: CaseResult) -> Machine | None:
        return self.machine if case.machine is None else case.machine

    @property
    def by_kind(self) -> tuple[ResultSet, ...]:
        """The results of each kind of machine, whose times can be put together, as a run of its own; itself for a single machine."""
        if not self.named_machines:
            return (self,)
        groups = [(as_one(group), {m.key for m in group}) for group in kinds(self.machines)]
        named = tuple(replace(c, machine=self.machine_of(c)) for c in self.cases)
        parts = [replace(self, machine=kind, cases=tuple(c for c in named if c.machine and c.machine.key in keys)) for kind, keys in groups]
        unknown = tuple(c for c in named if c.machine is None)
        return (*parts, *([replace(self, cases=unknown)] if unknown else []))

    @property
    def counts(self) -> Counter[Status]:
        return Counter(c.result.status for c in self.cases)

    @property
    def summary(self) -> str:
        return summary(self.counts)

    @property
    def failures(self) -> tuple[CaseResult, ...]:
        return tuple(c for c in self.cases if c.result.status.is_failure)

    @property
    def cut(self) -> str:
        """A remark for reports on a run that ended early; '' for a complete one."""
        return f"cut short: {len(self.cases)} of {self.planned} cases ran" if len(self.cases) < self.planned else ""

    @property
    def exit_code(self) -> ExitCode:
        return ExitCode.failed if self.failures else ExitCode.ok


def placed(cases: Sequence[CaseResult], of: ResultSet, own: Machine | None) -> tuple[CaseResult, ...]:
    """Cases of a run as those of one whose own machine is `own`: they name every other."""
    named = [(c, of.machine_of(c)) for c in cases]
    return tuple(replace(c, machine=None if m is not None and own is not None and m.key == own.key else m) for c, m in named)


def passed(n: Counter[Status]) -> int:
    return sum(count for status, count in n.items() if status.is_pass)


def failed(n: Counter[Status]) -> int:
    return sum(count for status, count in n.items() if status.is_failure)


def summary(n: Counter[Status]) -> str:
    """benchdnn's last line; failed includes unimplemented and invalid_arguments."""
    return (
        f"tests:{n.total()} passed:{passed(n)} skipped:{n[Status.SKIPPED]} mistrusted:{n[Status.MISTRUSTED]} "
        f"unimplemented:{n[Status.UNIMPLEMENTED]} invalid_arguments:{n[Status.INVALID_ARGUMENTS]} failed:{failed(n)} "
        f"listed:{n[Status.LISTED]}"
    )


Report: TypeAlias = Callable[[ResultSet], str]
