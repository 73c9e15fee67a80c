"""A record of a compilation, for `benchgraph explain`: the loop of passes records every step, passes note why they did not do something.

with recorded() as record:
    compile_partition(...)       # record.steps, record.notes
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Step:
    """One pass, or the input of a pipeline. ir: its result. is_off: whether it was left out; then ir is its input."""

    name: str
    ir: object
    seconds: float = 0.0
    is_changed: bool = False
    is_off: bool = False


@dataclass(frozen=True)
class Note:
    """Why a pass did not do something. about: the parts of its IR that this is about."""

    about: tuple[object, ...]
    why: str


@dataclass
class Record:
    steps: list[Step] = field(default_factory=list)
    notes: list[Note] = field(default_factory=list)


_record: ContextVar[Record | None] = ContextVar("_record", default=None)


def is_recorded() -> bool:
    """Whether there is a record: reasons that are expensive to find are looked for only then."""
    return _record.get() is not None


def step(step: Step) -> None:
    record = _record.get()
    if record is not None:
        record.steps.append(step)


def note(*about: object, why: str) -> None:
    record = _record.get()
    if record is not None and why:
        record.notes.append(Note(about, why))


@contextmanager
def recorded() -> Iterator[Record]:
    """Record what this thread compiles within the block."""
    record = Record()
    token = _record.set(record)
    try:
        yield record
    finally:
        _record.reset(token)
