"""Timing short bursts of machine code: what the probes of the machine share."""

from __future__ import annotations

import time
from typing import Any

BURST_S = 1e-3  # of one sample: short enough to take one between two timings


def seconds(function: Any, *arguments: int) -> float:
    """How long one call takes."""
    start = time.perf_counter_ns()
    function(*arguments)
    return max(1, time.perf_counter_ns() - start) / 1e9


def calibrated(run: Any, wanted_s: float, *arguments: int) -> int:
    """How many turns of `run` last about this long: one at least.

    Calibrate with one thread where that is possible: waking others can take longer than the whole burst.
    """
    turns = 1
    while (took := min(seconds(run, turns, *arguments) for _ in range(3))) < wanted_s / 4:
        turns *= 4
    return max(1, int(turns * wanted_s / took))
