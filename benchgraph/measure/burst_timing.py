"""Timing of short bursts of machine code, shared by the probes of the machine."""

from __future__ import annotations

import time
from typing import Any

BURST_S = 1e-3  # of one sample: short enough to fit between two timings


def seconds(function: Any, *arguments: int) -> float:
    start = time.perf_counter_ns()
    function(*arguments)
    return max(1, time.perf_counter_ns() - start) / 1e9


def calibrated(run: Any, wanted_s: float, *arguments: int) -> int:
    """How many iterations of `run` take about this long; at least one.

    Calibrate with one thread if possible: waking others can take longer than the whole burst.
    """
    iterations = 1
    while (took := min(seconds(run, iterations, *arguments) for _ in range(3))) < wanted_s / 4:
        iterations *= 4
    return max(1, int(iterations * wanted_s / took))
