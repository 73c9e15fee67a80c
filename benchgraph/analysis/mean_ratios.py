"""Contenders compared over several cases: geometric means of the ratios of their median times to the first one's."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import PurePosixPath
from statistics import geometric_mean

from benchgraph.options.repro import split
from benchgraph.results.result import CaseResult, PolicyTiming


def ratio_of(one: PolicyTiming, other: PolicyTiming) -> float:
    return one.timing.median_s / other.timing.median_s


def mean_ratio(cases: Sequence[CaseResult], first: str, label: str) -> float | None:
    """Over all cases in which both were measured; None if there are none."""
    both = [{t.policy: t for t in c.result.timings} for c in cases]
    ratios = [ratio_of(t[label], t[first]) for t in both if label in t and first in t]
    return geometric_mean(ratios) if ratios else None


def groups(cases: Sequence[CaseResult]) -> dict[str, list[CaseResult]]:
    """Timed cases by the file they come from (its stem), or by the driver of descriptors."""
    by_name = dict[str, list[CaseResult]]()
    for case in cases:
        if case.result.timings:
            line = split(case.repro)
            stem = PurePosixPath(line.case).stem if line.words and line.words[-1].endswith(".json") else line.driver
            by_name.setdefault(stem, []).append(case)
    return by_name


def lines(cases: Sequence[CaseResult]) -> Iterator[str]:
    """A line per group of several cases, and one over all when there are several groups."""
    all_groups = groups(cases)
    timed = [c for group in all_groups.values() for c in group]
    shown = [(name, group) for name, group in all_groups.items() if len(group) > 1]
    if len(all_groups) > 1:
        shown.append(("all", timed))
    for name, group in shown:
        labels = list(dict.fromkeys(t.policy for c in group for t in c.result.timings))
        means = [(label, mean_ratio(group, labels[0], label)) for label in labels]
        if len(labels) > 1:
            ratios = ", ".join(f"{label} {mean:.2f}" for label, mean in means if mean is not None)
            yield f"{name} ({len(group)} cases), geometric means of times over those of {labels[0]}: {ratios}"
