"""Which processors run what is timed: the same ones for all that is compared, be they fewer than there are.

A library that is timed on one thread in a process of its own has another processor than ours, wherever the scheduler puts the two, and a
busy neighbour slows down one of them for as long as all of a measurement: interleaving does not help. Product of 80x512 by 512x904 in f32
on one of two Zen 4 CPUs, six runs, time over that of oneDNN 3.13 (medians): 0.61 to 1.31 where the scheduler chose, 0.92 to 0.95 on the
same one.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import cache

_TASKS = "/proc/self/task"
_CORE = "/sys/devices/system/cpu/cpu{}/topology/core_cpus_list"


@cache
def given() -> tuple[int, ...]:
    """The processors that this process may use, as it was when it first asked; empty where the system does not tell."""
    return tuple(sorted(os.sched_getaffinity(0))) if hasattr(os, "sched_getaffinity") else ()


@cache
def last(count: int) -> tuple[int, ...]:
    """So many of those given, each on a core of its own as far as there are cores: the last ones, since the first serve interrupts."""
    cores = dict[str, list[int]]()
    for cpu in reversed(given()):
        cores.setdefault(_core_of(cpu), []).append(cpu)
    interleaved_intervals = sorted((turn, -cpu) for siblings in cores.values() for turn, cpu in enumerate(siblings))
    return tuple(-cpu for _, cpu in interleaved_intervals[:count])


def _core_of(cpu: int) -> str:
    """What names its core: the list of processors that share it."""
    try:
        with open(_CORE.format(cpu)) as file:
            return file.read().strip()
    except OSError:
        return str(cpu)


def stay_on_last(count: int) -> None:
    """All threads of this process, and those they start, run on so many processors from now on; on all, where there are no more."""
    _move(last(count))


@contextmanager
def on_last(count: int) -> Iterator[None]:
    """The same within the block, and afterwards anywhere again."""
    if not 0 < count < len(given()):
        yield
        return
    _move(last(count))
    try:
        yield
    finally:
        _move(given())


def _move(cpus: Iterable[int]) -> None:
    for task in os.listdir(_TASKS) if os.path.isdir(_TASKS) else ():
        with suppress(OSError):  # it has ended meanwhile, or may not choose: then it stays
            os.sched_setaffinity(int(task), cpus)
