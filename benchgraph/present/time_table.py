"""Rows and cells of tables of times, shared by console tables and pages so that they agree to the digit."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from benchgraph.analysis.mean_ratios import ratio_of
from benchgraph.core.formats import computer, counted, milliseconds, number, percent, ranges, short, size, unit
from benchgraph.results.machine import Machine
from benchgraph.results.mode import Mode
from benchgraph.results.result import PartitionTiming, PolicyTiming, Result, ResultSet, Timing
from benchgraph.results.roofline import Roofline

RATES = ("min ms", "median ms", "GFLOP/s", "% peak", "GB/s", "% bw", "FLOP/B", "roof")  # column heads of `cells`
HEADS = (*RATES, "compile ms", "ratio")  # and of `rows`
SHOWN_PARTITIONS = 12  # of a policy, unless all are requested


@dataclass(frozen=True)
class Row:
    """cells: texts, under HEADS. of: the policy or partition of the row; None for several partitions in one row."""

    label: str
    cells: tuple[str, ...]
    of: PolicyTiming | PartitionTiming | None

    @property
    def is_partition(self) -> bool:
        return not isinstance(self.of, PolicyTiming)


def machines(results: ResultSet) -> str:
    """The kinds of machines of a run, each as `machine` says it; of several, also the hosts and the hardware."""
    parts = [part.machine for part in results.by_kind if part.machine is not None]
    return "\n".join(machine(m) if len(parts) == 1 else f"{of_several(m)}\n{machine(m)}" for m in parts)


def of_several(m: Machine) -> str:
    """One kind of machine of several, in a line: hosts, and what tells it from others."""
    return f"on {m.host or 'a host without name'}: {m.full_name}"


def machine(m: Machine) -> str:
    """The machine in lines: computer and versions, then its measured peaks. What else identifies it is in the other reports."""
    lines = [f"{computer(m.cpu, m.cores, m.isa, m.threads)}; " + ", ".join(f"{k} {v}" for k, v in m.versions.items())]
    lines[0] += f"; machine table {m.table}" if m.table else ""
    for dtype, one in m.peak_flops_1_thread.items():
        rate = unit(dtype)
        line = f"{dtype} peak {one / 1e9:.0f} {rate}"
        if m.threads > 1:
            line += f" with 1 thread, {m.peak_flops[dtype] / 1e9:.0f} with {m.threads}"
        if dtype in m.microkernel:
            got = m.microkernel[dtype]
            line += f"; microkernel {m.microkernel_shape} {got / 1e9:.0f} {rate} ({got / one:.0%})"
        lines.append(line)
    if m.memory_bandwidth:
        lines.append(f"memory is read at {m.memory_bandwidth / 1e9:.1f} GB/s" + (f" with {m.threads}" if m.threads > 1 else ""))
    return "\n".join(lines)


def conditions(r: Result, mode: Mode) -> str:
    """How the case was measured, and the peaks for the whole graph; the bandwidth of single partitions differs."""
    hot = "a single execution, nothing warmed up" if mode is Mode.simulation else "hot caches"
    conditions_ = [hot if r.cold_cache == "none" else f"cold caches ({r.cold_cache})"]
    if r.num_streams > 1:
        conditions_.append(f"{r.num_streams} streams: times are per execution finished")
    if r.peak:
        conditions_.append(f"{r.arithmetic} peak {r.peak / 1e9:.1f} {unit(r.arithmetic)}")
    nbytes = r.bytes * r.num_streams
    if rate := r.bandwidth(nbytes):
        what = "memory" if r.cold_cache.startswith("all") else f"{size(nbytes)} over and over"
        conditions_.append(f"bandwidth {rate / 1e9:.1f} GB/s (reading {what})")
    return "; ".join(conditions_)


def rows(r: Result, most: int | None = None) -> list[Row]:
    """A row per policy, followed by one per partition if there are several; of more than `most` the slowest, and one row for the others."""
    result = list[Row]()
    for p in r.timings:
        texts = (*cells(p.timing, r.roofline(p)), compilation(p), ratio(p, r.timings[0]))
        result.append(Row(f"{p.policy} ({counted(len(p.partitions), 'partition')})", texts, p))
        if len(p.partitions) > 1:
            result += _partition_rows(r, p.partitions, most)
    return result


def _partition_rows(r: Result, partitions: Sequence[PartitionTiming], most: int | None) -> Iterator[Row]:
    """In order of execution; the sums of the others' times last."""
    slowest = {p.id for p in sorted(partitions, key=lambda p: -p.timing.median_s)[:most]}
    for part in partitions:
        if part.id in slowest:
            yield Row(label(part), (*cells(part.timing, r.roofline(part)), compilation(part), ""), part)
    if others := [part for part in partitions if part.id not in slowest]:
        least, middle = (sum(times) for times in zip(*((p.timing.min_s, p.timing.median_s) for p in others), strict=True))
        share = middle / sum(p.timing.median_s for p in partitions) if middle else 0.0
        texts = (milliseconds(least), milliseconds(middle), *[""] * (len(RATES) - 2), milliseconds(sum(p.compile_s for p in others), 1), "")
        yield Row(f"{counted(len(others), 'other')}, {share:.0%} of the time", texts, None)


def label(p: PartitionTiming) -> str:
    return f"{p.id} {p.kind}: ops {ranges(p.ops)}"


def cells(t: Timing, work: Roofline) -> tuple[str, ...]:
    """min and median, then derived from the median: rates, their shares of the peaks, intensity, and which peak is the bound.

    The peak is that of the graph's arithmetic (measure/arithmetic.py), whatever the products were computed in.
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
    """The time to compile, or, marked "warm", to read from the disk cache."""
    return milliseconds(p.compile_s, 1) + (" warm" if p.is_warm else "")


def ratio(one: PolicyTiming, other: PolicyTiming) -> str:
    return f"{ratio_of(one, other):.2f}"
