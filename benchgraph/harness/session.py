"""Runs a command line from its first case to its reports.

Modules that need numpy, llvmlite or multiprocessing are imported inside functions, so that errors in words are quick.
"""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Generator, Sequence
from contextlib import closing, redirect_stdout
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, TextIO

import click

from benchgraph.core.config import config
from benchgraph.core.errors import BenchgraphError
from benchgraph.core.progress import begin_item
from benchgraph.harness.interrupt import awaiting, code_of, interruption_text
from benchgraph.harness.outputs import STDOUT, full_output, kept_apart, save_elsewhere, write_out
from benchgraph.harness.resume import STREAMED, GrowingReports
from benchgraph.harness.standard_streams import enduring, lost
from benchgraph.harness.start_run import StartedRun, begin, machine_of
from benchgraph.measure.phases import table as phase_table
from benchgraph.options.argv import CommandLine
from benchgraph.options.knobs import Globals
from benchgraph.options.plugins import load_report, shown
from benchgraph.options.problem import Problem
from benchgraph.present.progress import progress_line
from benchgraph.present.screen import Screen, progress, summarise, warn
from benchgraph.results.exit_codes import ExitCode
from benchgraph.results.json_report import unwritable, write_whole
from benchgraph.results.machine import Machine
from benchgraph.results.result import UNWANTED, CaseResult, FinishedCase, ResultSet

if TYPE_CHECKING:
    from benchgraph.harness.bench import Bench


@dataclass(frozen=True)
class RunOutcome:
    code: int
    failures: tuple[CaseResult, ...] = ()


class Elsewhere(Protocol):
    """Other machines that run the cases, and which results name."""

    @property
    def at_once(self) -> int:
        """How many cases have run at the same time, at most."""

    def meet(self) -> Sequence[Machine]:
        """The machines that are there, one at least. Raises BenchgraphError if nobody can run the cases."""

    def run(self, problems: Sequence[Problem]) -> Generator[FinishedCase]:
        """The finished cases, in the order in which they finish. Raises BenchgraphError if they can no longer be run."""


def run_line(line: CommandLine, bench: Bench, jobs: int, elsewhere: Elsewhere | None = None) -> RunOutcome:
    """Run the cases, print results as they finish, write reports at the end. jobs: worker processes, 0 for none."""
    with enduring("stdout"):
        with kept_apart(line.globals) as out:
            ran = _run_line(line, bench, jobs, elsewhere, out)
        bad = lost(sys.stdout)
    if bad is None:
        return ran
    is_told = any(file == STDOUT for _, file in line.globals.reports)  # the report's writer has reported it
    if not is_told and bad.errno != errno.EPIPE:  # a closed pipe needs no message
        warn(full_output(bad))
    return replace(ran, code=ExitCode.failed) if ran.code == ExitCode.ok else ran


def _run_line(line: CommandLine, bench: Bench, jobs: int, elsewhere: Elsewhere | None, out: TextIO) -> RunOutcome:
    """out: where reports to - go."""
    started, screen, machine = bench.clock(), Screen(line.problems), None
    reports, code, why = GrowingReports(warn), ExitCode.refused, ""
    stopped: KeyboardInterrupt | None = None
    begun: StartedRun | None = None
    is_in_vain = not line.globals.history and all(file in ("", STDOUT) for _, file in line.globals.reports)  # except for printed output
    ran = list[CaseResult]()
    try:
        with progress(line.problems) as step:
            if line.globals.mode.is_timed:
                begin_item("the machine's peaks")
            with awaiting("the machine to be measured"):
                others = () if elsewhere is None else elsewhere.meet()
                machine = machine_of(line, bench) if elsewhere is None else others[0]
            begun = begin(line, machine, reports, others)
            code = ExitCode.failed  # for later errors, since cases have run
            screen.take_over(begun.held, line.globals.resume, begun.is_resumed)
            for _ in begun.held:
                step()
            with awaiting("the case to return"), closing(_results(begun.todo, bench, jobs, elsewhere)) as finished:
                for done in finished:
                    ran.append(done.case)
                    reports.add(done.case, bench.clock() - started)
                    screen.add(done)
                    step()
                    if line.globals.fail_fast and done.case.result.status.is_failure:
                        why = "stopped at the first failure (--fail-fast)"
                        break
                    if is_in_vain and lost(out):
                        why = "stopped"
                        break
    except KeyboardInterrupt as by:
        stopped, why = by, interruption_text(by)
    except BenchgraphError as bad:
        warn(str(bad))
        return RunOutcome(code)
    finally:
        reports.close()
    if begun is None:  # reports of earlier runs are not overwritten
        assert stopped is not None
        click.echo(f"{why} after 0 of {len(line.problems)} cases")
        return RunOutcome(code_of(stopped))
    screen.rest()
    by_index = {case.index: case for case in (*begun.held, *ran)}
    cases, elapsed_s = tuple(by_index[p.index] for p in line.problems if p.index in by_index), bench.clock() - started
    results = ResultSet(line.globals.mode, machine, cases, elapsed_s, begun.origin, len(line.problems), line.shard)
    recorded = begun.recording is None or begun.recording.finish(results, click.echo, warn)
    with awaiting("the reports to be written"), progress_line():
        reported = _report(line.globals, results, out)
    at_once = max(jobs, 1) if elsewhere is None else elsewhere.at_once
    phases = phase_table((c.phases for c in ran), at_once * results.elapsed_s)
    if len(results.cases) < len(line.problems):
        click.echo(f"{why} after {len(results.cases)} of {len(line.problems)} cases")
    summarise(line.globals, results, phases)
    _say_unused_rows(line.problems, results)
    if stopped:
        return RunOutcome(code_of(stopped))
    is_good = not _has_unwanted(line.globals, results) and reported and recorded
    return RunOutcome(results.exit_code if is_good else ExitCode.failed, results.failures)


def _say_unused_rows(problems: Sequence[Problem], results: ResultSet) -> None:
    if config().tuning or any(p.globals.tuning for p in problems):
        from benchgraph.harness.tuning_rows import unused

        for text in unused(problems, results.cases):
            warn(text)


def _has_unwanted(settings: Globals, results: ResultSet) -> bool:
    """Whether cases have a status that --fail-on names, which is then printed."""
    counts = {name: results.counts[UNWANTED[name]] for name in settings.fail_on if results.counts[UNWANTED[name]]}
    if counts:
        text = ", ".join(f"{count} {name}" for name, count in counts.items())
        warn(f"--fail-on={','.join(settings.fail_on)}: {text}; exit code {ExitCode.failed:d}")
    return bool(counts)


def _results(problems: Sequence[Problem], bench: Bench, jobs: int, elsewhere: Elsewhere | None) -> Generator[FinishedCase]:
    """The finished cases, in the order in which they finish."""
    if elsewhere is not None:
        yield from elsewhere.run(problems)
    elif jobs:
        from benchgraph.harness.isolate import run_isolated

        yield from run_isolated(problems, bench, jobs)
    else:
        from benchgraph.harness.case import run_all

        yield from map(FinishedCase, run_all(problems, bench, lambda text: click.echo(text, err=True)))


def _full(report: str, file: Path) -> str:
    """The remedy for a disk that is too full for a report; the growing report has what fitted."""
    is_kept = report == STREAMED and file.is_file()
    return f"make room there, then --resume={file} runs what is missing" if is_kept else "make room there, or name another one"


def _report(settings: Globals, results: ResultSet, out: TextIO) -> bool:
    """Render every requested report, and the table in mode P. False if one could not be written to its place."""
    written = True
    wanted = settings.reports
    if settings.mode.is_timed and ("console", "") not in wanted:
        wanted = (("console", ""), *wanted)
    for name, file in wanted:
        begin_item(f"{name} report")
        with redirect_stdout(out if file == STDOUT else sys.stdout):  # determines whether a table is coloured
            text = shown(name, results, is_verbose=settings.verbose > 0) if file in ("", STDOUT) else load_report(name)(results)
        if not file:
            click.echo(text)
            continue
        try:
            if file == STDOUT:
                write_out(out, text)
                continue
            write_whole(Path(file), text)
        except OSError as bad:
            why = unwritable(bad, f"--report={name}:{file}", _full(name, Path(file)))
            warn(f"{why}; {_saved(name, text, results)}")
            written = False
        else:
            click.echo(f"{name} report: {file}")
    return written


def _saved(name: str, text: str, results: ResultSet) -> str:
    """Save a report that could not be written to its place. Returns a message with the place."""
    key = results.origin.uid[:8] if results.origin else str(os.getpid())
    if path := save_elsewhere(text, name, key):
        return f"it is in {path}"
    click.echo(text)
    return "no other place takes it either, so it is printed"
