"""Simulated fleets: workers that return recorded results at once, so that what is left is what the fleet itself costs.

    benchgraph --batch=test_graph_smoke --report=json:recorded.json
    python -m benchgraph.fleet.simulate recorded.json --workers=50 --cases=10000 --history=history.db

The scheduler and the workers run in processes of their own, many workers in each; every worker pretends to be a machine. Client, scheduler
and workers share this machine's cores, so wall times are upper bounds. The processor time per case of the client, and of the scheduler, is
what each needs where it has a core of its own: the slower of the two says how many cases per second a fleet of any size can run.
"""

from __future__ import annotations

import asyncio
import os
import pickle
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, replace
from functools import cache
from pathlib import Path
from statistics import median
from typing import Any
from uuid import uuid4

import click

from benchgraph.analysis.history.database import Database
from benchgraph.analysis.history.store import append
from benchgraph.core.child_process import Child, Program
from benchgraph.core.config import config, environment
from benchgraph.core.serving import attach
from benchgraph.core.version import __version__
from benchgraph.fleet.dask_engine import DaskEngine
from benchgraph.fleet.driver import Driver, Endpoint
from benchgraph.fleet.engine import tell_begun
from benchgraph.fleet.parcel import PROTOCOL, Interval, Parcel, Reply, SurveyReply, SurveyRequest, WorkerFacts
from benchgraph.fleet.roster import Roster
from benchgraph.harness.bench import Bench
from benchgraph.harness.worker import Setup
from benchgraph.options.argv import parse as parse_words
from benchgraph.options.batch import tokenize
from benchgraph.options.knobs import Globals
from benchgraph.options.plugins import load_driver
from benchgraph.options.problem import Problem
from benchgraph.results.json_report import line, parse, source
from benchgraph.results.machine import Machine
from benchgraph.results.result import CaseResult, FinishedCase, Origin, ResultSet

PROCESSES = 4  # that the simulated workers are distributed over
JOIN_S = 300.0  # for all workers to join
RECORDED = "recorded"  # as in Parcel.setup of a simulation: the report whose results are returned


# ---- in workers ------------------------------------------------------------------------------------------------------


def greet() -> dict[str, Any]:
    """Every worker is a machine of its own."""
    from distributed import get_worker

    name = str(get_worker().name)
    machine = Machine("simulated", 1, "portable", {}, 1, host=name)
    return asdict(WorkerFacts(PROTOCOL, __version__, source(), name, name, 1 << 40, (), machine))


def survey(request: SurveyRequest) -> SurveyReply:
    return SurveyReply(Machine("simulated", 1, "portable", {}, 1))


def serve(parcel: Parcel) -> Reply:
    """The recorded result of the case."""
    tell_begun()
    load_driver(parcel.driver)
    problem: Problem = pickle.loads(parcel.problem)
    file, seconds = pickle.loads(parcel.setup)
    cases, began = _recorded(file), time.monotonic()
    if seconds:
        time.sleep(seconds)
    case = replace(cases[problem.index % len(cases)], index=problem.index)
    return Reply(FinishedCase(case), interval=Interval(began, time.monotonic()))


@cache
def _recorded(file: str) -> tuple[CaseResult, ...]:
    return parse(Path(file).read_text(encoding="utf-8")).cases


def serve_scheduler(pipe: int, parent: int) -> None:
    """Main of the scheduler's process: sends its address, and runs until the pipe ends."""
    connection = attach(pipe, parent)

    async def run() -> None:
        from distributed import Scheduler

        async with Scheduler(port=0, dashboard_address=None) as scheduler:
            connection.send(scheduler.address)
            await scheduler.finished()

    asyncio.run(run())


def serve_workers(pipe: int, parent: int, address: str, first: int, count: int) -> None:
    """Main of a process of workers."""
    attach(pipe, parent)

    async def run() -> None:
        from distributed import Worker

        names = range(first, first + count)
        workers = [Worker(address, nthreads=1, name=f"host{n}", memory_limit=0, dashboard=False) for n in names]
        await asyncio.gather(*workers)
        await asyncio.gather(*(worker.finished() for worker in workers))

    asyncio.run(run())


# ---- on the client ---------------------------------------------------------------------------------------------------


@contextmanager
def simulated(workers: int) -> Iterator[tuple[str, int]]:
    """The address and the process of a scheduler with so many workers, which end with the block."""
    with ExitStack() as stack:

        def start(main: str, *arguments: object) -> Child:
            call = f"from benchgraph.fleet.simulate import {main} as main"
            child = _Named(call, os.getpid(), *arguments)
            stack.callback(child.kill)
            return child

        scheduler = start("serve_scheduler")
        address: str = scheduler.receive()
        shares = [range(workers)[i::PROCESSES] for i in range(PROCESSES)]
        first = 0
        for share in shares:
            if share:
                start("serve_workers", address, first, len(share))
            first += len(share)
        yield address, scheduler.pid


def processor_s(pid: int) -> float:
    """Processor time that a process has taken."""
    *_, rest = Path(f"/proc/{pid}/stat").read_text().rpartition(")")
    user, system = rest.split()[11:13]
    return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class _Main(Program):
    """A program that is another function of this module."""

    @property
    def load(self) -> str:
        return self.source


class _Named(Child):
    def __init__(self, call: str, *arguments: object) -> None:
        super().__init__(_Main(call), *arguments, env=environment({"DASK_LOGGING__DISTRIBUTED": "error"}))


@dataclass(frozen=True)
class Figures:
    """workers, cases: how many. start_s: until all workers had been met; run_s: for all cases. client_s, scheduler_s: processor time of the
    two for them. reply_bytes: the median of a pickled reply; report_bytes: of a case in the JSON report. history_s: for writing all to a
    history, None without one.
    """

    workers: int
    cases: int
    start_s: float
    run_s: float
    client_s: float
    scheduler_s: float
    reply_bytes: float
    report_bytes: float
    history_s: float | None = None

    def __str__(self) -> str:
        def each(seconds: float) -> str:
            return f"{seconds / self.cases * 1e3:.2f} ms"

        history = "" if self.history_s is None else f"; history: {self.history_s:.1f} s, {each(self.history_s)} per case"
        return (
            f"{self.workers} workers, {self.cases} cases: met in {self.start_s:.1f} s; {self.run_s:.1f} s, {each(self.run_s)} per case, "
            f"{self.cases / self.run_s:.0f} cases/s; processor time per case: client {each(self.client_s)}, scheduler "
            f"{each(self.scheduler_s)}; bytes per case: {self.reply_bytes:.0f} in replies, {self.report_bytes:.0f} in the report{history}"
        )


def problems_of(cases: Sequence[CaseResult], count: int) -> list[Problem]:
    """So many problems, in turn those of the recorded cases."""
    distinct = [parse_words([word.text for word in tokenize(case.repro, "")]).problems[0] for case in cases]
    return [replace(distinct[i % len(distinct)], index=i) for i in range(count)]


def measure(file: str, workers: int, count: int, seconds: float = 0.0, history: str = "") -> Figures:
    """Run recorded cases on simulated workers. seconds: that each takes. history: a URL of --history, '' for none."""
    recorded = _recorded(str(Path(file).resolve()))
    problems = problems_of(recorded, count)
    with simulated(workers) as (address, scheduler):
        engine, started = DaskEngine(address), time.monotonic()
        try:
            driver = Driver(engine, Roster((), {}), Globals(), Setup(Bench(), config()), problems, Endpoint(greet, survey, serve))
            driver.setup_bytes = pickle.dumps((str(Path(file).resolve()), seconds))
            while len(driver.roster.hosts) < workers and time.monotonic() < started + JOIN_S:
                for _ in driver.step():
                    pass
            met, own, others = time.monotonic(), time.process_time(), processor_s(scheduler)
            done = [ran.done for ran in driver.run(problems)]
            ended, own, others = time.monotonic(), time.process_time() - own, processor_s(scheduler) - others
        finally:
            engine.close()
    cases = sorted((each.case for each in done), key=lambda case: case.index)
    assert [case.index for case in cases] == list(range(count))
    for case in cases:
        assert case.result == recorded[case.index % len(recorded)].result, case.result.reason
    sizes = median(len(pickle.dumps(each)) for each in done), median(len(line(case)) for case in cases)
    history_s = write(history, cases) if history else None
    return Figures(workers, count, met - started, ended - met, own, others, *sizes, history_s)


def write(history: str, cases: Sequence[CaseResult]) -> float:
    """Append the cases to a history as one run; returns the seconds."""
    database = Database(history)
    with database.writing():
        pass  # a new one gets its tables
    machine = Machine("simulated", 1, "portable", {}, 1)
    origin = Origin(uuid4().hex, time.time())
    began = time.monotonic()
    append(database, ResultSet(Globals().mode, machine, tuple(cases), 0.0, origin, len(cases)))
    return time.monotonic() - began


@click.command()
@click.argument("report")
@click.option("--workers", default=50, show_default=True)
@click.option("--cases", default=10000, show_default=True)
@click.option("--seconds", default=0.0, show_default=True, help="that each case takes")
@click.option("--history", default="", help="also append the run to this history")
def main(report: str, workers: int, cases: int, seconds: float, history: str) -> None:
    """Run recorded results as cases of simulated workers, and print what the fleet itself costs."""
    click.echo(measure(report, workers, cases, seconds, history))


if __name__ == "__main__":
    from benchgraph.fleet import simulate  # workers find its functions by this name

    simulate.main()
