"""`benchgraph bisect`: every candidate against GOOD, in the way of `ab`, until one commit is left."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from benchgraph.analysis.ab.bisection import Answer, first_bad
from benchgraph.analysis.ab.comparison import Side, launches_of, references
from benchgraph.analysis.ab.findings import Kind, is_usable, status_in_words
from benchgraph.analysis.ab.sequential import Look, Search
from benchgraph.core.errors import BenchgraphError, UsageError
from benchgraph.core.formats import counted
from benchgraph.core.implementation import names
from benchgraph.harness.ab.contest import Contest, case_run
from benchgraph.harness.ab.versions import Commit, Version
from benchgraph.options.problem import Problem
from benchgraph.results.result import Result


@dataclass(frozen=True)
class Trial:
    """A commit that was tried. evidence: its ratio to GOOD, its status, or why it was skipped."""

    commit: Commit
    answer: Answer
    evidence: str
    launches: int = 0

    def __str__(self) -> str:
        launches = f", {self.launches} launches" if self.launches else ""
        return f"{self.commit}  {self.answer.value:<7}  {self.evidence}{launches}  ({self.commit.subject})"


@dataclass
class Bisection:
    """contest: GOOD as `old`, and the present candidate as `new`. most: launches of one candidate. tell: called with each trial.

    references_of_good: how many primitives of GOOD run on reference implementations. sort: in what way BAD is bad. boundary: how many times
    as long as GOOD a slow commit takes at least; 0 before that is known.
    """

    problem: Problem
    contest: Contest
    version: Version
    threshold: float
    most: int
    tell: Callable[[Trial], None]
    search: Search = field(default_factory=Search)
    trials: list[Trial] = field(default_factory=list)
    references_of_good: int = 0
    sort: Kind = Kind.slower
    boundary: float = 0.0

    def run(self, commits: list[Commit]) -> list[Commit]:
        """The commits of which one is the first bad one; none where BAD, the last of them, is not bad."""
        ((good,),) = self.contest.check([self.problem], self.contest.old)
        if not is_usable(good):
            what = f"GOOD fails itself: {status_in_words(good)}"
            raise UsageError(what, where=f"bisect: {self.contest.old.label}", fix="name a commit that passes, or another case")
        self.references_of_good = _references(good)
        if self._last(commits[-1]) is not Answer.bad:
            return []
        return [commits[i] for i in first_bad(len(commits), lambda i: self._trial(commits[i]).answer)]

    @property
    def summary(self) -> str:
        """What it took."""
        tried, skipped = len(self.trials), sum(t.answer is Answer.skipped for t in self.trials)
        return f"{counted(tried, 'commit')} tried, {skipped} skipped, {self.search.launches} launches"

    def _last(self, commit: Commit) -> Answer:
        """Whether BAD is bad, and in what way: wrong or unsupported, on a reference implementation, or slow."""
        side, result = self._checked(commit)
        if side is None or result is None:
            return self.trials[-1].answer
        if not is_usable(result):
            self.sort = Kind.wrong
        elif _references(result) > self.references_of_good:
            self.sort = Kind.fell_to_reference
        else:
            trial, look = self._timed(commit, side, result, 1 + self.threshold)
            if trial.answer is Answer.bad and look is not None:
                self.boundary = look.ratio**0.5  # halfway from GOOD
            return trial.answer
        return self._judged(commit, side, result).answer

    def _trial(self, commit: Commit) -> Trial:
        side, result = self._checked(commit)
        return self.trials[-1] if side is None or result is None else self._judged(commit, side, result)

    def _judged(self, commit: Commit, side: Side, result: Result) -> Trial:
        """Whether a commit is bad as BAD is. One that is worse, so that this cannot be told, is skipped."""
        if self.sort is Kind.wrong:
            return self._note(commit, Answer.good if is_usable(result) else Answer.bad, status_in_words(result))
        if not is_usable(result):
            return self._note(commit, Answer.skipped, f"cannot be compared: {status_in_words(result)}")
        if self.sort is Kind.fell_to_reference:
            ran = "; ".join(names(each) for by_partition in result.implementations.values() for each in by_partition)
            return self._note(commit, Answer.bad if _references(result) > self.references_of_good else Answer.good, f"runs on {ran}")
        return self._timed(commit, side, result, self.boundary)[0]

    def _checked(self, commit: Commit) -> tuple[Side | None, Result | None]:
        """The version, and its result in mode C; None, and a trial that was skipped, where it cannot be made or loaded."""
        try:
            side = self.version(commit)
            self.contest.bench.library(side.word)
        except BenchgraphError as bad:
            self._note(commit, Answer.skipped, str(bad))
            return None, None
        ((result,),) = self.contest.check([self.problem], side)
        return side, result

    def _timed(self, commit: Commit, side: Side, result: Result, boundary: float) -> tuple[Trial, Look | None]:
        contest = replace(self.contest, new=side)
        run = case_run(self.problem, contest, result, result)
        self.search.begin()
        look = None
        for number in range(self.most):
            (timed,) = contest.launch([self.problem], number)
            launches = list(launches_of(replace(run, launches={number: timed}), run.policies[0]))
            if not launches:
                return self._note(commit, Answer.skipped, f"cannot be timed: {timed.reason}"), None
            self.search.observe(launches[0].ratio)
            look = self.search.look(boundary)
            if look is not None and look.is_above is not None:
                answer = Answer.bad if look.is_above else Answer.good
                return self._note(commit, answer, str(look), look.launches), look
        return self._note(commit, Answer.skipped, f"cannot tell: {look}", self.most), look

    def _note(self, commit: Commit, answer: Answer, evidence: str, launches: int = 0) -> Trial:
        self.trials.append(Trial(commit, answer, evidence, launches))
        self.tell(self.trials[-1])
        return self.trials[-1]


def _references(result: Result) -> int:
    return sum(map(references, result.implementations.values()))
