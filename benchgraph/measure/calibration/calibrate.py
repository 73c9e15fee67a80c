"""All loops of a machine, measured: its rates."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain

from benchgraph.machine.target import Target
from benchgraph.measure.calibration.arithmetic_loops import arithmetic_loops
from benchgraph.measure.calibration.memory_loops import memory_loops
from benchgraph.measure.calibration.overhead_loops import overhead_loops
from benchgraph.measure.calibration.rates import datapath_bits, measured_rates
from benchgraph.measure.calibration.rounds import Source, minima


@dataclass(frozen=True)
class Calibrated:
    """rates: by name, those that were measured; of one thread alone there are fewer. datapath_bits: as in a table. rounds: samples of each
    loop.
    """

    rates: Mapping[str, float]
    datapath_bits: int
    rounds: int


def loops(target: Target) -> Iterator[tuple[str, Source]]:
    """Compiled, with their memory. Raises OutOfMemory."""
    yield from chain(arithmetic_loops(target), overhead_loops(target), memory_loops(target))


def calibrated(target: Target, sources: Mapping[str, Source], budget_s: float, clock: Callable[[], float]) -> Calibrated:
    """sources: `loops`. budget_s, clock: as in `minima`."""
    least, rounds = minima(sources, budget_s, clock)
    return Calibrated(measured_rates(least, target.cores), datapath_bits(least, target.isa.vector_bits), rounds)
