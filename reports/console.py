"""tables for people: times, shares of the machine's arithmetic peak and bandwidth, policies side by side"""

from __future__ import annotations

from io import StringIO

from rich import box
from rich.console import Console
from rich.table import Table

from benchgraph.harness.knobs import Mode
from benchgraph.harness.results import CaseResult, Machine, PartitionTiming, Result, ResultSet, Timing
from benchgraph.harness.roofline import Roofline

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
            out.print(conditions(case.result, results.mode))
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
    if m.memory_bandwidth:
        lines.append(f"memory is read at {m.memory_bandwidth / 1e9:.1f} GB/s with {m.threads}")
    return "\n".join(lines)


def conditions(r: Result, mode: Mode) -> str:
    """How the case was measured, and the roofs of the whole graph; those of single partitions differ in the bandwidth."""
    hot = "a single execution, nothing warmed up" if mode is Mode.simulation else "hot caches"
    said = [hot if r.cold_cache == "none" else f"cold caches ({r.cold_cache})"]
    if r.num_streams > 1:
        said.append(f"{r.num_streams} streams: times are per execution finished")
    if r.peak:
        said.append(f"peak {r.peak / 1e9:.1f} GFLOP/s")
    nbytes = r.bytes * r.num_streams
    if rate := r.bandwidth(nbytes):
        what = "memory" if r.cold_cache.startswith("all") else f"{size(nbytes)} over and over"
        said.append(f"bandwidth {rate / 1e9:.1f} GB/s (reading {what})")
    return "; ".join(said)


def size(nbytes: int) -> str:
    return f"{nbytes / 1e6:.3g} MB" if nbytes >= 1e6 else f"{nbytes / 1e3:.3g} KB"


def table(case: CaseResult, style: box.Box) -> Table:
    """A row per policy, and under it one per partition when there are several.

    roof: the nearer one, below which work of this intensity (FLOP/B) must stay. ratio: median time over that of the first policy.
    """
    r = case.result
    t = Table(box=style, show_edge=False, pad_edge=False)
    t.add_column("policy / partition", no_wrap=True)
    for name in ("min ms", "median ms", "GFLOP/s", "% peak", "GB/s", "% bw", "FLOP/B", "roof", "compile ms", "ratio"):
        t.add_column(name, justify="right", no_wrap=True)
    first = r.timings[0]
    for p in r.timings:
        count = f"{len(p.partitions)} partition" + ("s" if len(p.partitions) != 1 else "")
        ratio = f"{p.timing.median_s / first.timing.median_s:.2f}"
        t.add_row(f"{p.policy} ({count})", *cells(p.timing, r.roofline(p)), f"{p.compile_s * 1e3:.1f}", ratio)
        for part in p.partitions if len(p.partitions) > 1 else ():
            t.add_row(f"  {label(part)}", *cells(part.timing, r.roofline(part)), f"{part.compile_s * 1e3:.1f}", "")
    return t


def label(p: PartitionTiming) -> str:
    return f"{p.id} {p.kind}: ops " + " ".join(str(op) for op in p.ops)


def cells(t: Timing, work: Roofline) -> tuple[str, ...]:
    """min, median, then what follows from the median: rates, their shares of the roofs, intensity, and which roof is nearer."""
    return (
        f"{t.min_s * 1e3:.4f}",
        f"{t.median_s * 1e3:.4f}",
        number(work.flops_per_s, 1e9),
        percent(work.peak_share),
        short(work.bytes_per_s, 1e9),
        percent(work.bandwidth_share),
        short(work.intensity),
        {"peak": "peak", "bandwidth": "bw"}.get(work.bound, "-"),
    )


def number(value: float | None, unit: float = 1.0) -> str:
    return "-" if value is None else f"{value / unit:.1f}"


def short(value: float | None, unit: float = 1.0) -> str:
    """Five characters at most, for anything a machine reads: the table is to fit 120 columns."""
    return "-" if value is None else f"{value / unit:.1f}" if value < 100 * unit else f"{value / unit:.0f}"


def percent(share: float | None) -> str:
    return "-" if share is None else f"{share:.1%}"


def notes(case: CaseResult) -> list[str]:
    r = case.result
    pairs = " : ".join(f"{p.timing.median_s / r.timings[0].timing.median_s:.2f}" for p in r.timings)
    lines = [f"{' : '.join(p.policy for p in r.timings)} = {pairs}"] if len(r.timings) > 1 else []
    return [*lines, *(f"warning: {w}" for w in r.warnings)]
