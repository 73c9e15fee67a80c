"""--resume FILE: results of an earlier run, interrupted or not, are reused; only missing cases run.

For that, every JSON report to a file grows while cases finish.
"""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from benchgraph.core.errors import InvalidArguments, UsageError, within
from benchgraph.core.files import exists, read_text
from benchgraph.core.formats import counted
from benchgraph.harness.outputs import STDOUT
from benchgraph.options.knobs import Globals
from benchgraph.options.problem import Problem
from benchgraph.results.growing_report import GrowingReport
from benchgraph.results.json_report import is_full, is_plain, parse, source, unwritable
from benchgraph.results.machine import Machine, united
from benchgraph.results.result import CaseResult, Origin, ResultSet, placed

STREAMED = "json"  # the growing report


def earlier(file: Path, machines: Sequence[Machine], problems: Sequence[Problem]) -> tuple[tuple[CaseResult, ...], Origin | None]:
    """The results of a JSON report for these problems, with the problems' indices, and the origin of their run, which continues; none if
    the file does not exist. machines: those that run the cases, at least one; the first is that of the run.

    A result applies to one problem with the same repro line, unless the problem's file is newer than the report. Results of another machine
    name it. Raises InvalidArguments for a file that is no JSON report, or whose results must not be mixed with those of these machines (see
    `_differences`). Raises UsageError for a file with results of other problems, which the run would lose when it writes the file.
    """
    if not exists(file):
        return (), None
    try:
        text = read_text(file)
    except OSError as bad:
        raise InvalidArguments(f"cannot read the file: {bad.strerror}", where=f"--resume={file}") from bad
    with within(f"--resume={file}"):
        results = parse(text)
    if other := _differences(results, machines):
        fix = "run the cases anew into another file"
        raise InvalidArguments(f"its results come from elsewhere: {other}", where=f"--resume={file}", fix=fix)
    left = defaultdict[str, deque[CaseResult]](deque)
    for case in placed(results.cases, results, machines[0]):
        left[case.repro].append(case)
    _need_all_asked(file, results, problems)
    written = file.stat().st_mtime
    same = [p for p in problems if not (p.file and p.file.stat().st_mtime > written)]
    return tuple(replace(left[p.repro].popleft(), index=p.index) for p in same if left[p.repro]), results.origin


def _need_all_asked(file: Path, results: ResultSet, problems: Sequence[Problem]) -> None:
    """Raise UsageError if the file has more results of a repro line than there are problems of it."""
    requested = Counter(p.repro for p in problems)
    if not (lost := Counter(case.repro for case in results.cases) - requested):
        return
    what = f"it has {counted(lost.total(), 'case')} that this line does not ask for, such as '{next(iter(lost))}'"
    fix = "give it the options of its own run, or name another file"
    raise UsageError(f"{what}; they would be lost", where=f"--resume={file}", fix=fix)


def _differences(then: ResultSet, now: Sequence[Machine]) -> str:
    """Why the results cannot stand beside those of these machines and this source code, as '<what> then, <what> now'; '' if they can.

    A verdict holds for the code that was run, which is that of the instruction set, wherever it ran: a batch goes on when its machine is
    replaced by another one. Times hold for one kind of machine.
    """
    if not then.machines or any(then.machine_of(case) is None for case in then.cases):
        return "an unknown machine"
    versions = now[0].versions
    pairs = [(name, m.versions.get(name), versions.get(name)) for m in then.machines for name in {**m.versions, **versions}]
    pairs += [("instruction set", m.isa, now[0].isa) for m in then.machines if all(m.isa != n.isa for n in now)]
    pairs += [(what, *pair) for m in _timed_on(then) if all(map(m.differences, now)) for what, pair in m.differences(now[0]).items()]
    pairs.append(("benchgraph's code", then.source, source()))
    return ", ".join(dict.fromkeys(f"{what} was {old}, is {new}" for what, old, new in pairs if old != new))


def _timed_on(results: ResultSet) -> Iterator[Machine]:
    """The machines that times come from."""
    machines = (results.machine_of(case) for case in results.cases if case.result.timings)
    yield from united(m for m in machines if m is not None).values()


@dataclass
class GrowingReports:
    """The JSON reports that grow. warn: called when one cannot grow further, such as on a full disk; the run continues without it."""

    warn: Callable[[str], None]
    streams: dict[Path, GrowingReport] = field(default_factory=dict)

    def open(self, settings: Globals, begun: ResultSet) -> None:
        """Begin every JSON report of these settings with the present results. Raises BenchgraphError for a file that cannot be written."""
        for name, file in settings.reports:
            path = Path(file)
            if name != STREAMED or file in ("", STDOUT) or not is_plain(path):
                continue
            try:
                self.streams[path] = GrowingReport(path, begun)
            except OSError as bad:
                raise unwritable(bad, f"--report={name}:{file}") from bad

    def open_one(self, files: Sequence[Path], begun: ResultSet) -> None:
        """Begin a report in the first of the files that can be written. Raises InvalidArguments if none can."""
        for path in files:
            try:
                self.streams[path] = GrowingReport(path, begun)
            except OSError as bad:
                what = f"cannot keep results while the run lasts: {bad.strerror}"
                fix = "make room there" if is_full(bad) else "run in a folder that may be written"
            else:
                return
        raise InvalidArguments(what, where=str(files[0]), fix=fix)

    def add(self, case: CaseResult, elapsed_s: float) -> None:
        for path, stream in list(self.streams.items()):
            try:
                stream.add(case, elapsed_s)
            except OSError as bad:
                fix = "make room there before the run ends, when all of them are written"
                self.warn(f"{path}: cannot keep further results there: {bad.strerror}; {fix}")
                self.streams.pop(path).close()

    def close(self) -> None:
        while self.streams:
            self.streams.popitem()[1].close()
