"""Output of a run of several libraries: those that did not pass, outputs that differ, and how often each was right."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

from benchgraph.results.result import CaseResult, Status


def lines(case: CaseResult) -> Iterator[str]:
    """Lines below the status line: witnesses that did not pass, and outputs that differ."""
    for outcome in case.result.outcomes:
        if not outcome.status.is_pass:
            yield f"  {outcome.label}: {outcome.status.value}" + (f": {outcome.reason}" if outcome.reason else "")
    for d in case.result.differences:
        yield f"  {d}"


def summary(cases: Iterable[CaseResult]) -> str:
    """How often the libraries agreed, and which were right otherwise; '' for a run of one library.

    Timed modes compare no results.
    """
    results = [c.result for c in cases if c.result.outcomes]
    if not results:
        return ""
    if any(outcome.status is Status.EXECUTED for r in results for outcome in r.outcomes):
        by_all = sum(all(outcome.status is Status.EXECUTED for outcome in r.outcomes) for r in results)
        return f"libraries timed in {len(results)} cases, by all in {by_all}; --mode=C compares their results"
    compared = [r for r in results if len(r.right) + len(r.wrong) == len(r.outcomes)]
    right = Counter(" and ".join(r.right) or "nobody" for r in compared if r.wrong)
    parts = [f"{sum(not r.wrong for r in compared)} agree", *(f"{name} right: {count}" for name, count in sorted(right.items()))]
    if missing := len(results) - len(compared):
        parts.append(f"not run by all: {missing}")
    return f"libraries compared in {len(results)} cases: " + ", ".join(parts)
