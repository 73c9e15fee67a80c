"""How fast all threads read memory of a given size, from whichever cache holds it.

Every thread loads its own contiguous part of a buffer in whole vectors, repeatedly, and combines them by exclusive-or. Bytes are counted
once per load. Nothing is stored to the buffer, so no lines are read to be overwritten or written back: the result is the read bandwidth, an
upper bound for any mix with writes. Repetition brings the data into the smallest cache that holds them, so the buffer's size determines the
level: a few KB are read from L1, some hundred from L2, several times the last level from memory. Measured at a case's working-set size, it
bounds executions on hot caches; measured beyond all caches, executions on cold ones.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchgraph.codegen.emit import PARALLEL
from benchgraph.machine.target import LINE_BYTES, Target, last_level_bytes
from benchgraph.measure.burst_timing import BURST_S, calibrated, seconds
from benchgraph.runtime.code import Code
from benchgraph.runtime.jit import jit
from benchgraph.runtime.memory import aligned, mapped

LOADS = 8  # independent chains of exclusive-ors, so that no load waits for the result of another
MEMORY_FACTOR = 4  # STREAM's rule: a buffer of four last-level caches leaves nothing of one pass for the next


class BandwidthProbe:
    """Reads nbytes repeatedly with all threads. code: of `run`; buffer: at least as long, written before so that its pages are mapped."""

    def __init__(self, nbytes: int, threads: int, code: Code, buffer: NDArray[np.uint8]) -> None:
        self.nbytes = nbytes
        self._code = code
        self._run: Any = ctypes.CFUNCTYPE(None, *[ctypes.c_int64] * 3, *[ctypes.c_void_p] * 2)(code.address("run"))
        self.sums = aligned(threads * LINE_BYTES)
        self._arguments = (nbytes // threads, threads, buffer.ctypes.data, self.sums.ctypes.data)
        self._buffer = buffer
        self._iterations = calibrated(self._run, BURST_S, nbytes // threads, 1, buffer.ctypes.data, self.sums.ctypes.data)

    def sample(self) -> float:
        """Bytes/s of all threads, over about a millisecond, or over one iteration if that takes longer."""
        return self._iterations * self.nbytes / seconds(self._run, self._iterations, *self._arguments)


def bandwidth_probes(
    sizes: Iterable[int], threads: int, target: Target, runtime: str | None = None, buffer: NDArray[np.uint8] | None = None
) -> list[BandwidthProbe]:
    """A probe per distinct size in bytes, the smallest first. buffer: what is read, written before so that its pages are mapped, and a few
    steps longer than the largest size; None for one of their own.

    Sizes are rounded up to whole steps of every thread, and limited to `memory_bytes`, which is read from memory anyway.
    """
    step = threads * LOADS * target.lanes * 4
    most = memory_bytes() if buffer is None else buffer.nbytes
    rounded = sorted({-(-max(1, min(n, most)) // step) * step for n in sizes})
    if not rounded:
        return []
    code = _code(threads, target, runtime)
    if buffer is None:
        buffer = mapped(rounded[-1])
        buffer.fill(1)
    return [BandwidthProbe(n, threads, code, buffer) for n in rounded]


def memory_bytes() -> int:
    """A working set larger than all caches of this machine."""
    return MEMORY_FACTOR * last_level_bytes()


_READ = """
declare void @{parallel}(ptr, ptr, i64)

define internal void @burst(ptr %region, i64 %begin, i64 %end, i64 %thread) {{
entry:
  %passes = load i64, ptr %region
  %share.at = getelementptr {{i64, i64, ptr, ptr}}, ptr %region, i64 0, i32 1
  %share = load i64, ptr %share.at
  %buffer.at = getelementptr {{i64, i64, ptr, ptr}}, ptr %region, i64 0, i32 2
  %buffer = load ptr, ptr %buffer.at
  %sums.at = getelementptr {{i64, i64, ptr, ptr}}, ptr %region, i64 0, i32 3
  %sums = load ptr, ptr %sums.at
  %first = mul i64 %begin, %share
  %from = getelementptr i8, ptr %buffer, i64 %first
  %shares = sub i64 %end, %begin
  %bytes = mul i64 %shares, %share
  br label %pass
pass:
  %t = phi i64 [0, %entry], [%t.next, %passed]
{outer_phis}
  br label %line
line:
  %i = phi i64 [0, %pass], [%i.next, %line]
{inner_phis}
  %at = getelementptr i8, ptr %from, i64 %i
{loads}
  %i.next = add i64 %i, {step}
  %more = icmp slt i64 %i.next, %bytes
  br i1 %more, label %line, label %passed
passed:
  %t.next = add i64 %t, 1
  %again = icmp slt i64 %t.next, %passes
  br i1 %again, label %pass, label %done
done:
{sum}
  %offset = mul i64 %begin, {line_bytes}
  %sum.at = getelementptr i8, ptr %sums, i64 %offset
  store {type} %z{last}, ptr %sum.at, align 4
  ret void
}}

define void @run(i64 %passes, i64 %share, i64 %threads, ptr %buffer, ptr %sums) {{
  %region = alloca {{i64, i64, ptr, ptr}}
  store i64 %passes, ptr %region
  %share.at = getelementptr {{i64, i64, ptr, ptr}}, ptr %region, i64 0, i32 1
  store i64 %share, ptr %share.at
  %buffer.at = getelementptr {{i64, i64, ptr, ptr}}, ptr %region, i64 0, i32 2
  store ptr %buffer, ptr %buffer.at
  %sums.at = getelementptr {{i64, i64, ptr, ptr}}, ptr %region, i64 0, i32 3
  store ptr %sums, ptr %sums.at
  call void @{parallel}(ptr @burst, ptr %region, i64 %threads)
  ret void
}}
"""


def _code(threads: int, target: Target, runtime: str | None) -> Code:
    """Code of `run(iterations, bytes of a thread's share, threads, buffer, sums)`.

    Each share stores the exclusive-or of all its vectors to a line of sums, so that no load is dead. A thread with several shares (in a
    team smaller than requested) reads them as one.
    """
    type, vector = f"<{target.lanes} x i32>", target.lanes * 4
    each = range(LOADS)
    loads = [
        line
        for k in each
        for line in (
            f"  %p{k} = getelementptr i8, ptr %at, i64 {k * vector}",
            f"  %v{k} = load {type}, ptr %p{k}, align {min(vector, LINE_BYTES)}",
            f"  %y{k} = xor {type} %x{k}, %v{k}",
        )
    ]
    text = _READ.format(
        parallel=PARALLEL,
        type=type,
        step=LOADS * vector,
        line_bytes=LINE_BYTES,
        last=LOADS - 1,
        outer_phis="\n".join(f"  %o{k} = phi {type} [zeroinitializer, %entry], [%y{k}, %passed]" for k in each),
        inner_phis="\n".join(f"  %x{k} = phi {type} [%o{k}, %pass], [%y{k}, %line]" for k in each),
        loads="\n".join(loads),
        sum="\n".join(f"  %z{k} = xor {type} {f'%z{k - 1}' if k else 'zeroinitializer'}, %y{k}" for k in each),
    )
    return jit([text], replace(target, cores=threads), runtime)
