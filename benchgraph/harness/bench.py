"""External resources of the harness: a clock, libraries, probes of the machine. Tests replace them."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from benchgraph.core.config import PREFIX, config, override
from benchgraph.core.errors import BenchgraphError, InvalidArguments, Unimplemented, UsageError
from benchgraph.core.free_memory import free_bytes
from benchgraph.machine.target import current
from benchgraph.measure.cold_cache import cold_cache
from benchgraph.options.knobs import Globals
from benchgraph.options.library_name import LibraryName
from benchgraph.options.problem import Problem
from benchgraph.results.mode import Mode
from benchgraph.schedule.tuning import findings

if TYPE_CHECKING:  # numpy and LLVM, which a process that only hands cases to workers does without
    from benchgraph.core.arrays import Array
    from benchgraph.library.protocol import Library

MEMORY_SHARE = 0.85  # a case that needs more of the free memory is skipped; benchdnn has 0.75, by a rougher estimate


class Probe(Protocol):
    """Measures the machine's present rate."""

    def sample(self) -> float:
        """FLOP/s, or bytes/s."""


class BandwidthProbe(Probe, Protocol):
    """Measures how fast the machine reads nbytes repeatedly."""

    @property
    def nbytes(self) -> int: ...


def _benchgraph(place: str, label: str) -> Library:
    from benchgraph.library import benchgraph_library
    from benchgraph.peers.checkout import checkout_library

    return checkout_library(place, label) if place else benchgraph_library()


def _onednn(place: str, label: str) -> Library:
    from benchgraph.onednn import onednn_library

    return onednn_library(place, label)


def _primitives(place: str, label: str) -> Library:
    from benchgraph.onednn.primitives import primitives_library

    return primitives_library(place, label)


def _runtime(kind: str, place: str, label: str) -> Library:
    from benchgraph.peers.inference import model_runtime

    return model_runtime(kind, place, label)


LIBRARIES: dict[str, Callable[[str, str], Library]] = {
    "benchgraph": _benchgraph,
    "onednn": _onednn,
    "onednn:primitives": _primitives,
    **{kind: partial(_runtime, kind) for kind in ("onnxruntime", "openvino", "torch", "inductor")},
}


def _library(name: str) -> Library:
    """By [LABEL=]KIND[:PLACE]. Raises BenchgraphError for one that does not exist, or cannot be used."""
    read = LibraryName.read(name)
    return LIBRARIES[read.kind](read.place, read.label)


def need_libraries(problems: Sequence[Problem], bench: Bench) -> None:
    """Check, before the first case runs, that every library exists and works, since a missing one would fail all its cases. Raises
    UsageError with the remedy.
    """
    named = [(name, p.globals.timeout) for p in problems if p.globals.mode is not Mode.list for name in p.globals.library]
    if not named:
        return
    from benchgraph.onednn.client import LOAD_S, loading_within

    limits = dict[str, float]()
    for name, timeout in named:
        limits[name] = min(timeout or LOAD_S, limits.get(name, LOAD_S))
    for name, limit in limits.items():
        try:
            with loading_within(limit):
                bench.library(name)
        except BenchgraphError as bad:
            option = f"--library={name}"
            raise UsageError(str(bad), where="" if bad.where == option else option) from bad


def need_isas(problems: Sequence[Problem]) -> None:
    """Check, before the first case runs, that the CPU has every requested instruction set. Raises UsageError with the remedy."""
    for isa in dict.fromkeys(p.globals.isa for p in problems if p.globals.mode is not Mode.list):
        try:
            with override(**({"isa": isa} if isa != Globals().isa else {})):
                current()
        except Unimplemented as bad:
            raise UsageError(bad.what, where=f"--isa={isa}" if isa != Globals().isa else bad.where, fix=bad.fix) from bad


def need_tuning(problems: Sequence[Problem]) -> None:
    """Check, before the first case runs, that every tuning file can be read. Raises UsageError with the remedy."""
    given = (p.globals.tuning for p in problems if p.globals.mode is not Mode.list)
    for where, path in dict.fromkeys(("--tuning", path) if path else (f"{PREFIX}TUNING", config().tuning) for path in given):
        try:
            findings(Path(path), current()) if path else None
        except BenchgraphError as bad:
            raise UsageError(str(bad), where=where) from bad


def _peak(threads: int, arithmetic: str) -> Probe:
    from benchgraph.measure.peak import PeakProbe  # llvmlite, which mode L does without

    return PeakProbe(threads, current(), arithmetic=arithmetic)


def _kernel(arithmetic: str) -> Probe:
    from benchgraph.measure.peak import KernelProbe

    return KernelProbe(current(), arithmetic)


def _bandwidth(threads: int, sizes: Sequence[int]) -> Sequence[BandwidthProbe]:
    from benchgraph.measure.bandwidth import bandwidth_probes

    return bandwidth_probes(sizes, threads, current())


def _evict(arrays: Sequence[Array], tlb_bytes: int, threads: int) -> Callable[[], None]:
    from benchgraph.measure.cache_eviction import Eviction

    return Eviction(arrays, tlb_bytes, threads, current())


@dataclass(frozen=True)
class Bench:
    """clock: seconds. library: by name, made anew for each case, so that every case compiles cold. probe: of the peak, by number of threads
    and arithmetic (measure/arithmetic.py); kernel: of the microkernel, by arithmetic.

    bandwidth: (threads, sizes) -> a probe for each distinct size, the smallest first. evict: (arrays, bytes to touch page by page, threads)
    -> a function that makes the arrays cold. share: bytes that a case may need where others run beside it; None: what is free.
    """

    clock: Callable[[], float] = time.perf_counter
    library: Callable[[str], Library] = _library
    probe: Callable[[int, str], Probe] = _peak
    kernel: Callable[[str], Probe] = _kernel
    free_bytes: Callable[[], int] = free_bytes
    bandwidth: Callable[[int, Sequence[int]], Sequence[BandwidthProbe]] = _bandwidth
    evict: Callable[[Sequence[Array], int, int], Callable[[], None]] = _evict
    share: int | None = None


def need_streams(problems: Sequence[Problem]) -> None:
    """Check, before the machine is measured for seconds, that some case can be timed with its streams. Raises UsageError."""
    timed = dict.fromkeys(p.globals for p in problems if p.globals.mode.is_timed)
    if not timed:
        return
    from benchgraph.measure.streams import threads_per_stream  # LLVM, which no other mode needs here

    refusal: InvalidArguments | None = None
    for g in timed:
        threads = {"threads": g.threads} if g.threads != Globals().threads else {}
        try:
            with override(**threads):
                is_single = g.mode is Mode.simulation or cold_cache(g.cold_cache).is_made
                threads_per_stream(g.num_streams, current().cores, is_single=is_single)
        except InvalidArguments as bad:
            refusal = refusal or bad
        else:
            return
    if refusal is not None:
        raise UsageError(refusal.what, where=refusal.where, fix=refusal.fix)
