"""What a run asks of the engine that reaches the workers, and what the engine tells: dask_engine.py is one, tests have others."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias


@dataclass(frozen=True)
class Member:
    """A worker. last_seen: when the scheduler last heard of it, by the scheduler's clock."""

    threads: int
    last_seen: float


@dataclass(frozen=True)
class Members:
    """All workers, by address; told again and again."""

    by_address: dict[str, Member]


@dataclass(frozen=True)
class Begun:
    """On its worker, a call has begun what it is for: it has said so by `tell_begun`."""

    ticket: int


@dataclass(frozen=True)
class Answered:
    """A call has returned."""

    ticket: int
    value: Any


@dataclass(frozen=True)
class Failed:
    """A call has raised, or cannot be made: its worker cannot load the function."""

    ticket: int
    why: str


@dataclass(frozen=True)
class Forgotten:
    """A call will not be answered, since the scheduler has lost it."""

    ticket: int


@dataclass(frozen=True)
class Disconnected:
    """The scheduler does not answer. All calls under way are void; the engine tries to connect again."""

    why: str


@dataclass(frozen=True)
class Connected:
    """The scheduler answers, for the first time or again."""

    scheduler: str


Event: TypeAlias = Members | Begun | Answered | Failed | Forgotten | Disconnected | Connected


class Engine(Protocol):
    """Calls functions on workers. It runs beside the caller, and does not block it."""

    def call(self, ticket: int, worker: str, function: Callable[..., Any], *arguments: Any) -> None:
        """Call a function on a worker; functions are found there by name. Answered, Failed or Forgotten follows, or Disconnected."""

    def forget(self, ticket: int) -> None:
        """The answer of a call is no longer wanted."""

    def events(self, within_s: float) -> Sequence[Event]:
        """What has happened since the last call, in order. Waits for something to happen, but no longer than that."""

    def close(self) -> None:
        """Leave the cluster; one that was started for the run ends."""


# ---- on a worker -----------------------------------------------------------------------------------------------------

_TELL = ContextVar[Callable[[], None]]("_TELL", default=lambda: None)


def tell_begun() -> None:
    """Inside of a call: let the client know that the call begins what it is for, from which it may die."""
    _TELL.get()()


@contextmanager
def told_by(tell: Callable[[], None]) -> Iterator[None]:
    """For an engine: tell_begun calls this in the block."""
    token = _TELL.set(tell)
    try:
        yield
    finally:
        _TELL.reset(token)
