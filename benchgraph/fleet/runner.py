"""--cluster: the cases of a command line run on the workers of a fleet, instead of in this process or its children."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

from benchgraph.core.config import config
from benchgraph.core.errors import InvalidArguments, UsageError
from benchgraph.core.printable import listed
from benchgraph.core.progress import report_progress
from benchgraph.core.remarks import remark
from benchgraph.fleet.dask_engine import DaskEngine
from benchgraph.fleet.driver import ABSENCE_S, Driver, Endpoint, RanCase
from benchgraph.fleet.placement import Host
from benchgraph.fleet.roster import Roster
from benchgraph.fleet.selection import refusal_of_code, refusal_of_where
from benchgraph.harness.bench import Bench
from benchgraph.harness.worker import Setup
from benchgraph.options.argv import CommandLine
from benchgraph.options.problem import Problem
from benchgraph.results.machine import Machine, kinds
from benchgraph.results.result import FinishedCase

FIRST_S = 60.0  # how long it may take until the scheduler answers, and a worker has joined, before the run is refused
SETTLE_S = 300.0  # how long it may take until the first can run cases, surveyed
LATE_S = 20.0  # after which the others are no longer waited for: they join when they can


@dataclass
class Fleet:
    """The workers that run the cases of a command line."""

    driver: Driver
    log: Callable[[str], None] | None = None

    @property
    def machines(self) -> list[Machine]:
        return list(self.driver.roster.machines.values())

    def run(self, problems: Sequence[Problem]) -> Generator[FinishedCase]:
        """Run the problems; yields each result as it arrives. Raises BenchgraphError if nobody is there to run them for long."""
        for ran in self.driver.run(problems):
            if self.log is not None:
                self.log(_where(ran))
            yield ran.done if ran.host is None else self._on(ran.host, ran.done)

    def _on(self, host: Host, done: FinishedCase) -> FinishedCase:
        """The finished case, which names its machine."""
        return replace(done, case=replace(done.case, machine=self.driver.roster.machines[host.id]))


@contextmanager
def fleet(line: CommandLine, bench: Bench, endpoint: Endpoint | None = None, log: Callable[[str], None] | None = None) -> Iterator[Fleet]:
    """Connect to the cluster of --cluster, and see who is there. Raises BenchgraphError if nobody can run these cases.

    log: where to say which case ran where and when.
    """
    settings = line.globals
    engine = DaskEngine(settings.cluster)
    try:
        roster = Roster(settings.where, {})
        driver = Driver(engine, roster, settings, Setup(bench, config()), line.problems, endpoint or Endpoint())
        _settle(driver, settings.cluster)
        yield Fleet(driver, log)
    finally:
        engine.close()


def need_cluster_options(line: CommandLine) -> None:
    """Raise UsageError for options that --cluster leaves nothing to do, and for --where without it."""
    if not line.globals.cluster:
        if line.globals.where:
            raise UsageError("it picks workers of a cluster", where="--where", fix="add --cluster=ADDRESS, or leave it out")
        return
    if line.globals.jobs:
        fix = "leave it out: as many cases run at once on a machine as its cores and workers allow"
        raise UsageError("the workers of a cluster run the cases", where=f"--jobs={line.globals.jobs}", fix=fix)


def _settle(driver: Driver, cluster: str) -> None:
    """Wait until all workers that are there have been met. Raises BenchgraphError for a fleet that cannot run the cases."""
    roster, started = driver.roster, driver.clock()
    driver.absence_s = SETTLE_S
    while not roster.is_settled:
        waited = driver.clock() - started
        if not driver.is_connected and waited > FIRST_S:
            fix = "name the address that its log says, as tcp://HOST:8786, or its scheduler file; or start one with 'dask scheduler'"
            raise InvalidArguments(f"{driver.lack} within {FIRST_S:g} s", where=f"--cluster={cluster}", fix=fix)
        if not roster.workers and waited > FIRST_S:
            fix = "start one with 'dask worker ADDRESS', in an environment with benchgraph[fleet]"
            raise InvalidArguments(f"no worker has joined within {FIRST_S:g} s", where=f"--cluster={cluster}", fix=fix)
        if waited > (LATE_S if roster.hosts else SETTLE_S):
            break
        report_progress("meet the workers", len(roster.known), len(roster.workers))
        for _ in driver.step():
            pass
    driver.absence_s = ABSENCE_S
    if roster.of_other_code:
        raise refusal_of_code(roster.of_other_code)
    if not roster.picked:
        raise refusal_of_where(roster.where, roster.known)
    if not roster.hosts:
        raise InvalidArguments(listed(dict.fromkeys(roster.refusals.values()), 3), where=f"--cluster={cluster}")
    for host, why in roster.refusals.items():
        name = next(f.name for f in roster.known if f.host == host)
        remark(f"--cluster: {name} runs none of these cases: {why}")
    if driver.settings.mode.is_timed and len(found := kinds(roster.machines.values())) > 1:
        names = ", ".join(f"{machines[0].cpu} ({len(machines)})" for machines in found)
        remark(f"--cluster: cases are timed on {len(found)} kinds of machines, whose times are kept apart: {names}; --where picks one")


def _where(ran: RanCase) -> str:
    index, host, when = ran.done.case.index, ran.host, ran.interval
    if host is None or when is None:
        return f"fleet: case {index} did not run"
    alone = " alone" if ran.is_alone else ""
    return f"fleet: case {index} ran{alone} on {host.name} {host.id[:8]} from {when.began:.6f} to {when.ended:.6f} s"
