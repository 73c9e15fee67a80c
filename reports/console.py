"""tables for people: times, shares of the machine's arithmetic peak and bandwidth, policies side by side"""

from __future__ import annotations

from rich import box
from rich.table import Table

from benchgraph.harness.cells import HEADS, conditions, machine, ratio, rows
from benchgraph.harness.compare.statistics import in_turns
from benchgraph.harness.means import lines
from benchgraph.harness.results import CaseResult, ResultSet
from benchgraph.harness.terminal import grid, paper, printed

SUFFIXES = (".txt", ".log")


def render(results: ResultSet) -> str:
    """The machine, a table per measured case, and the reasons not to believe a number. Plain ASCII unless the output is a terminal."""
    out = paper()
    if results.machine is not None:
        out.print(machine(results.machine))
    for case in results.cases:
        if case.result.timings:
            out.print()
            out.print(case.repro)
            out.print(conditions(case.result, results.mode))
            out.print(table(case, box.SIMPLE_HEAD if out.is_terminal else box.ASCII2))
            for line in notes(case):
                out.print(line)
    if means := list(lines(results.cases)):
        out.print()
        for line in means:
            out.print(line)
    return printed(out)


def table(case: CaseResult, style: box.Box) -> Table:
    """A row per policy, and under it one per partition when there are several.

    roof: the nearer one, below which work of this intensity (FLOP/B) must stay. ratio: median time over that of the first policy.
    """
    r = case.result
    t = grid(style)
    t.add_column("policy / partition", no_wrap=True)
    for name in HEADS:
        t.add_column(name, justify="right", no_wrap=True)
    for row in rows(r):
        t.add_row(f"  {row.label}" if row.is_partition else row.label, *row.cells)
    return t


def notes(case: CaseResult) -> list[str]:
    """The ratios with the intervals that the rounds of this run give them, what Python adds, and the reasons not to believe a number."""
    first, *others = case.result.timings
    intervals = in_turns([(first.timing.samples_s, t.timing.samples_s) for t in others])
    said = [f"{t.policy} {ratio(t, first)}{_interval(found)}" for t, found in zip(others, intervals, strict=True)]
    told = [f"times over those of {first.policy}, with 95 % intervals within this run: {', '.join(said)}"] if said else []
    if asked := _asked(case):
        told.append(f"execute from Python adds to these native calls, in microseconds: {', '.join(asked)}")
    return [*told, *(f"warning: {w}" for w in case.result.warnings)]


def _asked(case: CaseResult) -> list[str]:
    """What Python adds under every policy, with the interval of the ratio of both times in the rounds of this run."""
    called = [(t, t.called) for t in case.result.timings if t.called is not None]
    intervals = in_turns([(t.timing.samples_s, c.samples_s) for t, c in called])
    said = []
    for (t, _), found in zip(called, intervals, strict=True):
        adds = (t.execute_s or 0.0) * 1e6
        low, high = (0.0, 0.0) if found is None else ((side - 1) * t.timing.median_s * 1e6 for side in found)
        said.append(f"{t.policy} {adds:.1f}" + ("" if found is None else f" ({low:.1f} to {high:.1f})"))
    return said


def _interval(found: tuple[float, float] | None) -> str:
    return "" if found is None else f" ({found[0]:.2f} to {found[1]:.2f})"
