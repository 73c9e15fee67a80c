"""What client and workers send each other.

    client                        worker
    greet()                ->     plain values, which any version can read: `WorkerFacts`
    survey(SurveyRequest)  ->     SurveyReply: the machine with its peaks, or why it cannot run these cases
    serve(Parcel)          ->     Reply: a finished case; or what it lacks to run it

PROTOCOL counts changes of these types.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from benchgraph.options.knobs import Globals
from benchgraph.results.machine import Machine
from benchgraph.results.result import FinishedCase

PROTOCOL = 1


@dataclass(frozen=True)
class WorkerFacts:
    """What a worker advertises. protocol, version, source: of its benchgraph (results/json_report.source).

    host: of the running kernel, equal for all workers, users and containers on a machine; name: the machine's. memory: bytes that cases may
    use. isas: the instruction set levels that its CPU has. machine: without peaks.
    """

    protocol: int
    version: str
    source: str
    host: str
    name: str
    memory: int
    isas: tuple[str, ...]
    machine: Machine

    @classmethod
    def read(cls, given: Mapping[str, Any]) -> WorkerFacts:
        """From the answer to greet(), of a worker of this version."""
        return cls(**{**given, "isas": tuple(given["isas"]), "machine": Machine(**given["machine"])})


@dataclass(frozen=True)
class SentFile:
    """A file, or a folder of files, that a case reads. path: on the client; as_written: as the case has it.

    contents: (path inside the folder, '' for a file; digest of its bytes).
    """

    path: str
    as_written: str
    contents: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Terms:
    """How a case runs on its host. cases_at_once: on the host, which share its threads. is_alone: no other case runs there meanwhile.

    memory: bytes that its process may allocate; share: bytes that its estimate may come to, None for what is free there.
    """

    cases_at_once: int
    is_alone: bool
    memory: int
    share: int | None


@dataclass(frozen=True)
class Parcel:
    """A case for a worker. setup, problem: pickled, since they name classes of drivers, and functions, that must be loaded first.

    bytes_of: by digest, contents of files that the worker may not have.
    """

    driver: str
    problem: bytes
    setup: bytes
    terms: Terms
    files: tuple[SentFile, ...] = ()
    bytes_of: Mapping[str, bytes] = field(default_factory=dict)


@dataclass(frozen=True)
class Interval:
    """When a case ran on a host: by its monotonic clock, in seconds, which all processes there share."""

    began: float
    ended: float

    def overlaps(self, other: Interval) -> bool:
        return self.began < other.ended and other.began < self.ended


@dataclass(frozen=True)
class Reply:
    """done: the finished case, None if it did not begin, because contents of these digests are missing, or for the reason in `busy`.

    wrote: files under --save-failures and --dump-dir, by option and path inside it.
    """

    done: FinishedCase | None = None
    missing: tuple[str, ...] = ()
    busy: str = ""
    remarks: tuple[str, ...] = ()
    wrote: Mapping[tuple[str, str], bytes] = field(default_factory=dict)
    interval: Interval | None = None


@dataclass(frozen=True)
class SurveyRequest:
    """settings: of the whole run. setup: pickled. cases: (driver, pickled problem), one for each set of global options."""

    settings: Globals
    setup: bytes
    cases: tuple[tuple[str, bytes], ...]
    files: tuple[SentFile, ...] = ()
    bytes_of: Mapping[str, bytes] = field(default_factory=dict)


@dataclass(frozen=True)
class SurveyReply:
    """machine: with its peaks if the run is timed; None if it cannot run the cases, for the reason in `refusal`, or is `busy`."""

    machine: Machine | None = None
    refusal: str = ""
    busy: str = ""
    missing: tuple[str, ...] = ()
