"""The order of runs, and the position of --since in it.

Runs are ordered by time. Those whose commits git knows are then sorted by commit among the positions that they have together: an old commit
measured late moves back, and a run without a known commit keeps its position in time. Runs of commits that are not ancestors of HEAD (of
another branch) are left out.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import benchgraph
from benchgraph.analysis.history.store import RunRow
from benchgraph.analysis.run_origin import lineage
from benchgraph.core.errors import InvalidArguments, did_you_mean
from benchgraph.core.git import resolve

SHORT = 10  # digits of a commit that are shown; git's default grows with the repository
LEAST_DIGITS = 4  # of a commit in --since, as in git


@dataclass(frozen=True)
class Repository:
    """Answers of git. lineage: HEAD and its ancestors, in topological order; resolve: a name -> its full hash, or ''."""

    lineage: tuple[str, ...] = ()
    resolve: Callable[[str], str] = lambda ref: ""


def repository(runs: Sequence[RunRow]) -> Repository:
    """The repository of these runs' commits: the present directory's, else this checkout of benchgraph."""
    commits = {r.commit for r in runs if r.commit}
    for where in (Path(), Path(benchgraph.__file__).parent) if commits else ():
        if commits & set(ancestors := lineage(where)):
            return Repository(ancestors, lambda ref, where=where: resolve(ref, where))  # type: ignore[misc]
    return Repository()


def ordered(runs: Sequence[RunRow], git: Repository) -> list[RunRow]:
    """runs: by time."""
    place = {commit: i for i, commit in enumerate(git.lineage)}
    ours = [r for r in runs if r.commit in place or not (r.commit and git.resolve(r.commit))]
    placed = iter(sorted((r for r in ours if r.commit in place), key=lambda r: place[r.commit]))
    return [next(placed) if r.commit in place else r for r in ours]


def since(ref: str, runs: Sequence[RunRow], git: Repository) -> int:
    """The number of ordered runs up to and including REF, after which changes are reported.

    ref: a date (2026-11-21, with or without a time, local unless it has a zone), the number of a run, a commit of a run, or any revision
    that git resolves in the repository. Raises InvalidArguments.
    """
    if (moment := _moment(ref)) is not None:
        return next((i for i, r in enumerate(runs) if r.started >= moment), len(runs))
    if ref.isdecimal() and (position := [i for i, r in enumerate(runs) if r.id == int(ref)]):
        return position[0] + 1
    if full := git.resolve(ref):
        before = _ancestors(full, git)
        return max((i + 1 for i, r in enumerate(runs) if r.commit in before), default=0)
    if named := [i for i, r in enumerate(runs) if r.commit == ref or (len(ref) >= LEAST_DIGITS and r.commit.startswith(ref))]:
        return named[-1] + 1
    known = list(dict.fromkeys(r.commit[:SHORT] for r in runs if r.commit))
    fix = did_you_mean(ref, known) or "give a date as 2026-11-21, the number of a run, or a commit"
    raise InvalidArguments(f"'{ref}' is no date, no run and no commit of this history", where="--since", fix=fix)


def _ancestors(full: str, git: Repository) -> set[str]:
    """The commit and what precedes it in HEAD's lineage. Raises InvalidArguments if it is not there."""
    if full not in git.lineage:
        raise InvalidArguments(f"HEAD does not come from {full[:SHORT]}", where="--since", fix="check out a commit that does")
    return set(git.lineage[: git.lineage.index(full) + 1])


def _moment(ref: str) -> float | None:
    """An ISO date in seconds since 1970; None for anything else."""
    if "-" not in ref:
        return None
    try:
        return datetime.fromisoformat(ref).timestamp()
    except ValueError:
        return None


def name(run: RunRow) -> str:
    """The commit of a run, else its number."""
    return short(run) if run.commit else f"run {run.id}"


def short(run: RunRow) -> str:
    """Its commit, with a + if there were uncommitted changes."""
    return f"{run.commit[:SHORT]}{'+' if run.is_dirty else ''}"


def date(run: RunRow) -> str:
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(run.started))
