"""The loop that runs cases on a fleet: whatever happens to workers and scheduler, each case has one result."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from benchgraph.core.errors import BenchgraphError
from benchgraph.core.remarks import collected
from benchgraph.fleet import losses, roster
from benchgraph.fleet.case_book import CaseBook
from benchgraph.fleet.parcel import Parcel, Reply
from benchgraph.fleet.runner import Fleet
from benchgraph.options.problem import Problem
from benchgraph.results.result import Status
from tests.support.fake_fleet import GIB, TICK_S, FakeEngine, FakeWorker, driver, facts, finished, problems, results
from tests.support.misbehaving_library import write_cases


@pytest.fixture(autouse=True)
def _cases(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_cases(tmp_path)
    monkeypatch.chdir(tmp_path)


def engine(*hosts: str, threads: int = 1) -> FakeEngine:
    """A worker per host; the same host may be named several times."""
    return FakeEngine({f"w{n}": FakeWorker(facts(host), threads) for n, host in enumerate(hosts)})


def test_all_cases_have_their_results() -> None:
    fleet, planned = engine("a", "b"), problems(50)
    assert sorted(c.index for c in results(driver(fleet, planned), planned)) == list(range(50))


@pytest.mark.parametrize("seed", range(12))
def test_no_case_is_lost_or_doubled_by_any_sequence_of_faults(seed: int) -> None:
    """Workers die and join, fall silent and come back with late answers, the scheduler goes and returns."""
    luck, fleet, planned = random.Random(seed), engine("a", "a", "b", "c", threads=2), problems(120)
    names = iter(range(10, 100000))

    def strike() -> None:
        if luck.random() < 0.02 and fleet.workers:
            fleet.kill(luck.choice(sorted(fleet.workers)))
        if luck.random() < 0.03 and len(fleet.workers) < 6:
            fleet.workers[f"w{next(names)}"] = FakeWorker(facts(luck.choice("abcd")), 2, takes_s=luck.random())
        if luck.random() < 0.01 and fleet.workers:
            fleet.workers[luck.choice(sorted(fleet.workers))].is_silent ^= True
        if luck.random() < 0.01:
            fleet.lose_scheduler() if fleet.is_up else fleet.find_scheduler()
        elif not fleet.is_up and luck.random() < 0.1:
            fleet.find_scheduler()

    fleet.each_tick = strike
    cases = list(results(driver(fleet, planned), planned))
    assert Counter(c.index for c in cases) == Counter(range(120))
    assert {c.result.status for c in cases} == {Status.PASSED}


def replaced(fleet: FakeEngine, name: str) -> None:
    """A worker dies, and one like it joins."""
    there = fleet.workers[name]
    fleet.kill(name)
    fleet.workers[f"{name}'"] = FakeWorker(there.facts, there.threads, there.takes_s)


def poisoned(fleet: FakeEngine, *indices: int) -> Counter[int]:
    """Let cases kill the workers that run them. Returns how many each does."""
    killed = Counter[int]()

    def strike() -> None:
        for worker, problem in list(fleet.running.values()):
            if problem.index in indices and worker in fleet.workers:
                killed[problem.index] += 1
                replaced(fleet, worker)

    fleet.each_tick = strike
    return killed


def test_a_case_that_takes_three_workers_with_it_fails_with_its_story() -> None:
    fleet, planned = engine("a", "b", "c", "d"), problems(300)
    killed = poisoned(fleet, 7)
    by_index = {c.index: c.result for c in results(driver(fleet, planned), planned)}
    assert sorted(by_index) == list(range(300))
    assert by_index[7].status is Status.FAILED
    story = by_index[7].reason
    assert story.startswith("it was lost with 3 workers: w")
    assert story.count("left the cluster") == killed[7] == 3
    assert {r.status for i, r in by_index.items() if i != 7} == {Status.PASSED}


def test_cases_that_ran_beside_one_that_kills_workers_have_their_results() -> None:
    """It takes two workers with all that runs there, and three alone."""
    fleet, planned = engine("a", "b", "c", threads=4), problems(300)
    killed = poisoned(fleet, 7)
    by_index = {c.index: c.result.status for c in results(driver(fleet, planned), planned)}
    assert by_index == dict.fromkeys(range(300), Status.PASSED) | {7: Status.FAILED}
    assert killed[7] == 5


@pytest.mark.parametrize("takes_s", [0.2, 2.0, 5.0])
@pytest.mark.parametrize("seed", range(3))
def test_workers_that_die_at_random_blame_no_case_but_the_one_that_kills_them(takes_s: float, seed: int) -> None:
    """On average each of four workers dies every 8 s; of cases that take 5 s half are lost. One case kills its worker as well."""
    luck, fleet, planned = random.Random(seed), engine("a", "a", "b", "b"), problems(60)
    for worker in fleet.workers.values():
        worker.takes_s = takes_s
    killed = poisoned(fleet, 31)
    poison = fleet.each_tick

    def strike() -> None:
        poison()
        for name in [name for name in sorted(fleet.workers) if luck.random() < TICK_S / 8.0]:
            replaced(fleet, name)

    fleet.each_tick = strike
    by_index = {c.index: c.result for c in results(driver(fleet, planned), planned)}
    assert {i for i, result in by_index.items() if result.status is not Status.PASSED} == {31}
    assert by_index[31].status is Status.FAILED
    assert losses.LEAST <= killed[31] <= losses.MOST_BEGUN


def test_workers_that_die_before_a_case_begins_are_no_sign_against_it() -> None:
    """Others hold the lock of the host for long, and workers die meanwhile."""
    fleet, planned = engine("a", "a"), problems(3)

    def strike() -> None:
        for name in sorted(fleet.workers):
            if round(fleet.now * 10) % 20 == 0:
                replaced(fleet, name)
        for worker in fleet.workers.values():
            worker.is_held = fleet.now < 180

    fleet.each_tick = strike
    assert {c.result.status for c in results(driver(fleet, planned), planned)} == {Status.PASSED}
    assert fleet.now > 180


def test_a_case_that_never_begins_ends_all_the_same() -> None:
    fleet, planned = engine("a", "a"), problems(1)

    def strike() -> None:
        for worker, _ in list(fleet.running.values()):
            replaced(fleet, worker)
        for there in fleet.workers.values():
            there.is_held = True

    fleet.each_tick = strike
    (case,) = results(driver(fleet, planned), planned)
    assert case.result.status is Status.FAILED
    assert case.result.reason.startswith("100 workers were lost before it could end, mostly before it began, and it is given up: w")
    assert case.result.reason.endswith("; and 95 more")


def test_calls_that_the_scheduler_forgets_are_made_again() -> None:
    fleet, planned, forgotten = engine("a", "b"), problems(6), list[int]()

    def strike() -> None:
        if len(forgotten) < 40:
            for ticket in list(fleet.pending):
                forgotten.append(ticket)
                fleet.lose_call(ticket)

    fleet.each_tick = strike
    assert {c.result.status for c in results(driver(fleet, planned), planned)} == {Status.PASSED}
    assert len(forgotten) >= 40


def test_a_silent_worker_loses_its_case_and_its_late_answer_is_dropped() -> None:
    fleet, planned = engine("a", "b"), problems(4)
    fleet.workers["w0"].takes_s = 5.0
    woken = list[float]()

    def strike() -> None:
        fleet.workers["w0"].is_silent = 1.0 < fleet.now < roster.SILENT_S + 10
        if fleet.now > roster.SILENT_S + 10 and not woken:
            woken.append(fleet.now)

    fleet.each_tick = strike
    fleet.workers["w1"].takes_s = 15.0
    cases = list(results(driver(fleet, planned), planned))
    assert Counter(c.index for c in cases) == Counter(range(4))
    assert woken, "the worker came back before the end"


def test_what_runs_when_the_scheduler_goes_runs_again_and_is_not_to_blame() -> None:
    fleet, planned = engine("a"), problems(1)
    fleet.workers["w0"].takes_s = 2.0

    def strike() -> None:
        if fleet.is_up and fleet.running and fleet.now < 20:
            fleet.lose_scheduler()
        elif not fleet.is_up:
            fleet.find_scheduler()

    fleet.each_tick = strike
    (case,) = results(driver(fleet, planned), planned)
    assert case.result.status is Status.PASSED
    assert fleet.now > 20


def test_a_worker_that_joins_late_gets_cases() -> None:
    fleet, planned, ran_on = engine("a"), problems(30), set[str]()

    def strike() -> None:
        if fleet.now > 2.0:
            fleet.workers.setdefault("late", FakeWorker(facts("b")))
        ran_on.update(worker for worker, _ in fleet.running.values())

    fleet.each_tick = strike
    assert len(list(results(driver(fleet, planned), planned))) == 30
    assert ran_on == {"w0", "late"}


def test_timed_cases_are_alone_on_their_host_while_others_run_elsewhere() -> None:
    fleet = engine("a", "a", "b", threads=2)
    timed = problems(12, "--mode=P")
    planned = [replace(p, index=i) for i, p in enumerate(q for both in zip(problems(12), timed, strict=True) for q in both)]
    beside_timed = Counter[bool]()
    host = {name: worker.facts.host for name, worker in fleet.workers.items()}

    def look() -> None:
        by_host: dict[str, list[Problem]] = {}
        for worker, problem in fleet.running.values():
            by_host.setdefault(host[worker], []).append(problem)
        for there in by_host.values():
            assert len(there) == 1 or not any(p.globals.mode.is_timed for p in there)
        if any(p.globals.mode.is_timed for there in by_host.values() for p in there):
            beside_timed[len(by_host) > 1] += 1

    fleet.each_tick = look
    assert len(list(results(driver(fleet, planned), planned))) == 24
    assert beside_timed[True] > 0


def test_a_case_too_large_for_its_share_gets_what_it_needs() -> None:
    fleet, planned, terms = engine("a", threads=4), problems(9), dict[int, list[tuple[int, bool]]]()

    def reply(problem: Problem, parcel: Parcel) -> Reply:
        terms.setdefault(problem.index, []).append((parcel.terms.memory, parcel.terms.is_alone))
        need = {3: 3 * GIB, 5: 100 * GIB}.get(problem.index, 0)
        if parcel.terms.share is not None and need > parcel.terms.share:
            return Reply(finished(problem, Status.SKIPPED, no_memory=True, memory_needed=need))
        return Reply(finished(problem, Status.SKIPPED if need > 8 * GIB else Status.PASSED))

    fleet.reply = reply
    by_index = {c.index: c.result.status for c in results(driver(fleet, planned), planned)}
    assert by_index == dict.fromkeys(range(9), Status.PASSED) | {5: Status.SKIPPED}
    assert terms[0] == [(2 * GIB, False)]
    assert terms[3] == [(2 * GIB, False), (int(3 * GIB / 0.85), False)]
    assert terms[5] == [(2 * GIB, False), (8 * GIB, True)]


def test_contents_go_to_hosts_that_miss_them_once() -> None:
    fleet, planned, sent = engine("a", "b"), problems(10), Counter[bool]()

    def reply(problem: Problem, parcel: Parcel) -> Reply:
        (file,) = parcel.files
        (_, digest) = file.contents[0]
        sent[bool(parcel.bytes_of)] += 1
        if parcel.bytes_of:
            assert parcel.bytes_of[digest] == Path("good.json").read_bytes()
            has.add(digest)
        return Reply(finished(problem)) if digest in has else Reply(missing=(digest,))

    has: set[str] = set()
    del fleet.workers["w1"]
    fleet.reply = reply
    assert len(list(results(driver(fleet, planned), planned))) == 10
    assert sent == {False: 10, True: 1}


def test_without_workers_a_run_ends_with_the_remedy() -> None:
    fleet, planned = engine("a"), problems(5)
    made = driver(fleet, planned)

    def strike() -> None:
        if fleet.now > 1.0 and fleet.workers:
            fleet.kill("w0")

    fleet.each_tick = strike
    with collected() as remarks, pytest.raises(BenchgraphError, match=r"no worker is left.*for 600 s.*--resume=FILE"):
        list(results(made, planned))
    assert remarks == [
        "--cluster: w0 on a left the cluster; what it ran begins anew: 1 case",
        "--cluster: no worker is left that may run these cases; waiting for up to 600 s",
    ]


def test_a_worker_of_other_code_is_never_used() -> None:
    fleet, planned = engine("a", "b"), problems(10)
    fleet.workers["w1"] = FakeWorker(replace(facts("b"), version="0.0"))
    used = set[str]()
    fleet.each_tick = lambda: used.update(worker for worker, _ in fleet.running.values())
    assert len(list(results(driver(fleet, planned), planned))) == 10
    assert used == {"w0"}


def test_an_error_of_the_engine_counts_as_a_lost_attempt() -> None:
    fleet, planned = engine("a", "b"), problems(3)

    def strike() -> None:
        for ticket, (_, problem) in list(fleet.running.items()):
            if problem.index == 1:
                fleet.fail(ticket, "ValueError: cannot unpickle")

    fleet.each_tick = strike
    by_index = {c.index: c.result for c in results(driver(fleet, planned), planned)}
    assert by_index[1].status is Status.FAILED
    assert by_index[1].reason.count("ValueError: cannot unpickle") == 3


def test_results_name_their_machines() -> None:
    fleet, planned = engine("a", "b"), problems(8)
    made = Fleet("tcp://fake", driver(fleet, planned))
    hosts = {done.case.machine.host for done in made.run(planned) if done.case.machine}
    assert hosts == {"a", "b"} == {m.host for m in made.meet()}
    assert made.at_once == 2


def test_a_worker_of_other_code_that_joins_later_is_told() -> None:
    fleet, planned = engine("a"), problems(20)

    def strike() -> None:
        if fleet.now > 2.0:
            fleet.workers.setdefault("late", FakeWorker(replace(facts("b"), version="0.0")))

    fleet.each_tick = strike
    with collected() as remarks:
        assert len(list(results(driver(fleet, planned), planned))) == 20
    assert [text.partition(": benchgraph is 0.0")[0] for text in remarks] == ["--cluster: late is left out"]


def test_tickets_go_on_so_that_a_late_greeting_is_no_cases_answer() -> None:
    book = CaseBook()
    late = book.new_ticket()
    cases = CaseBook.of(problems(2), after=book)
    assert late not in [ticket for ticket, _ in cases.waiting(2)]
