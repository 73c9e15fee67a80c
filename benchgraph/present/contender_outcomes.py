"""What a run of several libraries prints: those that did not pass, the outputs that differ, and how often which one was right."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

from benchgraph.results.result import CaseResult, Status


def lines(case: CaseResult) -> Iterator[str]:
    """What to say below the status line: of witnesses that did not pass, and of outputs that differ."""
    for outcome in case.result.outcomes:
        if not outcome.status.is_pass:
            yield f"  {outcome.label}: {outcome.status.value}" + (f": {outcome.reason}" if outcome.reason else "")
    for d in case.result.differences:
        yield f"  {d}"


def summary(cases: Iterable[CaseResult]) -> str:
    """How often the libraries agreed, and who was right where they did not; '' for a run of one library.

    Timed modes look at no results.
    """
    heard = [c.result for c in cases if c.result.outcomes]
    if not heard:
        return ""
    if any(outcome.status is Status.EXECUTED for r in heard for outcome in r.outcomes):
        by_all = sum(all(outcome.status is Status.EXECUTED for outcome in r.outcomes) for r in heard)
        return f"libraries timed in {len(heard)} cases, by all in {by_all}; --mode=C compares their results"
    judged = [r for r in heard if len(r.right) + len(r.wrong) == len(r.outcomes)]
    right = Counter(" and ".join(r.right) or "nobody" for r in judged if r.wrong)
    parts = [f"{sum(not r.wrong for r in judged)} agree", *(f"{name} right: {count}" for name, count in sorted(right.items()))]
    if missing := len(heard) - len(judged):
        parts.append(f"not run by all: {missing}")
    return f"libraries compared in {len(heard)} cases: " + ", ".join(parts)
