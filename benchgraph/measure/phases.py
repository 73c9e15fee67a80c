"""The time of each phase of a case.

    load       read the file, infer shapes, apply overrides
    partition  partition the graph
    compile    compile partitions to machine code
    fill       make the input data
    execute    allocate outputs, bind, run compiled code; in mode P all sampling
    reference  the same in float64
    compare    compare the two
    other      the rest of the case

Time in a nested phase counts only for that one, so the phases of a case add up to its time.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

from benchgraph.core.progress import report_progress

OTHER = "other"


@dataclass
class _Stopwatch:
    """name: the current phase, which began at `since`; spent: seconds by phase."""

    clock: Callable[[], float]
    name: str
    since: float
    spent: dict[str, float] = field(default_factory=dict)

    def switch(self, name: str) -> None:
        now = self.clock()
        self.spent[self.name] = self.spent.get(self.name, 0.0) + now - self.since
        self.name, self.since = name, now


_running: _Stopwatch | None = None


@contextmanager
def timed(clock: Callable[[], float]) -> Iterator[dict[str, float]]:
    """Time the phases inside the block. The dict is complete when the block ends."""
    global _running
    before, _running = _running, _Stopwatch(clock, OTHER, clock())
    try:
        yield _running.spent
    finally:
        _running.switch(OTHER)
        _running = before


@contextmanager
def phase(name: str) -> Iterator[None]:
    """The block, or the function it decorates, is this phase of the case, timed inside `timed`."""
    report_progress(name)
    watch = _running
    if watch is None:
        yield
        return
    outer = watch.name
    watch.switch(name)
    try:
        yield
    finally:
        watch.switch(outer)
        report_progress(outer)


def table(cases: Iterable[Mapping[str, float]], whole_s: float) -> str:
    """Phases of all cases, seconds and share of the whole run. whole_s: its seconds, times the number of parallel processes.

    `between` is the time outside of cases: imports, option parsing, printing, and idle worker processes.
    """
    spent: Counter[str] = Counter()
    for phases in cases:
        spent.update(phases)
    rows = [*sorted(spent.items(), key=lambda row: -row[1]), ("between", max(whole_s - spent.total(), 0.0)), ("whole run", whole_s)]
    return "\n".join(f"{name:<10} {seconds:>9.3f} s {seconds / whole_s if whole_s else 0.0:>6.1%}" for name, seconds in rows)
