"""Reasons to distrust a measurement, with remedies."""

from __future__ import annotations

from collections.abc import Iterator
from statistics import median

from benchgraph.results.result import PolicyTiming, Result, spread

SHORT_SAMPLE_S = 1e-3  # shorter samples are unreliable (pyperf's limit)
SHORT_COLD_S = 50e-6  # a sample of one execution: calling it from Python takes 1 to 2 us, and two threads meet within 5
SPREAD_LIMIT = 0.10  # quartile distance over median from which timings are unreliable


def distrust(result: Result) -> list[str]:
    warnings = [line for t in result.timings for line in (*_samples(t, result), *_shares(t, result))]
    if (moved := spread(result.peak_samples)) >= SPREAD_LIMIT:
        warnings.append(f"the machine's peak moved by {moved:.0%} during the run (frequency, or other programs)")
    return warnings


def _samples(t: PolicyTiming, result: Result) -> Iterator[str]:
    if t.timing.spread >= SPREAD_LIMIT:
        yield f"{t.policy}: quartiles lie {t.timing.spread:.0%} apart; close other programs or raise --max-ms-per-prb"
    short_s, unit = (SHORT_SAMPLE_S, "1 ms") if result.cold_cache == "none" else (SHORT_COLD_S, "50 us")
    if t.timing.times == 1 and median(t.timing.samples_s) < short_s:
        yield f"{t.policy}: samples last under {unit}; the clock is too coarse for them"


def _shares(t: PolicyTiming, result: Result) -> Iterator[str]:
    work = result.roofline(t)
    if (share := work.peak_share or 0.0) > 1:
        why = "the machine was busy whenever the peak was measured, or work is left out (--mode=C)"
        yield f"{t.policy}: {share:.0%} of the peak cannot be; {why}"
    if (share := work.bandwidth_share or 0.0) > 1:
        yield f"{t.policy}: {share:.0%} of the bandwidth cannot be; the machine was busy whenever the bandwidth was measured"
