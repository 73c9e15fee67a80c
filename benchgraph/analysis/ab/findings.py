"""What a comparison of two versions may find of a case: kinds, and findings of them."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from benchgraph.analysis.inference.verdicts import Judgement, Verdict
from benchgraph.core.formats import interval
from benchgraph.results.result import Result, Status


class Kind(Enum):
    """The value is its name in reports. In the order of reports, what is worse first."""

    wrong = "wrong"
    unsupported = "unsupported"
    fell_to_reference = "fell to reference implementation"
    slower = "slower"
    cannot_tell = "cannot tell"
    other_implementation = "other implementation"
    compile_time = "compile time"
    mended = "mended"
    faster = "faster"
    same = "same"

    @property
    def is_worse(self) -> bool:
        """Whether one of these is enough for the exit code 1."""
        return self in (Kind.wrong, Kind.unsupported, Kind.fell_to_reference, Kind.slower)

    @property
    def is_change(self) -> bool:
        """Whether it is shown at once, rather than folded or counted."""
        return self not in (Kind.cannot_tell, Kind.same)


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
        return "" if j is None else f"{j.ratio:.3f} [{interval(j.low, j.high, '.3f', ' .. ')}]"

    def __str__(self) -> str:
        where = f"{self.case}: {self.policy}" if self.policy else self.case
        times = f": {self.ratio} times as long" if self.judged and self.kind is not Kind.cannot_tell else ""
        return f"{where}{times}: {self.before} -> {self.after}"


def of_status(case: str, old: Result, new: Result) -> Finding | None:
    """What became of the status of a case: None if it is as right, as wrong or as unsupported as before."""
    was, now = _sort(old.status), _sort(new.status)
    if was is now:
        return None
    return Finding(now or Kind.mended, case, "", status_in_words(old), status_in_words(new))


def is_usable(result: Result) -> bool:
    """Whether the case ran, and nothing wrong was seen."""
    return _sort(result.status) is None


def _sort(status: Status) -> Kind | None:
    """wrong, unsupported, or None for a case that ran."""
    if status in (Status.FAILED, Status.UNTESTED):
        return Kind.wrong
    return None if status.is_pass or status is Status.MISTRUSTED else Kind.unsupported


def status_in_words(result: Result) -> str:
    return result.status.value + (f" ({result.reason})" if result.reason else "")
