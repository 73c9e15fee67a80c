"""Differences between two sides: times, tested by statistics.py; statuses, accuracy and compile times, listed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from math import isfinite
from statistics import geometric_mean, median

from benchgraph.analysis.compare.kinds import Kinds
from benchgraph.analysis.compare.sides import Key, Side, notes
from benchgraph.analysis.compare.statistics import Pair, Run, drift, judge, moved
from benchgraph.analysis.inference.verdicts import ALPHA, POWER, Judgement, Verdict
from benchgraph.core.formats import NOTHING
from benchgraph.core.formats import interval as interval_text
from benchgraph.core.implementation import names
from benchgraph.results.accuracy import Accuracy
from benchgraph.results.exit_codes import ExitCode
from benchgraph.results.result import UNWANTED, CaseResult, Result, Status

MISSING = "missing"
FAIL_ON = (MISSING, *UNWANTED)  # what --fail-on may name
ACCURACY = 2.0  # change of the error that is listed, as a factor: a bit of the mantissa
COMPILE, COMPILE_S = 1.5, 10e-3  # least factor and seconds of a listed change of compile time, of which a run has one sample


@dataclass(frozen=True)
class Row:
    """One case under one policy. a_s, b_s: seconds, geometric means over runs of their medians, measured; judged: corrected for drift.
    kind: of machine, its number in Comparison.kinds.
    """

    key: Key
    policy: str
    a_s: float
    b_s: float
    judged: Judgement
    kind: int = 0

    @property
    def raw(self) -> float:
        """B over A as measured."""
        return self.b_s / self.a_s


@dataclass(frozen=True)
class Change:
    """A difference of a case; what: '' for its status, which then is `became`."""

    key: Key
    what: str
    before: str
    after: str
    became: Status | None = None

    def __str__(self) -> str:
        return f"{self.key}: " + (f"{self.what}: " if self.what else "") + f"{self.before} -> {self.after}"


@dataclass(frozen=True)
class Comparison:
    """broken: cases that newly fail; mended: that no longer fail; statuses: other changes of status. missing: cases, or their policies,
    that only A has; added: that only B has. threshold: the least relative change that is reported. a, b: the compared sides. notes:
    caveats. fail_on: what else makes the exit code 1, in the words of FAIL_ON. kinds: of the machines that times come from.
    """

    a: Side
    b: Side
    rows: tuple[Row, ...]
    broken: tuple[Change, ...]
    mended: tuple[Change, ...]
    statuses: tuple[Change, ...]
    implementations: tuple[Change, ...]
    accuracy: tuple[Change, ...]
    compile: tuple[Change, ...]
    missing: tuple[str, ...]
    added: tuple[str, ...]
    threshold: float
    notes: tuple[str, ...]
    fail_on: tuple[str, ...] = ()
    kinds: Kinds = field(default_factory=lambda: Kinds.of([]))

    @property
    def by_kind(self) -> tuple[tuple[str, Comparison], ...]:
        """The rows of each kind of machine, and its name; '' if there is only one."""
        numbers = list(dict.fromkeys(r.kind for r in self.rows))
        if len(numbers) < 2:
            return (("", self),)
        parts = [replace(self, rows=tuple(r for r in self.rows if r.kind == n)) for n in numbers]
        return tuple((self.kinds.name(n), part) for n, part in zip(numbers, parts, strict=True))

    @property
    def exit_code(self) -> ExitCode:
        is_worse = self.broken or self.of(Verdict.regressed) or any(self.unwanted[name] for name in self.fail_on)
        return ExitCode.failed if is_worse else ExitCode.ok

    @property
    def unwanted(self) -> dict[str, tuple[str, ...]]:
        """FAIL_ON -> the cases that fail the comparison if requested. A status counts if A did not have it."""
        changed = (*self.statuses, *self.mended)
        newly = {name: tuple(str(c.key) for c in changed if c.became is status) for name, status in UNWANTED.items()}
        return {MISSING: self.missing, **newly}

    @property
    def is_corrected(self) -> bool:
        """Whether some ratio was corrected for drift."""
        return any(r.judged.is_corrected for r in self.rows)

    def of(self, verdict: Verdict) -> tuple[Row, ...]:
        return tuple(r for r in self.rows if r.judged.verdict is verdict)

    @property
    def means(self) -> dict[str, float]:
        """Policy -> geometric mean of its ratios that have an interval."""
        return {policy: geometric_mean(r.judged.ratio for r in rows) for policy, rows in self._rows_with_interval.items()}

    @property
    def raw_means(self) -> dict[str, float]:
        """The same of the ratios as measured."""
        return {policy: geometric_mean(r.raw for r in rows) for policy, rows in self._rows_with_interval.items()}

    @property
    def _rows_with_interval(self) -> dict[str, list[Row]]:
        by_policy = dict[str, list[Row]]()
        for row in self.rows:
            if isfinite(row.judged.low):
                by_policy.setdefault(row.policy, []).append(row)
        return by_policy

    @property
    def sections(self) -> dict[str, tuple[str, ...]]:
        """Title -> lines, without empty ones; the most important last, as a terminal shows the end."""
        several = len(self.by_kind) > 1

        def where(kind: int) -> str:
            return f" on {self.kinds.name(kind)}" if several else ""

        regressed = tuple(
            f"{r.key}: {r.policy}{where(r.kind)}: {r.judged.ratio:.3f} times as long [{interval(r.judged)}]"
            + (f", {r.raw:.3f} as measured, before the correction for drift" if r.judged.is_corrected else "")
            for r in self.of(Verdict.regressed)
        )
        changes = {
            "Compile times": self.compile,
            "Implementations": self.implementations,
            "Accuracy": self.accuracy,
            "Other statuses": self.statuses,
            "Mended": self.mended,
            "Newly failing": self.broken,
        }
        lists = {title: tuple(str(c) for c in all_lines) for title, all_lines in changes.items()}
        all_lines = {f"Only in {_names(self.a)}": self.missing, f"Only in {_names(self.b)}": self.added, **lists, "Regressed": regressed}
        return {title: lines for title, lines in all_lines.items() if lines}

    @property
    def title(self) -> str:
        return f"A = {_names(self.a)}, B = {_names(self.b)}, mode {self.a.mode.value}"

    @property
    def legend(self) -> str:
        """The meaning of the columns of times; '' if there are none."""
        if not self.rows:
            return ""
        verdicts = (
            f"same: within {self.threshold:.0%} either way; regressed, improved: beyond, with at most {ALPHA:.0%} chance of any false one "
            "among these"
        )
        if not self.is_corrected:
            return f"B / A: times as long, with its 95 % interval; {verdicts}"
        return (
            f"B / A: times as long, as measured; corrected: freed from the drift of the machine's peak, with its 95 % interval, which the "
            f"verdict goes by ({NOTHING}: not corrected); {verdicts}"
        )

    @property
    def summary(self) -> str:
        counts = [(verdict.value, len(self.of(verdict))) for verdict in Verdict] if self.rows else []
        counts += [("newly failing", len(self.broken)), ("mended", len(self.mended)), ("missing", len(self.missing))]
        counts += [("added", len(self.added))]
        always = (Verdict.regressed.value, "newly failing")
        counted = ", ".join(f"{n} {name}" for name, n in counts if n or name in always)
        unwanted = [f"{len(self.unwanted[name])} {name}" for name in self.fail_on if self.unwanted[name]]
        return counted + (f"; --fail-on: {', '.join(unwanted)}" if unwanted else "")


def compare(a: Side, b: Side, threshold: float, fail_on: tuple[str, ...] = (), *, other_machine: bool = False) -> Comparison:
    """All differences from a to b, in a's order of cases. fail_on: words of FAIL_ON. other_machine: times of all machines are compared,
    rather than those of one kind each.
    """
    kinds = Kinds.of([] if other_machine else [*a.machines, *b.machines])
    both = [(key, a.cases[key], b.cases[key]) for key in a.cases if key in b.cases]
    timed = [_Timed(key, *pair) for key, before, after in both for pair in _pairs(key.identity, before, after, kinds)]
    by_kind = [[t for t in timed if t.kind == kind] for kind in sorted({t.kind for t in timed})]
    judged = [judge([t.pair for t in of_kind], threshold) for of_kind in by_kind]
    changes = [_status(*case) for case in both]
    failing = [(_worst(before).is_failure, _worst(after).is_failure) for _, before, after in both]

    def statuses(was: bool, now: bool) -> tuple[Change, ...]:
        return tuple(c for c, (x, y) in zip(changes, failing, strict=True) if (x, y) == (was, now) and c.before != c.after)

    caveats = [text for of_kind, all_judged in zip(by_kind, judged, strict=True) for text in _caveats(of_kind, all_judged, kinds)]
    detectable = [j.found for all_judged in judged for j in all_judged if isfinite(j.found)]
    if detectable and len(a.files) == len(b.files) == 1:
        longer = f"{median(detectable) - 1:.0%} longer, or more"
        what = f"half of these cases must take {longer}, to be found regressed in {POWER:.0%} of comparisons"
        caveats.append(f"{what}; more runs a side (A.json,A2.json,A3.json B.json,B2.json,B3.json) find less")
    return Comparison(
        a,
        b,
        tuple(row for of_kind, all_judged in zip(by_kind, judged, strict=True) for row in _rows(of_kind, all_judged)),
        broken=statuses(False, True),
        mended=statuses(True, False),
        statuses=(*statuses(False, False), *statuses(True, True)),
        implementations=tuple(c for case in both for c in _implementations(*case)),
        accuracy=tuple(c for case in both for c in _accuracy(*case)),
        compile=tuple(c for case in both for c in _compile(*case, kinds)),
        missing=tuple(_lacking(a, b, kinds)),
        added=tuple(_lacking(b, a, kinds)),
        threshold=threshold,
        notes=(*notes(a, b), *caveats),
        fail_on=fail_on,
        kinds=kinds,
    )


# ---- times -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Timed:
    """What both sides timed. kind: of machine."""

    key: Key
    kind: int
    policy: str
    pair: Pair


def _pairs(identity: str, before: Sequence[CaseResult], after: Sequence[CaseResult], kinds: Kinds) -> Iterator[tuple[int, str, Pair]]:
    """The policies that both sides timed on one kind of machine, in the order of the first."""
    a, b = _runs(before, kinds), _runs(after, kinds)
    flops = max(c.result.flops for c in (*before, *after))
    yield from ((*key, Pair(identity, a[key], b[key], flops)) for key in a if key in b)


def _rows(timed: Sequence[_Timed], judged: Sequence[Judgement]) -> Iterator[Row]:
    for t, j in zip(timed, judged, strict=True):
        yield Row(t.key, t.policy, _typical(t.pair.a), _typical(t.pair.b), j, t.kind)


def _caveats(timed: Sequence[_Timed], judged: Sequence[Judgement], kinds: Kinds) -> Iterator[str]:
    """What to know about the times of one kind of machine."""
    where = f" on {kinds.name(timed[0].kind)}" if len(kinds) > 1 else ""
    if disturbed := list(dict.fromkeys(t.key for t in timed if moved(t.pair))):
        yield f"the machine's peak was not the same{where}, so other programs ran; no verdict on {', '.join(map(str, disturbed))}"
    if corrected := [t.pair for t, j in zip(timed, judged, strict=True) if j.is_corrected]:
        what = f"the machine's peak changed by {drift(corrected) - 1:+.1%} from A to B{where}"
        yield f"{what}: {len(corrected)} of {len(timed)} ratios are corrected for it, round by round; both are shown"


def _runs(cases: Sequence[CaseResult], kinds: Kinds) -> dict[tuple[int, str], tuple[Run, ...]]:
    """By kind of machine and policy."""
    found = dict[tuple[int, str], tuple[Run, ...]]()
    for case in cases:
        for timing, peaks in zip(case.result.timings, _peaks_by_policy(case.result), strict=True):
            key = (kinds.number(case.machine), timing.policy)
            found[key] = (*found.get(key, ()), Run(timing.timing.samples_s, peaks))
    return found


def _peaks_by_policy(r: Result) -> list[tuple[float, ...]]:
    """Per policy, the peaks of the rounds of the whole graph, which precede those of the rounds of single partitions.

    Policies are measured together, or one after another if memory does not suffice.
    """
    graph_rounds = [len(t.timing.samples_s) for t in r.timings]
    partition_rounds = [len(t.partitions[0].timing.samples_s) if len(t.partitions) > 1 else 0 for t in r.timings]
    count = len(r.peak_samples)
    if len(set(graph_rounds)) == 1 and count in (graph_rounds[0], graph_rounds[0] + max(partition_rounds)):
        return [r.peak_samples[: graph_rounds[0]]] * len(graph_rounds)
    for rounds in ([n + m for n, m in zip(graph_rounds, partition_rounds, strict=True)], graph_rounds):
        if count == sum(rounds):
            starts = [sum(rounds[:i]) for i in range(len(rounds))]
            return [r.peak_samples[start : start + n] for start, n in zip(starts, graph_rounds, strict=True)]
    return [()] * len(graph_rounds)


def _typical(runs: Sequence[Run]) -> float:
    return geometric_mean(median(r.times) for r in runs)


# ---- everything else -------------------------------------------------------------------------------------------------


def _worst(cases: Sequence[CaseResult]) -> Status:
    """A failure if a run has one, else the status of the last run."""
    return next((c.result.status for c in cases if c.result.status.is_failure), cases[-1].result.status)


def _status(key: Key, before: Sequence[CaseResult], after: Sequence[CaseResult]) -> Change:
    was, now = _worst(before), _worst(after)
    reason = next((f" ({c.result.reason})" for c in after if c.result.status is now and c.result.reason), "")
    return Change(key, "", was.value, now.value + (reason if was is not now else ""), now)


def _implementations(key: Key, before: Sequence[CaseResult], after: Sequence[CaseResult]) -> Iterator[Change]:
    """Partitions that run on other implementations in the last run of each side; what a library does not tell is no change."""
    a, b = before[-1].result.implementations, after[-1].result.implementations
    for policy in (policy for policy in a if policy in b):
        for position, (was, now) in enumerate(zip(a[policy], b[policy], strict=False)):
            if was and now and was != now:
                yield Change(key, f"{policy}: partition {position}", names(was), names(now))


def _accuracy(key: Key, before: Sequence[CaseResult], after: Sequence[CaseResult]) -> Iterator[Change]:
    """Outputs whose L2 error changed by the factor ACCURACY or more; the worst run of each side counts."""
    a, b = _distances(before), _distances(after)
    for place in a:
        if place in b and ((was := a[place]).l2, was.nonfinite) != ((now := b[place]).l2, now.nonfinite):
            small, large = sorted((was.l2, now.l2))
            if was.nonfinite != now.nonfinite or not large < ACCURACY * small:  # nan is a change too
                where = f"{was.policy}: {was.where}: tensor {was.tensor} {was.dtype}"
                yield Change(key, where, _error_text(was), _error_text(now))


def _error_text(a: Accuracy) -> str:
    """NaN and infinities in the wrong place first, which L2 leaves out."""
    nonfinite = f"{a.nonfinite} wrong in NaN or infinity, " if a.nonfinite else ""
    return f"{nonfinite}L2 {a.l2:.3g}, {a.max_ulp:.3g} ulp"


def _distances(cases: Sequence[CaseResult]) -> dict[tuple[str, str, int, str], Accuracy]:
    worst = dict[tuple[str, str, int, str], Accuracy]()
    for x in (x for c in cases for x in c.result.accuracy):
        place = (x.policy, x.where, x.tensor, x.dtype)
        if place not in worst or x.nonfinite > worst[place].nonfinite or not x.l2 <= worst[place].l2:
            worst[place] = x
    return worst


def _compile(key: Key, before: Sequence[CaseResult], after: Sequence[CaseResult], kinds: Kinds) -> Iterator[Change]:
    """Policies whose compile time changed by COMPILE and COMPILE_S or more; each side's best run counts, cold and warm starts apart."""
    common = {kinds.number(c.machine) for c in before} & {kinds.number(c.machine) for c in after}
    a, b = (_compile_times([c for c in cases if kinds.number(c.machine) in common]) for cases in (before, after))
    for what in (w for w in a if w in b):
        small, large = sorted((a[what], b[what]))
        if large >= COMPILE * small and large - small >= COMPILE_S:
            yield Change(key, what, f"{a[what] * 1e3:.0f} ms", f"{b[what] * 1e3:.0f} ms")


def _compile_times(cases: Sequence[CaseResult]) -> dict[str, float]:
    best = dict[str, float]()
    for t in (t for c in cases for t in c.result.timings):
        what = f"{t.policy}: compile time{' from disk' if t.is_warm else ''}"
        best[what] = min(t.compile_s, best.get(what, t.compile_s))
    return best


def _lacking(one: Side, other: Side, kinds: Kinds) -> Iterator[str]:
    """Cases that only one side has, and policies of common cases that only one side timed, or on other kinds of machines."""
    for key, cases in one.cases.items():
        if key not in other.cases:
            yield str(key)
            continue
        mine, theirs = (_runs(side, kinds) for side in (cases, other.cases[key]))
        policies = {policy for _, policy in theirs}
        yield from dict.fromkeys(f"{key}: {policy}" for _, policy in mine if theirs and policy not in policies)
        compared = {policy for _, policy in mine.keys() & theirs.keys()}
        yield from (f"{key}: {policy} on {kinds.name(kind)}" for kind, policy in mine if policy in policies - compared)


def _names(side: Side) -> str:
    return ",".join(f.name for f in side.files)


def interval(j: Judgement) -> str:
    """As text: '0.98 .. 1.03', or NOTHING."""
    return interval_text(j.low, j.high, ".3f", " .. ")


def corrected(j: Judgement) -> str:
    """The ratio corrected for drift; NOTHING where there was no correction."""
    return f"{j.ratio:.3f}" if j.is_corrected else NOTHING
