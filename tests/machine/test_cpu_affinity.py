"""Processors: which ones are taken, and that all threads go there and come back."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchgraph.machine import cpu_affinity
from benchgraph.machine.cpu_affinity import allowed_cpus, apart, last_cpus, pinned

pytestmark = pytest.mark.skipif(not hasattr(os, "sched_getaffinity"), reason="the system does not let processes choose")


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    """What tests pretend about the machine is not remembered."""
    yield
    last_cpus.cache_clear()


@pytest.mark.parametrize(
    ("siblings", "want"),
    [
        ({}, {1: (3,), 2: (3, 2), 4: (3, 2, 1, 0), 9: (3, 2, 1, 0)}),
        ({0: "0-1", 1: "0-1", 2: "2-3", 3: "2-3"}, {1: (3,), 2: (3, 1), 3: (3, 1, 2)}),
        ({0: "0,2", 1: "1,3", 2: "0,2", 3: "1,3"}, {2: (3, 2), 3: (3, 2, 1)}),
    ],
    ids=["unknown cores", "neighbours share a core", "a core's second ones come last"],
)
def test_the_last_ones_are_taken_of_every_core_one_first(
    siblings: dict[int, str], want: dict[int, tuple[int, ...]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for cpu, those in siblings.items():
        (tmp_path / str(cpu)).write_text(f"{those}\n")
    monkeypatch.setattr(cpu_affinity, "_CORE", str(tmp_path / "{}"))
    monkeypatch.setattr(cpu_affinity, "allowed_cpus", lambda: (0, 1, 2, 3))
    last_cpus.cache_clear()
    assert {count: last_cpus(count) for count in want} == want


def where(task: int = 0) -> set[int]:
    return os.sched_getaffinity(task)


@pytest.mark.skipif(len(allowed_cpus()) < 2, reason="there is no choice")
def test_all_threads_go_there_and_come_back() -> None:
    """Those that are at work, the one that asks, and those that are started there."""
    is_over, found = threading.Event(), list[set[int]]()
    worker = threading.Thread(target=is_over.wait, daemon=True)
    worker.start()
    assert worker.native_id is not None
    with pinned(1):
        started = threading.Thread(target=lambda: found.append(where()))
        started.start()
        started.join()
        assert [where(), where(worker.native_id), *found] == [{last_cpus(1)[0]}] * 3
    assert where() == where(worker.native_id) == set(allowed_cpus())
    is_over.set()
    worker.join()


@pytest.mark.skipif(len(allowed_cpus()) < 2, reason="there is no choice")
def test_where_it_is_not_allowed_all_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError

    monkeypatch.setattr(os, "sched_setaffinity", refuse)
    with pinned(1):
        assert where() == set(allowed_cpus())


@pytest.mark.parametrize("count", [0, len(allowed_cpus()), len(allowed_cpus()) + 1])
def test_as_many_as_there_are_are_left_where_they_are(count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cpu_affinity, "_move", lambda cpus: pytest.fail(f"moved to {cpus}"))
    with pinned(count):
        assert where() == set(allowed_cpus())


@pytest.mark.skipif(len(allowed_cpus()) < 2, reason="there is no choice")
def test_the_calling_thread_is_apart_from_the_others() -> None:
    is_over = threading.Event()
    worker = threading.Thread(target=is_over.wait, daemon=True)
    worker.start()
    assert worker.native_id is not None
    first, second = last_cpus(2)
    with apart(2):
        assert (where(), where(worker.native_id)) == ({first}, {second})
    assert where() == where(worker.native_id) == set(allowed_cpus())
    is_over.set()
    worker.join()


@pytest.mark.parametrize("count", [0, 1, len(allowed_cpus()) + 1])
def test_one_thread_or_more_than_processors_are_not_set_apart(count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cpu_affinity, "_move", lambda cpus: pytest.fail(f"moved to {cpus}"))
    with apart(count):
        assert where() == set(allowed_cpus())
