"""The output of a run, as benchdnn's: cases as they finish, and the closing lines."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field

import click

from benchgraph.core.formats import counted
from benchgraph.core.printable import printable_lines
from benchgraph.options.knobs import Globals
from benchgraph.options.problem import Problem
from benchgraph.present.progress import progress_line
from benchgraph.present.word_wrap import for_stderr
from benchgraph.results.result import CaseResult, FinishedCase, ResultSet

FAILURES_SHOWN = 10  # benchdnn's


def warn(text: str) -> None:
    """Print on stderr, wrapped between words on a terminal."""
    click.echo(for_stderr(f"benchgraph: {printable_lines(text)}"), err=True)


@dataclass
class Screen:
    """Prints finished cases in the order of their problems, each as soon as all before it have been printed."""

    problems: Sequence[Problem]
    shown: list[CaseResult] = field(default_factory=list)
    waiting: dict[int, FinishedCase] = field(default_factory=dict)

    def add(self, done: FinishedCase) -> None:
        self.waiting[done.case.index] = done
        while len(self.shown) < len(self.problems) and self.problems[len(self.shown)].index in self.waiting:
            self._show(self.problems[len(self.shown)])

    def take_over(self, results: Sequence[CaseResult], file: str, is_there: bool) -> None:
        """Print results of --resume. file: '' for none. is_there: whether it existed."""
        if file and not is_there:
            click.echo(f"{file}: no such file yet; all {counted(len(self.problems), 'case')} run")
        elif file:
            elsewhere = sum(case.machine is not None for case in results)
            where = f", {elsewhere} of them on another machine" if elsewhere else ""
            click.echo(f"{file}: {len(results)} of {len(self.problems)} cases are done already{where}")
        for case in results:
            self.add(FinishedCase(case))

    def rest(self) -> None:
        """Print the cases that wait for one that did not finish."""
        for problem in self.problems:
            if problem.index in self.waiting:
                self._show(problem)

    def _show(self, problem: Problem) -> None:
        done = self.waiting.pop(problem.index)
        for text, err in ((done.out, False), (done.err, True)):
            if text:
                click.echo(text, nl=not text.endswith("\n"), err=err)
        for text in _perf(problem, done.case, is_first=not self.shown):
            click.echo(text)
        self.shown.append(done.case)
        click.echo(done.case.line)
        for text in _contender_lines(done.case):
            click.echo(text)


def _perf(problem: Problem, case: CaseResult, *, is_first: bool) -> Iterator[str]:
    """benchdnn's perf lines of a timed case, the first time under their header."""
    if not problem.globals.mode.is_timed:
        return
    from benchgraph.present.perf_line import header, lines

    if is_first:
        yield header(problem.globals.perf_template)
    yield from lines(problem.globals.perf_template, problem, case)


def _contender_lines(case: CaseResult) -> Iterator[str]:
    if case.result.outcomes:
        from benchgraph.present.contender_outcomes import lines

        yield from lines(case)


def progress(problems: Sequence[Problem]) -> AbstractContextManager[Callable[[], None]]:
    """The progress line of a run. Yields the function to call when a case is done."""
    return progress_line("cases", len(problems), is_measuring=any(p.globals.mode.is_timed for p in problems))


def summarise(settings: Globals, results: ResultSet, phases: str) -> None:
    failures = results.failures
    if failures and "failures" not in settings.summary.split("+"):
        click.echo("=== Failed cases summary (--summary=no-failures to disable) ===")
        for case in failures[:FAILURES_SHOWN]:
            click.echo(case.line)
        if len(failures) > FAILURES_SHOWN:
            click.echo(f"(... {len(failures) - FAILURES_SHOWN} more cases ...)")
        click.echo("=" * 30)
    if settings.verbose:
        click.echo(phases)
    if any(c.result.outcomes for c in results.cases):
        from benchgraph.present.contender_outcomes import summary

        click.echo(summary(results.cases))
    click.echo(results.summary)
    click.echo(f"total: {results.elapsed_s:.2f}s;")
