"""`history` and `regressions` for programs and for pull requests."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from benchgraph.analysis.history.database import Database
from benchgraph.analysis.history.store import append
from benchgraph.cli import main
from benchgraph.results.mode import Mode
from tests.analysis.history.made import run
from tests.support.written_reports import cells

NOISE = (1.0, 1.004, 0.997, 1.002, 0.999, 1.003, 0.996, 1.001)


def commit(number: int) -> str:
    return f"{number:02d}" + "f" * 38


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A history of 16 runs of two cases, of which b is slower by a fifth from the ninth run on."""
    monkeypatch.chdir(tmp_path)
    database = Database("h.db")
    for i in range(16):
        slow = 1.2 if i >= 8 else 1.0
        append(database, run(i, {"a": {"fused": NOISE[i % 8]}, "b": {"fused": slow * NOISE[(i + 3) % 8]}}, commit=commit(i)))
    return tmp_path


def call(*words: str) -> Result:
    return CliRunner().invoke(main, [*words, "--history=h.db"], prog_name="benchgraph")


def test_a_regression_as_json_names_the_runs_around_it() -> None:
    done = call("regressions", "--report=json")
    assert done.exit_code == 1
    document = json.loads(done.stdout)
    assert [(s["case"], s["policy"], len(s["points"]), len(s["changes"])) for s in document["series"]] == [
        ("--mode=P --graph --case=a", "fused", 16, 0),
        ("--mode=P --graph --case=b", "fused", 16, 1),
    ]
    (change,) = document["series"][1]["changes"]
    assert (change["last_good"], change["first_bad"], change["mended"]) == (8, 9, None)
    assert 1.1 < change["low"] <= change["ratio"] <= change["high"] < 1.3
    assert [r["commit"] for r in document["runs"]] == [commit(i) for i in range(16)]
    assert document["runs"][0]["versions"] == {"python": "3.11", "numpy": "2.4.5"}


def test_a_regression_as_markdown_is_a_row() -> None:
    done = call("regressions", "--report=markdown:out/r.md", "--report=markdown")
    assert done.exit_code == 1
    text = Path("out/r.md").read_text()
    assert done.stdout == f"{text}markdown report: out/r.md\n"
    assert text.startswith("**benchgraph regressions**: 1 case slower for good by more than 5%, of 2 series in 16 runs\n")
    (*_, row) = cells(text)
    assert row[:3] == ["--mode=P --graph --case=b", "fused", f"{commit(7)[:10]}..{commit(8)[:10]}"]


def test_without_a_regression_there_is_no_table() -> None:
    done = call("regressions", "--match=case=a", "--report=markdown")
    assert (done.stdout, done.exit_code) == (
        "**benchgraph regressions**: 0 cases slower for good by more than 5%, of 1 series in 16 runs\n",
        0,
    )


def test_files_leave_the_terminal_its_own() -> None:
    alone, beside = call("regressions"), call("regressions", "--report=json:r.json")
    assert beside.stdout == f"{alone.stdout}json report: r.json\n"
    assert Path("r.json").read_text() == call("regressions", "--report=json").stdout


def test_a_history_as_markdown_and_json() -> None:
    listed = cells(call("history", "--report=markdown").stdout)
    assert [row[0] for row in listed if row[0].isdigit()] == [str(n) for n in range(1, 17)]
    of_case = call("history", "--case=case=b", "--since=8", "--report=markdown").stdout
    changes = {row[0]: row[-1] for row in cells(of_case) if row[0].isdigit()}
    assert list(changes) == [str(n) for n in range(8, 17)]
    assert [n for n, change in changes.items() if change] == ["9"]
    assert 0.1 < float(changes["9"].strip("+%")) / 100 < 0.3
    document = json.loads(call("history", "--case=case=b", "--since=12", "--report=json").stdout)
    assert [p["run"] for p in document["series"][0]["points"]] == [12, 13, 14, 15, 16]


@pytest.mark.parametrize(
    ("word", "message"),
    [
        ("--report=csv", "regressions: --report: bad value 'csv'; choose one of console, markdown, json, html"),
        ("--report=json:h.db/x", "regressions: --report=json:h.db/x: cannot write the file: Not a directory; name another one"),
    ],
)
def test_errors_are_one_line(word: str, message: str) -> None:
    done = call("regressions", word)
    assert (done.stderr, done.stdout, done.exit_code) == (f"benchgraph: {message}\n", "", 2)


@pytest.mark.parametrize("report", ["console", "markdown"])
def test_a_history_without_times_says_so(report: str) -> None:
    """As one of correctness runs, which has nothing that could become slower."""
    Path("h.db").unlink()
    timed = run(0, {"a": {"fused": 1.0}}, commit=commit(0))
    untimed = tuple(replace(c, result=replace(c.result, timings=())) for c in timed.cases)
    append(Database("h.db"), replace(timed, mode=Mode.correctness, cases=untimed))
    done = call("regressions", f"--report={report}")
    assert done.exit_code == 0
    said = "no times here: runs in the modes P and F have them; 'benchgraph compare' compares the statuses of two reports"
    assert said in " ".join(done.stdout.split())
