"""Checks the values of a JSON report after reading, so that later computations can rely on them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from functools import cache
from math import isfinite
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

from benchgraph.core.errors import ParseError
from benchgraph.core.printable import quoted
from benchgraph.results.machine import Machine
from benchgraph.results.result import CaseResult, Origin, PolicyTiming, Result, Shard, Timing

_REMEDY = "measure anew with --report=json:FILE"


def validate(what: str, part: CaseResult | Machine | Origin | Shard) -> None:
    """Raise ParseError, which begins with `what`, for a value of the wrong type, or a number that is out of range."""
    for problem in (*_mistyped(type(part), part, ""), *_impossible(part)):
        raise ParseError(f"{what}: {problem}", fix=_REMEDY)


def _mistyped(expected: Any, value: object, where: str) -> Iterator[str]:
    """Values of the wrong type, also inside of tuples, dicts and dataclasses."""
    origin, inner = get_origin(expected), get_args(expected)
    if origin in (Union, UnionType):
        if value is not None or NoneType not in inner:
            yield from _mistyped(next(kind for kind in inner if kind is not NoneType), value, where)
    elif origin is tuple and isinstance(value, tuple):
        for each in value:
            yield from _mistyped(inner[0], each, where)
    elif origin is dict and isinstance(value, dict):
        for key, each in value.items():
            yield from _mistyped(inner[0], key, where)
            yield from _mistyped(inner[1], each, where)
    elif is_dataclass(expected) and isinstance(value, expected):  # type: ignore[arg-type]
        for name, kind in _hints(type(value)):
            yield from _mistyped(kind, getattr(value, name), name)
    elif not _is_a(value, origin or expected):
        yield f"{where} is {quoted(value)}"


def _is_a(value: object, expected: type) -> bool:
    if isinstance(value, bool):
        return expected is bool
    return isinstance(value, (int, float) if expected is float else expected)


@cache
def _hints(kind: Any) -> tuple[tuple[str, Any], ...]:
    """The fields of a dataclass and their types."""
    hints = get_type_hints(kind)
    return tuple((f.name, hints[f.name]) for f in fields(kind))


def _impossible(part: CaseResult | Machine | Origin | Shard) -> Iterator[str]:
    """Numbers of the right type but out of range."""
    if isinstance(part, CaseResult):
        yield from _not_finite("elapsed_s", [part.elapsed_s, *part.phases.values()])
        yield from _of_result(part.result)
    elif isinstance(part, Machine):
        yield from _not_finite("memory_bandwidth", [part.memory_bandwidth])
        yield from _not_positive("peak_flops", part.peak_flops.values())
        yield from _not_positive("peak_flops_1_thread", part.peak_flops_1_thread.values())
        yield from _not_positive("microkernel", part.microkernel.values())
        if left := part.microkernel.keys() - part.peak_flops_1_thread.keys():
            yield f"peak_flops_1_thread lacks {min(left)}, which microkernel has"
    elif isinstance(part, Shard):
        if not (1 <= part.part <= part.parts and part.cases >= 0):
            yield f"part {part.part} of {part.parts}, of {part.cases} cases"
    else:
        yield from _not_finite("started", [part.started])


def _of_result(r: Result) -> Iterator[str]:
    for name in ("errors", "total", "flops", "bytes", "input_bytes"):
        if (count := getattr(r, name)) < 0:
            yield f"{name} is {count}"
    if r.num_streams < 1:
        yield f"num_streams is {r.num_streams}"
    yield from _not_positive("peak_samples", r.peak_samples)
    yield from _not_positive("arithmetic_samples", r.arithmetic_samples)
    for samples in r.bandwidth_samples.values():
        yield from _not_positive("bandwidth_samples", samples)
    for t in r.timings:
        yield from _of_timings(t)


def _of_timings(policy: PolicyTiming) -> Iterator[str]:
    where = f"timings of {policy.policy}"
    yield from _of_timing(where, policy.timing)
    if policy.called is not None:
        yield from _of_timing(f"{where}, called", policy.called)
    for part in policy.partitions:
        inside = f"{where}, partition {part.id}"
        yield from _of_timing(inside, part.timing)
        if part.flops < 0 or part.bytes < 0:
            yield f"{inside}: it has {part.flops} flops and {part.bytes} bytes"
        if not (isfinite(part.compile_s) and part.compile_s >= 0):
            yield f"{inside}: compile_s is {part.compile_s}"


def _of_timing(where: str, timing: Timing) -> Iterator[str]:
    if not timing.samples_s:
        yield f"{where}: samples_s is empty"
    if timing.times < 1:
        yield f"{where}: executions_per_sample is {timing.times}"
    yield from _not_positive(f"{where}: samples_s", timing.samples_s)


def _not_positive(name: str, values: Any) -> Iterator[str]:
    return (f"{name} has {v}, which is not finite and above 0" for v in values if not (isfinite(v) and v > 0))


def _not_finite(name: str, values: Any) -> Iterator[str]:
    return (f"{name} has {v}, which is not finite" for v in values if not isfinite(v))
