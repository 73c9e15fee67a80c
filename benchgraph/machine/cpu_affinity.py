"""CPU affinity: everything that is compared is timed on the same processors.

A busy neighbour of one processor slows down a whole measurement there, which interleaving does not even out if two libraries run on
different processors (docs/measurements/timing.md).
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import cache

_TASKS = "/proc/self/task"
_CORE = "/sys/devices/system/cpu/cpu{}/topology/core_cpus_list"


@cache
def allowed_cpus() -> tuple[int, ...]:
    """The processors that this process may use, as of the first call; empty where the system does not tell."""
    return tuple(sorted(os.sched_getaffinity(0))) if hasattr(os, "sched_getaffinity") else ()


@cache
def last_cpus(count: int) -> tuple[int, ...]:
    """`count` of the allowed processors, on separate cores if possible: the last ones, since the first serve interrupts."""
    cores = dict[str, list[int]]()
    for cpu in reversed(allowed_cpus()):
        cores.setdefault(_core_of(cpu), []).append(cpu)
    ranked = sorted((rank, -cpu) for siblings in cores.values() for rank, cpu in enumerate(siblings))
    return tuple(-cpu for _, cpu in ranked[:count])


def _core_of(cpu: int) -> str:
    """A name for its core: the list of processors that share it."""
    try:
        with open(_CORE.format(cpu)) as file:
            return file.read().strip()
    except OSError:
        return str(cpu)


def pin_process(count: int) -> None:
    """Run all threads of this process, and those they start, on the last `count` processors from now on."""
    _move(last_cpus(count))


@contextmanager
def pinned(count: int) -> Iterator[None]:
    """Run all threads of this process on the last `count` processors within the block, if there are more."""
    if not 0 < count < len(allowed_cpus()):
        yield
        return
    _move(last_cpus(count))
    try:
        yield
    finally:
        _move(allowed_cpus())


@contextmanager
def apart(count: int) -> Iterator[None]:
    """The calling thread alone on the last of the allowed processors, all others on the `count` - 1 before it, within the block: threads
    of a parallel loop do not share one, as they else may for long if they sleep between loops.
    """
    if not 1 < count <= len(allowed_cpus()):
        yield
        return
    first, *others = last_cpus(count)
    _move(others)
    with suppress(OSError):  # not permitted
        os.sched_setaffinity(0, {first})
    try:
        yield
    finally:
        _move(allowed_cpus())


def _move(cpus: Iterable[int]) -> None:
    for task in os.listdir(_TASKS) if os.path.isdir(_TASKS) else ():
        with suppress(OSError):  # the thread has ended, or is not permitted to move
            os.sched_setaffinity(int(task), cpus)
