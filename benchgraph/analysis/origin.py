"""Where a run stands among others: when it began, and of which commit.

The code under test is this checkout of benchgraph, unless --commit names a commit of somebody else's library. Without git, or outside of
a checkout, a run has no commit, and its place is its time.
"""

from __future__ import annotations

import re
import subprocess
import time
import uuid
from pathlib import Path

import benchgraph
from benchgraph.core.errors import UsageError
from benchgraph.core.lines import printable
from benchgraph.core.remarks import remark
from benchgraph.results.result import Origin

RELATIVE = re.compile(r"^(@|([A-Z]+_)?HEAD)$|[~^]|@\{")  # of words that mean another commit from repository to repository
PATIENCE_S = 20.0  # for one answer of git, on the slowest network drive


def origin(commit: str = "") -> Origin:
    """Of a run that begins now. commit: what --commit says, '' to look it up."""
    found, is_dirty = (full(commit), False) if commit else _checkout()
    return Origin(uuid.uuid4().hex, time.time(), found, is_dirty)


def full(commit: str) -> str:
    """The full hash, if the present directory knows the commit; otherwise the word as it is: the repository may be elsewhere.

    In a checkout that does not know the word that is remarked on. Raises UsageError for one that says nothing elsewhere, as HEAD~1.
    """
    if found := resolve(commit, Path()):
        return found
    is_checkout = git(Path(), "rev-parse", "--git-dir") is not None
    what = "the repository in this folder has no such commit" if is_checkout else "this folder is in no repository that git can read"
    where = f"--commit={printable(commit)}"
    if RELATIVE.search(commit):
        fix = "write a tag, or the hash that 'git rev-parse HEAD' says where the measured code is"
        raise UsageError(what, where=where, fix=fix)
    if is_checkout:
        remark(f"{where}: {what}; the word is stored as it is")
    return commit


def _checkout() -> tuple[str, bool]:
    """The commit that this package is checked out from, and whether files of it differ. ('', False) where git does not track it."""
    package = Path(benchgraph.__file__).parent
    if git(package, "ls-files", "--error-unmatch", "__init__.py") is None:
        return "", False
    return git(package, "rev-parse", "HEAD") or "", bool(git(package, "status", "--porcelain", "--untracked-files=no"))


def resolve(ref: str, where: Path) -> str:
    """The full hash of a commit that the repository at `where` knows under this name; else ''."""
    return git(where, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{ref}^{{commit}}") or ""


def lineage(where: Path) -> tuple[str, ...]:
    """HEAD of the repository at `where` and all its ancestors, each after its own; () outside of a repository."""
    return tuple((git(where, "rev-list", "--topo-order", "--reverse", "HEAD") or "").split())


def git(where: Path, *words: str) -> str | None:
    """What git answers in a folder; None when it refuses, is not there, or does not answer."""
    try:
        done = subprocess.run(["git", "-C", str(where), *words], capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip() if done.returncode == 0 else None
