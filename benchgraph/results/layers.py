"""Where the time of a graph goes, layer by layer. Free of numpy, which `benchgraph --help` must not import."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby
from statistics import fmean, median

from benchgraph.core.layers import CALLER, Span

PROFILING_LIMIT = 0.05  # of the time: from here on it is not the same execution that is profiled
NOISE_LIMIT = 0.10  # of the time, that layers lose when each is at its median, as others then have the noise


@dataclass(frozen=True)
class LayerTiming:
    """Ops that a library executes together. samples_s: seconds in each profiled execution.

    name: of its principal op, the one with the most operations, else the first; kinds, ops: of that, then of the others; ops are () where
    the library does not tell. names: of the others. partition: position in the order of execution. shapes: of the principal op's inputs and
    outputs. flops, bytes: operations by the op table, and what must enter and leave the layer; 0 if unknown. busy: the share of the time of
    all threads in which they computed, the rest being spent waiting for each other; None if unknown. nests: how many nests or stages run as
    it, in one parallel loop, so that their times cannot be told apart.
    """

    name: str
    kinds: tuple[str, ...]
    ops: tuple[int, ...]
    names: tuple[str, ...]
    partition: int
    implementation: str
    shapes: str
    flops: int
    bytes: int
    samples_s: tuple[float, ...]
    busy: float | None = None
    nests: int = 1

    @property
    def median_s(self) -> float:
        return median(self.samples_s)

    @property
    def kind(self) -> str:
        return self.kinds[0] if self.kinds else ""


@dataclass(frozen=True)
class LayerProfile:
    """The layers of a graph under one policy, in order of execution. whole_s: seconds of whole executions without a profiler, interleaved
    with the profiled ones; spans: of one of those, whose time is the median of all; from 0 s on. threads: of the executions.
    is_profiled: False where layers are partitions, each measured on its own.
    """

    layers: tuple[LayerTiming, ...]
    whole_s: tuple[float, ...]
    spans: tuple[Span, ...] = ()
    threads: int = 1
    is_profiled: bool = True

    @property
    def sum_s(self) -> float:
        """The sum of the layers' medians, which is less than the median of their sums where noise hits another layer each time."""
        return sum(layer.median_s for layer in self.layers)

    @property
    def profiled_s(self) -> float:
        """What an execution takes while it is profiled: the median of the sums over all layers."""
        return median(map(sum, zip(*(layer.samples_s for layer in self.layers), strict=True)))

    @property
    def plain_s(self) -> float:
        """What it takes while it is not."""
        return median(self.whole_s) if self.whole_s else self.profiled_s

    @property
    def excess(self) -> float:
        """By how much profiled executions exceed others, as a share of their time; below 0, layers lack time that is spent between them."""
        return self.profiled_s / self.plain_s - 1

    def share(self, layer: LayerTiming) -> float:
        """Of the time of all layers."""
        return layer.median_s / self.sum_s


def busy_shares(spans: tuple[Span, ...], threads: int) -> dict[int, float]:
    """By layer, of the time of all threads the share in which they computed; layers of which no thread tells its time are left out."""
    found = dict[int, float]()
    for layer, own in groupby(sorted(spans, key=lambda s: s.layer), key=lambda s: s.layer):
        each = list(own)
        whole = sum(s.seconds for s in each if s.thread == CALLER)
        busy = sum(s.busy_s or s.seconds for s in each if s.thread != CALLER)
        if busy and whole:
            found[layer] = min(1.0, busy / (threads * whole))
    return found


def mean_shares(each: list[dict[int, float]]) -> dict[int, float]:
    """The mean over executions."""
    return {layer: fmean(one[layer] for one in each if layer in one) for layer in sorted({k for one in each for k in one})}


def distrust(label: str, profile: LayerProfile) -> Iterator[str]:
    """Why not to believe the times of layers."""
    if not profile.is_profiled:
        return
    if abs(profile.excess) >= PROFILING_LIMIT:
        sides = f"{profile.profiled_s * 1e3:.4g} ms, others {profile.plain_s * 1e3:.4g} ms ({profile.excess:+.0%})"
        yield f"{label}: executions whose layers are timed take {sides}"
    if profile.sum_s < (1 - NOISE_LIMIT) * profile.profiled_s:
        share = profile.sum_s / profile.profiled_s
        yield f"{label}: the medians of layers add up to {share:.0%} of an execution; close other programs or raise --max-ms-per-prb"
