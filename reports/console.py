"""tables for people: times, GFLOP/s, share of the machine's peak, policies side by side"""

from __future__ import annotations

from io import StringIO

from rich import box
from rich.console import Console
from rich.table import Table

from benchgraph.harness.results import CaseResult, Machine, PartitionTiming, ResultSet, Timing

WIDE = 400  # columns: nothing is cut off; lines are as long as their content


def render(results: ResultSet) -> str:
    """The machine, a table per measured case, and the reasons not to believe a number. Plain ASCII unless the output is a terminal."""
    terminal = Console().is_terminal
    out = Console(file=StringIO(), width=WIDE, force_terminal=terminal, no_color=not terminal, highlight=False, emoji=False, markup=False)
    if results.machine is not None:
        out.print(machine(results.machine))
    for case in results.cases:
        if case.result.timings:
            out.print()
            out.print(case.repro)
            out.print(table(case, box.SIMPLE_HEAD if terminal else box.ASCII2))
            for line in notes(case):
                out.print(line)
    text = out.file.getvalue()  # type: ignore[attr-defined]
    return "\n".join(line.rstrip() for line in text.splitlines())


def machine(m: Machine) -> str:
    lines = [f"{m.cpu}, {m.cores} cores, {m.isa}, {m.threads} threads; " + ", ".join(f"{k} {v}" for k, v in m.versions.items())]
    for dtype, one in m.peak_flops_1_thread.items():
        line = f"{dtype} peak {one / 1e9:.0f} GFLOP/s with 1 thread, {m.peak_flops[dtype] / 1e9:.0f} with {m.threads}"
        if dtype in m.microkernel:
            got = m.microkernel[dtype]
            line += f"; microkernel {m.microkernel_shape} {got / 1e9:.0f} GFLOP/s ({got / one:.0%})"
        lines.append(line)
    return "\n".join(lines)


def table(case: CaseResult, style: box.Box) -> Table:
    """A row per policy, and under it one per partition when there are several. ratio: median time over that of the first policy."""
    r = case.result
    t = Table(box=style, show_edge=False, pad_edge=False)
    t.add_column("policy / partition", no_wrap=True)
    for name in ("min ms", "median ms", "GFLOP/s", "% of peak", "compile ms", "ratio"):
        t.add_column(name, justify="right", no_wrap=True)
    first = r.timings[0]
    for p in r.timings:
        count = f"{len(p.partitions)} partition" + ("s" if len(p.partitions) != 1 else "")
        ratio = f"{p.timing.median_s / first.timing.median_s:.2f}"
        t.add_row(f"{p.policy} ({count})", *cells(p.timing, r.flops, r.peak), f"{p.compile_s * 1e3:.1f}", ratio)
        for part in p.partitions if len(p.partitions) > 1 else ():
            t.add_row(f"  {label(part)}", *cells(part.timing, part.flops, r.peak), f"{part.compile_s * 1e3:.1f}", "")
    return t


def label(p: PartitionTiming) -> str:
    return f"{p.id} {p.kind}: ops " + " ".join(str(op) for op in p.ops)


def cells(t: Timing, flops: int, peak: float) -> tuple[str, ...]:
    """min, median, GFLOP/s, share of peak; the last two from the median."""
    rate = flops / t.median_s
    share = f"{rate / peak:.1%}" if peak and flops else "-"
    return f"{t.min_s * 1e3:.4f}", f"{t.median_s * 1e3:.4f}", f"{rate / 1e9:.1f}" if flops else "-", share


def notes(case: CaseResult) -> list[str]:
    r = case.result
    pairs = " : ".join(f"{p.timing.median_s / r.timings[0].timing.median_s:.2f}" for p in r.timings)
    lines = [f"{' : '.join(p.policy for p in r.timings)} = {pairs}"] if len(r.timings) > 1 else []
    return [*lines, *(f"warning: {w}" for w in r.warnings)]
