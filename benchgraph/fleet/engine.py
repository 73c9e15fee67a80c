"""What a run asks of the engine that reaches the workers, and what the engine tells: dask_engine.py is one, tests have others."""

from __future__ import annotations

from collections.abc import Callable, Sequence
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
class Answered:
    """A call has returned."""

    ticket: int
    value: Any


@dataclass(frozen=True)
class Failed:
    """A call has raised, or cannot be made: its worker cannot load the function, or the result was lost."""

    ticket: int
    why: str


@dataclass(frozen=True)
class Disconnected:
    """The scheduler does not answer. All calls under way are void; the engine tries to connect again."""

    why: str


@dataclass(frozen=True)
class Connected:
    """The scheduler answers, for the first time or again."""

    scheduler: str


Event: TypeAlias = Members | Answered | Failed | Disconnected | Connected


class Engine(Protocol):
    """Calls functions on workers. It runs beside the caller, and does not block it."""

    def call(self, ticket: int, worker: str, function: Callable[..., Any], *arguments: Any) -> None:
        """Call a function on a worker; functions are found there by name. Answered or Failed follows, unless Disconnected does."""

    def forget(self, ticket: int) -> None:
        """The answer of a call is no longer wanted."""

    def events(self, within_s: float) -> Sequence[Event]:
        """What has happened since the last call, in order. Waits for something to happen, but no longer than that."""

    def close(self) -> None:
        """Leave the cluster; one that was started for the run ends."""
