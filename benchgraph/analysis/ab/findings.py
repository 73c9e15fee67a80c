"""What a comparison of two versions may find of a case: kinds, and findings of them."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from math import isnan

from benchgraph.analysis.inference.verdicts import Judgement, Verdict
from benchgraph.core.formats import NOTHING
from benchgraph.results.result import Result, Status


class Kind(Enum):
    """The value is its name in reports. In the order of reports, what is worse first."""

    wrong = "wrong"
    unsupported = "unsupported"
    fell_to_reference = "fell to reference implementation"
    slower = "slower"
    fails_on_both = "fails on both"
    cannot_tell = "cannot tell"
    not_comparable = "not comparable"
    other_implementation = "other implementation"
    compile_time = "compile time"
    mended = "mended"
    faster = "faster"
    same = "same"
    skipped_on_both = "skipped on both"

    @property
    def is_worse(self) -> bool:
        """Whether one of these is enough for the exit code 1."""
        return self in (Kind.wrong, Kind.unsupported, Kind.fell_to_reference, Kind.slower, Kind.fails_on_both)

    @property
    def is_of_neither(self) -> bool:
        """Whether neither version could run the case, so that nothing of them was compared."""
        return self in (Kind.fails_on_both, Kind.not_comparable, Kind.skipped_on_both)

    @property
    def is_change(self) -> bool:
        """Whether it is shown at once, rather than folded or counted."""
        return self not in (Kind.cannot_tell, Kind.same, Kind.skipped_on_both)


MODERATE = 1e-2, 1e3  # ratios between these are written with three decimals, others with an exponent
ERRORS = {Status.FAILED, Status.UNTESTED, Status.INVALID_ARGUMENTS}  # statuses that a run fails for, though the library has the ops
OF_VERDICT = {Verdict.regressed: Kind.slower, Verdict.improved: Kind.faster, Verdict.same: Kind.same, Verdict.unknown: Kind.cannot_tell}


@dataclass(frozen=True)
class Finding:
    """case: its identity. policy: '' for a status. before, after: in words, of OLD and of NEW. judged: of times, else None."""

    kind: Kind
    case: str
    policy: str
    before: str
    after: str
    judged: Judgement | None = None

    @property
    def ratio(self) -> str:
        """How many times as long NEW takes, with its interval; '' without times."""
        j = self.judged
        return "" if j is None else f"{j.ratio:.3f} [{limits(j.low, j.high)}]"

    def __str__(self) -> str:
        where = f"{self.case}: {self.policy}" if self.policy else self.case
        times = f": {self.ratio} times as long" if self.judged and self.kind is not Kind.cannot_tell else ""
        change = self.before if self.before == self.after else f"{self.before} -> {self.after}"
        return f"{where}{times}: {change}"


def limits(low: float, high: float) -> str:
    """The ends of an interval of a ratio, however wide, since verdicts follow from it; NOTHING where there is none."""
    return NOTHING if isnan(low) or isnan(high) else f"{_end(low)} .. {_end(high)}"


def _end(ratio: float) -> str:
    return f"{ratio:.3f}" if MODERATE[0] <= ratio < MODERATE[1] else f"{ratio:.1e}"


def of_status(case: str, old: Result, new: Result) -> Finding | None:
    """What became of the status of a case, or why neither version ran it; None if both did."""
    was, now = _sort(old.status), _sort(new.status)
    if was is None and now is None:
        return None
    kind = _of_neither(old.status, new.status) if was is now else now or Kind.mended
    return Finding(kind, case, "", status_in_words(old), status_in_words(new))


def is_usable(result: Result) -> bool:
    """Whether the case ran, and nothing wrong was seen."""
    return _sort(result.status) is None


def _sort(status: Status) -> Kind | None:
    """wrong, unsupported, or None for a case that ran."""
    if status in (Status.FAILED, Status.UNTESTED):
        return Kind.wrong
    return None if status.is_pass or status is Status.MISTRUSTED else Kind.unsupported


def _of_neither(old: Status, new: Status) -> Kind:
    """An error of the case, or a result that is wrong on both, is a failure; what neither supports is none."""
    if old is Status.SKIPPED and new is Status.SKIPPED:
        return Kind.skipped_on_both
    return Kind.fails_on_both if {old, new} <= ERRORS else Kind.not_comparable


def status_in_words(result: Result) -> str:
    return result.status.value + (f" ({result.reason})" if result.reason else "")
