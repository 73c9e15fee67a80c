"""Versions of commits: benchgraph's own, which only have to be written to a folder, and those of any project that a command builds.

A build takes place in a worktree of the repository, in a temporary folder: one for GOOD, and one for all candidates, in which the next
commit is checked out over the products of the last, so that a project that builds what changed does that alone.
"""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TypeAlias

from benchgraph.analysis.ab.comparison import Side
from benchgraph.core.errors import BenchgraphError, UsageError
from benchgraph.core.git import git, resolve
from benchgraph.options.library_name import LibraryName
from benchgraph.peers.checkout import source

LAST_LINES = 3  # of what a failed build printed


class BuildFailed(BenchgraphError):
    """A commit cannot be tried."""


@dataclass(frozen=True)
class Commit:
    hash: str
    subject: str

    def __str__(self) -> str:
        return self.hash[:10]


Version: TypeAlias = Callable[[Commit], Side]  # raises BenchgraphError for a commit that cannot be used


def repository_of(given: str, good: str, bad: str) -> Path:
    """The repository of both commits: `given`, or where it is '', the checkout of benchgraph that this folder is in. Raises UsageError."""
    folder = Path(given) if given else _checkout_here()
    if resolve(good, folder) and resolve(bad, folder):
        return folder.resolve()
    if git(folder, "rev-parse", "--git-dir") is None:
        fix = "run in a checkout, or name one with --repository=DIR"
        what = "it is no git repository" if folder.is_dir() else "there is no such folder"
        raise UsageError(what, where=f"bisect: {folder}", fix=fix)
    lacking = good if not resolve(good, folder) else bad
    raise UsageError(
        f"there is no commit {lacking}", where=f"bisect: {folder}", fix="name commits of the repository, or another --repository"
    )


def _checkout_here() -> Path:
    """Another history than that of this folder would answer for commits that are not meant: HEAD~1 is a commit everywhere."""
    top = git(Path(), "rev-parse", "--show-toplevel")
    if top is not None and (Path(top) / source.PACKAGE).is_file():
        return Path(top)
    what = "this folder is in no git repository" if top is None else f"{top} is no repository of benchgraph"
    fix = "name that of the commits: --repository=DIR, with --build and --library if they are not benchgraph's"
    raise UsageError(what, where="bisect", fix=fix)


def commits(repository: Path, good: str, bad: str) -> tuple[Commit, list[Commit]]:
    """GOOD, and the commits after it up to BAD, oldest first, each merge as one. Raises UsageError where BAD does not follow GOOD."""
    first, last = resolve(good, repository), resolve(bad, repository)
    lines = git(repository, "rev-list", "--first-parent", "--reverse", "--format=%H %s", "--no-commit-header", f"{first}..{last}")
    found = [Commit(*line.split(" ", 1)) if " " in line else Commit(line, "") for line in (lines or "").splitlines()]
    if not found or git(repository, "merge-base", "--is-ancestor", first, last) is None:
        raise UsageError(f"{bad} does not come after {good}", where=f"bisect: {repository}", fix="give an ancestor of BAD as GOOD")
    return Commit(first, git(repository, "log", "-1", "--format=%s", first) or ""), found


def own_version(repository: Path) -> Version:
    """Commits of benchgraph."""
    return lambda commit: _side(commit, f"benchgraph:{source.written(repository, commit.hash)}")


@contextmanager
def built_versions(repository: Path, command: str, library: LibraryName, good: Commit) -> Iterator[Version]:
    """Commits of any project. command: for a shell, in the top folder; library: its place is what that leaves there."""
    with TemporaryDirectory(prefix="benchgraph-bisect-") as folder:
        try:
            yield lambda commit: _built(repository, Path(folder) / ("good" if commit == good else "candidate"), command, library, commit)
        finally:
            for tree in Path(folder).iterdir():
                git(repository, "worktree", "remove", "--force", str(tree))


def _built(repository: Path, tree: Path, command: str, library: LibraryName, commit: Commit) -> Side:
    if tree.exists():
        done = git(tree, "checkout", "--force", "--quiet", "--detach", commit.hash)
    else:
        done = git(repository, "worktree", "add", "--detach", str(tree), commit.hash)
    if done is None:
        raise BuildFailed(f"git cannot check it out at {tree}", where=str(commit))
    ran = subprocess.run(["sh", "-c", command], cwd=tree, capture_output=True, text=True, errors="replace", check=False)
    if ran.returncode:
        lines = [line for line in (ran.stderr or ran.stdout).splitlines() if line.strip()]
        raise BuildFailed(f"the build ends with {ran.returncode}: {' / '.join(lines[-LAST_LINES:])}", where=str(commit))
    place = tree / library.place
    if not place.exists():
        raise BuildFailed(f"the build leaves no {library.place}", where=str(commit))
    return _side(commit, str(replace(library, place=str(place), label="")))


def _side(commit: Commit, word: str) -> Side:
    """It is labelled by its commit: libraries of different labels never share a process, even where they come from one place."""
    return Side(str(commit), f"{commit}={word}", str(commit), commit.subject)
