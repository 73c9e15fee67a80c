"""Two versions compared: what ran of every case, and what that says."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from math import exp, log
from statistics import median

from benchgraph.analysis.ab.findings import OF_VERDICT, Finding, Kind, is_usable, of_status
from benchgraph.analysis.ab.judge import Launch, Plan, Timed, judge, mean_ratio
from benchgraph.analysis.inference.verdicts import Judgement, Verdict
from benchgraph.core.formats import counted, with_unit
from benchgraph.core.implementation import Implementation, names
from benchgraph.results.exit_codes import ExitCode
from benchgraph.results.machine import Machine
from benchgraph.results.result import PolicyTiming, Result

COMPILE, COMPILE_S = 1.5, 10e-3  # least factor and seconds of a change of compile time that is reported, as in compare


@dataclass(frozen=True)
class Side:
    """A version. word: of --library. given: what the user called it. version: what it says of itself, '' when unknown."""

    label: str
    word: str
    given: str
    version: str = ""

    def __str__(self) -> str:
        version = f" ({self.version})" if self.version and self.version != self.given else ""
        return f"{self.label} = {self.given}{version}"


@dataclass(frozen=True)
class Policies:
    """A policy of both versions. old, new: the labels that results have for it."""

    policy: str
    old: str
    new: str


@dataclass(frozen=True)
class CaseRun:
    """What ran of a case. group: its batch file or driver. policies: those that both versions have. old, new: results of mode C. launches:
    number -> result of mode P.
    """

    case: str
    group: str
    policies: tuple[Policies, ...]
    old: Result
    new: Result
    launches: dict[int, Result]

    @property
    def is_timed(self) -> bool:
        """Whether there is something to time: both versions run it."""
        return is_usable(self.old) and is_usable(self.new)


@dataclass(frozen=True)
class Row:
    """A case that was timed under a policy. old_s, new_s: geometric means over launches of their medians; nan without samples."""

    case: str
    group: str
    policy: str
    timed: Timed
    old_s: float
    new_s: float
    judged: Judgement

    @property
    def kind(self) -> Kind:
        return OF_VERDICT[self.judged.verdict]


@dataclass(frozen=True)
class Mean:
    """The geometric mean of a group's ratios under a policy, over so many cases; its interval is nan with one launch."""

    group: str
    policy: str
    cases: int
    ratio: float
    low: float
    high: float


@dataclass(frozen=True)
class Stop:
    """An interruption, after so many whole launches."""

    by: KeyboardInterrupt
    launches: int


@dataclass(frozen=True)
class Comparison:
    """runs: of all cases, in their order. rows: those that were timed. findings: by kind, in the order of Kind; a row has one too.

    stopped: None unless it was interrupted; launches that were not complete then are not in it.
    """

    old: Side
    new: Side
    threshold: float
    plan: Plan
    runs: tuple[CaseRun, ...]
    rows: tuple[Row, ...]
    findings: tuple[Finding, ...]
    machine: Machine | None = None
    stopped: Stop | None = None

    @property
    def exit_code(self) -> ExitCode:
        is_bad = self.is_empty or any(f.kind.is_worse for f in self.findings)
        return ExitCode.failed if is_bad else ExitCode.ok

    @property
    def is_empty(self) -> bool:
        """Whether nothing was compared, since neither version could run any case."""
        return not any(r.is_timed for r in self.runs) and all(f.kind.is_of_neither for f in self.findings)

    def of(self, kind: Kind) -> tuple[Finding, ...]:
        return tuple(f for f in self.findings if f.kind is kind)

    @property
    def timed(self) -> tuple[Row, ...]:
        """The rows that have times; of the others a finding has the reason."""
        return tuple(r for r in self.rows if r.timed.launches)

    @property
    def undecided(self) -> set[int]:
        """Positions in runs of cases that further launches may decide."""
        return {int(r.timed.case) for r in self.timed if r.judged.verdict is Verdict.unknown}

    @property
    def means(self) -> tuple[Mean, ...]:
        """By group, and over all where there are several groups."""
        found = []
        for policy in dict.fromkeys(r.policy for r in self.timed):
            rows = [r for r in self.timed if r.policy == policy]
            groups = {name: [r for r in rows if r.group == name] for name in dict.fromkeys(r.group for r in rows)}
            for name, members in (groups | ({"all": rows} if len(groups) > 1 else {})).items():
                found.append(Mean(name, policy, len(members), *mean_ratio([r.timed for r in members], self.plan.launches)))
        return tuple(found)

    @property
    def summary(self) -> str:
        """How many cases, and how many findings of each kind; `slower` and `wrong` always."""
        counts = [(kind, len(self.of(kind))) for kind in Kind]
        always = (Kind.wrong, Kind.unsupported, Kind.slower)
        found = ", ".join(f"{n} {kind.value}" for kind, n in counts if n or kind in always)
        n_timed = len({r.timed.case for r in self.timed})
        stop = f"; interrupted after {counted(self.stopped.launches, 'launch', 'launches')}" if self.stopped else ""
        nothing = "; nothing could be compared" if self.is_empty else ""
        return f"{counted(len(self.runs), 'case')}, {n_timed} timed: {found}{nothing}{stop}"

    @property
    def notes(self) -> tuple[str, ...]:
        """How the numbers are to be read, a line each."""
        if not self.timed:
            return ()
        medians = (
            "old, new: the median of each version by itself; "
            "new / old: the median of the ratios of samples of one round, which need not be the quotient of the two"
        )
        one = "one launch rarely tells, since memory lies elsewhere in the next one: --launches=3 or more"
        return (self.legend, medians, one) if self.plan.launches * self.plan.looks == 1 else (self.legend, medians)

    @property
    def legend(self) -> str:
        looks = f", at any of {self.plan.looks} looks" if self.plan.looks > 1 else ""
        return (
            "new / old: times as long, with its 95 % interval from one launch to another; "
            f"same: within {self.threshold * 100:.3g} % either way; "
            f"slower, faster: beyond, with at most 5 % chance of any false one among these cases{looks}"
        )


def compare(
    runs: Sequence[CaseRun],
    old: Side,
    new: Side,
    threshold: float,
    plan: Plan,
    machine: Machine | None = None,
) -> Comparison:
    """All that the runs say."""
    pairs = [(i, run, p) for i, run in enumerate(runs) if run.is_timed and run.launches for p in run.policies]
    timed = [Timed(str(i), tuple(launches_of(run, p))) for i, run, p in pairs]
    rows = tuple(
        Row(run.case, run.group, p.policy, t, *_typical(t), judged)
        for (_, run, p), t, judged in zip(pairs, timed, judge(timed, threshold, plan), strict=True)
    )
    findings = [f for run in runs if (f := of_status(run.case, run.old, run.new))]
    findings += [_of_times(row, run, p) for row, (_, run, p) in zip(rows, pairs, strict=True)]
    findings += [f for _, run, p in pairs for f in (_of_compile_times(run, p), _of_implementations(run, p)) if f]
    order = {kind: i for i, kind in enumerate(Kind)}
    findings.sort(key=lambda f: (order[f.kind], -abs(log(f.judged.ratio)) if f.judged and f.judged.ratio > 0 else 0.0))
    return Comparison(old, new, threshold, plan, tuple(runs), rows, tuple(findings), machine)


def _timings(result: Result, p: Policies) -> tuple[PolicyTiming, PolicyTiming] | None:
    found = {t.policy: t for t in result.timings}
    return (found[p.old], found[p.new]) if p.old in found and p.new in found else None


def launches_of(run: CaseRun, p: Policies) -> Iterator[Launch]:
    for number, result in sorted(run.launches.items()):
        if both := _timings(result, p):
            yield Launch(number, *(t.timing.samples_s for t in both))


def _typical(t: Timed) -> tuple[float, float]:
    if not t.launches:
        return float("nan"), float("nan")
    sides = ([x.old for x in t.launches], [x.new for x in t.launches])
    old, new = (exp(sum(log(median(samples)) for samples in side) / len(side)) for side in sides)
    return old, new


def _of_times(row: Row, run: CaseRun, p: Policies) -> Finding:
    if row.timed.launches:
        return Finding(row.kind, row.case, row.policy, with_unit(row.old_s), with_unit(row.new_s), row.judged)
    reasons = [o.reason for r in run.launches.values() for o in r.outcomes if o.label in (p.old, p.new)]
    reasons += [r.reason for r in run.launches.values()]
    return Finding(Kind.cannot_tell, row.case, row.policy, "right", f"not timed: {next(filter(None, reasons), 'no samples')}")


def _of_compile_times(run: CaseRun, p: Policies) -> Finding | None:
    """A compile time that changed by COMPILE and COMPILE_S or more; the best launch of either version counts."""
    both = [pair for result in run.launches.values() if (pair := _timings(result, p))]
    if not both or any(t.is_warm for pair in both for t in pair):
        return None
    old, new = (min(t.compile_s for t in side) for side in zip(*both, strict=True))
    if max(old, new) < COMPILE * min(old, new) or abs(old - new) < COMPILE_S:
        return None
    return Finding(Kind.compile_time, run.case, p.policy, f"{old * 1e3:.0f} ms", f"{new * 1e3:.0f} ms")


def _of_implementations(run: CaseRun, p: Policies) -> Finding | None:
    """Partitions that run on other implementations; a fall where more primitives are reference ones. None where it is not told."""
    told = [r.implementations for r in run.launches.values()]
    told = [by_label for by_label in told if any(by_label.get(p.old, ())) and any(by_label.get(p.new, ()))]
    if not told:
        return None
    old, new = told[-1][p.old], told[-1][p.new]
    if len(old) == len(new):  # the partitions that changed
        changed = [(a, b) for a, b in zip(old, new, strict=True) if a != b]
        old, new = tuple(a for a, _ in changed), tuple(b for _, b in changed)
    if sorted(map(str, old)) == sorted(map(str, new)):
        return None
    fell = references(new) > references(old)
    kind = Kind.fell_to_reference if fell else Kind.other_implementation
    return Finding(kind, run.case, p.policy, "; ".join(map(names, old)), "; ".join(map(names, new)))


def references(ran: Iterable[Sequence[Implementation]]) -> int:
    """How many primitives run on reference implementations."""
    return sum(i.count for each in ran for i in each if i.is_reference)
