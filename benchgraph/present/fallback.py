"""What of a case numpy executes because no op of the library computes it: a line for each kind."""

from __future__ import annotations

from collections.abc import Iterator

from benchgraph.core.formats import counted
from benchgraph.results.fallback_kind import FallbackKind
from benchgraph.results.result import Result

# What executes them, if not numpy
BY = {"onnx": ", by onnx's reference", "torch": ", by torch"}


def lines(r: Result) -> Iterator[str]:
    """Number, share of the time of all partitions under each policy, and share of the FLOPs."""
    if not r.fallback:
        return
    total = sum(len(f.ops) for f in r.fallback)
    times = "; ".join(f"{t.policy} {sum(f.share(t.partitions) for f in r.fallback):.1%}" for t in r.timings)
    yield f"{counted(total, 'op')} executed by numpy, between the partitions" + (f", in this share of their time: {times}" if times else "")
    yield from (f"  {_line(f, r)}" for f in r.fallback)


def _line(f: FallbackKind, r: Result) -> str:
    parts = [f"{f.kind} ({len(f.ops)})" + BY.get(f.by, "")]
    parts += [f"{t.policy} {f.share(t.partitions):.1%}" for t in r.timings]
    return ", ".join([*parts, _flops(f, r)])


def _flops(f: FallbackKind, r: Result) -> str:
    if f.flops is None:
        return "FLOPs not known"
    return f"{f.flops / r.flops:.2%} of the FLOPs" if f.flops else "no FLOPs"
