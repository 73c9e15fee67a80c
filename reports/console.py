"""tables for people: times, shares of the machine's arithmetic peak and bandwidth, policies side by side"""

from __future__ import annotations

from rich import box
from rich.console import Console
from rich.table import Table

from benchgraph.analysis.inference.within_run import interleaved_intervals
from benchgraph.analysis.mean_ratios import lines
from benchgraph.core.formats import interval
from benchgraph.core.implementation import WHOLE, names
from benchgraph.present import fallback
from benchgraph.present.layer_table import layer_table
from benchgraph.present.terminal import LABEL, columns, fitting, grid, printed, text_console
from benchgraph.present.time_table import HEADS, SHOWN_PARTITIONS, conditions, machine, of_several, ratio, rows
from benchgraph.results.result import CaseResult, ResultSet

# What a narrow terminal goes without, the first of these first
SPARE = tuple(HEADS.index(head) + 1 for head in ("FLOP/B", "roof", "GB/s", "compile ms", "% bw", "min ms", "GFLOP/s"))

SUFFIXES = (".txt", ".log")


def render(results: ResultSet) -> str:
    """All of it, for a file: the machine, a table per measured case, and the reasons not to believe a number. Lines are not wrapped."""
    return _rendered(results, text_console(is_plain=True), None, are_layers_folded=False)


def shown(results: ResultSet, *, is_verbose: bool) -> str:
    """For stdout: as wide as the terminal, without wrapping where it is none; of many partitions the slowest, unless is_verbose."""
    return _rendered(results, text_console(columns()), None if is_verbose else SHOWN_PARTITIONS, are_layers_folded=not is_verbose)


def _rendered(results: ResultSet, out: Console, most: int | None, *, are_layers_folded: bool) -> str:
    parts = results.by_kind
    for number, part in enumerate(parts):
        if number:
            out.print()
        if part.machine is not None:
            if len(parts) > 1:
                out.print(of_several(part.machine), soft_wrap=True)
            out.print(machine(part.machine))
        _print_cases(part, out, most, are_layers_folded=are_layers_folded)
    return printed(out)


def _print_cases(results: ResultSet, out: Console, most: int | None, *, are_layers_folded: bool) -> None:
    """A table for each measured case, and geometric means."""
    told = set[str]()
    for case in results.cases:
        if case.result.timings:
            out.print()
            out.print(case.repro, soft_wrap=True)
            out.print(conditions(case.result, results.mode))
            found, *more = table(case, box.SIMPLE_HEAD if out.is_terminal else box.ASCII2, out.width, most)
            out.print(found)
            for line in (*(line for line in more if line not in told), *notes(case)):
                out.print(line)
            told |= set(more)
            for t in case.result.timings:
                if t.layers is not None:
                    out.print()
                    for part in layer_table(case.result, t, t.layers, out, is_folded=are_layers_folded):
                        out.print(part)
    if means := list(lines(results.cases)):
        out.print()
        for line in means:
            out.print(line)


def table(case: CaseResult, style: box.Box, width: int, most: int | None) -> list[Table | str]:
    """A row per policy, and under it one per partition when there are several; behind the table, what it leaves out.

    roof: the nearer one, below which work of this intensity (FLOP/B) must stay. ratio: median time over that of the first policy.
    """
    found = rows(case.result, most)
    heads = ("policy / partition", *HEADS)
    texts = [(f"  {row.label}" if row.is_partition else row.label, *row.cells) for row in found]
    kept = fitting([heads, *texts], width, SPARE, LABEL)
    t = grid(style)
    for i in kept:
        t.add_column(heads[i], justify="right" if i else "left", no_wrap=i > 0, overflow="fold")
    for cells in texts:
        t.add_row(*(cells[i] for i in kept))
    said = list[str]()
    if any(row.of is None for row in found):
        said.append(f"of more than {most} partitions the slowest are shown; all of them with -v, and in --report=console:FILE")
    if left := [head for i, head in enumerate(heads) if i not in kept]:
        said.append(f"no room for {', '.join(left)}: in a wider terminal, and in --report=console:FILE")
    return [t, *said]


def notes(case: CaseResult) -> list[str]:
    """The ratios with the intervals that the rounds of this run give them, what Python adds, and the reasons not to believe a number."""
    first, *others = case.result.timings
    intervals = interleaved_intervals([(first.timing.samples_s, t.timing.samples_s) for t in others])
    said = [f"{t.policy} {ratio(t, first)}{_interval(found)}" for t, found in zip(others, intervals, strict=True)]
    told = [f"times over those of {first.policy}, with 95 % intervals within this run: {', '.join(said)}"] if said else []
    for label, ran in case.result.implementations.items():
        if any(i.primitive != WHOLE for each in ran for i in each):
            told.append(f"{label} runs on {names(i for each in ran for i in each)}")
    told += fallback.lines(case.result)
    if asked := _asked(case):
        told.append(f"execute from Python adds to these native calls, in microseconds: {', '.join(asked)}")
    return [*told, *(f"warning: {w}" for w in case.result.warnings)]


def _asked(case: CaseResult) -> list[str]:
    """What Python adds under every policy, with the interval of the ratio of both times in the rounds of this run."""
    called = [(t, t.called) for t in case.result.timings if t.called is not None]
    intervals = interleaved_intervals([(t.timing.samples_s, c.samples_s) for t, c in called])
    said = []
    for (t, _), found in zip(called, intervals, strict=True):
        adds = (t.execute_s or 0.0) * 1e6
        low, high = (0.0, 0.0) if found is None else ((side - 1) * t.timing.median_s * 1e6 for side in found)
        if low < 0 < high:  # it may as well add nothing
            continue
        said.append(f"{t.policy} {adds:.1f}" + ("" if found is None else f" ({low:.1f} to {high:.1f})"))
    return said


def _interval(found: tuple[float, float] | None) -> str:
    return "" if found is None else f" ({interval(*found, '.2f', ' to ')})"
