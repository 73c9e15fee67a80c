"""The origin of a run: its start time and commit.

The code under test is this checkout of benchgraph, unless --commit names a commit of another project. Without git, or outside of a
checkout, a run has no commit, and is ordered by its time.
"""

from __future__ import annotations

import re
import time
import uuid
from pathlib import Path

import benchgraph
from benchgraph.core.errors import UsageError
from benchgraph.core.git import git, resolve
from benchgraph.core.printable import printable
from benchgraph.core.remarks import remark
from benchgraph.results.result import Origin

RELATIVE = re.compile(r"^(@|([A-Z]+_)?HEAD)$|[~^]|@\{")  # of names that mean different commits in different repositories


def origin(commit: str = "") -> Origin:
    """The origin of a run that begins now. commit: the value of --commit, '' to look it up."""
    full_hash, is_dirty = (full(commit), False) if commit else _checkout()
    return Origin(uuid.uuid4().hex, time.time(), full_hash, is_dirty)


def full(commit: str) -> str:
    """The full hash, if the present directory's repository has the commit; otherwise the name itself: the repository may be elsewhere.

    Warns in a repository that lacks the commit. Raises UsageError for names that are relative to a repository, as HEAD~1.
    """
    if full_hash := resolve(commit, Path()):
        return full_hash
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
    """The commit of this package's checkout, and whether it has changes. ('', False) if git does not track it."""
    package = Path(benchgraph.__file__).parent
    if git(package, "ls-files", "--error-unmatch", "__init__.py") is None:
        return "", False
    return git(package, "rev-parse", "HEAD") or "", bool(git(package, "status", "--porcelain", "--untracked-files=no"))


def lineage(where: Path) -> tuple[str, ...]:
    """HEAD of the repository at `where` and all its ancestors, in topological order; () outside of a repository."""
    return tuple((git(where, "rev-list", "--topo-order", "--reverse", "HEAD") or "").split())
