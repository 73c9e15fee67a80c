"""The order of runs, and what --since means in it.

Runs are in order of time. Where git knows their commits, those runs stand in the order of commits, on the places that they have together:
an old commit measured late goes back to where it belongs, and a run that nobody can place stays where its time puts it. Runs of commits
that HEAD does not come from (another branch) are left out: they are no part of how HEAD came about.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import benchgraph
from benchgraph.analysis.history.store import RunRow
from benchgraph.analysis.origin import lineage, resolve
from benchgraph.core.errors import InvalidArguments, did_you_mean

SHORT = 10  # digits of a commit that are shown; git's own default grows with the repository, ours does not
LEAST_DIGITS = 4  # of a commit in --since, as in git


@dataclass(frozen=True)
class Repository:
    """What git says. lineage: HEAD's ancestors and HEAD, each after its own; resolve: a name -> its full hash, or ''."""

    lineage: tuple[str, ...] = ()
    resolve: Callable[[str], str] = lambda ref: ""


def repository(runs: Sequence[RunRow]) -> Repository:
    """The one that the commits of these runs are in: that of the present directory, else this checkout of benchgraph."""
    commits = {r.commit for r in runs if r.commit}
    for where in (Path(), Path(benchgraph.__file__).parent) if commits else ():
        if commits & set(found := lineage(where)):
            return Repository(found, lambda ref, where=where: resolve(ref, where))  # type: ignore[misc]
    return Repository()


def ordered(runs: Sequence[RunRow], git: Repository) -> list[RunRow]:
    """runs: by time."""
    place = {commit: i for i, commit in enumerate(git.lineage)}
    ours = [r for r in runs if r.commit in place or not (r.commit and git.resolve(r.commit))]
    placed = iter(sorted((r for r in ours if r.commit in place), key=lambda r: place[r.commit]))
    return [next(placed) if r.commit in place else r for r in ours]


def since(ref: str, runs: Sequence[RunRow], git: Repository) -> int:
    """How many of the ordered runs come before REF, or are REF itself: what a change since REF is measured against.

    ref: a date (2026-11-21, with or without a time, local unless it names a zone), the number of a run, a commit of a run, or anything that
    git resolves in the repository. Raises InvalidArguments.
    """
    if (moment := _moment(ref)) is not None:
        return next((i for i, r in enumerate(runs) if r.started >= moment), len(runs))
    if ref.isdecimal() and (found := [i for i, r in enumerate(runs) if r.id == int(ref)]):
        return found[0] + 1
    if full := git.resolve(ref):
        before = _ancestors(full, git)
        return max((i + 1 for i, r in enumerate(runs) if r.commit in before), default=0)
    if named := [i for i, r in enumerate(runs) if r.commit == ref or (len(ref) >= LEAST_DIGITS and r.commit.startswith(ref))]:
        return named[-1] + 1
    known = list(dict.fromkeys(r.commit[:SHORT] for r in runs if r.commit))
    fix = did_you_mean(ref, known) or "give a date as 2026-11-21, the number of a run, or a commit"
    raise InvalidArguments(f"'{ref}' is no date, no run and no commit of this history", where="--since", fix=fix)


def _ancestors(full: str, git: Repository) -> set[str]:
    """The commit and what stands before it in HEAD's lineage; everything when HEAD does not come from it."""
    if full not in git.lineage:
        raise InvalidArguments(f"HEAD does not come from {full[:SHORT]}", where="--since", fix="check out a commit that does")
    return set(git.lineage[: git.lineage.index(full) + 1])


def _moment(ref: str) -> float | None:
    """Seconds since 1970 of an ISO date; None for anything else."""
    if "-" not in ref:
        return None
    try:
        return datetime.fromisoformat(ref).timestamp()
    except ValueError:
        return None


def name(run: RunRow) -> str:
    """What a run is called: its commit, else its number."""
    return short(run) if run.commit else f"run {run.id}"


def short(run: RunRow) -> str:
    """Its commit, with a + when there were changes besides."""
    return f"{run.commit[:SHORT]}{'+' if run.is_dirty else ''}"


def date(run: RunRow) -> str:
    """When it began, in local time."""
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(run.started))
