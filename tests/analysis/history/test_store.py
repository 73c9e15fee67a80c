"""What is appended is read back, from either database, whatever was appended before it or at the same time."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlalchemy import func, select

from benchgraph.analysis.history import store, tables
from benchgraph.analysis.history.database import Database
from benchgraph.analysis.history.store import Appended, append, machines, points, read, runs
from benchgraph.core.errors import BenchgraphError
from benchgraph.results.result import Origin, ResultSet, Status
from tests.analysis.history.made import MACHINE, START, run
from tests.support.result_sets import RESULTS

WHOLE = replace(RESULTS, origin=Origin("one", 1.5, "c0ffee", True))
ROOT = Path(__file__).parents[3]


def test_a_run_is_read_back_as_it_was(url: str) -> None:
    database = Database(url)
    assert append(database, WHOLE) == Appended(1, 3)
    assert read(database, 1) == WHOLE
    assert [(r.id, r.started, r.commit, r.is_dirty, r.versions) for r in runs(database)] == [(1, 1.5, "c0ffee", True, {"python": "3.11"})]
    assert machines(database) == {1: "Test CPU, 4 cores, avx2, 2 threads"}


def test_the_columns_agree_with_the_documents(url: str) -> None:
    database = Database(url)
    append(database, run(0, {"a": {"fused": 0.25, "post_ops": 0.5}}, peak=8e9))
    assert [(p.policy, p.median_s, p.peak_flops, p.flops) for p in points(database)] == [
        ("fused", 0.25, 8e9, 1000),
        ("post_ops", 0.5, 8e9, 1000),
    ]


def test_a_run_is_appended_once(url: str) -> None:
    database = Database(url)
    append(database, WHOLE)
    assert append(database, WHOLE) == Appended(1, 0)
    assert read(database, 1) == WHOLE


def test_a_run_that_went_on_gets_the_cases_it_lacked(url: str) -> None:
    database = Database(url)
    append(database, replace(WHOLE, cases=WHOLE.cases[1:2]))
    assert append(database, WHOLE) == Appended(1, 2)
    assert read(database, 1) == WHOLE


def test_the_order_of_appending_does_not_matter(url: str, tmp_path: Path) -> None:
    """What is looked back at stands in the order of time, whoever wrote first."""
    made = [run(i, {"a": {"fused": 0.1 + i}, f"b{i}": {"fused": 0.5}}) for i in range(4)]
    seen = []
    for where, order in ((url, made), (str(tmp_path / "other.db"), made[::-1])):
        database = Database(where)
        for results in order:
            append(database, results)
        started = {r.id: r.started for r in runs(database)}
        assert list(started.values()) == [r.origin.started for r in made if r.origin]
        seen.append(sorted((started[p.run], p.repro, p.policy, p.median_s) for p in points(database)))
    assert seen[0] == seen[1]


def test_a_run_is_appended_atomically(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    database = Database(url)
    append(database, run(0, {"a": {"fused": 0.25}}))

    def fail(c: object) -> str:
        raise BenchgraphError("no")

    done: list[object] = []
    whole = store.line
    monkeypatch.setattr(store, "line", lambda c: fail(c) if done else done.append(c) or whole(c))
    with pytest.raises(BenchgraphError, match="no"):
        append(database, WHOLE)
    assert len(done) == 1
    assert [r.id for r in runs(database)] == [1]
    assert len(points(database)) == 1
    assert len(machines(database)) == 1


def test_equal_machines_are_one(url: str) -> None:
    database = Database(url)
    slower = replace(MACHINE, peak_flops={"f32": 1e9}, versions={"numpy": "3"})
    for i, machine in enumerate([MACHINE, slower, replace(MACHINE, threads=1), replace(MACHINE, cpu="other")]):
        append(database, run(i, {"a": {"fused": 0.25}}, machine=machine))
    assert [r.machine for r in runs(database)] == [1, 1, 2, 3]


def test_results_of_nowhere_are_refused(tmp_path: Path) -> None:
    database = Database(str(tmp_path / "h.db"))
    with pytest.raises(BenchgraphError, match="do not say which machine"):
        append(database, replace(WHOLE, machine=None))


finite = st.floats(min_value=1e-9, max_value=1e9, allow_nan=False)
words = st.text(st.characters(exclude_categories=()))  # what a command line can hold: lone surrogates, and more


@settings(max_examples=25)
@given(st.lists(st.tuples(words, words, st.sampled_from(Status), st.lists(finite, min_size=1, max_size=3), st.floats(allow_nan=False))))
def test_arbitrary_results_are_read_back(tmp_path_factory: pytest.TempPathFactory, drawn: list) -> None:
    database = Database(str(tmp_path_factory.mktemp("h") / "h.db"))
    template = WHOLE.cases[0]
    cases = []
    for i, (repro, reason, status, samples, number) in enumerate(drawn):
        timing = replace(template.result.timings[0], timing=replace(template.result.timings[0].timing, samples_s=tuple(samples)))
        accuracy = replace(template.result.accuracy[0], max_rel=number)
        result = replace(template.result, status=status, reason=reason, timings=(timing,), accuracy=(accuracy,))
        cases.append(replace(template, index=i, repro=repro, result=result))
    results: ResultSet = replace(WHOLE, cases=tuple(cases))
    append(database, results)
    assert read(database, 1) == results


def test_postgresql_takes_every_text_too(postgresql: str) -> None:
    odd = replace(WHOLE, cases=(replace(WHOLE.cases[1], repro="--case=\udc80\0é"),))
    database = Database(postgresql)
    append(database, odd)
    assert read(database, 1) == odd


WRITER = """
import sys
from benchgraph.analysis.history.database import Database
from benchgraph.analysis.history.store import append
from tests.analysis.history.made import run
for i in range(20):
    database = Database(sys.argv[1])
    append(database, run(int(sys.argv[2]) + i, {f"{c}": {"fused": 1.0, "post_ops": 2.0} for c in range(5)}))
"""


def test_two_writers_at_once_lose_nothing(url: str) -> None:
    """Both make the database, too."""
    writers = [subprocess.Popen([sys.executable, "-c", WRITER, url, str(first)], cwd=ROOT) for first in (0, 1000)]
    assert [w.wait() for w in writers] == [0, 0]
    database = Database(url)
    assert sorted(r.started - START for r in runs(database)) == [86400.0 * (first + i) for first in (0, 1000) for i in range(20)]
    assert len(points(database)) == 2 * 20 * 5 * 2
    assert len(machines(database)) == 1


def test_waiting_too_long_for_a_writer_is_an_error(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    append(Database(url), run(0, {}))
    monkeypatch.setattr("benchgraph.analysis.history.database.PATIENCE_S", 1)
    with Database(url).writing(), pytest.raises(BenchgraphError) as raised:
        append(Database(url), WHOLE)
    assert str(raised.value) == f"{Database(url).name}: another program has held it for 60 s; end that program"
    append(Database(url), WHOLE)


def test_readers_and_writers_do_not_wait_for_each_other(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    append(Database(url), run(0, {}))
    monkeypatch.setattr("benchgraph.analysis.history.database.PATIENCE_S", 1)
    with Database(url).reading() as connection:
        count = select(func.count()).select_from(tables.run)
        assert connection.execute(count).scalar() == 1
        append(Database(url), WHOLE)
        assert [r.id for r in runs(Database(url))] == [2, 1]  # the older one was added later


def test_a_machine_that_says_what_it_is_goes_on_with_its_history(url: str) -> None:
    """Another one of the same name, which says so too, does not."""
    first, second, third, fourth = (run(n, {"a": {"fused": 1.0}}) for n in range(4))
    assert first.machine is not None
    milan, genoa = (replace(first.machine, identity={"cpuid": f"AuthenticAMD 25-{model}-1", "kernel": "6"}) for model in (1, 17))
    updated = replace(milan, identity=milan.identity | {"kernel": "7"})
    database = Database(url)
    for each, machine in ((first, first.machine), (second, milan), (third, genoa), (fourth, updated)):
        append(database, replace(each, machine=machine))
    assert [r.machine for r in runs(database)] == [1, 1, 2, 1]
    assert [r.versions.get("kernel", "") for r in runs(database)] == ["", "6", "6", "7"]
    assert machines(database) == {1: f"{milan.full_name}, 4 cores, avx2, 2 threads", 2: f"{genoa.full_name}, 4 cores, avx2, 2 threads"}


def test_cases_that_another_machine_adds_to_a_run_are_its_own(url: str) -> None:
    """A run that is resumed elsewhere: its new results name no machine, since they are of the one that is running."""
    first = run(0, {"a": {"fused": 1.0}, "b": {"fused": 2.0}})
    assert first.machine is not None
    other = replace(first.machine, host="other", identity={"cpuid": "AuthenticAMD 25-17-1"})
    a, b = first.cases
    database = Database(url)
    append(database, replace(first, cases=(a,)))
    append(database, replace(first, machine=other, cases=(replace(a, machine=first.machine), b)))
    assert read(database, 1) == replace(first, cases=(a, replace(b, machine=other)))
    assert [p.machine for p in points(database)] == [1, 1]  # which is known better from now on
    append(database, replace(first, machine=replace(other, threads=1), cases=(replace(b, index=7),)))
    assert [p.machine for p in points(database)] == [1, 1, 2]
    assert [r.machines for r in runs(database)] == [(1, 2)]


def test_a_machine_that_says_more_goes_on_with_its_history(url: str) -> None:
    first, second, third = (run(n, {"a": {"fused": 1.0}}) for n in range(3))
    assert first.machine is not None
    known = replace(first.machine, identity={"cpuid": "AuthenticAMD 25-1-1"})
    better, other = (replace(known, identity=known.identity | {"topology": f"2 CPUs, {n} cores"}) for n in (1, 2))
    for each, machine in ((first, known), (second, better), (third, other)):
        append(Database(url), replace(each, machine=machine))
    assert [r.machine for r in runs(Database(url))] == [1, 1, 2]
