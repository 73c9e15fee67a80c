"""the layers of one execution as a Chrome trace, for ui.perfetto.dev and chrome://tracing

One process per case and policy, or library. Its first thread is the caller, with the partitions and the layers in them; the others are what
each thread computed of them. Layers come from --layers; without them partitions stand end to end, each as long as its median.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any, TypeAlias

from benchgraph.core.layers import CALLER, Span
from benchgraph.options.repro import split
from benchgraph.results.layers import LayerProfile, LayerTiming
from benchgraph.results.result import CaseResult, PartitionTiming, PolicyTiming, Result, ResultSet
from benchgraph.results.roofline import Roofline

SUFFIXES = (".trace",)

Event: TypeAlias = dict[str, Any]


def render(results: ResultSet) -> str:
    """JSON in the Trace Event Format: complete events ("X") in microseconds, a line each, outer ones before those inside them."""
    events = [event for pid, (case, t) in enumerate(_timed(results), start=1) for event in _process(pid, case, t)]
    machine = results.machine
    about = {"machine": machine.cpu, "threads": machine.threads, **machine.versions} if machine is not None else {}
    lines = ",\n".join(json.dumps(event) for event in events)
    return f'{{"displayTimeUnit": "ns", "otherData": {json.dumps(about)}, "traceEvents": [\n{lines}\n]}}\n'


def _timed(results: ResultSet) -> Iterator[tuple[CaseResult, PolicyTiming]]:
    return ((case, t) for case in results.cases for t in case.result.timings)


def _process(pid: int, case: CaseResult, t: PolicyTiming) -> Iterator[Event]:
    yield _named("process", pid, 0, f"{t.policy}: {split(case.repro).identity}")
    yield {"ph": "M", "name": "process_sort_index", "pid": pid, "tid": 0, "args": {"sort_index": pid}}
    yield _named("thread", pid, 0, "partitions and layers")
    if t.layers is None:
        now = 0.0
        for p in t.partitions:
            yield _span(pid, 0, "partition", f"partition {p.id}: {p.kind}", now, now + p.timing.median_s, _of_partition(case.result, p))
            now += p.timing.median_s
        return
    threads = sorted({s.thread for s in t.layers.spans if s.thread != CALLER})
    for thread in threads:
        yield _named("thread", pid, 1 + thread, f"thread {thread}")
    yield from _caller(pid, case.result, t, t.layers)
    for s in t.layers.spans:
        if s.thread != CALLER:
            args = {"busy_us": round(1e6 * (s.busy_s or s.seconds), 3)}
            yield _span(pid, 1 + s.thread, "task", t.layers.layers[s.layer].name, s.begin_s, s.end_s, args)


def _caller(pid: int, r: Result, t: PolicyTiming, profile: LayerProfile) -> Iterator[Event]:
    """Each partition, before its layers."""
    spans = [s for s in profile.spans if s.thread == CALLER]
    partitions = {p.id: p for p in t.partitions}
    for number, own in _by_partition(profile, spans):
        p = partitions.get(number)
        name = f"partition {number}" + (f": {p.kind}" if p is not None else "")
        args = {} if p is None else _of_partition(r, p)
        yield _span(pid, 0, "partition", name, own[0].begin_s, max(s.end_s for s in own), args)
        for s in own:
            layer = profile.layers[s.layer]
            yield _span(pid, 0, "layer", layer.name, s.begin_s, s.end_s, _of_layer(r, layer))


def _by_partition(profile: LayerProfile, spans: Iterable[Span]) -> list[tuple[int, list[Span]]]:
    """Neighbouring spans of one partition, in order of time."""
    found = list[tuple[int, list[Span]]]()
    for s in sorted(spans, key=lambda s: s.begin_s):
        number = profile.layers[s.layer].partition
        if not found or found[-1][0] != number:
            found.append((number, []))
        found[-1][1].append(s)
    return found


def _of_layer(r: Result, layer: LayerTiming) -> Event:
    args: Event = {"ops": list(layer.ops), "kinds": list(layer.kinds), "with": list(layer.names), "shapes": layer.shapes}
    args |= {"implementation": layer.implementation, "median_us": round(layer.median_s * 1e6, 3)}
    if layer.busy is not None:
        args["busy"] = round(layer.busy, 4)
    return args | _of_roof(r.roofline(layer))


def _of_partition(r: Result, p: PartitionTiming) -> Event:
    return {"ops": list(p.ops), "median_us": round(p.timing.median_s * 1e6, 3)} | _of_roof(r.roofline(p))


def _of_roof(work: Roofline) -> Event:
    shares = [share for share in (work.peak_share, work.bandwidth_share) if share is not None]
    return {"flops": work.flops, "bytes": work.bytes} | ({"roof": work.bound, "roof_share": round(max(shares), 4)} if shares else {})


def _named(what: str, pid: int, tid: int, name: str) -> Event:
    return {"ph": "M", "name": f"{what}_name", "pid": pid, "tid": tid, "args": {"name": name}}


def _span(pid: int, tid: int, category: str, name: str, begin_s: float, end_s: float, args: Event) -> Event:
    """Whole nanoseconds, so that spans that touch do not overlap."""
    begin, end = round(begin_s * 1e9), round(end_s * 1e9)
    return {"ph": "X", "cat": category, "name": name, "pid": pid, "tid": tid, "ts": begin / 1e3, "dur": (end - begin) / 1e3, "args": args}
