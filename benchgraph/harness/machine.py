"""The machine that is measured on, and its peak rates."""

from __future__ import annotations

import platform
import sys
from dataclasses import replace
from importlib.metadata import PackageNotFoundError, version

from benchgraph.core.config import override
from benchgraph.core.progress import report_progress
from benchgraph.harness.bench import Bench, Probe
from benchgraph.machine.identity import identity
from benchgraph.machine.table import rates
from benchgraph.machine.target import cpu_name, current, host
from benchgraph.options.knobs import Globals
from benchgraph.options.library_name import labels
from benchgraph.results.machine import Machine
from benchgraph.results.mode import Mode

PROBES = 20  # samples per figure, of a millisecond each; the best is the peak of the undisturbed machine
NAMED = ("benchgraph", "numpy", "llvmlite")


def describe(settings: Globals, bench: Bench) -> Machine:
    """The machine; in modes P and F with its measured peaks and memory bandwidth, for their threads and ISA."""
    versions = {"python": platform.python_version(), **{name: version_of(name) for name in NAMED}}
    for name, label in labels(settings.library).items() if settings.library != Globals().library else ():
        version = bench.library(name).version
        versions |= {label: version} if version else {}
    with override(**{name: value for name in ("threads", "isa") if (value := getattr(settings, name)) != getattr(Globals(), name)}):
        target = current()
        facts = Machine(
            cpu_name(),
            host().cores,
            target.isa.name,
            versions,
            target.cores,
            host=platform.node(),
            identity=identity(),
            table=rates(target).name,
        )
        if not settings.mode.is_timed or settings.mode is Mode.simulation:
            return facts
        from benchgraph.measure.arithmetic import ARITHMETICS  # the ops, which only measuring needs here

        (memory,) = bench.bandwidth(target.cores, [sys.maxsize])
        probes = [probe for a in ARITHMETICS for probe in (bench.probe(target.cores, a), bench.probe(1, a), bench.kernel(a))]
        *best, read = _best([*probes, memory])
        peaks, ones, kernels = (dict(zip(ARITHMETICS, best[i::3], strict=True)) for i in range(3))
        return replace(facts, peak_flops=peaks, peak_flops_1_thread=ones, microkernel=kernels, memory_bandwidth=read)


def _best(probes: list[Probe]) -> list[float]:
    """The best sample of each, interleaved, so that all see the same frequencies."""
    rounds = list[list[float]]()
    for _ in range(PROBES):
        report_progress("measure", len(rounds), PROBES)
        rounds.append([probe.sample() for probe in probes])
    return [max(samples) for samples in zip(*rounds, strict=True)]


def version_of(package: str) -> str:
    """The installed version; 'unknown' for a package that runs from a checkout without being installed."""
    try:
        return version(package)
    except PackageNotFoundError:
        return "unknown"
