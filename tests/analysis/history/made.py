"""Runs that were never measured."""

from __future__ import annotations

from collections.abc import Mapping

from benchgraph.results.machine import Machine
from benchgraph.results.mode import Mode
from benchgraph.results.result import CaseResult, Origin, PolicyTiming, Result, ResultSet, Status, Timing

MACHINE = Machine("Test CPU", 4, "avx2", {"python": "3.11", "numpy": "2.4.5"}, 2, {"f32": 16e9}, {"f32": 8e9}, {"f32": 6e9})
START = 1_790_000_000.0  # 2026-09-21
DAY = 86400.0


def around(middle: float) -> tuple[float, ...]:
    return tuple(middle * factor for factor in (1.0, 1.01, 0.99, 1.005, 0.995))


def run(
    number: int,
    times: Mapping[str, Mapping[str, float]],
    *,
    commit: str = "",
    machine: Machine = MACHINE,
    peak: float = 16e9,
    flops: int = 1000,
) -> ResultSet:
    """The run of day `number`. times: case -> policy -> seconds, the middle of five samples."""
    cases = tuple(
        CaseResult(
            i,
            f"--mode=P --graph --case={case}",
            1.0,
            Result(
                Status.EXECUTED,
                flops=flops,
                timings=tuple(PolicyTiming(p, Timing(around(t), 4), ()) for p, t in of_one.items()),
                peak_samples=around(peak) if peak else (),
            ),
            {"execute": 1.0},
        )
        for i, (case, of_one) in enumerate(times.items())
    )
    return ResultSet(Mode.performance, machine, cases, 2.0, Origin(f"uid-{number}", START + number * DAY, commit))
