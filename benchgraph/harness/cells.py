"""How numbers and texts are said. One place, so that a console table and a page about the same run never differ in a digit."""

from __future__ import annotations

import re
from dataclasses import dataclass

from benchgraph.harness.knobs import Mode
from benchgraph.harness.means import ratio_of
from benchgraph.harness.results import Machine, PartitionTiming, PolicyTiming, Result, Timing
from benchgraph.harness.roofline import Roofline

RATES = ("min ms", "median ms", "GFLOP/s", "% peak", "GB/s", "% bw", "FLOP/B", "roof")  # heads of what `cells` gives
HEADS = (*RATES, "compile ms", "ratio")  # and of `rows`


# What HTML and XML cannot hold, what readers cannot see, and what turns the text around it
HIDDEN = re.compile("[\x00-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2066-\u2069\ufeff\ud800-\udfff\ufffe\uffff]")


@dataclass(frozen=True)
class Row:
    """cells: texts, under HEADS. of: what they tell of, a policy or one of its partitions."""

    label: str
    cells: tuple[str, ...]
    of: PolicyTiming | PartitionTiming

    @property
    def is_partition(self) -> bool:
        return isinstance(self.of, PartitionTiming)


def machine(m: Machine) -> str:
    """Where the numbers come from: a line for the computer and the versions, then what it can do, where it was measured."""
    lines = [f"{m.cpu}, {m.cores} cores, {m.isa}, {m.threads} threads; " + ", ".join(f"{k} {v}" for k, v in m.versions.items())]
    for dtype, one in m.peak_flops_1_thread.items():
        unit = f"G{_operations(dtype)}/s"
        line = f"{dtype} peak {one / 1e9:.0f} {unit} with 1 thread, {m.peak_flops[dtype] / 1e9:.0f} with {m.threads}"
        if dtype in m.microkernel:
            got = m.microkernel[dtype]
            line += f"; microkernel {m.microkernel_shape} {got / 1e9:.0f} {unit} ({got / one:.0%})"
        lines.append(line)
    if m.memory_bandwidth:
        lines.append(f"memory is read at {m.memory_bandwidth / 1e9:.1f} GB/s with {m.threads}")
    return "\n".join(lines)


def _operations(arithmetic: str) -> str:
    return "OP" if arithmetic == "int8" else "FLOP"


def conditions(r: Result, mode: Mode) -> str:
    """How the case was measured, and the roofs of the whole graph; those of single partitions differ in the bandwidth."""
    hot = "a single execution, nothing warmed up" if mode is Mode.simulation else "hot caches"
    said = [hot if r.cold_cache == "none" else f"cold caches ({r.cold_cache})"]
    if r.num_streams > 1:
        said.append(f"{r.num_streams} streams: times are per execution finished")
    if r.peak:
        said.append(f"{r.arithmetic} peak {r.peak / 1e9:.1f} G{_operations(r.arithmetic)}/s")
    nbytes = r.bytes * r.num_streams
    if rate := r.bandwidth(nbytes):
        what = "memory" if r.cold_cache.startswith("all") else f"{size(nbytes)} over and over"
        said.append(f"bandwidth {rate / 1e9:.1f} GB/s (reading {what})")
    return "; ".join(said)


def counted(n: int, noun: str) -> str:
    """1 op, 2 ops."""
    return f"{n} {noun}{'' if n == 1 else 's'}"


def size(nbytes: int) -> str:
    return f"{nbytes / 1e6:.3g} MB" if nbytes >= 1e6 else f"{nbytes / 1e3:.3g} KB"


def rows(r: Result) -> list[Row]:
    """A row per policy, and under it one per partition when there are several."""
    found = list[Row]()
    for p in r.timings:
        said = (*cells(p.timing, r.roofline(p)), compilation(p), ratio(p, r.timings[0]))
        found.append(Row(f"{p.policy} ({counted(len(p.partitions), 'partition')})", said, p))
        for part in p.partitions if len(p.partitions) > 1 else ():
            found.append(Row(label(part), (*cells(part.timing, r.roofline(part)), compilation(part), ""), part))
    return found


def label(p: PartitionTiming) -> str:
    return f"{p.id} {p.kind}: ops " + " ".join(str(op) for op in p.ops)


def cells(t: Timing, work: Roofline) -> tuple[str, ...]:
    """min, median, then what follows from the median: rates, their shares of the roofs, intensity, and which roof is nearer.

    The peak is that of the graph's arithmetic (arithmetic.py), whatever its products were computed in.
    """
    return (
        milliseconds(t.min_s),
        milliseconds(t.median_s),
        number(work.flops_per_s, 1e9),
        percent(work.peak_share),
        short(work.bytes_per_s, 1e9),
        percent(work.bandwidth_share),
        short(work.intensity),
        {"peak": "peak", "bandwidth": "bw"}.get(work.bound, "-"),
    )


def compilation(p: PolicyTiming | PartitionTiming) -> str:
    """How long it took to compile, or, said so, to read what had been compiled before."""
    return milliseconds(p.compile_s, 1) + (" warm" if p.is_warm else "")


def milliseconds(seconds: float, digits: int = 4) -> str:
    return f"{seconds * 1e3:.{digits}f}"


def ratio(one: PolicyTiming, other: PolicyTiming) -> str:
    """Of median times."""
    return f"{ratio_of(one, other):.2f}"


def number(value: float | None, unit: float = 1.0) -> str:
    return "-" if value is None else f"{value / unit:.1f}"


def short(value: float | None, unit: float = 1.0) -> str:
    """Five characters at most, for anything a machine reads: the table is to fit 120 columns."""
    return "-" if value is None else f"{value / unit:.1f}" if value < 100 * unit else f"{value / unit:.0f}"


def percent(share: float | None) -> str:
    return "-" if share is None else f"{share:.1%}"


def visible(text: str) -> str:
    """With \\x1b for an escape, and so on, as Python writes it."""
    return HIDDEN.sub(lambda found: repr(found[0])[1:-1], text)
