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
from benchgraph.fleet.dask_engine import DaskEngine, is_local
from benchgraph.fleet.driver import NOTICE_S, Driver, Endpoint, RanCase
from benchgraph.fleet.placement import Host
from benchgraph.fleet.roster import Roster
from benchgraph.fleet.selection import refusal_of_code, refusal_of_where
from benchgraph.harness.bench import Bench
from benchgraph.harness.worker import Setup
from benchgraph.options.argv import CommandLine
from benchgraph.options.problem import Problem
from benchgraph.results.machine import Machine, kinds
from benchgraph.results.result import FinishedCase

ANSWER_S = 10.0  # how long a scheduler may take to answer for the first time: one that is started later is not waited for
START_S = 60.0  # and a cluster that is started for the run, on a machine that may be busy
JOIN_S = 60.0  # how long it may take until a worker has joined
SETTLE_S = 300.0  # how long it may take until the first can run cases, surveyed
LATE_S = 20.0  # after which the others are no longer waited for: they join when they can


@dataclass
class Fleet:
    """The workers that run the cases of a command line."""

    cluster: str
    driver: Driver
    log: Callable[[str], None] | None = None

    @property
    def at_once(self) -> int:
        return self.driver.at_once

    def meet(self) -> list[Machine]:
        """Wait until all workers that are there have been met. Raises BenchgraphError for a fleet that cannot run the cases."""
        _settle(self.driver, self.cluster)
        _need_able(self.driver, self.cluster)
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
    """Connect to the cluster of --cluster, or start it; at the end leave or end it. Raises UsageError for what cannot be an address.

    log: where to say which case ran where and when.
    """
    settings = line.globals
    engine = DaskEngine(settings.cluster)
    try:
        roster, setup = Roster(settings.where, {}), Setup(bench, config())
        yield Fleet(settings.cluster, Driver(engine, roster, settings, setup, line.problems, endpoint or Endpoint()), log)
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
    """Wait until all workers that are there have been greeted, and their hosts surveyed. Raises BenchgraphError if nobody is there."""
    roster, started, is_noticed = driver.roster, driver.clock(), False
    is_own = is_local(cluster)
    while not roster.is_settled:
        waited = driver.clock() - started
        if not driver.is_connected and (waited > (START_S if is_own else ANSWER_S) or (is_own and driver.broken)):
            raise _no_scheduler(cluster, driver.broken)
        if driver.is_connected and not roster.workers and waited > JOIN_S:
            fix = "start one with 'dask worker ADDRESS', in an environment with benchgraph[fleet]"
            raise InvalidArguments(f"no worker has joined within {JOIN_S:g} s", where=f"--cluster={cluster}", fix=fix)
        if driver.is_connected and not roster.workers and waited > NOTICE_S and not is_noticed and not is_own:
            is_noticed = True
            remark(f"--cluster: no worker has joined; waiting for up to {JOIN_S:g} s")
        if waited > (LATE_S if roster.hosts else SETTLE_S):
            break
        report_progress("meet the workers", len(roster.known), len(roster.workers))
        for _ in driver.step():
            pass


def _no_scheduler(cluster: str, why: str) -> InvalidArguments:
    """The error for a scheduler that does not answer. why: '' if it has not been heard of at all."""
    reason = f" ({why})" if why else ""
    if is_local(cluster):
        fix = "ask for fewer processes, or close other programs"
        return InvalidArguments(f"its processes could not be started{reason}", where=f"--cluster={cluster}", fix=fix)
    fix = "name the address that its log says, as tcp://HOST:8786, or its scheduler file; or start one with 'dask scheduler'"
    return InvalidArguments(f"no scheduler has answered within {ANSWER_S:g} s{reason}", where=f"--cluster={cluster}", fix=fix)


def _need_able(driver: Driver, cluster: str) -> None:
    """Raise BenchgraphError unless some workers can run the cases; say which cannot."""
    roster = driver.roster
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
