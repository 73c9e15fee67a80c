"""Shards of one run as one run.

Shards are of one run where their batches are equal (results.result.Shard), and the code and the kind of machine that ran them. The merged
run equals what the whole command line would have given, but for times. Each result keeps its machine, so that times of different kinds stay
apart in reports. The run's identity follows from those of the shards, so that a history has it once, however often it is merged.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

from benchgraph.core.errors import InvalidArguments
from benchgraph.core.formats import ranges
from benchgraph.results.machine import Machine, united
from benchgraph.results.result import Origin, ResultSet, Shard, placed

WHERE = "merge"


@dataclass(frozen=True)
class Allowed:
    """What shards may be although it makes them no shards of one run; is_incomplete: some may be missing."""

    other_machine: bool = False
    other_code: bool = False
    is_incomplete: bool = False


@dataclass(frozen=True)
class Part:
    name: str
    shard: Shard
    results: ResultSet


def merge(files: Sequence[tuple[str, ResultSet]], allowed: Allowed) -> ResultSet:
    """The run that shards make. files: their names, for messages, and what they hold; at least one. Raises InvalidArguments for others."""
    parts = sorted((_part(*file) for file in files), key=lambda p: p.shard.part)
    first, *others = parts
    for other in others:
        _need_one_batch(first, other)
    for one, next_one in zip(parts, others, strict=False):
        if one.shard.part == next_one.shard.part:
            what = f"shard {one.shard.part}/{one.shard.parts} is in both {one.name} and {next_one.name}"
            raise InvalidArguments(what, where=WHERE, fix="leave one of them out")
    if not allowed.is_incomplete and (missing := sorted({*range(1, first.shard.parts + 1)} - {p.shard.part for p in parts})):
        what = f"shards {ranges(missing)} of {first.shard.parts} are missing" if len(missing) > 1 else f"shard {missing[0]} is missing"
        raise InvalidArguments(what, where=WHERE, fix="add their files, or say --incomplete")
    for other in others:
        _need_one_kind(first, other, allowed)
    runs = [p.results for p in parts]
    own = _own(runs)
    cases = tuple(sorted((case for run in runs for case in placed(run.cases, run, own)), key=lambda case: case.index))
    return ResultSet(
        first.results.mode,
        own,
        cases,
        sum(run.elapsed_s for run in runs),
        _origin([run.origin for run in runs]),
        planned=first.shard.cases,
        source=" + ".join(dict.fromkeys(run.source for run in runs)),
    )


def _part(name: str, results: ResultSet) -> Part:
    if results.shard is None:
        raise InvalidArguments("it is no shard", where=f"{WHERE}: {name}", fix="give reports of runs with --shard=I/N")
    return Part(name, results.shard, results)


def _need_one_batch(a: Part, b: Part) -> None:
    modes = (a.results.mode, b.results.mode)
    what = ""
    if a.shard.parts != b.shard.parts:
        what = f"{a.name} is one of {a.shard.parts} shards, {b.name} of {b.shard.parts}"
    elif modes[0] is not modes[1]:
        what = f"mode {modes[0].value} in {a.name}, {modes[1].value} in {b.name}"
    elif a.shard.cases != b.shard.cases:
        what = f"{a.name} is of a run of {a.shard.cases} cases, {b.name} of {b.shard.cases}"
    elif a.shard.batch != b.shard.batch:
        what = f"the runs of {a.name} and {b.name} have other cases, or cases in another order"
    if what:
        raise InvalidArguments(f"not of one run: {what}", where=WHERE, fix="give shards of one command line, which differ only in --shard")


def _need_one_kind(a: Part, b: Part, allowed: Allowed) -> None:
    where = f"in {a.name} and {b.name}"
    if not allowed.other_machine and (why := _machine_differences(a.results.machine, b.results.machine)):
        fix = "run all shards on machines of one kind, or say --other-machine"
        raise InvalidArguments(f"different machines: {why} {where}", where=WHERE, fix=fix)
    if not allowed.other_code and (why := _code_differences(a.results, b.results)):
        fix = "run all shards with the same code, or say --other-code"
        raise InvalidArguments(f"different code: {why} {where}", where=WHERE, fix=fix)


def _machine_differences(a: Machine | None, b: Machine | None) -> str:
    if a is None or b is None:
        return "" if a is b else "an unknown one"
    return a.difference(b)


def _code_differences(a: ResultSet, b: ResultSet) -> str:
    versions = tuple(run.machine.versions if run.machine else {} for run in (a, b))
    commits = tuple(_commit(run.origin) for run in (a, b))
    pairs = [{"commit": commit, **of_one} for commit, of_one in zip(commits, versions, strict=True)]
    return _differences(*({**pair, "source": run.source} for pair, run in zip(pairs, (a, b), strict=True)))


def _commit(origin: Origin | None) -> str:
    return "" if origin is None else origin.commit[:12] + (" with changes" if origin.is_dirty else "")


def _differences(a: dict[str, str], b: dict[str, str]) -> str:
    names = dict.fromkeys((*a, *b))
    return ", ".join(f"{n} {a.get(n) or 'none'} and {b.get(n) or 'none'}" for n in names if a.get(n) != b.get(n))


def _own(runs: Sequence[ResultSet]) -> Machine | None:
    """The machine of the results that name none: that of the first run, if all are known, with the best rates of all runs on it."""
    if any(run.machine is None for run in runs):
        return None
    first = runs[0].machine
    return None if first is None else united(m for run in runs for m in (run.machine, *run.named_machines.values()) if m)[first.key]


def _origin(origins: Sequence[Origin | None]) -> Origin | None:
    known = [o for o in origins if o is not None]
    if len(known) < len(origins):
        return None
    uid = hashlib.sha256("".join(sorted(o.uid for o in known)).encode()).hexdigest()[:32]
    commits = {o.commit for o in known}
    return Origin(uid, min(o.started for o in known), commits.pop() if len(commits) == 1 else "", any(o.is_dirty for o in known))
