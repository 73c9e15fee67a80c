"""A process that surveys a host of a fleet: it loads libraries, which may crash, and measures peaks, which needs LLVM."""

from __future__ import annotations

import pickle

from benchgraph.core.config import override
from benchgraph.core.errors import BenchgraphError
from benchgraph.core.serving import attach
from benchgraph.fleet.parcel import SurveyReply, SurveyRequest
from benchgraph.harness.bench import need_isas, need_libraries, need_streams, need_tuning
from benchgraph.harness.machine import describe
from benchgraph.harness.worker import Setup
from benchgraph.options.knobs import Globals
from benchgraph.options.plugins import load_driver
from benchgraph.options.problem import Problem


def main(pipe: int, parent: int) -> None:
    with attach(pipe, parent) as connection:
        request: SurveyRequest = connection.recv()
        setup: Setup = pickle.loads(request.setup)
        with override(**vars(setup.config)):
            try:
                connection.send(_surveyed(request, setup))
            except BenchgraphError as bad:
                connection.send(SurveyReply(refusal=bad.line))


def _surveyed(request: SurveyRequest, setup: Setup) -> SurveyReply:
    """Raises BenchgraphError if the host cannot run the cases."""
    problems = list[Problem]()
    for driver, problem in request.cases:
        load_driver(driver)
        problems.append(pickle.loads(problem))
    need_isas(problems)
    need_tuning(problems)
    need_streams(problems)
    need_libraries([p for p in problems if p.globals.library != Globals().library], setup.bench)
    return SurveyReply(describe(request.settings, setup.bench))
