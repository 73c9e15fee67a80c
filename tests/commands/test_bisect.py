"""bisect: a history of small commits, whose libraries are fakes as fast and as right as a file of each commit says."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner, Result

from benchgraph.cli import main
from benchgraph.core.errors import InvalidArguments
from benchgraph.core.implementation import Implementation
from benchgraph.harness.bench import Bench
from benchgraph.harness.case import run_all
from benchgraph.options.library_name import LibraryName
from benchgraph.options.problem import Problem
from benchgraph.results.result import FinishedCase
from tests.support.fake_library import Clock, FakeLibrary, fake_bench

CASE = ["--matmul", "4x8:8x6"]
BUILD = ["--build=test -s what && cp what lib", "--library=onednn:lib"]


@dataclass(frozen=True)
class History:
    """A repository; the texts of its commits, the first of which is GOOD."""

    folder: Path
    texts: Sequence[str]

    def git(self, *words: str) -> str:
        words = ("git", "-C", str(self.folder), "-c", "user.name=a", "-c", "user.email=a@b.c", *words)
        return subprocess.run(words, check=True, capture_output=True, text=True).stdout.strip()

    def made(self, *files: str) -> History:
        """files: besides `what`, which holds the text."""
        self.folder.mkdir(parents=True)
        self.git("init", "-q")
        for name in files:
            (self.folder / name).parent.mkdir(exist_ok=True)
            (self.folder / name).touch()
        for number, text in enumerate(self.texts):
            (self.folder / "what").write_text(text)
            self.git("add", "-A")
            self.git("commit", "-q", "--allow-empty", "-m", f"commit {number} {text}")
        return self

    @property
    def good(self) -> str:
        return f"HEAD~{len(self.texts) - 1}"

    def hash(self, number: int) -> str:
        return self.git("rev-parse", f"HEAD~{len(self.texts) - 1 - number}")


def library(clock: Clock, name: str) -> FakeLibrary:
    """As the file `what`, or the library file made of it, says."""
    place = Path(LibraryName.read(name).place)
    text = (place / "what" if place.is_dir() else place).read_text()
    made = FakeLibrary(clock)
    if text == "unloadable":
        raise InvalidArguments("it is no library", where=name)
    if text == "unsupported":
        made.unsupported = "MatMul"
    if text == "reference":
        made.implementations = (Implementation("matmul", "ref:any"),)
    if text == "wrong":
        made.spoil = lambda kind, array: array + np.eye(*array.shape[-2:])
    if text.startswith("slow"):
        made.slowness = float(text.removeprefix("slow"))
    return made


def run(problems: Sequence[Problem], bench: Bench, jobs: int) -> Iterator[FinishedCase]:
    return map(FinishedCase, run_all(problems, bench, print))


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr("benchgraph.commands.bisect.run_isolated", run)


@pytest.fixture
def history(tmp_path: Path) -> Callable[..., History]:
    return lambda *texts: History(tmp_path / "repository", texts).made()


def bisect(history: History, *words: str) -> Result:
    clock = Clock()
    bench = replace(fake_bench(FakeLibrary(clock)), library=lambda name: library(clock, name))
    return CliRunner().invoke(
        main, ["bisect", history.good, "HEAD", f"--repository={history.folder}", *(words or (*BUILD, *CASE))], obj=bench
    )


@pytest.mark.covering(1)
@pytest.mark.parametrize("bad", ["slow1.2", "wrong", "unsupported", "reference"])
@pytest.mark.parametrize("first", [1, 7, 16])
def test_the_first_bad_commit_of_sixteen_is_found(history: Callable[..., History], bad: str, first: int) -> None:
    made = history(*["fine"] * first, *[bad] * (17 - first))
    done = bisect(made)
    assert done.exit_code == 0, done.output
    assert f"the first bad commit is {made.hash(first)}: commit {first} {bad}\n" in done.output
    *_, summary = done.output.splitlines()
    assert summary.startswith("5 commits tried, 0 skipped, ")
    assert summary.endswith("15 launches; at most 5% chance of a wrong answer among them" if bad == "slow1.2" else " 0 launches")
    assert made.git("worktree", "list").count("\n") == 0


def test_a_slow_commit_is_told_by_half_of_what_it_costs(history: Callable[..., History]) -> None:
    """A small step before the large one is not the answer."""
    made = history("fine", "slow1.02", "slow1.02", "slow1.2", "slow1.2")
    done = bisect(made)
    assert f"the first bad commit is {made.hash(3)}" in done.output
    assert "1.200 times as long [" in done.output
    assert "; bad is more than 1.095 times as long as GOOD" in done.output


@pytest.mark.parametrize("broken", ["", "unloadable"])
def test_a_commit_that_cannot_be_built_or_loaded_is_skipped(history: Callable[..., History], broken: str) -> None:
    why = "it is no library" if broken else "the build ends with 1"
    made = history("fine", "fine", broken, "wrong", "wrong")
    done = bisect(made)
    assert done.exit_code == 1, done.output
    assert why in done.output
    named = f"commit 2 {broken}".strip()
    assert f"those before the last were skipped:\n  {made.hash(2)}: {named}\n  {made.hash(3)}: commit 3 wrong\n" in done.output
    elsewhere = history_beside(made, "fine", broken, "fine", "wrong", "wrong")
    assert f"the first bad commit is {elsewhere.hash(3)}" in bisect(elsewhere).output


def history_beside(made: History, *texts: str) -> History:
    return History(made.folder.with_name("another"), texts).made()


def test_a_wrong_commit_is_skipped_in_a_search_for_a_slow_one(history: Callable[..., History]) -> None:
    made = history("fine", "fine", "wrong", "fine", "slow1.3")
    done = bisect(made)
    assert f"the first bad commit is {made.hash(4)}" in done.output
    assert "skipped  cannot be compared: FAILED" in done.output


def test_a_bad_commit_that_is_not_bad(history: Callable[..., History]) -> None:
    made = history("fine", "fine", "slow1.01")
    done = bisect(made)
    assert (done.exit_code, f"{made.hash(2)[:10]} is not bad" in done.output) == (1, True), done.output


def test_a_commit_at_the_threshold_cannot_be_told(history: Callable[..., History]) -> None:
    done = bisect(history("fine", "slow1.05"), *BUILD, "--max-launches=4", *CASE)
    assert done.exit_code == 1
    assert "cannot tell: 1.050 times as long" in done.output
    assert "cannot be told from GOOD" in done.output


def test_another_history_than_that_of_this_folder_is_never_searched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = History(tmp_path / "own", ["fine", "wrong"]).made("a file of another project")
    for folder, what in ((tmp_path, "this folder is in no git repository"), (made.folder, f"{made.folder} is no repository of benchgraph")):
        monkeypatch.chdir(folder)
        done = CliRunner().invoke(main, ["bisect", "HEAD~1", "HEAD", *CASE], prog_name="benchgraph")
        fix = "name that of the commits: --repository=DIR, with --build and --library if they are not benchgraph's"
        assert (done.exit_code, done.stderr) == (2, f"benchgraph: bisect: {what}; {fix}\n")


def test_commits_of_benchgraph_need_no_build(tmp_path: Path) -> None:
    made = History(tmp_path / "own", ["fine", "fine", "wrong", "wrong"]).made("benchgraph/__init__.py")
    done = bisect(made, *CASE)
    assert done.exit_code == 0, done.output
    assert f"the first bad commit is {made.hash(2)}" in done.output


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["HEAD"], "bisect: GOOD and BAD are to come first; write 'benchgraph bisect GOOD BAD --case=FILE'"),
        (["HEAD~1", "HEAD", *BUILD[:1], *CASE], "bisect: --build makes the PLACE of --library; give both, as in"),
        (["HEAD~1", "HEAD", "--library=onednn", *CASE], "bisect: --build makes the PLACE of --library"),
        (["HEAD~1", "HEAD", *BUILD, *CASE], "bisect: --build without a repository; add --repository=DIR"),
        (["HEAD~1", "HEAD", "--repository=repository", "--max-launches=2", *CASE], "too few to tell anything; give 3 or more"),
        (["HEAD~1", "HEAD", "--repository=repository", *CASE, "3x5:5x7"], "bisect: 2 cases; name one, with one policy"),
        (["HEAD~1", "HEAD", "--repository=repository", *BUILD], "bisect: nothing to run; add --case FILE"),
        (["HEAD~1", "no-such", "--repository=repository", *BUILD, *CASE], "there is no commit no-such; name commits of the repository"),
        (["HEAD", "HEAD~1", "--repository=repository", *BUILD, *CASE], "HEAD~1 does not come after HEAD; give an ancestor of BAD as GOOD"),
        (["HEAD~1", "HEAD", "--repository=repository", *BUILD, *CASE], "GOOD fails itself: FAILED"),
        (["HEAD~1", "HEAD", "--repository=bare", *CASE], "bisect: bare: it is no git repository; run in a checkout, or name one with"),
        (["HEAD~1", "HEAD", "--repository=absent", *CASE], "bisect: absent: there is no such folder; run in a checkout, or name one"),
        (["HEAD~1", "HEAD", "--repository=repository", *CASE], "GOOD cannot be used: it has no benchgraph/__init__.py; give a commit of"),
        (["HEAD~1", "HEAD", "--repository=repository", "--build=true", BUILD[1], *CASE], "GOOD cannot be used: the build leaves no lib; "),
        (["HEAD~1", "HEAD", "--repository=repository", "--build=exit 3", BUILD[1], *CASE], "GOOD cannot be used: the build ends with 3"),
    ],
)
def test_words_that_cannot_be_followed_are_refused(history: Callable[..., History], tmp_path: Path, words: list[str], says: str) -> None:
    (tmp_path / "bare").mkdir()
    history("wrong", "wrong")
    clock = Clock()
    bench = replace(fake_bench(FakeLibrary(clock)), library=lambda name: library(clock, name))
    done = CliRunner().invoke(main, ["bisect", *words], obj=bench)
    assert done.exit_code == 2, done.output
    assert says in done.stderr, done.stderr
    assert done.stderr.startswith("benchgraph: bisect: "), done.stderr


def test_a_good_that_does_not_load_is_refused(history: Callable[..., History]) -> None:
    made = history("unloadable", "fine")
    done = bisect(made)
    assert (done.exit_code, done.stdout) == (2, "")
    assert done.stderr.startswith(f"benchgraph: bisect: {made.hash(0)[:10]}: GOOD cannot be used: it is no library; "), done.stderr


def test_a_folder_of_no_repository_is_said(tmp_path: Path) -> None:
    done = CliRunner().invoke(main, ["bisect", "HEAD~1", "HEAD", f"--repository={tmp_path}", *CASE])
    assert (done.exit_code, f"bisect: {tmp_path}: it is no git repository" in done.stderr) == (2, True), done.output
