"""Versions to compare, by what the command line calls them: libraries, or commits and checkouts of benchgraph."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import benchgraph
from benchgraph.analysis.ab.comparison import Policies, Side
from benchgraph.core.errors import BenchgraphError, UsageError
from benchgraph.harness.bench import Bench
from benchgraph.options.knobs import Globals
from benchgraph.options.library_name import KINDS, LibraryName
from benchgraph.peers.checkout.source import find

OWN = str(Path(benchgraph.__file__).resolve().parent.parent)


def sides(command: str, old: str, new: str, bench: Bench) -> tuple[Side, Side]:
    """OLD and NEW, which are called so where they have no labels. Raises UsageError for what names no version, or none that works."""
    found = tuple(_side(command, word, label, bench) for word, label in ((old, "old"), (new, "new")))
    if found[0].label == found[1].label:
        raise UsageError(f"both versions are called {found[0].label}", where=command, fix="give one another label, as in v1=HEAD~1")
    return found[0], found[1]


def _side(command: str, word: str, label: str, bench: Bench) -> Side:
    try:
        name = LibraryName.of_version(word)
    except ValueError as bad:
        raise UsageError("no version", where=f"{command}: {word}", fix=str(bad)) from bad
    given = str(replace(name, label=""))
    name = replace(name, label=name.label or label)
    try:
        if name.kind == "benchgraph":  # a name as HEAD may become another commit while cases run
            source = find(name.place or OWN)
            return Side(name.label, str(replace(name, place=str(source.folder))), given, source.version)
        return Side(name.label, str(name), given, bench.library(str(name)).version)
    except BenchgraphError as bad:
        where = f"{command}: {word}"
        if bad.where and not bad.where.startswith("--library="):  # the user wrote no such option; a variable or a file is news
            where = f"{where}: {bad.where}"
        raise UsageError(bad.what, where=where, fix=bad.fix) from bad


def policies(settings: Globals, old: Side, new: Side) -> tuple[Policies, ...]:
    """The policies that both versions have. One of a version without a choice goes with each of the other."""
    contenders = replace(settings, library=(old.word, new.word)).contender_specs
    found = []
    for a in (s for s in contenders if s.library == old.word):
        for b in (s for s in contenders if s.library == new.word):
            if a.policy == b.policy or min(len(KINDS[LibraryName.read(s.library).kind].policies) for s in (a, b)) == 1:
                found.append(Policies(a.policy, a.label, b.label))
    return tuple(found)
