"""The two sides of a comparison: each one or several saved runs of the same cases, on one machine or several."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from benchgraph.core.errors import BenchgraphError, InvalidArguments, UsageError
from benchgraph.core.files import read_text
from benchgraph.core.formats import counted
from benchgraph.options.matching import matches
from benchgraph.options.repro import split
from benchgraph.results.json_report import cut_short, parse
from benchgraph.results.machine import Machine, kinds, united
from benchgraph.results.mode import Mode
from benchgraph.results.result import CaseResult, ResultSet

REMEDY = "measure anew with --report=json:FILE"


@dataclass(frozen=True)
class Key:
    """The identity of a case; number distinguishes cases of one file with the same identity."""

    identity: str
    number: int = 0

    def __str__(self) -> str:
        return self.identity + (f" (no. {self.number + 1})" if self.number else "")


@dataclass(frozen=True)
class File:
    """A run. text: its content, to recognise equal files. cut: the remark on a file that lacks cases of its run, else ''."""

    name: str
    text: str
    results: ResultSet
    cut: str

    @property
    def cases(self) -> dict[Key, CaseResult]:
        """Each with its machine, if it is known."""
        count, by_key = Counter[str](), dict[Key, CaseResult]()
        for case in self.results.cases:
            identity = split(case.repro).identity
            by_key[Key(identity, count[identity])] = replace(case, machine=self.results.machine_of(case))
            count[identity] += 1
        return by_key


@dataclass(frozen=True)
class Side:
    """files: at least one. cases: per case, its results in the runs that have it."""

    files: tuple[File, ...]
    cases: dict[Key, tuple[CaseResult, ...]]

    @property
    def machines(self) -> tuple[Machine, ...]:
        return tuple(united(m for f in self.files for m in f.results.machines).values())

    @property
    def mode(self) -> Mode:
        return self.files[0].results.mode


def read(names: str, match: str) -> Side:
    """A side from its file names, joined by commas; match: a regex that selects cases by their repro line. Raises UsageError."""
    files = tuple(_file(name) for name in names.split(","))
    by_file = [f.cases for f in files]
    keys = dict.fromkeys(key for cases in by_file for key in cases)
    runs = {key: tuple(cases[key] for cases in by_file if key in cases) for key in keys}
    try:
        return Side(files, {key: cases for key, cases in runs.items() if not match or any(matches(match, c.repro) for c in cases)})
    except InvalidArguments as bad:
        raise UsageError(bad.what, where="compare: --match", fix=bad.fix) from bad


def _file(name: str) -> File:
    if not name:
        raise UsageError("an empty file name", where="compare", fix="join the runs of a side by commas: A.json,A2.json")
    try:
        text = read_text(Path(name))
    except OSError as bad:
        raise UsageError(f"cannot read the file: {bad.strerror}", where=f"compare: {name}", fix="name a JSON report") from bad
    try:
        results = parse(text)
    except BenchgraphError as bad:
        raise UsageError(bad.what, where=f"compare: {name}", fix=bad.fix or REMEDY) from bad
    return File(name, text, results, cut_short(name, text, results))


def check(a: Side, b: Side, *, other_machine: bool) -> None:
    """Raise UsageError unless the two can be compared. other_machine: machines may differ."""
    first, *others = (*a.files, *b.files)
    for other in others:
        if other.results.mode is not first.results.mode:
            modes = f"mode {first.results.mode.value} in {first.name}, {other.results.mode.value} in {other.name}"
            raise UsageError(f"different modes: {modes}", where="compare", fix="compare runs of one mode")
        if not other_machine and (why := _differences(first.results, other.results)):
            where = f"{first.name} and {other.name}"
            fix = "measure both on one machine, or say --other-machine"
            raise UsageError(f"different machines: {why} in {where}", where="compare", fix=fix)
    if not a.cases or not b.cases:
        empty = a if not a.cases else b
        for file in empty.files:
            if file.cut and not file.results.cases:
                raise UsageError(f"no cases: {file.cut.removeprefix(f'{file.name}: ')}", where=f"compare: {file.name}")
        fix = "widen --match, or measure more"
        raise UsageError(f"no cases in {', '.join(f.name for f in empty.files)}", where="compare", fix=fix)


def _differences(a: ResultSet, b: ResultSet) -> str:
    """Why no times of the two can be compared; '' where some kind of machine is in both."""
    if any(run.machine_of(case) is None for run in (a, b) for case in run.cases) or not a.machines or not b.machines:
        return "an unknown one"
    return "" if any(not m.difference(n) for m in a.machines for n in b.machines) else a.machines[0].difference(b.machines[0])


def notes(a: Side, b: Side) -> Iterator[str]:
    for file in (*a.files, *b.files):
        if file.cut:
            yield file.cut
    texts = [f.text for f in (*a.files, *b.files)]
    if len(set(texts)) < len(texts):
        yield "a file stands here twice: a run compared with itself says nothing about how runs differ"
    if a.mode.is_timed and len(a.files) == len(b.files) == 1:
        yield "each side has one run: how runs differ is judged by how cases differ; only A.json,A2.json shows what a run's cases share"
    if not a.mode.is_timed:
        yield from _moved(a, b)
    if changed := list(_versions(a.files, b.files)):
        yield "versions differ: " + ", ".join(changed)


def _moved(a: Side, b: Side) -> Iterator[str]:
    """What to know of statuses and accuracy of several kinds of machines: times of these are never compared."""
    groups = kinds(united([*a.machines, *b.machines]).values())
    number = {m.key: n for n, group in enumerate(groups) for m in group}
    if len(groups) < 2:
        return
    where = [{key: {number[c.machine.key] for c in cases if c.machine} for key, cases in side.cases.items()} for side in (a, b)]
    both = where[0].keys() & where[1].keys()
    moved = sum(where[0][key] != where[1][key] for key in both)
    what = f"the cases ran on {len(groups)} kinds of machines, {moved} of {counted(len(both), 'case')} on others in B than in A"
    yield f"{what}: statuses and accuracy are compared all the same, and may differ because of that"


def _versions(a: Sequence[File], b: Sequence[File]) -> Iterator[str]:
    one, other = ([{**m.versions, **m.system} for f in side for m in f.results.machines] for side in (a, b))
    for name in dict.fromkeys(name for versions in (*one, *other) for name in versions):
        before, after = ("/".join(dict.fromkeys(v.get(name, "none") for v in side)) for side in (one, other))
        if before != after:
            yield f"{name} {before} -> {after}"
