"""What a run of several libraries prints: those that did not pass, the outputs that differ, and how often which one was right."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

from benchgraph.results.result import CaseResult, Status


def lines(case: CaseResult) -> Iterator[str]:
    """What to say below the status line: of witnesses that did not pass, and of outputs that differ."""
    for told in case.result.told:
        if not told.status.is_pass:
            yield f"  {told.label}: {told.status.value}" + (f": {told.reason}" if told.reason else "")
    for d in case.result.differences:
        yield f"  {d}"


def summary(cases: Iterable[CaseResult]) -> str:
    """How often the libraries agreed, and who was right where they did not; '' for a run of one library.

    Timed modes look at no results.
    """
    heard = [c.result for c in cases if c.result.told]
    if not heard:
        return ""
    if any(told.status is Status.EXECUTED for r in heard for told in r.told):
        by_all = sum(all(told.status is Status.EXECUTED for told in r.told) for r in heard)
        return f"libraries timed in {len(heard)} cases, by all in {by_all}; --mode=C compares their results"
    judged = [r for r in heard if len(r.right) + len(r.wrong) == len(r.told)]
    right = Counter(" and ".join(r.right) or "nobody" for r in judged if r.wrong)
    parts = [f"{sum(not r.wrong for r in judged)} agree", *(f"{name} right: {count}" for name, count in sorted(right.items()))]
    if missing := len(heard) - len(judged):
        parts.append(f"not run by all: {missing}")
    return f"libraries compared in {len(heard)} cases: " + ", ".join(parts)
