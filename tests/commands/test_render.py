"""`benchgraph render`: saved results in the form of any report."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from benchgraph.analysis.history.database import Database
from benchgraph.analysis.history.store import append
from benchgraph.cli import main
from benchgraph.options.plugins import load_report, names, suffixes
from benchgraph.present.ab.json import render as report_of_ab
from benchgraph.results.json_report import render
from benchgraph.results.result import ResultSet
from tests.analysis.history.made import run as measured
from tests.present.ab.made import comparison
from tests.support.result_sets import MACHINE, RESULTS

MEASURED, *OTHERS = RESULTS.cases
UNDRAWN = replace(MEASURED, result=replace(MEASURED.result, graph=None))
SAVED = replace(RESULTS, cases=(UNDRAWN, *OTHERS), source="0123456789abcdef")

ELSEWHERE = replace(MACHINE, host="b", identity={"cpuid": "AuthenticAMD 25-17-1"})
SEVERAL = replace(SAVED, cases=(*SAVED.cases, *(replace(c, index=c.index + 3, machine=ELSEWHERE) for c in SAVED.cases)))


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("a.json").write_text(render(SAVED))
    Path("bad.json").write_text("{}")
    return tmp_path


def run(*words: str) -> Result:
    return CliRunner().invoke(main, ["render", *words], prog_name="benchgraph")


@pytest.mark.covering(1)
@pytest.mark.parametrize("saved", [SAVED, SEVERAL], ids=["one machine", "several"])
@pytest.mark.parametrize("name", names("reports"))
def test_every_report_is_what_the_run_itself_would_have_written(name: str, saved: ResultSet) -> None:
    Path("a.json").write_text(render(saved))
    suffix = next(suffix for suffix, report in suffixes().items() if report == name)
    assert run("a.json", f"--report={name}:deep/out{suffix}").output == f"{name} report: deep/out{suffix}\n"
    assert Path(f"deep/out{suffix}").read_text() == load_report(name)(saved)


def test_several_reports_are_made_at_once_and_shown_first() -> None:
    shown, junit, csv = run("a.json", "--report=csv:out.csv", "--report", "markdown", "--report=junit:-").stdout.rpartition("csv report")
    assert shown == f"{load_report('markdown')(SAVED)}{load_report('junit')(SAVED)}"
    assert (junit, csv) == ("csv report", ": out.csv\n")


def test_a_run_that_was_cut_short_is_said() -> None:
    Path("cut.json").write_text(render(replace(SAVED, planned=5)))
    done = run("cut.json", "--report=junit")
    assert done.stderr == "benchgraph: cut.json: cut short after 3 cases; run the rest with --resume=cut.json\n"
    assert "cut short: 3 of 5 cases ran" in done.stdout


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "render: no results to render; give files that --report=json:FILE wrote"),
        (["a.json", "--report"], "render: --report: a value is missing; write '--report=NAME[:FILE]'"),
        (["a.json", "--report=junti"], "render: --report: bad value 'junti'; did you mean 'junit'?"),
        (["a.json", "--report=csv:x.xml"], "render: --report: bad value 'csv:x.xml'; the file's name says junit; give it another one"),
        (["a.json", "--reprot=csv"], "render: --reprot: unknown option; did you mean '--report'?"),
        (["nope.json"], "nope.json: cannot read the file: No such file or directory; name a JSON report"),
        (["bad.json"], "bad.json: not a JSON report of benchgraph; give a file that --report=json:FILE wrote"),
        (
            ["a.json", "--report=csv:bad.json/x"],
            "render: --report=csv:bad.json/x: cannot write the file: Not a directory; name another one",
        ),
        (
            ["a.json", "a.json", "--report=csv"],
            "render: --report=csv: 2 files, and this report is of one run; render one file at a time; html joins runs on a page, and "
            "'benchgraph merge' the shards of one run",
        ),
    ],
)
def test_errors_are_one_line(words: list[str], message: str) -> None:
    result = run(*words)
    assert (result.stderr, result.stdout, result.exit_code) == (f"benchgraph: {message}\n", "", 2)


def test_its_former_name_names_it() -> None:
    done = CliRunner().invoke(main, ["report", "a.json", "-o", "page.html"])
    assert done.stderr == "benchgraph: 'report' is called 'render' now: benchgraph render a.json --report=html:page.html\n"
    assert (done.exit_code, Path("page.html").exists()) == (0, True)


@pytest.mark.parametrize("words", [["render", "ab.json"], ["compare", "ab.json", "ab.json"], ["merge", "ab.json", "-o", "all.json"]])
def test_a_report_of_ab_is_known_as_one(words: list[str]) -> None:
    Path("ab.json").write_text(report_of_ab(comparison()))
    done = CliRunner().invoke(main, words)
    assert done.exit_code == 2, done.output
    fix = "ab writes --report=markdown and html itself; give a file that --report=json:FILE of a run wrote"
    assert f"ab.json: a report of 'benchgraph ab', which has no run; {fix}" in done.stderr


@pytest.mark.parametrize("words", [["render", "h.json"], ["compare", "h.json", "h.json"], ["history", "--history=h.db", "--add=h.json"]])
def test_a_report_of_a_history_is_known_as_one(words: list[str]) -> None:
    append(Database("h.db"), measured(0, {"a": {"fused": 1.0}}))
    CliRunner().invoke(main, ["regressions", "--history=h.db", "--report=json:h.json"])
    done = CliRunner().invoke(main, words)
    assert done.exit_code == 2, done.output
    assert "h.json: a report of 'benchgraph history' or 'regressions', which has medians of many runs; these commands write" in done.stderr
