"""The handle of a checkout's process."""

from __future__ import annotations

import os
from pathlib import Path

from benchgraph.core.child_process import Program
from benchgraph.core.config import config, environment
from benchgraph.core.errors import BenchgraphError, ExecutionFailed, InvalidArguments
from benchgraph.library.remote import RemoteProcess, RunningProcesses
from benchgraph.machine.cpu_affinity import last_cpus
from benchgraph.peers.checkout.source import Source

SERVER = Path(__file__).with_name("server.py")
OLDEST = "a version of 2026-11 or newer"


class Process(RemoteProcess):
    """A running checkout, on so many threads of an ISA level. A dead one stays dead: `process` starts another."""

    def __init__(self, source: Source, settings: tuple[tuple[str, str], ...], threads: int) -> None:
        self.source = source
        program = Program(str(SERVER), source.python, str(source.folder))
        super().__init__(
            program, os.getpid(), last_cpus(threads), where=f"benchgraph at {source.folder}", env=environment({}, **dict(settings))
        )
        try:
            self.answer("loading")
        except BaseException as bad:
            self.close()
            if not isinstance(bad, BenchgraphError):
                raise
            is_start = isinstance(bad, InvalidArguments | ExecutionFailed)
            raise InvalidArguments(bad.what, where=self.where, fix=f"give a checkout of {OLDEST}" if is_start else bad.fix) from bad


_processes = RunningProcesses[Process]()


def process(source: Source, label: str, isa: str, threads: int) -> Process:
    """The process of a checkout and label for the configuration in force; a new one if there is none alive.

    It keeps no compiled code on disk: a version compiles what it is asked to, so that its compile times are true.
    """
    settings = (
        ("BENCHGRAPH_THREADS", str(threads)),
        ("BENCHGRAPH_ISA", isa),
        ("BENCHGRAPH_TUNING", config().tuning),
        ("BENCHGRAPH_DISK_CACHE_CAPACITY", "0"),
        ("BENCHGRAPH_DUMP", ""),
    )
    return _processes.get((source.folder, label), settings, lambda: Process(source, settings, threads))
