"""Cases in worker processes: whatever one does to its process, the others are as without --jobs."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from benchgraph.cli import main
from benchgraph.core import child_process
from benchgraph.core.config import config, override
from benchgraph.harness.isolate import WorkerPool
from benchgraph.harness.worker import Setup
from benchgraph.options.argv import parse
from benchgraph.results.result import Result as Outcome
from benchgraph.results.result import Status
from tests.support.misbehaving_library import BENCH, write_cases
from tests.support.processes import is_gone

HANG_S = 5  # --timeout where a case hangs: others, which take milliseconds, must not reach it on a busy machine


@pytest.fixture(autouse=True)
def cases(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    write_cases(tmp_path)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture(autouse=True)
def _no_process_stays() -> Iterator[None]:
    before = children()
    yield
    assert children() == before


def children() -> set[int]:
    """Processes that this one started and that are not reaped."""
    found = set()
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            parent = int(stat.read_text().rpartition(")")[2].split()[1])
        except (FileNotFoundError, ProcessLookupError):
            continue
        if parent == os.getpid():
            found.add(int(stat.parent.name))
    return found


def run(*words: str) -> Result:
    return CliRunner().invoke(main, ["--graph", *words], obj=BENCH, prog_name="benchgraph")


def timeless(text: str) -> str:
    return re.sub(r"\(\d+ ms\)|total: .*s;", "(T)", text)


def reasons(result: Result) -> list[str]:
    """Status and reason of each case, from the lines before the summary."""
    lines = result.stdout.partition("=== Failed")[0].splitlines()
    return [m[1] for line in lines if (m := re.match(r"\d+:([A-Z_]+(?: \(.*?\))??) \(\d+ ms\) __REPRO", line))]


def test_a_batch_survives_a_crash_a_hang_and_a_terabyte() -> None:
    words = [f"--seed={n} --case=good.json" for n in range(50)]
    for at, name in ((7, "segfault"), (21, "loop"), (33, "terabyte")):
        words[at] = words[at].replace("good", name)
    Path("batch").write_text("\n".join(words))
    result = run("--jobs=3", f"--timeout={HANG_S}", "--batch=batch")
    want = ["PASSED"] * 50
    want[7] = "FAILED (the worker process was killed by SIGSEGV)"
    want[21] = f"FAILED (no result within {HANG_S} s; raise --timeout if it only needs longer)"
    want[33] = "SKIPPED (not enough memory; try a smaller --mb)"
    assert reasons(result) == want
    repros = re.findall(r"^(\d+):.* __REPRO: (.*)$", result.stdout.partition("=== Failed")[0], re.MULTILINE)
    assert repros == [(str(n), f"{f'--seed={n} ' if n else ''}--graph --case={words[n].partition('case=')[2]}") for n in range(50)]
    assert "tests:50 passed:47 skipped:1 mistrusted:0 unimplemented:0 invalid_arguments:0 failed:2 listed:0\n" in result.stdout
    assert result.exit_code == 1


def test_the_output_is_that_of_a_run_without_jobs(cases: Path) -> None:
    (cases / "bad.json").write_text("{")
    words = ["--case=good.json", "--case=bad.json", "--case=nowhere.json", "--expected-n-partitions=3", "--case=good.json", "--mode=L"]
    words += ["--expected-n-partitions=1", "--seed=1,2,3", "--case=good.json", "--case=terabyte.json"]
    here, there = run(*words), run("--jobs=2", *words)
    assert (timeless(there.stdout), there.stderr, there.exit_code) == (timeless(here.stdout), here.stderr, here.exit_code)


def test_how_a_process_died() -> None:
    how = {
        "abort": "the worker process was killed by SIGABRT",
        "killed": "the worker process was killed by SIGKILL; the system may have run out of memory",
        "leaves": "the worker process exited with code 3",
    }
    result = run("--jobs=2", *(f"--case={name}.json" for name in (*how, "good")))
    assert reasons(result) == [*(f"FAILED ({reason})" for reason in how.values()), "PASSED"]


def test_one_that_only_closed_its_pipe_had_memory_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    """So it is not run again, though it is killed in the end."""
    monkeypatch.setattr(child_process, "EXIT_S", 0.1)
    crew = WorkerPool(Setup(BENCH, config()))
    try:
        ((_, done),) = crew.run(parse(["--graph", "--case=closes_its_pipe.json"]).problems, 1, None)
    finally:
        crew.dismiss()
    assert done.case.result == Outcome(Status.FAILED, "the worker process closed its pipe")


def test_a_case_too_large_for_a_share_of_the_memory_runs_again_alone() -> None:
    result = run("--jobs=2", "--case=more_than_a_share.json", "--seed=1", "--case=good.json", "--case=terabyte.json")
    assert reasons(result) == ["PASSED", "PASSED", "SKIPPED (not enough memory; try a smaller --mb)"]
    assert result.exit_code == 0


def test_outputs_of_cases_do_not_mix() -> None:
    result = run("--jobs=2", "--seed=0,1,2,3,4,5", "--case=writes.json")
    blocks = re.findall(r"((?:out \d+ of \d+\n)+)\d+:PASSED", result.stdout)
    assert len(blocks) == 6
    for block in blocks:
        assert re.findall(r"out (\d+)", block) == [str(n) for n in range(50)]
        assert len(set(re.findall(r"of (\d+)", block))) == 1
    assert re.findall(r"err (\d+)", result.stderr) == [str(n) for n in range(50)] * 6


def test_child_processes_of_a_case_end_with_its_worker_and_its_output_stays() -> None:
    result = run("--jobs=1", "--timeout=1", "--case=starts_a_process.json")
    started = re.match(r"started (\d+)\n0:FAILED \(no result within 1 s;", result.stdout)
    assert started
    assert is_gone(int(started[1]))


@pytest.mark.parametrize("name", ["segfault", "native_hang"])
def test_v_shows_where_it_struck(name: str) -> None:
    result = run("-v", "--jobs=1", "--timeout=1", f"--case={name}.json")
    assert result.stderr.startswith(f"run: --graph --case={name}.json\nFatal Python error: ")
    assert f"in _{name}\n" in result.stderr


def test_without_v_there_is_no_traceback() -> None:
    assert run("--jobs=1", "--case=segfault.json").stderr == ""


def test_workers_share_the_threads_and_compile_alone() -> None:
    with override(threads=6, compile_jobs=4):
        shared = run("--jobs=3", "--case=says_its_threads.json", "--threads=5", "--case=says_its_threads.json")
    assert re.findall(r"^(\d+) threads", shared.stdout, re.MULTILINE) == ["2", "5"]
    assert re.findall(r"^compiled by (\d+) processes", shared.stdout, re.MULTILINE) == ["1", "1"]


def test_jobs_are_processes_and_a_timeout_needs_one() -> None:
    here = f"process {os.getpid()}\n"
    assert run("--case=says_its_process.json").stdout.startswith(here)
    for option in ("--jobs=1", "--timeout=60"):
        result = run(option, "--seed=0,1,2", "--case=says_its_process.json")
        assert here not in result.stdout
        (serving,) = set(re.findall(r"process (\d+)", result.stdout))
        assert result.stdout.count(f"process {serving}\n") == 3, "a worker serves many cases"


def test_a_worker_that_dies_between_two_cases_spoils_neither() -> None:
    first, second = parse(["--graph", "--case=dies_afterwards.json", "--case=good.json"]).problems
    crew = WorkerPool(Setup(BENCH, config()))
    try:
        before = [done for _, done in crew.run([first], 1, None)]
        for worker in crew.workers:  # none where its end was seen with its result
            worker.pipe.poll(HANG_S)
        after = [done for _, done in crew.run([second], 1, None)]
    finally:
        crew.dismiss()
    assert [done.case.result.status for done in before + after] == [Status.PASSED] * 2


def test_a_worker_that_cannot_start_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/bin/false")
    result = run("--jobs=2", "--seed=0,1", "--case=good.json")
    assert reasons(result) == ["FAILED (the worker process exited with code 1 before the case began)"] * 2


def test_measurements_do_not_run_side_by_side() -> None:
    result = run("--mode=P", "--case=good.json", "--mode=C", "--jobs=2", "--case=good.json")
    assert result.stderr == (
        "benchgraph: --jobs=2: timed modes measure, and cases that run at once disturb each other's times; "
        "use --jobs=1, which isolates the cases all the same\n"
    )
    assert result.exit_code == 2


def test_one_process_may_measure() -> None:
    result = run("--mode=P", "--jobs=1", "--fix-times-per-prb=2", "--case=good.json")
    assert reasons(result) == ["EXECUTED"]
    assert "fused (1 partition)" in result.stdout
