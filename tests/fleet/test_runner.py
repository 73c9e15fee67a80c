"""A cluster is met before the first case runs: who is waited for, for how long, and what is said."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from benchgraph.core.errors import InvalidArguments
from benchgraph.core.remarks import collected
from benchgraph.fleet import runner
from benchgraph.fleet.engine import Disconnected
from benchgraph.fleet.runner import Fleet
from tests.support.fake_fleet import FakeEngine, FakeWorker, driver, facts, problems
from tests.support.misbehaving_library import write_cases

ADDRESS, OWN = "tcp://fake:8786", "local:2"


@pytest.fixture(autouse=True)
def _cases(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_cases(tmp_path)
    monkeypatch.chdir(tmp_path)


def met(engine: FakeEngine, cluster: str) -> list[str]:
    """The hosts."""
    return [m.host for m in Fleet(cluster, driver(engine, problems(1))).meet()]


def test_an_address_where_nobody_answers_is_refused_after_ten_seconds() -> None:
    engine = FakeEngine(is_up=False, told=[Disconnected("OSError: Timed out trying to connect to tcp://fake:8786 after 5 s")])
    with collected() as remarks, pytest.raises(InvalidArguments) as refused:
        met(engine, ADDRESS)
    assert refused.value.line == (
        "--cluster=tcp://fake:8786: no scheduler has answered within 10 s (OSError: Timed out trying to connect to tcp://fake:8786 "
        "after 5 s); name the address that its log says, as tcp://HOST:8786, or its scheduler file; or start one with 'dask scheduler'"
    )
    assert remarks == []
    assert runner.ANSWER_S < engine.now < runner.ANSWER_S + 1


def test_workers_may_join_a_scheduler_that_answers_later() -> None:
    engine = FakeEngine()
    engine.each_tick = lambda: engine.workers.update(late=FakeWorker(facts("late"))) if engine.now > 40 else None
    with collected() as remarks:
        assert met(engine, ADDRESS) == ["late"]
    assert remarks == ["--cluster: no worker has joined; waiting for up to 60 s"]


def test_a_scheduler_without_workers_is_refused_after_a_minute() -> None:
    with collected(), pytest.raises(InvalidArguments, match=r"no worker has joined within 60 s; start one with"):
        met(FakeEngine(), ADDRESS)


def test_a_cluster_that_is_started_for_the_run_is_waited_for_in_silence() -> None:
    """Its processes start slowly on a busy machine, and peaks are measured before the first case of a timed run."""
    engine = FakeEngine(is_up=False, told=[], survey_s=40.0)

    def start() -> None:
        if engine.now > 30 and not engine.is_up:
            engine.find_scheduler()
        if engine.now > 45:
            engine.workers.setdefault("w", FakeWorker(facts("here")))

    engine.each_tick = start
    with collected() as remarks:
        assert met(engine, OWN) == ["here"]
    assert remarks == []
    assert engine.now > 85


def test_a_cluster_that_cannot_be_started_is_refused_at_once() -> None:
    engine = FakeEngine(is_up=False, told=[Disconnected("OSError: [Errno 11] Resource temporarily unavailable")])
    with pytest.raises(InvalidArguments, match=r"its processes could not be started \(OSError: .*\); ask for fewer"):
        met(engine, OWN)
    assert engine.now < 1


def test_other_code_and_nobody_picked_are_refused() -> None:
    old = FakeEngine({"w": FakeWorker(replace(facts("a"), version="0.0"))})
    with pytest.raises(InvalidArguments, match=r"other code on workers: w: benchgraph is 0.0 there"):
        met(old, ADDRESS)
