"""Damaged or foreign files, and names that are not UTF-8: each is an error of one line with place and cause."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from benchgraph.cli import main
from benchgraph.core.files import data_dir
from benchgraph.harness import isolate
from tests.support.misbehaving_library import BENCH, write_cases

CASE = ("--graph", "--case=mlp.json")
DAMAGED = "benchgraph: h.db: the history is damaged, or is none of benchgraph's; restore it from a copy, or name another one\n"


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def run(*words: str) -> Result:
    return CliRunner().invoke(main, words)


@pytest.mark.parametrize("change", ["UPDATE history_run SET versions = '{'", "UPDATE history_run SET versions = CAST(X'CCFF' AS TEXT)"])
def test_a_history_that_holds_no_text_is_damaged(change: str) -> None:
    assert run("--history=h.db", "--mode=I", *CASE).exit_code == 0
    with closing(sqlite3.connect("h.db", isolation_level=None)) as database:
        database.execute(change)
    for words in (("history",), ("regressions",)):
        done = run(*words, "--history=h.db")
        assert done.exit_code == 2
        assert done.output.count("\n") == 1
        assert done.output.startswith("benchgraph: h.db: ")
    assert run("history", "--history=h.db").output == DAMAGED or "CAST" in change


@pytest.mark.parametrize("url", [":memory:", "sqlite:///:memory:"])
def test_a_history_in_memory_is_refused(url: str) -> None:
    done = run(f"--history={url}", *CASE)
    assert done.exit_code == 2
    assert done.output == "benchgraph: --history=:memory:: a history in memory ends with the run; name a file\n"


@pytest.mark.parametrize("words", [("render", "deep.json"), ("compare", "deep.json", "deep.json"), ("history", "--add=deep.json")])
def test_json_that_is_nested_too_deep_is_no_report(words: tuple[str, ...]) -> None:
    Path("deep.json").write_text("[" * 200_000)
    done = run(*words)
    assert done.exit_code == 2
    assert done.output.count("\n") == 1
    assert "deep.json: not a JSON report of benchgraph" in done.output


def test_a_tuning_file_that_is_nested_too_deep_is_refused() -> None:
    Path("deep.json").write_text("[" * 200_000)
    done = run("--tuning=deep.json", *CASE)
    assert done.exit_code == 2
    assert "deep.json: is no JSON" in done.output


def test_a_batch_that_is_no_text_is_refused() -> None:
    Path("batch").write_bytes(b"\xfb\x00\x1b[31m" * 100)
    done = run("--graph", "--batch=batch")
    what = "benchgraph: batch: no batch file: it holds bytes that are no text; name a file of options\n"
    assert (done.exit_code, done.output) == (2, what)


def test_a_batch_with_a_byte_order_mark_is_refused() -> None:
    Path("batch").write_bytes(b"\xef\xbb\xbf--case=mlp.json")
    done = run("--graph", "--batch=batch")
    assert (done.exit_code, done.output) == (
        2,
        "benchgraph: batch: the file begins with a byte order mark; save it as UTF-8 without one\n",
    )


def test_words_of_a_batch_cannot_change_the_terminal() -> None:
    Path("batch").write_bytes(b"\x1b[31m\xff")
    done = run("--graph", "--batch=batch")
    assert done.exit_code == 2
    assert "\\x1b[31m\\udcff" in done.output


@pytest.mark.parametrize("report", ["json", "junit", "html", "markdown", "csv", "console"])
def test_a_case_whose_name_is_no_utf_8_is_in_every_report(report: str) -> None:
    shutil.copy(data_dir("inputs") / "graph" / "mlp.json", b"m\xff.json")
    Path("batch").write_bytes(b"--case=m\xff.json")
    file = os.fsdecode(b"o\xfe")
    done = run("--mode=I", f"--report={report}:{file}", "--history=h.db", "--graph", "--batch=batch")
    assert done.exit_code == 0, done.output
    assert Path(file).read_text(encoding="utf-8")
    assert "history: run 1 of h.db" in done.stdout


def test_workers_that_cannot_be_started_lose_no_case(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Two start; the one that dies is not replaced; then the other dies."""
    write_cases(tmp_path)
    really, left = isolate.Worker, [2]

    def worker(setup: object) -> isolate.Worker:
        if not left[0]:
            raise BlockingIOError(11, "Resource temporarily unavailable")
        left[0] -= 1
        return really(setup)  # type: ignore[arg-type]

    monkeypatch.setattr(isolate, "Worker", worker)
    names = ("segfault", "good", "good", "segfault", "good", "good")
    done = CliRunner().invoke(main, ["--jobs=2", "--graph", *(f"--case={n}.json" for n in names)], obj=BENCH)
    assert done.exit_code == 1
    assert "tests:6 " in done.stdout
    assert "failed:" in done.stdout
    assert "no worker process can be started (Resource temporarily unavailable): cases run in " in done.stderr


def test_without_any_worker_every_case_fails_with_the_reason(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    write_cases(tmp_path)

    def worker(setup: object) -> isolate.Worker:
        raise BlockingIOError(11, "Resource temporarily unavailable")

    monkeypatch.setattr(isolate, "Worker", worker)
    done = CliRunner().invoke(main, ["--jobs=2", "--graph", "--case=good.json", "--case=good.json"], obj=BENCH)
    assert done.exit_code == 1
    said = done.stdout.partition("===")[0]
    assert said.count("FAILED (no worker process could be started: Resource temporarily unavailable; end other processes, or ") == 2


EACH_COMMAND = """
import json, sys
from click.testing import CliRunner
from benchgraph.cli import main
done = [CliRunner().invoke(main, words) for words in json.load(sys.stdin)]
json.dump([(d.exit_code, d.stdout, d.stderr) for d in done], sys.stdout)
"""


def test_a_named_pipe_is_refused_and_not_waited_for() -> None:
    """In a process of their own, which can be killed if one of the commands waits."""
    os.mkfifo("fifo")
    Path("link").symlink_to("fifo")
    commands = [
        ("compare", "fifo", "fifo"),
        ("render", "fifo"),
        ("history", "--history=h.db", "--add=fifo"),
        *((option, *CASE) for option in ("--tuning=fifo", "--resume=fifo", "--resume=link", "--report=json:fifo", "--report=csv:fifo")),
    ]
    command = [sys.executable, "-c", EACH_COMMAND]
    done = subprocess.run(command, input=json.dumps(commands), capture_output=True, text=True, timeout=60, check=True)
    for words, (code, stdout, stderr) in zip(commands, json.loads(done.stdout), strict=True):
        assert (code, stdout, stderr.count("\n")) == (2, "", 1), words
        assert " pipe, not a file; name " in stderr, words


def test_a_pipe_that_a_shell_gives_is_read_and_written() -> None:
    assert run("--mode=I", "--report=json:a.json", *CASE).exit_code == 0
    script = (
        '"$0" -m benchgraph history --history=h.db --add=<(cat a.json) && "$0" -m benchgraph render a.json --report=html:>(cat >/dev/null)'
    )
    done = subprocess.run(["bash", "-c", script, sys.executable], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    assert "run 1 of h.db, 1 of 1 cases new there" in done.stdout


@pytest.mark.parametrize("words", [("--version",), ("--mode=I", *CASE), ("history", "--history=h.db")])
def test_a_full_output_ends_in_a_line(words: tuple[str, ...]) -> None:
    assert run("--mode=I", "--history=h.db", *CASE).exit_code == 0
    with Path("/dev/full").open("w") as full:
        command = [sys.executable, "-m", "benchgraph", *words]
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, timeout=60, check=False)
    what = "benchgraph: standard output: cannot write there: No space left on device; make room there, or send it elsewhere\n"
    assert (done.returncode, done.stderr) == (1, what)


@pytest.mark.parametrize("samples", [[], [0.0], [-1.0], ["x"]])
def test_saved_times_that_cannot_be_are_refused(samples: list[object]) -> None:
    measure = ("--mode=P", "--fix-times-per-prb=1", "--repeats-per-prb=1")
    write_cases(Path())
    done = CliRunner().invoke(main, [*measure, "--report=json:a.json", "--graph", "--case=good.json"], obj=BENCH)
    assert done.exit_code == 0, done.output
    document = json.loads(Path("a.json").read_text())
    for timing in document["cases"][0]["timings"].values():
        timing["samples_s"] = samples
    Path("b.json").write_text(json.dumps(document))
    for words in (("compare", "a.json", "b.json"), ("render", "b.json"), ("history", "--history=h.db", "--add=b.json")):
        told = run(*words)
        assert (told.exit_code, told.output.count("\n")) == (2, 1), told.output
        assert "b.json: case 0 (" in told.output
