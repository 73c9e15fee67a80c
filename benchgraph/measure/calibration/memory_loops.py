"""Bytes from and to each level of memory, latencies, and lines that another core has written.

What is read and written lies in one buffer, larger than all caches; how much of it a loop goes through, again and again, decides which
level it comes from: half of L1 or L2, four times L2 (half of the last-level caches at most), or all of it. Passes over all of it also
evict the lines whose latencies are those of memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from benchgraph.codegen import ir
from benchgraph.codegen.building_blocks import loop, offset_pointer, repeat
from benchgraph.codegen.intrinsics import I8, I32, I64, PTR, VOID, call, splat
from benchgraph.core.errors import OutOfMemory
from benchgraph.core.free_memory import free_bytes
from benchgraph.machine.rates import LEVELS, Level
from benchgraph.machine.target import LINE_BYTES, PAGE_BYTES, Target, last_level_bytes
from benchgraph.machine.topology import last_level_caches
from benchgraph.measure.bandwidth import LOADS, bandwidth_probes, memory_bytes
from benchgraph.measure.calibration.timed_loop import Entry, TimedLoop, kept, opaque
from benchgraph.runtime.memory import aligned, mapped

_WORDS = LINE_BYTES // 8  # of an address, in a line
_CHASED = 1 << 18  # lines of memory that are read one after the other at most: none twice before a pass over all memory
_IN_A_ROW = 2  # samples of a loop: the first brings data into the cache
_SPREAD = 8  # share of the buffer's size over which these lines lie
_WRITTEN_BYTES = 128 << 10  # by one core, and still in its L2
_ROWS = 4  # that are read side by side
_SLACK_BYTES = 1 << 20  # sizes are rounded up to whole steps of all threads


@dataclass(frozen=True)
class Sampled:
    """Another source of samples: nanoseconds of a unit."""

    sample: Callable[[], float]


def memory_loops(target: Target) -> Iterator[tuple[str, TimedLoop | Sampled]]:
    """Read, then written, then one line after another. Raises OutOfMemory."""
    try:
        buffer = mapped(buffer_bytes() + _SLACK_BYTES)
    except OutOfMemory as full:
        raise OutOfMemory(full.what, where="calibrate", fix="end other programs") from full
    buffer.fill(1)
    most = buffer.nbytes - _SLACK_BYTES
    for threads in (1, target.cores) if target.cores > 1 else (1,):
        for level in LEVELS if threads == 1 else ("l3", "dram"):
            nbytes = level_bytes(level, target, threads, most)
            yield _name(level, "read", threads), _loads(target, threads, buffer, nbytes)
            yield _name(level, "write", threads), _stores(target, threads, buffer, nbytes, is_non_temporal=False)
        yield _name("dram", "non_temporal", threads), _stores(target, threads, buffer, most, is_non_temporal=True)
    yield "l2.rows_read_bytes_per_cycle", _loads_of_rows(target, buffer, level_bytes("l2", target, 1, most), (target.lanes, 2))
    half_a_line = LINE_BYTES // 2 // 4  # lanes
    yield "dram.page_rows_read_bytes_per_ns", _loads_of_rows(target, buffer, most, (min(target.lanes, half_a_line), 1))
    for level in LEVELS:  # half as much of L2, whose lines collide where pages lie anywhere
        nbytes = most // _SPREAD if level == "dram" else level_bytes(level, target, 1, most) // (1 + (level == "l2"))
        yield f"{level}.latency_ns", _chase(target, mapped(nbytes), is_warm=level != "dram")
    if target.cores > 1:
        yield from _written(target)


def buffer_bytes() -> int:
    """Four times all last-level caches, and half of the free memory at most."""
    wanted = memory_bytes() * last_level_caches()
    try:
        return min(wanted, free_bytes() // 2)
    except OutOfMemory:  # the system does not say
        return wanted


def level_bytes(level: Level, target: Target, threads: int, most: int) -> int:
    """How many bytes so many threads go through together. Of L3 more than their L2 hold, even if that is more than half of it."""
    if level == "dram":
        return most
    half = last_level_bytes() * (last_level_caches() if threads > 1 else 1) // 2
    shared = min(4 * target.l2_bytes, max(half // threads, target.l2_bytes * 3 // 2))
    return threads * {"l1": target.l1_bytes // 2, "l2": target.l2_bytes // 2, "l3": shared}[level]


def _name(level: Level, what: str, threads: int) -> str:
    return f"{level}.{what}_bytes_per_cycle" if level in ("l1", "l2") else f"{level}.{'all_' if threads > 1 else ''}{what}_bytes_per_ns"


def _loads(target: Target, threads: int, buffer: NDArray[np.uint8], nbytes: int) -> Sampled:
    (probe,) = bandwidth_probes([nbytes], threads, target, buffer=buffer)
    return Sampled(lambda: 1e9 / max(probe.sample() for _ in range(_IN_A_ROW)))


def _loads_of_rows(target: Target, buffer: NDArray[np.uint8], nbytes: int, vectors: tuple[int, int]) -> TimedLoop:
    """Rows of a quarter of a page, four at a time. vectors: of so many lanes, and how many of each row at a time. Units: bytes."""
    lanes, count = vectors
    row_bytes, step = PAGE_BYTES // _ROWS, lanes * 4 * count
    groups, columns = nbytes // PAGE_BYTES, row_bytes // step
    places = [row * row_bytes + vector * lanes * 4 for row in range(_ROWS) for vector in range(count)]

    def emit(entry: Entry) -> None:
        b = entry.builder
        type = I32.lanes(lanes)

        def group(number: ir.Value, now: list[ir.Value]) -> list[ir.Value]:
            start = offset_pointer(b, entry.pointer(0), b.mul(number, I64(PAGE_BYTES)), I8)

            def column(i: ir.Value, sums: list[ir.Value]) -> list[ir.Value]:
                at = offset_pointer(b, start, b.mul(i, I64(step)), I8)
                return [b.xor(x, b.load(offset_pointer(b, at, place, I8), typ=type)) for x, place in zip(sums, places, strict=True)]

            return loop(b, columns, now, column)

        firsts = [opaque(entry, ir.Constant(type, "zeroinitializer")) for _ in places]
        kept(entry, loop(b, entry.iterations, firsts, lambda _, now: loop(b, groups, now, group)))

    return TimedLoop(emit, target, groups * PAGE_BYTES, pointers=[buffer.ctypes.data], held=buffer, warm_up=1)


def _stores(target: Target, threads: int, buffer: NDArray[np.uint8], nbytes: int, *, is_non_temporal: bool) -> TimedLoop:
    """Every thread writes its own part of the buffer. Units: bytes."""
    vector_bytes = target.lanes * 4
    step = LOADS * vector_bytes
    share = nbytes // threads // step * step

    def emit(entry: Entry) -> None:
        b = entry.builder
        start = offset_pointer(b, entry.pointer(0), b.mul(entry.share, I64(share)), I8)

        def one_pass(number: ir.Value) -> None:
            value = splat(b, b.trunc(number, I32), target.lanes)

            def stores(i: ir.Value) -> None:
                at = offset_pointer(b, start, b.mul(i, I64(step)), I8)
                for k in range(LOADS):
                    b.store(value, offset_pointer(b, at, k * vector_bytes, I8), vector_bytes, non_temporal=is_non_temporal)

            repeat(b, share // step, stores)

        repeat(b, entry.iterations, one_pass)
        if is_non_temporal and target.isa.needs:
            call(b, "llvm.x86.sse.sfence", VOID, [], ir.ANYWHERE)

    passes = 1 if nbytes <= last_level_bytes() else 0
    return TimedLoop(emit, target, share, threads, [buffer.ctypes.data], buffer, warm_up=passes)


def _chased(buffer: NDArray[np.uint8], lines: int, seed: int = 0) -> int:
    """Makes each of so many lines, spread over the buffer, hold the address of another one, in a circle; gives the first address."""
    words = buffer[: buffer.nbytes // LINE_BYTES * LINE_BYTES].view(np.int64)
    rng = np.random.default_rng(seed)
    order = rng.permutation(lines) * (words.size // _WORDS // lines) * _WORDS
    words[order] = np.roll(order, -1) * 8 + buffer.ctypes.data
    return buffer.ctypes.data + int(order[0]) * 8


def _steps(entry: Entry, first: ir.Value, count: ir.Value) -> ir.Value:
    """From line to line; the last address."""
    b = entry.builder
    return loop(b, count, [first], lambda _, now: [b.load(now[0], typ=PTR)])[0]


def _chase(target: Target, buffer: NDArray[np.uint8], *, is_warm: bool) -> TimedLoop:
    """One line after the other, going on where the last sample ended. is_warm: all of them before each sample. Units: lines."""
    place, lines = aligned(8), min(buffer.nbytes // LINE_BYTES, _CHASED)
    place.view(np.int64)[0] = _chased(buffer, lines)

    def emit(entry: Entry) -> None:
        b = entry.builder
        at = entry.pointer(0)
        b.store(_steps(entry, b.load(at, typ=PTR), entry.iterations), at)

    return TimedLoop(emit, target, 1, pointers=[place.ctypes.data], held=(buffer, place), warm_up=lines if is_warm else 0)


def _written(target: Target) -> Iterator[tuple[str, Sampled]]:
    """Two threads write a buffer each, and then read the other's: line by line, and all lines in sequence."""
    buffers, lines = [aligned(_WRITTEN_BYTES) for _ in range(2)], _WRITTEN_BYTES // LINE_BYTES
    firsts = [_chased(buffer, lines) for buffer in buffers]
    starts = [buffer.ctypes.data for buffer in buffers]
    write = TimedLoop(_written_by_each, target, 1, 2, starts, buffers)
    chase, read = (TimedLoop(emit, target, 1, 2, pointers) for emit, pointers in ((_chase_other, firsts), (_read_other, starts)))

    def after_writing(reader: TimedLoop) -> Callable[[], float]:
        def sample() -> float:
            write.once()
            return reader.once() / lines

        return sample

    yield "written.latency_ns", Sampled(after_writing(chase))
    yield "written.line_ns", Sampled(after_writing(read))


def _of_share(entry: Entry, own: bool) -> ir.Value:
    """The first address of this thread, or of the other one."""
    b = entry.builder
    is_first = b.icmp_unsigned("==", entry.share, I64(0))
    first, second = (entry.pointer(i) for i in range(2))
    return b.select(is_first, *((first, second) if own else (second, first)))


def _written_by_each(entry: Entry) -> None:
    b, start = entry.builder, _of_share(entry, own=True)
    repeat(b, _WRITTEN_BYTES // LINE_BYTES, lambda i: b.store(i, offset_pointer(b, start, b.add(b.mul(i, I64(_WORDS)), I64(1)), I64)))


def _chase_other(entry: Entry) -> None:
    last = _steps(entry, _of_share(entry, own=False), I64(_WRITTEN_BYTES // LINE_BYTES))
    kept(entry, [entry.builder.ptrtoint(last, I64)])


def _read_other(entry: Entry) -> None:
    b, start = entry.builder, _of_share(entry, own=False)

    def line(i: ir.Value, now: list[ir.Value]) -> list[ir.Value]:
        return [b.add(now[0], b.load(offset_pointer(b, start, b.mul(i, I64(_WORDS)), I64), typ=I64))]

    kept(entry, loop(b, _WRITTEN_BYTES // LINE_BYTES, [I64(0)], line))
