"""Where the time of a logged program went: by primitive, by implementation, and case by case, as text.

A partition's time contains that of the primitives it runs, whose own lines stand in front of it: the two have a table each, and shares
are of all time in lines of their kind. Rates are of the mean: a program is not repeated until it is fast.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from benchgraph.core.formats import counted, percent, unit
from benchgraph.core.printable import printable, shortened
from benchgraph.importers.log_cases import Case
from benchgraph.importers.verbose_file import Log, Logged
from benchgraph.importers.verbose_line import GraphFields
from benchgraph.results.machine import Machine
from benchgraph.results.roofline import Roofline

LONGEST = 160  # characters of a case


@dataclass(frozen=True)
class Replay:
    """A run of the batch file. machine: where, with its peaks; seconds: line -> median."""

    machine: Machine | None = None
    seconds: dict[str, float] = field(default_factory=dict)


NO_REPLAY = Replay()


def logged_times(log: Log, cases: Sequence[Case], replay: Replay = NO_REPLAY, most: int | None = None) -> str:
    """The tables; of more than `most` rows the first, and one row for the others."""
    parts = list[str]()
    for title, is_graph in (("primitives", False), ("partitions, each with the primitives it runs", True)):
        rows = [
            (case, one) for case in cases for one in case.logged if one.executed.count and isinstance(one.fields, GraphFields) is is_graph
        ]
        rows = [(case, one) for case, one in rows if one.fields is not None]
        if rows:
            total = sum(one.executed.total_ms for _, one in rows)
            ran = sum(one.executed.count for _, one in rows)
            parts.append(f"{counted(ran, 'execution')} of {title}: {total:.6g} ms")
            if not is_graph:
                parts.append(_shares("primitive", rows, lambda one: one.fields.primitive if one.fields else "", total))
            parts.append(_shares("implementation", rows, _implementation, total, most))
            parts.append(_by_case(rows, total, replay, most))
    if not parts:
        parts.append("nothing was executed, as far as the log says")
    return "\n\n".join(parts)


def _implementation(one: Logged) -> str:
    return (one.fields.implementation if one.fields else "") or "not named"


Rows = Sequence[tuple[Case, Logged]]


def _shares(head: str, rows: Rows, of: Callable[[Logged], str], total: float, most: int | None = None) -> str:
    sums, counts = defaultdict[str, float](float), defaultdict[str, int](int)
    for _, one in rows:
        sums[of(one)] += one.executed.total_ms
        counts[of(one)] += one.executed.count
    ordered = sorted(sums, key=lambda name: -sums[name])
    lines = [[f"{sums[name]:.4g}", _share(sums[name], total), str(counts[name]), printable(name)] for name in ordered]
    if most is not None and len(lines) > most:
        left = ordered[most:]
        others = sum(sums[name] for name in left)
        lines[most:] = [[f"{others:.4g}", _share(others, total), str(sum(counts[name] for name in left)), f"{len(left)} others"]]
    return aligned(["ms", "share", "executions", head], lines)


def _by_case(rows: Rows, total: float, replay: Replay, most: int | None) -> str:
    """A row for each case, implementations and layouts of it added up; what no case expresses is there, too."""
    by_line = dict[str, tuple[Case, list[Logged]]]()
    for case, one in rows:
        by_line.setdefault(case.line, (case, []))[1].append(one)
    ordered = sorted(by_line.values(), key=lambda both: -_total(both[1]))
    lines = [_row(case, ones, total, replay) for case, ones in ordered[:most]]
    if left := ordered[len(lines) :]:
        others = sum(_total(ones) for _, ones in left)
        count = sum(one.executed.count for _, ones in left for one in ones)
        lines.append([f"{others:.4g}", _share(others, total), str(count), *[""] * 5, f"{counted(len(left), 'other')}"])
    head = ["ms", "share", "executions", "mean", "least", "rate", "% roof", "replay", "case"]
    kept = [i for i, name in enumerate(head) if name not in ("% roof", "replay") or any(line[i] not in ("", "-") for line in lines)]
    return aligned([head[i] for i in kept], [[line[i] for i in kept] for line in lines])


def _row(case: Case, ones: Sequence[Logged], total: float, replay: Replay) -> list[str]:
    spent, count = _total(ones), sum(one.executed.count for one in ones)
    mean, least = spent / count, min(one.executed.least_ms for one in ones)
    rate, roof = "-", "-"
    if case.work:
        machine = replay.machine
        peak = machine.peak_flops.get(case.work.arithmetic, 0.0) if machine else 0.0
        work = Roofline(case.work.flops, case.work.bytes, mean / 1e3, peak, machine.memory_bandwidth if machine else 0.0)
        if work.flops_per_s:
            rate = f"{work.flops_per_s / 1e9:.3g} {unit(case.work.arithmetic)}"
        roof = percent(work.bandwidth_share if work.bound == "bandwidth" else work.peak_share)
    seconds = replay.seconds.get(case.line)
    again = "-" if seconds is None else f"{seconds * 1e3:.4g}"
    name = f"not expressed: {case.line}" if case.error else case.line
    shown = shortened(printable(name), LONGEST)
    return [f"{spent:.4g}", _share(spent, total), str(count), f"{mean:.4g}", f"{least:.4g}", rate, roof, again, shown]


def _total(ones: Iterable[Logged]) -> float:
    return sum(one.executed.total_ms for one in ones)


def _share(part: float, total: float) -> str:
    return percent(part / total if total else None)


def aligned(head: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    """Columns, right-aligned but for the last one."""
    widths = [max(map(len, column)) for column in zip(head, *lines, strict=True)]
    return "\n".join(
        "  ".join([*(cell.rjust(width) for cell, width in zip(line[:-1], widths[:-1], strict=True)), line[-1]]) for line in (head, *lines)
    )
