"""Preparations of a run before its first case: the machine, the run's origin, and the files that results are collected in.

Modules that need numpy, git or a database are imported inside functions, as in cli.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from benchgraph.core.files import exists
from benchgraph.harness.resume import GrowingReports, earlier
from benchgraph.options.argv import CommandLine
from benchgraph.options.problem import Problem
from benchgraph.results.machine import Machine
from benchgraph.results.result import CaseResult, Origin, ResultSet

if TYPE_CHECKING:
    from benchgraph.analysis.history.recording import Recording
    from benchgraph.harness.bench import Bench


@dataclass(frozen=True)
class StartedRun:
    """todo: the problems still to run. held: results from --resume. is_resumed: whether its file existed."""

    todo: Sequence[Problem] = ()
    held: tuple[CaseResult, ...] = ()
    origin: Origin | None = None
    recording: Recording | None = None
    is_resumed: bool = False


def machine_of(line: CommandLine, bench: Bench) -> Machine | None:
    """Described only if a report needs it, since measuring the peaks takes a second."""
    if not line.globals.mode.is_timed and not line.globals.reports and not line.globals.history:
        return None
    from benchgraph.harness.machine import describe

    return describe(line.globals, bench)


def begin(line: CommandLine, machine: Machine | None, reports: GrowingReports, others: Sequence[Machine] = ()) -> StartedRun:
    """Take over results of --resume, check the history, and begin the growing reports. Raises BenchgraphError.

    machine: that of the run; others: those that run cases beside it.
    """
    resumed, found = tuple[CaseResult, ...](), None
    is_resumed = bool(line.globals.resume) and exists(Path(line.globals.resume))
    if machine and line.globals.resume:
        resumed, found = earlier(Path(line.globals.resume), [machine, *others], line.problems)
    origin, recording = found, None
    if machine and not origin:
        from benchgraph.analysis.run_origin import origin as origin_of

        origin = origin_of(line.globals.commit)
    if origin and line.globals.history:
        from benchgraph.analysis.history.recording import Recording

        recording = Recording(line.globals.history, origin)
    begun = ResultSet(line.globals.mode, machine, resumed, 0.0, origin, len(line.problems), line.shard)
    reports.open(line.globals, begun)
    if recording:
        reports.open_one(recording.files, begun)
    done = {case.index for case in resumed}
    return StartedRun([p for p in line.problems if p.index not in done], resumed, origin, recording, is_resumed)
