"""Checks and launches of two versions, by the run's own machinery: mode C of each, mode P of both.

A launch is a run in new processes: of a worker, and in it of each library. The worker times every case with both, interleaved. They take
turns in being the first, so that what the place in that order costs, if anything, is not one version's.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from typing import TypeAlias

from benchgraph.analysis.ab.comparison import CaseRun, Comparison, Side, Stop, compare
from benchgraph.analysis.ab.judge import Plan
from benchgraph.harness.ab.sides import policies
from benchgraph.harness.bench import Bench
from benchgraph.harness.isolate import run_isolated
from benchgraph.options.problem import Problem
from benchgraph.options.repro import split
from benchgraph.results.machine import Machine
from benchgraph.results.mode import Mode
from benchgraph.results.result import FinishedCase, Result

Run: TypeAlias = Callable[[Sequence[Problem], Bench, int], Iterator[FinishedCase]]


@dataclass(frozen=True)
class Contest:
    """old, new: the versions. jobs: processes that check at the same time; cases are timed one by one. run: as run_isolated.

    step: called when a case was checked, or timed in one launch.
    """

    old: Side
    new: Side
    bench: Bench
    jobs: int = 1
    run: Run = run_isolated
    step: Callable[[], None] = lambda: None

    def check(self, problems: Sequence[Problem], *versions: Side) -> list[tuple[Result, ...]]:
        """Results in mode C: per problem, one of each version."""
        results = self._results([_with(p, Mode.correctness, side.word) for side in versions for p in problems], self.jobs)
        return [tuple(results[i :: len(problems)]) for i in range(len(problems))]

    def launch(self, problems: Sequence[Problem], number: int) -> list[Result]:
        """Results of both versions in mode P, in new processes."""
        first, second = (self.old, self.new) if number % 2 == 0 else (self.new, self.old)
        return self._results([_with(p, Mode.performance, first.word, second.word) for p in problems], 1)

    def _results(self, problems: Sequence[Problem], jobs: int) -> list[Result]:
        """In the order of the problems."""
        found = dict[tuple[int, str], Result]()
        with closing(self._each(problems, jobs)) as finished:  # so that no process outlives an interruption
            for done in finished:
                found[done.case.index, done.case.repro] = done.case.result
                self.step()
        return [found[p.index, p.repro] for p in problems]

    def _each(self, problems: Sequence[Problem], jobs: int) -> Generator[FinishedCase, None, None]:
        if problems:
            yield from self.run(problems, self.bench, jobs)


def contested(contest: Contest, problems: Sequence[Problem], threshold: float, plan: Plan, machine: Machine | None = None) -> Comparison:
    """All cases checked, and timed by both versions as the plan says. After Ctrl-C, what whole launches say, if one is complete.

    Raises KeyboardInterrupt before.
    """
    checked = zip(problems, contest.check(problems, contest.old, contest.new), strict=True)
    runs = [case_run(p, contest, old, new) for p, (old, new) in checked]
    todo, number = {i for i, run in enumerate(runs) if run.is_timed}, 0
    while True:
        for _ in range(plan.launches):
            order = sorted(todo)
            try:
                results = contest.launch([problems[i] for i in order], number)
            except KeyboardInterrupt as by:
                if not number:
                    raise
                return replace(compare(runs, contest.old, contest.new, threshold, plan.cut(number), machine), stopped=Stop(by, number))
            for i, result in zip(order, results, strict=True):
                runs[i] = replace(runs[i], launches=runs[i].launches | {number: result})
            number += 1
        found = compare(runs, contest.old, contest.new, threshold, plan, machine)
        todo = found.undecided
        if not todo or number >= plan.launches * plan.looks:
            return found


def case_run(problem: Problem, contest: Contest, old: Result, new: Result) -> CaseRun:
    """A case that was checked."""
    group = problem.batch or problem.driver.name
    return CaseRun(split(problem.repro).identity, group, policies(problem.globals, contest.old, contest.new), old, new, {})


def _with(problem: Problem, mode: Mode, *libraries: str) -> Problem:
    return replace(problem, globals=replace(problem.globals, mode=mode, library=libraries))
