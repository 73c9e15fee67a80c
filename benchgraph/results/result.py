"""What running problems leaves behind. Raw samples are kept; statistics are properties, computed when a report asks.

Free of numpy, like everything `benchgraph --help` touches.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from statistics import median, quantiles
from typing import TypeAlias

from benchgraph.results.accuracy import Accuracy
from benchgraph.results.exit_codes import ExitCode
from benchgraph.results.mode import Mode
from benchgraph.results.roofline import Roofline
from benchgraph.results.sketch import Sketch

# Of the JSON report. 1: the first. 2: a case per line, source, phases_s, the ops of partitions, the accuracy of outputs. 3: bandwidth,
# arithmetic intensity and shares of the roofs; cold caches and streams; the graph that was run.
SCHEMA_VERSION = 4


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


# What --fail-on may name: no failures, and yet what a CI system may not want
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

    is_warm: it was read from disk, and compile_s is how long that took.
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

    called: the same executions asked for from Python, partition by partition; None where that does not show.
    """

    policy: str
    timing: Timing
    partitions: tuple[PartitionTiming, ...]
    called: Timing | None = None

    @property
    def execute_s(self) -> float | None:
        """What asking for an execution from Python adds to the native call, by the medians of the same rounds."""
        return None if self.called is None else self.called.median_s - self.timing.median_s

    @property
    def compile_s(self) -> float:
        return sum(p.compile_s for p in self.partitions)

    @property
    def is_warm(self) -> bool:
        """Whether compile_s leaves out what one of them took to compile."""
        return any(p.is_warm for p in self.partitions)


@dataclass(frozen=True)
class Told:
    """What became of one contender of several libraries."""

    label: str
    status: Status
    reason: str = ""


@dataclass(frozen=True)
class Difference:
    """An output of the graph that a library gets wrong by the reference, where several were run on the same data.

    errors: wrong points of total, max_abs: the largest difference from the reference, values: at one wrong point, `index`, where the
    reference has `want`; nonfinite: wrong points with a NaN or an infinity on one side; each by contender.
    """

    tensor: int
    dtype: str
    total: int
    errors: dict[str, int]
    max_abs: dict[str, float]
    index: tuple[int, ...]
    want: float
    values: dict[str, float]
    nonfinite: dict[str, int] = field(default_factory=dict)

    @property
    def right(self) -> tuple[str, ...]:
        """The contenders that are within tolerance everywhere."""
        return tuple(label for label, errors in self.errors.items() if not errors)

    def __str__(self) -> str:
        wrong = [self._wrong(n) for n, e in self.errors.items() if e]
        said = ", ".join([*(f"{name} is right" for name in self.right), *wrong])
        values = ", ".join(f"{name} {value:.9g}" for name, value in self.values.items())
        return f"tensor {self.tensor} {self.dtype}: {said}; at {list(self.index)} reference {self.want:.9g}, {values}"

    def _wrong(self, label: str) -> str:
        strange = self.nonfinite.get(label, 0)
        kind = f" ({strange} in NaN or infinity)" if strange else ""
        return f"{label} off at {self.errors[label]} of {self.total}{kind} by up to {self.max_abs[label]:.3g}"


@dataclass(frozen=True)
class Result:
    """What a mode has to say of one problem.

    errors, total: wrong and compared points. n_partitions: by policy, End-only ones left out; partitions: the ids of their ops.
    flops, bytes: of the graph, from the op table and from the logical tensors that enter and leave it; input_bytes: those that enter.
    accuracy: of every output compared. peak_samples: FLOP/s that the machine reached in f32 between the samples, in every case, so that the
    clock shows; arithmetic: what the graph's products are in (arithmetic.py), arithmetic_samples: what it reached in that, empty for f32.
    bandwidth_samples: bytes/s at
    which it read so many bytes over and over, by that number. cold_cache, num_streams: how timings were made, in the words of the options.
    warnings: why not to believe the timings. no_memory: whether it is for want of memory that there is no better result.
    graph: what was run, as far as pictures show it; None where no graph could be made. told, differences: of several libraries. notes:
    what else there is to say of how it went, a line each.
    """

    status: Status
    reason: str = ""
    errors: int = 0
    total: int = 0
    n_partitions: dict[str, int] = field(default_factory=dict)
    partitions: dict[str, tuple[tuple[int, ...], ...]] = field(default_factory=dict)
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
    graph: Sketch | None = None
    told: tuple[Told, ...] = ()
    differences: tuple[Difference, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def right(self) -> tuple[str, ...]:
        """The contenders of several libraries whose every output is right."""
        return tuple(t.label for t in self.told if t.status.is_pass or t.status is Status.MISTRUSTED)

    @property
    def wrong(self) -> tuple[str, ...]:
        """Those that had an output wrong. Who is neither right nor wrong could not be run."""
        return tuple(t.label for t in self.told if any(a.errors and a.policy == t.label for a in self.accuracy))

    @property
    def peak(self) -> float:
        """The best operations/s, in the graph's arithmetic, that the machine offered while the case was measured (so that no share of it
        flatters); 0 when not measured."""
        return max(self.arithmetic_samples or self.peak_samples, default=0.0)

    def bandwidth(self, nbytes: int) -> float:
        """The best bytes/s the machine offered to whoever reads that much memory over and over; 0 when not measured.

        Measured by the probe that read as much or the next more; beyond the largest, which no cache holds, by that one.
        """
        larger = [size for size in self.bandwidth_samples if size >= nbytes]
        size = min(larger) if larger else max(self.bandwidth_samples, default=0)
        return max(self.bandwidth_samples.get(size, ()), default=0.0)

    def roofline(self, t: PolicyTiming | PartitionTiming) -> Roofline:
        """The median execution of the whole graph under a policy, or of one partition, against the roofs.

        Streams have data of their own each, which share the caches.
        """
        work = t if isinstance(t, PartitionTiming) else self
        return Roofline(work.flops, work.bytes, t.timing.median_s, self.peak, self.bandwidth(work.bytes * self.num_streams))


@dataclass(frozen=True)
class CaseResult:
    """A result with its place in the run. phases: seconds by phase (measure/phases.py), elapsed_s in all."""

    index: int
    repro: str
    elapsed_s: float
    result: Result
    phases: dict[str, float] = field(default_factory=dict)

    @property
    def line(self) -> str:
        """benchdnn's status line."""
        r = self.result
        reason = f" ({r.reason})" if r.reason else ""
        errors = f" (errors:{r.errors} total:{r.total})" if r.errors else ""
        return f"{self.index}:{r.status.value}{reason}{errors} ({self.elapsed_s * 1e3:.0f} ms) __REPRO: {self.repro}"


@dataclass(frozen=True)
class Done:
    """A finished case, and what it wrote to stdout and stderr."""

    case: CaseResult
    out: str = ""
    err: str = ""


@dataclass(frozen=True)
class Machine:
    """Where the numbers come from.

    peak_flops: arithmetic -> operations/s of the units with all threads, peak_flops_1_thread with one, microkernel the single-thread
    rate of our GEMM microkernel on microkernel_shape, memory_bandwidth the bytes/s that all threads together read from memory; all
    measured, and empty or 0 when nothing was timed. host: its name, '' when not known.
    """

    cpu: str
    cores: int
    isa: str
    versions: dict[str, str]
    threads: int = 0
    peak_flops: dict[str, float] = field(default_factory=dict)
    peak_flops_1_thread: dict[str, float] = field(default_factory=dict)
    microkernel: dict[str, float] = field(default_factory=dict)
    microkernel_shape: str = "256x256x256"
    memory_bandwidth: float = 0.0
    host: str = ""


@dataclass(frozen=True)
class Origin:
    """Where a run stands among others.

    uid: its own, for ever; a run that is resumed goes on under it. started: seconds since 1970 (UTC). commit: what was measured, '' when
    not known; is_dirty: with changes that were not committed.
    """

    uid: str
    started: float
    commit: str = ""
    is_dirty: bool = False


@dataclass(frozen=True)
class ResultSet:
    """A run. machine and origin are None for an empty one, and when nobody asked. planned: its cases, done or not; 0 when not known."""

    mode: Mode
    machine: Machine | None
    cases: tuple[CaseResult, ...]
    elapsed_s: float
    origin: Origin | None = None
    planned: int = 0

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
        """What a report says of a run that ended before its last case; '' of one that did not."""
        return f"cut short: {len(self.cases)} of {self.planned} cases ran" if len(self.cases) < self.planned else ""

    @property
    def exit_code(self) -> ExitCode:
        return ExitCode.failed if self.failures else ExitCode.ok


def passed(n: Counter[Status]) -> int:
    return sum(count for status, count in n.items() if status.is_pass)


def failed(n: Counter[Status]) -> int:
    return sum(count for status, count in n.items() if status.is_failure)


def summary(n: Counter[Status]) -> str:
    """benchdnn's last line; unimplemented and invalid_arguments are counted among the failed too."""
    return (
        f"tests:{n.total()} passed:{passed(n)} skipped:{n[Status.SKIPPED]} mistrusted:{n[Status.MISTRUSTED]} "
        f"unimplemented:{n[Status.UNIMPLEMENTED]} invalid_arguments:{n[Status.INVALID_ARGUMENTS]} failed:{failed(n)} "
        f"listed:{n[Status.LISTED]}"
    )


Report: TypeAlias = Callable[[ResultSet], str]
