"""What a worker of a fleet does: tell what it is, survey its machine, run a case. The engine calls these functions by name.

A case runs as with --jobs: in a child process of the worker (harness/isolate.py), which ends with it.
"""

from __future__ import annotations

import os
import pickle
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from benchgraph.core.child_process import Child, ChildLost, Program
from benchgraph.core.config import Config, config, environment, withhold
from benchgraph.core.isa import ISAS
from benchgraph.core.remarks import collected
from benchgraph.core.version import __version__
from benchgraph.fleet.content import ADDED, Store
from benchgraph.fleet.engine import tell_begun
from benchgraph.fleet.host_lock import HostLock
from benchgraph.fleet.parcel import PROTOCOL, Interval, Parcel, Reply, SentFile, SurveyReply, SurveyRequest, Terms, WorkerFacts
from benchgraph.harness.bench import Bench
from benchgraph.harness.blas_threads import SINGLE
from benchgraph.harness.isolate import WorkerPool, memory_of_workers
from benchgraph.harness.machine import describe
from benchgraph.harness.worker import Setup
from benchgraph.machine.target import host, missing
from benchgraph.options.knobs import Globals
from benchgraph.options.plugins import load_driver
from benchgraph.options.problem import Problem
from benchgraph.results.json_report import source
from benchgraph.results.result import CaseResult, FinishedCase

UNKNOWN_MEMORY = 1 << 62  # bytes, of a host that does not say how much is free: no limit
LOCK_S = 60.0  # how long a case waits for others on its host, before the client is asked to place it anew
SURVEY_S = 180.0  # for a survey: libraries load, and peaks are measured
IDLE_S = 30.0  # how long a process without a case is kept for the next one
BOOT_ID = Path("/proc/sys/kernel/random/boot_id")  # the same in all containers on a running kernel
OF_HOST = ("cache_dir", "onednn", "history", "host_lock")  # settings that name places on a host, so the worker's own count
WRITES = ("save_failures", "dump_dir")  # options that name folders which cases write to
# The engine's workers give memory back to the kernel at once. Arrays of cases would then be faulted in again and again, for up to half of a
# case's time, so their processes do not inherit this.
withhold("MALLOC_TRIM_THRESHOLD_")


def greet() -> dict[str, Any]:
    """What this worker is (WorkerFacts), as plain values, so that clients of other versions can read it."""
    machine = describe(Globals(), Bench())
    isas, memory = tuple(isa.name for isa in ISAS.values() if not missing(isa)), memory_of_workers(Bench())
    memory = UNKNOWN_MEMORY if memory is None else memory
    return asdict(WorkerFacts(PROTOCOL, __version__, source(), host_id(), machine.host, memory, isas, machine))


def host_id() -> str:
    """Equal for all processes on a running kernel."""
    return BOOT_ID.read_text().strip() if BOOT_ID.exists() else describe(Globals(), Bench()).host


# ---- a case ----------------------------------------------------------------------------------------------------------


def serve(parcel: Parcel) -> Reply:
    """Run a case, once others leave it the machine, as its terms say."""
    with _lock().held(is_alone=parcel.terms.is_alone, within_s=LOCK_S) as is_held:
        if not is_held:
            return Reply(busy=f"other cases have held the machine for {LOCK_S:g} s")
        tell_begun()
        if missing := STORE.missing(parcel.files, parcel.bytes_of):
            return Reply(missing=missing)
        load_driver(parcel.driver)
        given: Problem = pickle.loads(parcel.problem)
        with _folders(given) as (problem, wrote), collected() as remarks:
            problem, names = _with_files(problem, parcel.files)
            began = time.monotonic()
            with LANES.pool(_setup(parcel)) as pool:
                ((_, done),) = pool.run([problem], 1, parcel.terms.memory, parcel.terms.share)
            interval = Interval(began, time.monotonic())
            return Reply(_as_on_client(done, given, names), (), "", tuple(remarks), wrote(), interval)


def _lock() -> HostLock:
    return HostLock(Path(config().host_lock))


def _setup(parcel: Parcel) -> Setup:
    given: Setup = pickle.loads(parcel.setup)
    return replace(given, config=settings(given.config, parcel.terms))


def settings(given: Config, terms: Terms) -> Config:
    """The client's configuration for a process here: places are the host's own, and cases that run at once share the threads."""
    own = {name: getattr(config(), name) for name in OF_HOST}
    threads = max((given.threads or host().cores) // terms.cases_at_once, 1)
    return replace(given, **own, threads=threads, compile_jobs=1)


def _with_files(problem: Problem, files: Sequence[SentFile]) -> tuple[Problem, dict[str, str]]:
    """The problem with files where they are here; and the client's names of those that lie elsewhere, by theirs here."""
    paths = {sent.as_written: STORE.path_of(sent) for sent in files}
    names = {str(path): sent.as_written for sent in files if str(path := paths[sent.as_written]) != sent.path}
    own: dict[str, Any] = {option: str(paths[name]) for option in ADDED if (name := getattr(problem.globals, option)) in paths}
    file = problem.file and paths.get(str(problem.file), problem.file)
    return replace(problem, file=file, globals=replace(problem.globals, **own)), names


@contextmanager
def _folders(problem: Problem) -> Iterator[tuple[Problem, Callable[[], dict[tuple[str, str], bytes]]]]:
    """Folders for what the case writes, in place of the client's. Yields the problem that names these, and what reads the files in them."""
    options = [option for option in WRITES if getattr(problem.globals, option)]
    if not options:
        yield problem, dict
        return
    with TemporaryDirectory(prefix="benchgraph-") as top:
        folders = {option: Path(top) / option for option in options}
        own: dict[str, Any] = {option: str(folder) for option, folder in folders.items()}

        def wrote() -> dict[tuple[str, str], bytes]:
            files = ((option, folder, file) for option, folder in folders.items() for file in folder.rglob("*") if file.is_file())
            return {(option, str(file.relative_to(folder))): file.read_bytes() for option, folder, file in files}

        yield replace(problem, globals=replace(problem.globals, **own)), wrote


def _as_on_client(done: FinishedCase, problem: Problem, names: dict[str, str]) -> FinishedCase:
    """The finished case as if it had run on the client: files have their names there."""

    def told(text: str) -> str:
        for here, there in names.items():
            text = text.replace(here, there)
        return text

    result = replace(done.case.result, reason=told(done.case.result.reason), notes=tuple(map(told, done.case.result.notes)))
    case = CaseResult(problem.index, problem.repro, done.case.elapsed_s, result, done.case.phases)
    return FinishedCase(case, told(done.out), told(done.err))


@dataclass
class _Lanes:
    """Processes for cases, each in a pool of its own, kept for the next case of the same settings; but not for long."""

    idle: list[tuple[Setup, WorkerPool]] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)
    timer: threading.Timer | None = None

    @contextmanager
    def pool(self, setup: Setup) -> Iterator[WorkerPool]:
        with self.lock:
            mine = next((lane for lane in self.idle if lane[0] == setup), None)
            if mine is not None:
                self.idle.remove(mine)
            others, self.idle = [p for s, p in self.idle if s != setup], [lane for lane in self.idle if lane[0] == setup]
        for other in others:  # of another run, or for fewer cases at once
            other.dismiss()
        pool = mine[1] if mine is not None else WorkerPool(setup)
        try:
            yield pool
        except BaseException:
            pool.dismiss()
            raise
        with self.lock:
            self.idle.append((setup, pool))
            if self.timer is not None:
                self.timer.cancel()
            self.timer = threading.Timer(IDLE_S, self.dismiss)
            self.timer.daemon = True
            self.timer.start()

    def dismiss(self) -> None:
        with self.lock:
            idle, self.idle = self.idle, []
        for _, pool in idle:
            pool.dismiss()


LANES = _Lanes()
STORE = Store()
STORE.drop_old()


# ---- a survey --------------------------------------------------------------------------------------------------------


def survey(request: SurveyRequest) -> SurveyReply:
    """Describe the machine, alone on it if its peaks are measured; or say why it cannot run the cases."""
    if missing := STORE.missing(request.files, request.bytes_of):
        return SurveyReply(missing=missing)
    with _lock().held(is_alone=request.settings.mode.is_timed, within_s=LOCK_S) as is_held:
        if not is_held:
            return SurveyReply(busy=f"other cases have held the machine for {LOCK_S:g} s")
        child = Child(Program("benchgraph.fleet.survey"), os.getpid(), env=environment(SINGLE))
        try:
            child.send(_local(request))
            if not child.pipe.poll(SURVEY_S):
                return SurveyReply(refusal=f"its survey did not end within {SURVEY_S:g} s")
            reply: SurveyReply = child.receive()
            return reply
        except ChildLost as lost:
            return SurveyReply(refusal=f"the process that surveyed it {lost}")
        finally:
            child.kill()


def _local(request: SurveyRequest) -> SurveyRequest:
    """The request with the configuration and the files of this host."""
    given: Setup = pickle.loads(request.setup)
    setup = replace(given, config=settings(given.config, Terms(1, is_alone=True, memory=0, share=None)))
    cases = list[tuple[str, bytes]]()
    for driver, problem in request.cases:
        load_driver(driver)
        local, _ = _with_files(pickle.loads(problem), request.files)
        cases.append((driver, pickle.dumps(local)))
    return replace(request, setup=pickle.dumps(setup), cases=tuple(cases), bytes_of={})
