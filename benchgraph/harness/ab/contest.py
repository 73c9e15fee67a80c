"""Checks and launches of two versions, by the run's own machinery: mode C of each, mode P of both.

A launch is a run in new processes: of a worker, and in it of each library. The worker times every case with both, interleaved. They take
turns in being the first, so that what the place in that order costs, if anything, is not one version's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from benchgraph.analysis.ab.comparison import CaseRun, Comparison, Policies, Side, compare
from benchgraph.analysis.ab.judge import Plan
from benchgraph.harness.bench import Bench
from benchgraph.harness.isolate import run_isolated
from benchgraph.options.problem import Problem
from benchgraph.options.repro import split
from benchgraph.results.mode import Mode
from benchgraph.results.result import FinishedCase, Machine, Result

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

    def check(self, problems: Sequence[Problem], side: Side) -> dict[int, Result]:
        """Results of one version in mode C, by the problem's index."""
        return self._results([_with(p, Mode.correctness, side.word) for p in problems], self.jobs)

    def launch(self, problems: Sequence[Problem], number: int) -> dict[int, Result]:
        """Results of both versions in mode P, in new processes."""
        first, second = (self.old, self.new) if number % 2 == 0 else (self.new, self.old)
        return self._results([_with(p, Mode.performance, first.word, second.word) for p in problems], 1)

    def _results(self, problems: Sequence[Problem], jobs: int) -> dict[int, Result]:
        found = dict[int, Result]()
        for done in self.run(problems, self.bench, jobs) if problems else ():
            found[done.case.index] = done.case.result
            self.step()
        return found


def contested(
    contest: Contest,
    problems: Sequence[Problem],
    policies: Sequence[Policies],
    threshold: float,
    plan: Plan,
    machine: Machine | None,
) -> Comparison:
    """All cases checked, and timed by both versions as the plan says."""
    old, new = (contest.check(problems, side) for side in (contest.old, contest.new))
    runs = [CaseRun(split(p.repro).identity, p.batch or p.driver.name, old[p.index], new[p.index], {}) for p in problems]
    todo = {i for i, run in enumerate(runs) if run.is_timed}
    number = 0
    while True:
        for _ in range(plan.launches):
            for i, result in _by_position(problems, contest.launch([problems[i] for i in sorted(todo)], number)):
                runs[i] = replace(runs[i], launches=runs[i].launches | {number: result})
            number += 1
        found = compare(runs, contest.old, contest.new, policies, threshold, plan, machine)
        todo = found.undecided
        if not todo or number >= plan.launches * plan.looks:
            return found


def _by_position(problems: Sequence[Problem], results: dict[int, Result]) -> Iterator[tuple[int, Result]]:
    yield from ((i, results[p.index]) for i, p in enumerate(problems) if p.index in results)


def _with(problem: Problem, mode: Mode, *libraries: str) -> Problem:
    return replace(problem, globals=replace(problem.globals, mode=mode, library=libraries))
