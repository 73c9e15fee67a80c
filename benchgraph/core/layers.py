"""Where the time of an execution goes: layers, and when each of them ran. What a library's own profiler tells, in its own terms."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True)
class Layer:
    """Ops that a library executes together, and times as one.

    ops: ids of the graph's ops, the one that the layer is named by first; () if the library does not tell. name: the library's own, which
    stands where it tells no ops; else ''. kind: where it is not that of the op. partition: its position in the order of execution.
    implementation: what it runs on, by the library's name, '' if it does not tell. nests: how many nests or stages of nests run as it.
    """

    ops: tuple[int, ...]
    partition: int = 0
    name: str = ""
    kind: str = ""
    implementation: str = ""
    nests: int = 1


@dataclass(frozen=True)
class Span:
    """A thread at work on a layer, in one execution. layer: its position among the layers.

    begin_s, end_s: by a clock of the library's, which runs on from one execution to the next; a library that tells durations only places
    them end to end. thread: -1 for the caller, from the begin of the layer to the end of its last thread; 0, 1, ... for each thread's own
    share of it, which is there where the library tells it. busy_s: how long the thread computed, 0 where that is all of the span.
    """

    layer: int
    begin_s: float
    end_s: float
    thread: int = -1
    busy_s: float = 0.0

    @property
    def seconds(self) -> float:
        return self.end_s - self.begin_s


def told_apart(names: Iterable[str]) -> list[str]:
    """The names, of which no two are the same: the second addmm becomes addmm_1."""
    given = list(names)
    found, taken, seen = list[str](), set(given), Counter[str]()
    for name in given:
        unique = name
        while seen[name] and unique in taken:
            unique, seen[name] = f"{name}_{seen[name]}", seen[name] + 1
        seen[name] += unique == name
        taken.add(unique)
        found.append(unique)
    return found


CALLER = -1  # Span.thread of the spans that add up to the execution


class Profiled(Protocol):
    """Partitions bound to their buffers, whose executions tell when each layer ran."""

    @property
    def layers(self) -> Sequence[Layer]:
        """In order of execution."""

    def run(self) -> Sequence[Span]:
        """Execute all partitions in order, once. One span of CALLER for every layer, or several that add up; and those of the threads."""
