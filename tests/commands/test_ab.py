"""ab: two versions checked and timed against each other. Most are fakes on one clock; once, this checkout stands for both."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner, Result

import benchgraph
from benchgraph.cli import main
from benchgraph.core.config import override
from benchgraph.core.errors import InvalidArguments
from benchgraph.harness.bench import Bench
from benchgraph.harness.case import run_all
from benchgraph.options.problem import Problem
from benchgraph.results.mode import Mode
from benchgraph.results.result import FinishedCase
from tests.support.fake_library import Clock, FakeLibrary, fake_bench

ROOT = Path(benchgraph.__file__).parent.parent
VERSIONS = ["onednn:/a", "onednn:/b"]
CASES = ["--matmul", "4x8:8x6", "3x5:5x7"]


class Ran:
    """The problems of every process that an in-process stand-in for one was asked to run."""

    def __init__(self) -> None:
        self.calls = list[tuple[Problem, ...]]()

    def __call__(self, problems: Sequence[Problem], bench: Bench, jobs: int) -> Iterator[FinishedCase]:
        self.calls.append(tuple(problems))
        return map(FinishedCase, run_all(problems, bench, print))

    def of(self, mode: Mode) -> list[tuple[Problem, ...]]:
        return [call for call in self.calls if call[0].globals.mode is mode]


@pytest.fixture
def ran(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Ran:
    monkeypatch.chdir(tmp_path)
    found = Ran()
    monkeypatch.setattr("benchgraph.commands.ab.run_isolated", found)
    return found


def bench(change: Callable[[FakeLibrary], None] = lambda new: None, old: Callable[[FakeLibrary], None] = lambda old: None) -> Bench:
    """change: of the new version. old: of the old one."""
    clock = Clock()
    versions = {"a": FakeLibrary(clock), "b": FakeLibrary(clock)}
    old(versions["a"])
    change(versions["b"])
    return replace(fake_bench(versions["a"]), library=lambda name: versions[name[-1]])


def ab(*words: str, on: Bench, versions: Sequence[str] = VERSIONS) -> Result:
    return CliRunner().invoke(main, ["ab", *versions, "--max-ms-per-prb=500", *(words or CASES)], obj=on)


def wrong(library: FakeLibrary) -> None:
    library.spoil = lambda kind, array: array + np.eye(*array.shape[-2:])


def slower(library: FakeLibrary) -> None:
    library.slowness = 1.2


def unsupported(library: FakeLibrary) -> None:
    library.unsupported = "MatMul"


def failing(library: FakeLibrary) -> None:
    library.fails = InvalidArguments("no such thing")


def test_versions_that_are_the_same_are_the_same(ran: Ran) -> None:
    done = ab(on=bench())
    assert done.exit_code == 0, done.output
    assert done.output.splitlines()[-1] == "2 cases, 2 timed: 0 wrong, 0 unsupported, 0 slower, 2 same"
    assert "matmul, fused  |     2 |     1.000" in done.output


def test_a_launch_is_a_process_of_both_and_they_take_turns(ran: Ran) -> None:
    ab(*CASES, "--launches=4", on=bench())
    assert [[p.globals.library for p in call] for call in ran.of(Mode.correctness)] == [[("old=onednn:/a",)] * 2 + [("new=onednn:/b",)] * 2]
    both = ("old=onednn:/a", "new=onednn:/b")
    assert [{p.globals.library for p in call} for call in ran.of(Mode.performance)] == [{both}, {both[::-1]}] * 2
    assert {p.globals.policies for call in ran.calls for p in call} == {("fused",)}


@pytest.mark.parametrize(
    ("change", "heading", "says"),
    [
        (slower, "slower", "1.200 | 1.1"),
        (wrong, "Wrong:", "--matmul 4x8:8x6: PASSED -> FAILED (fused: partition 0"),
        (unsupported, "Unsupported:", "--matmul 3x5:5x7: PASSED -> UNIMPLEMENTED (fused: partition 0 (op 0: MatMul"),
        (failing, "Unsupported:", "--matmul 4x8:8x6: PASSED -> INVALID_ARGUMENTS (no such thing"),
    ],
)
def test_what_got_worse_is_found_and_is_the_exit_code(ran: Ran, change: Callable[[FakeLibrary], None], heading: str, says: str) -> None:
    done = ab(on=bench(change))
    assert done.exit_code == 1, done.output
    assert heading in done.output
    assert says in done.output, done.output
    assert bool(ran.of(Mode.performance)) is (change is slower)


@pytest.mark.parametrize(
    ("change", "summary"),
    [(slower, "0 slower, 2 faster"), (unsupported, "0 slower, 2 mended"), (wrong, "0 slower, 2 mended")],
)
def test_what_got_better_is_found_and_fails_nothing(ran: Ran, change: Callable[[FakeLibrary], None], summary: str) -> None:
    done = ab(on=bench(old=change))
    assert (done.exit_code, done.output.splitlines()[-1].rpartition("unsupported, ")[2]) == (0, summary)


NO_FILE = ["--graph", "--case=nosuch.json"]
NOTHING = "; nothing could be compared"


@pytest.mark.parametrize(
    ("words", "change", "kind", "says"),
    [
        (NO_FILE, slower, "fails on both", "--graph --case=nosuch.json: INVALID_ARGUMENTS (nosuch.json: no such file"),
        (["--matmul", "4x8:9x6"], slower, "fails on both", "--matmul 4x8:9x6: INVALID_ARGUMENTS (4x8:9x6: src 4x8 has K=8"),
        (CASES[:2], wrong, "fails on both", "--matmul 4x8:8x6: FAILED ("),
        (CASES[:2], unsupported, "not comparable", "--matmul 4x8:8x6: UNIMPLEMENTED ("),
    ],
)
def test_what_neither_version_can_run_is_listed_with_the_reason(
    ran: Ran, tmp_path: Path, words: list[str], change: Callable[[FakeLibrary], None], kind: str, says: str
) -> None:
    done = ab(*words, "--report=markdown:r.md", "--report=json:r.json", "--report=html:r.html", on=bench(change, change))
    assert done.exit_code == 1, done.output
    assert f"1 case, 0 timed: 0 wrong, 0 unsupported, 0 slower, 1 {kind}{NOTHING}" in done.output
    assert f"{kind.capitalize()}:\n  {says}" in done.output
    for name in ("r.md", "r.html"):
        assert f"{kind.capitalize()} (1)" in (tmp_path / name).read_text()
        assert says in (tmp_path / name).read_text()
    found = json.loads((tmp_path / "r.json").read_text())
    assert [(f["kind"], f["is_worse"]) for f in found["findings"]] == [(kind, kind == "fails on both")]
    assert found["exit_code"] == 1


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [(NO_FILE, 1, "1 fails on both, 1 same"), (["--memory-kind=buffer", *CASES[:2]], 0, "1 same, 1 skipped on both")],
)
def test_beside_others_a_case_that_fails_on_both_fails_and_one_that_is_skipped_is_counted(
    ran: Ran, words: list[str], code: int, says: str
) -> None:
    done = ab(*CASES[:2], "--reset", *words, on=bench())
    *_, summary = done.output.splitlines()
    assert (done.exit_code, summary) == (code, f"2 cases, 1 timed: 0 wrong, 0 unsupported, 0 slower, {says}")
    assert "Skipped" not in done.output


def test_a_version_that_cannot_be_timed_leaves_the_case_open(ran: Ran, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It passed when it was checked."""

    def fail(problems: Sequence[Problem], on: Bench, jobs: int) -> Iterator[FinishedCase]:
        is_timed = problems[0].globals.mode is Mode.performance
        return ran(problems, bench(failing if is_timed else lambda new: None), jobs)

    monkeypatch.setattr("benchgraph.commands.ab.run_isolated", fail)
    done = ab(*CASES, "-v", "--report=html:r.html", "--report=console", on=bench())
    assert done.exit_code == 0
    assert "nan" not in done.output
    assert not re.search(r"\bnan\b", (tmp_path / "r.html").read_text())
    assert "2 cases, 0 timed: " in done.output
    assert "fused: right -> not timed: no such thing" in done.output
    assert "0 slower, 2 cannot tell\n" in done.output


def test_cases_that_cannot_be_told_are_launched_again(ran: Ran) -> None:
    """They differ by the threshold."""

    def change(library: FakeLibrary) -> None:
        library.slowness = 1.05

    ab(*CASES, "--launches=2", "--max-launches=5", on=bench(change))
    assert [len(call) for call in ran.of(Mode.performance)] == [2] * 4


@pytest.mark.parametrize(("at", "most"), [(1, 3), (2, 3), (4, 9)])
def test_ctrl_c_reports_what_whole_launches_say(ran: Ran, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at: int, most: int) -> None:
    """It strikes when one case of two was timed in a launch."""

    def strike(problems: Sequence[Problem], on: Bench, jobs: int) -> Iterator[FinishedCase]:
        results = ran(problems, on, jobs)
        if len(ran.of(Mode.performance)) <= at:
            yield from results
        else:
            yield next(results)
            raise KeyboardInterrupt

    def change(library: FakeLibrary) -> None:
        library.slowness = 1.05 if at > 3 else 1.2  # the first cannot be told, so that there are further launches

    monkeypatch.setattr("benchgraph.commands.ab.run_isolated", strike)
    words = [f"--max-launches={most}", "--report=json:r.json", "--report=markdown:r.md", "--report=console"]
    done = ab(*CASES, *words, on=bench(change))
    assert done.exit_code == 130, done.output
    said = f"; interrupted after {at} launch" + ("es" if at > 1 else "")
    assert any(line.endswith(said) for line in done.output.splitlines()), done.output
    assert said in (tmp_path / "r.md").read_text()
    found = json.loads((tmp_path / "r.json").read_text())
    assert found["is_interrupted"]
    assert [[x["number"] for x in case["times"][0]["launches"]] for case in found["cases"]] == [list(range(at))] * 2
    assert all(case["times"][0]["low"] is not None for case in found["cases"])


def test_ctrl_c_before_a_launch_is_complete_reports_nothing(ran: Ran, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def strike(problems: Sequence[Problem], on: Bench, jobs: int) -> Iterator[FinishedCase]:
        if problems[0].globals.mode is Mode.performance:
            raise KeyboardInterrupt
        return ran(problems, on, jobs)

    monkeypatch.setattr("benchgraph.commands.ab.run_isolated", strike)
    done = ab(*CASES, "--report=json:r.json", on=bench())
    assert (done.exit_code, done.stdout, done.stderr) == (130, "", "benchgraph: interrupted\n")
    assert not (tmp_path / "r.json").exists()


def test_reports(ran: Ran, tmp_path: Path) -> None:
    done = ab(*CASES, "--report=markdown:r.md", "--report=json:r.json", "--report=html:r.html", "--report=console", on=bench(slower))
    assert done.exit_code == 1, done.output
    assert "#### Slower (2)" in (tmp_path / "r.md").read_text()
    page = (tmp_path / "r.html").read_text()
    assert page.count("<svg") == 2
    assert "Slower (2)" in page
    found = json.loads((tmp_path / "r.json").read_text())
    assert [(f["kind"], f["policy"], f["is_worse"]) for f in found["findings"]] == [("slower", "fused", True)] * 2
    (case, _) = found["cases"]
    assert (case["case"], case["group"], case["old"]["status"]) == ("--matmul 4x8:8x6", "matmul", "PASSED")
    (times,) = case["times"]
    assert times["ratio"] == pytest.approx(1.2)
    assert times["low"] < 1.2 < times["high"]
    assert [x["number"] for x in times["launches"]] == [0, 1, 2]
    assert all(len(x["old_s"]) == len(x["new_s"]) >= 5 for x in times["launches"])
    assert (found["exit_code"], found["old"]["library"], found["new"]["given"]) == (1, "old=onednn:/a", "onednn:/b")


def test_groups_are_batch_files_and_policies_are_compared_apart(ran: Ran, tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("--policy=fused --matmul 4x8:8x6")
    done = ab("--batch=mine", "--reset", "--matmul", "3x5:5x7", "--policy=fused,one_op_each", "4x8:8x6", on=bench())
    assert "mine, fused" in done.output
    assert "mine, one_op_each" not in done.output
    for line in ("matmul, fused", "matmul, one_op_each", "all, fused"):
        assert f"{line} " in done.output, done.output


def test_it_fits_a_narrow_terminal(ran: Ran, tmp_path: Path) -> None:
    from benchgraph.present.ab import table
    from tests.present.ab.made import comparison

    for width in (60, 80, 100):
        assert max(map(len, table.render(comparison(), width).splitlines())) <= width


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["HEAD"], "ab: OLD and NEW are to come first; write 'benchgraph ab OLD NEW"),
        (["--matmul", "4x8:8x6", *VERSIONS], "OLD and NEW are to come first"),
        ([*VERSIONS, "--launches=0", *CASES], "ab: --launches: bad value '0'"),
        ([*VERSIONS, "--launches=4", "--max-launches=3", *CASES], "ab: --max-launches=3: fewer than --launches; give 4 or more"),
        ([*VERSIONS, "--mode=P", *CASES], "ab: --mode: the command settles this itself; leave it out"),
        ([*VERSIONS, "--library=onednn", *CASES], "ab: --library: the command settles this itself"),
        ([*VERSIONS, "--report=csv", *CASES], "ab: --report: bad value 'csv'"),
        ([*VERSIONS, "--report=json:x.html", *CASES], "the file's name says html"),
        ([*VERSIONS, "--matmul"], "ab: nothing to run; add a descriptor, as"),
        ([*VERSIONS, "--batch=empty"], "ab: nothing to run; add --case FILE"),
        ([*VERSIONS, "--match=none", *CASES], "--match and --shard leave none of 2 cases"),
        (["x=onednn:/a", "x=onednn:/b", *CASES], "ab: both versions are called x; give one another label"),
        (["onednn:", "onednn:/b", *CASES], "ab: onednn:: no version; give the path of a library file after onednn:"),
        (["no-such-commit", "onednn:/b", *CASES], "ab: no-such-commit: there is no folder no-such-commit, and no commit of that name"),
    ],
)
def test_words_that_cannot_be_followed_are_refused(ran: Ran, tmp_path: Path, words: list[str], says: str) -> None:
    (tmp_path / "empty").touch()
    done = CliRunner().invoke(main, ["ab", *words], obj=bench())
    assert done.exit_code == 2, done.output
    assert says in done.stderr
    assert not ran.calls


def test_a_variable_that_names_no_library_is_named() -> None:
    with override(onednn="/nosuch"):
        done = CliRunner().invoke(main, ["ab", "onednn", "onednn", *CASES])
    assert done.exit_code == 2, done.output
    assert done.stderr.startswith("benchgraph: ab: onednn: BENCHGRAPH_ONEDNN: there is no file /nosuch; "), done.stderr


def test_a_checkout_against_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In real processes, for a few milliseconds."""
    monkeypatch.chdir(tmp_path)
    words = ["--launches=1", "--max-ms-per-prb=10", "--threads=1", "--report=json:out.json", "--matmul", "16x16:16x16"]
    done = CliRunner().invoke(main, ["ab", "benchgraph", f"v2={ROOT}", *words])
    assert done.exit_code in (0, 1), done.output  # times are not asserted on
    found = json.loads((tmp_path / "out.json").read_text())
    assert (found["old"]["label"], found["new"]["label"]) == ("old", "v2")
    (case,) = found["cases"]
    assert (case["old"]["status"], case["new"]["status"]) == ("PASSED", "PASSED")
    assert len(case["times"][0]["launches"]) == 1
