"""The Chrome trace: what the Trace Event Format asks for, and spans that nest."""

from __future__ import annotations

import json
from collections import defaultdict
from dataclasses import replace
from itertools import pairwise
from typing import Any

from benchgraph.core.layers import Span
from benchgraph.options.plugins import load_report
from benchgraph.results.layers import LayerProfile
from benchgraph.results.result import ResultSet
from tests.support.result_sets import CASES, LAYERED, LAYERED_RESULTS, LAYERS, RESULTS

# begins and ends that floats of microseconds cannot hold, that touch, and that are empty
SPANS = (
    *(Span(n % 2, 0.1 * n / 3, 0.1 * (n + 1) / 3, thread) for n in range(6) for thread in (-1, 0)),
    *(Span(n % 2, 0.1 * n / 3, 0.1 * (n + 0.5) / 3, 1, 1e-9) for n in range(6)),
    Span(1, 0.2, 0.2),
)


def trace(results: ResultSet) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(load_report("trace")(results))
    return found


def layered(profile: LayerProfile) -> ResultSet:
    timings = replace(LAYERED.timings[0], layers=profile), *LAYERED.timings[1:]
    return replace(RESULTS, cases=(replace(CASES[0], result=replace(LAYERED, timings=timings)),))


def by_thread(found: dict[str, Any]) -> dict[tuple[int, int], list[dict[str, Any]]]:
    threads = defaultdict(list)
    for event in found["traceEvents"]:
        if event["ph"] == "X":
            threads[event["pid"], event["tid"]].append(event)
    return threads


def nanoseconds(event: dict[str, Any]) -> tuple[int, int]:
    return round(event["ts"] * 1e3), round((event["ts"] + event["dur"]) * 1e3)


def test_every_event_has_what_the_format_asks_for() -> None:
    found = trace(LAYERED_RESULTS)
    assert found["displayTimeUnit"] in ("ms", "ns")
    for event in found["traceEvents"]:
        assert {"ph", "name", "pid", "tid"} <= event.keys()
        assert event["ph"] in ("X", "M")
        assert event["ph"] == "M" or (event["dur"] >= 0 and event["ts"] >= 0 and isinstance(event["args"], dict))
    names = {(e["name"], e["args"]["name"]) for e in found["traceEvents"] if e["ph"] == "M" and "name" in e["args"]}
    assert ("process_name", "fused: --graph --case=a.json") in names
    assert ("thread_name", "thread 1") in names


def test_spans_of_a_thread_nest_or_follow_each_other() -> None:
    profile = replace(LAYERS, layers=(LAYERS.layers[0], replace(LAYERS.layers[1], partition=1)), spans=SPANS)
    threads = by_thread(trace(layered(profile)))
    assert set(threads) == {(1, 0), (1, 1), (1, 2), (2, 0)}
    for events in threads.values():
        open_ends = list[int]()
        for event in events:  # as a reader that keeps a stack
            begin, end = nanoseconds(event)
            while open_ends and open_ends[-1] <= begin:
                open_ends.pop()
            assert not open_ends or end <= open_ends[-1], event
            open_ends.append(end)
        for category in ("partition", "layer", "task"):
            own = [nanoseconds(e) for e in events if e["cat"] == category]
            assert all(a[1] <= b[0] for a, b in pairwise(sorted(own)))


def test_layers_are_inside_of_their_partition_and_say_what_they_are() -> None:
    partition, first, second = by_thread(trace(LAYERED_RESULTS))[1, 0]
    assert (partition["cat"], partition["name"], partition["ts"], partition["dur"]) == ("partition", "partition 0: chain", 0.0, 375000.0)
    assert [(e["name"], e["ts"], e["dur"]) for e in (first, second)] == [("a.0.fc", 0.0, 250000.0), ("a.1.fc", 250000.0, 125000.0)]
    assert first["args"] == {
        "ops": [3, 1],
        "kinds": ["MatMul", "ReLU"],
        "with": ["a.0.act"],
        "shapes": "f32 4x8 -> f32 4x2",
        "implementation": "fast",
        "median_us": 225000.0,
        "busy": 0.75,
        "flops": 60,
        "bytes": 20,
        "roof": "bandwidth",
        "roof_share": 0.0,
    }
    (task,) = by_thread(trace(LAYERED_RESULTS))[1, 2]
    assert (task["name"], task["dur"], task["args"]) == ("a.0.fc", 125000.0, {"busy_us": 62500.0})


def test_partitions_without_layers_stand_end_to_end() -> None:
    first, second = by_thread(trace(LAYERED_RESULTS))[2, 0]
    assert first["cat"] == second["cat"] == "partition"
    assert (first["ts"], second["ts"]) == (0.0, 200000.0)


def test_a_run_without_times_is_an_empty_trace() -> None:
    assert trace(replace(RESULTS, cases=CASES[1:]))["traceEvents"] == []
