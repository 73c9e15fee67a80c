"""The order of runs, and the values of --since."""

from __future__ import annotations

import subprocess
from datetime import datetime
from pathlib import Path

import pytest

from benchgraph.analysis import run_origin
from benchgraph.analysis.history.run_order import Repository, ordered, repository, since
from benchgraph.analysis.history.store import RunRow
from benchgraph.analysis.run_origin import lineage, origin
from benchgraph.core.errors import InvalidArguments, UsageError
from benchgraph.core.git import resolve
from benchgraph.core.remarks import collected

A, B, C, BRANCH, FOREIGN = ("a" * 40, "b" * 40, "c" * 40, "d" * 40, "e" * 40)
NAMES = {"v1": A, "v2": B, "main": C, "topic": BRANCH, A: A, B: B, C: C, BRANCH: BRANCH}
GIT = Repository((A, B, C), lambda ref: NAMES.get(ref, ""))
NOON = datetime(2026, 11, 21, 12).timestamp()


def run(id: int, commit: str = "") -> RunRow:
    return RunRow(id, 1, NOON + id * 86400, commit, False, {})


def ids(runs: list[RunRow]) -> list[int]:
    return [r.id for r in runs]


def test_commits_order_runs_and_others_keep_their_time() -> None:
    late = [run(1, B), run(2), run(3, C), run(4, A), run(5, FOREIGN), run(6, B)]
    assert ids(ordered(late, GIT)) == [4, 2, 1, 6, 5, 3]


def test_without_git_time_orders() -> None:
    assert ids(ordered([run(1, C), run(2, A)], Repository())) == [1, 2]


def test_runs_of_other_branches_are_left_out() -> None:
    assert ids(ordered([run(1, A), run(2, BRANCH), run(3, B)], GIT)) == [1, 3]


HISTORY = [run(1, A), run(2, A), run(3), run(4, B), run(5, C), run(6, FOREIGN)]


@pytest.mark.parametrize(
    ("ref", "before"),
    [
        ("v1", 2),
        ("v2", 4),
        ("main", 5),
        ("3", 3),
        ("6", 6),
        ("2026-11-24", 2),
        ("2026-11-24T13:00", 3),
        ("2030-01-01", 6),
        ("2020-01-01", 0),
        (FOREIGN, 6),
        ("eeee", 6),
    ],
)
def test_since_names_what_is_before(ref: str, before: int) -> None:
    assert since(ref, HISTORY, GIT) == before


def test_a_tag_between_runs_counts_its_ancestors() -> None:
    assert since("v2", [run(1, A), run(2, C)], GIT) == 1


@pytest.mark.parametrize(
    ("ref", "message"),
    [
        (
            "v3",
            "--since: 'v3' is no date, no run and no commit of this history; give a date as 2026-11-21, the number of a run, or a commit",
        ),
        ("99", "--since: '99' is no date, no run and no commit of this history"),
        ("eee", "--since: 'eee' is no date, no run and no commit of this history"),
        ("aaaaaaaaab", f"--since: 'aaaaaaaaab' is no date, no run and no commit of this history; did you mean '{A[:10]}'?"),
        ("topic", f"--since: HEAD does not come from {BRANCH[:10]}; check out a commit that does"),
    ],
)
def test_invalid_values_of_since(ref: str, message: str) -> None:
    with pytest.raises(InvalidArguments) as raised:
        since(ref, HISTORY, GIT)
    assert str(raised.value).startswith(message)


# ---- git itself ------------------------------------------------------------------------------------------------------


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository of three commits, tagged one to three, which is the present directory, and a branch `topic` from one."""
    for name, value in {"GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_NOSYSTEM": "1"}.items():
        monkeypatch.setenv(name, value)
    for who in ("AUTHOR", "COMMITTER"):
        monkeypatch.setenv(f"GIT_{who}_NAME", "tester")
        monkeypatch.setenv(f"GIT_{who}_EMAIL", "tester@example.com")
    monkeypatch.chdir(tmp_path)
    git("init", "-q", "-b", "main")
    (tmp_path / "__init__.py").touch()
    git("add", ".")
    for name in ("one", "two", "three"):
        git("commit", "-q", "--allow-empty", "-m", name)
        git("tag", name)
    git("checkout", "-q", "-b", "topic", "one")
    git("commit", "-q", "--allow-empty", "-m", "aside")
    git("checkout", "-q", "main")
    return tmp_path


def git(*words: str) -> str:
    return subprocess.run(["git", *words], capture_output=True, text=True, check=True).stdout.strip()


def test_lineage_is_from_the_oldest_on(checkout: Path) -> None:
    assert lineage(checkout) == tuple(git("rev-parse", name) for name in ("one", "two", "three"))
    assert resolve("HEAD~1", checkout) == git("rev-parse", "two")
    assert resolve("nothing", checkout) == ""
    assert resolve("--help", checkout) == ""


def test_the_repository_is_the_one_that_knows_the_commits(checkout: Path) -> None:
    found = repository([run(1, git("rev-parse", "two")), run(2, FOREIGN)])
    assert found.lineage == lineage(checkout)
    assert found.resolve("three") == git("rev-parse", "three")
    assert repository([run(1, FOREIGN)]).lineage == ()
    assert repository([run(1)]).lineage == ()


def test_no_repository_is_no_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    assert (lineage(tmp_path), resolve("HEAD", tmp_path)) == ((), "")
    assert origin("v7").commit == "v7"
    monkeypatch.setenv("PATH", "")
    assert origin().commit == ""


@pytest.mark.parametrize("word", ["HEAD", "@", "HEAD~1", "ORIG_HEAD", "main^", "main@{1}"])
def test_relative_revisions_are_refused_outside_of_a_repository(word: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(run_origin, "git", lambda where, *words: None)
    with pytest.raises(UsageError) as bad:
        origin(word)
    assert str(bad.value).startswith(f"--commit={word}: this folder is in no repository that git can read; write a tag, or the hash that ")


def test_a_word_that_the_checkout_does_not_know_is_remarked_on(checkout: Path) -> None:
    with collected() as remarks:
        assert [origin(word).commit for word in ("HAED", "one")] == ["HAED", git("rev-parse", "one")]
    assert remarks == ["--commit=HAED: the repository in this folder has no such commit; the word is stored as it is"]
    with pytest.raises(UsageError, match=r"--commit=HEAD~9: the repository in this folder has no such commit; write a tag"):
        origin("HEAD~9")


def test_a_named_commit_is_looked_up_where_one_stands(checkout: Path) -> None:
    found = origin("two")
    assert (found.commit, found.is_dirty) == (git("rev-parse", "two"), False)


def test_the_checkout_of_the_package_is_asked_and_only_if_it_is_one(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_origin.benchgraph, "__file__", str(checkout / "__init__.py"))
    assert (origin().commit, origin().is_dirty) == (git("rev-parse", "HEAD"), False)
    (checkout / "__init__.py").write_text("changed")
    assert origin().is_dirty
    (checkout / "venv").mkdir()
    (checkout / "venv" / "__init__.py").touch()
    monkeypatch.setattr(run_origin.benchgraph, "__file__", str(checkout / "venv" / "__init__.py"))
    assert origin().commit == ""  # installed inside of somebody's repository


def test_every_run_has_a_uid_of_its_own() -> None:
    assert origin("a").uid != origin("a").uid
