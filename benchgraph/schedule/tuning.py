"""Schedules that search has found better than those of least cost, by machine and nest: tuning files, and rows of machine tables.

    {"format": "benchgraph-tuning", "version": 3,
     "machines": {"<cpu>, avx512_core, 2 threads, L1 32 KiB, L2 1024 KiB":
                   {"f32:f32 128x479x1024 constant":
                     {"schedule": "tile m by 64; tile n by 64; order m.0, n.0; parallel m.0; tensorize m.1, n.1, k",
                      "ratio": 1.08}}}}

ratio: how many times as long the compiler's own choice took; for people. BENCHGRAPH_TUNING and --tuning name the file that is read, which
overrides the rows of the machine's table (machine/table_file.py): what the cost gets wrong there.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from benchgraph.core.config import config
from benchgraph.core.errors import BenchgraphError, ParseError, did_you_mean, within
from benchgraph.core.files import need_no_device
from benchgraph.core.formats import counted
from benchgraph.core.json_objects import Doubled, pairs
from benchgraph.core.options import Forced, Options
from benchgraph.core.printable import quoted
from benchgraph.machine.table import schedule_rows
from benchgraph.machine.table_file import MOST_RATE
from benchgraph.machine.target import Target, cpu_name
from benchgraph.schedule.choose import Choice
from benchgraph.schedule.primitives import Schedule, parse

FORMAT, VERSION = "benchgraph-tuning", 3
_NAME = "name one that `benchgraph tune` wrote"
_AGAIN = "remove it, or name another one; `benchgraph tune --store=FILE` writes one"


@dataclass(frozen=True)
class Finding:
    """forced: the best schedule. ratio: time of the compiler's choice over its own, 1 when it is the best itself, which no file says."""

    forced: Forced
    ratio: float


def machine_key(target: Target) -> str:
    """What findings hold for: the processor, and what schedules are made from."""
    threads = "1 thread" if target.cores == 1 else f"{target.cores} threads"
    return f"{cpu_name()}, {target.isa.name}, {threads}, L1 {target.l1_bytes >> 10} KiB, L2 {target.l2_bytes >> 10} KiB"


def tuned(options: Options, target: Target) -> Options:
    """With the findings of the configured tuning file for this target, and below them the rows of the machine's table, both below what is
    forced already. Raises ParseError."""
    path = config().tuning
    found = {f.nest: f for f in options.forced}
    for f in (*(finding.forced for finding in (findings(Path(path), target) if path else ())), *of_table(target)):
        found.setdefault(f.nest, f)
    return replace(options, forced=tuple(found.values())) if len(found) > len(options.forced) else options


@lru_cache(maxsize=64)
def of_table(target: Target) -> tuple[Forced, ...]:
    """What the table of a machine prescribes. Raises ParseError."""
    name, rows = schedule_rows(target)
    for row in rows:
        with within(f"{name}: [[schedules]] '{row.nest}'"):
            parse(row.schedule)
    return tuple(Forced(row.nest, row.schedule, f"the machine table {name}, {row.ratio:.2f} times as fast as least cost") for row in rows)


def findings(path: Path, target: Target) -> tuple[Finding, ...]:
    """What a file holds for this machine. Raises ParseError, one line, for a file that is not there or is broken."""
    return _by_machine(path).get(machine_key(target), ())


def _by_machine(path: Path) -> Mapping[str, tuple[Finding, ...]]:
    try:
        need_no_device(path)
        stat = path.stat()
        return _read(path, stat.st_mtime_ns, stat.st_size)
    except OSError as bad:
        raise ParseError(f"cannot read the tuning file: {bad.strerror}", where=str(path), fix=_NAME) from bad


def why_unused(path: Path, targets: Sequence[Target]) -> str:
    """Why no code that was compiled for these targets has a schedule of a file. Raises ParseError."""
    rows, here = {machine: found for machine, found in _by_machine(path).items() if found}, [machine_key(t) for t in targets]
    if not rows:
        return "it has no row"
    if count := sum(len(rows.get(machine, ())) for machine in here):
        return f"its {counted(count, 'row')} for this machine {'is' if count == 1 else 'are'} for no nest of these cases"
    differ = [[(a, b) for a, b in zip(m.rsplit(", ", 4), t.rsplit(", ", 4), strict=False) if a != b] for m in rows for t in here]
    theirs, ours = zip(*min(differ, key=len), strict=True)
    return f"{'its rows are' if len(rows) == 1 else 'the nearest of its rows are'} for {', '.join(theirs)}; here: {', '.join(ours)}"


_taken: ContextVar[set[str] | None] = ContextVar("_taken", default=None)


def take(nests: Iterable[str]) -> None:
    """Add nests that have prescribed schedules to the innermost block of `taken`."""
    if (found := _taken.get()) is not None:
        found.update(nests)


@contextmanager
def taken() -> Iterator[set[str]]:
    """The nests, as text, that have prescribed schedules in what the block compiles or finds compiled in a cache."""
    found = set[str]()
    token = _taken.set(found)
    try:
        yield found
    finally:
        _taken.reset(token)


def forced_or_chosen(
    forced: Mapping[str, Forced], nest: str, space: Iterable[Schedule], choose: Callable[[], Choice]
) -> tuple[Schedule, str]:
    """The schedule of a nest, and why: that prescribed for its text, else that of least cost.

    forced: by text. space: all schedules that it can have. Raises ParseError for a prescribed one that is not among them.
    """
    schedule = forced_schedule(forced, nest, space)
    if schedule is None:
        choice = choose()
        return choice.schedule, choice.why
    return schedule, f"{schedule}: {forced[nest].why}"


def forced_schedule(forced: Mapping[str, Forced], nest: str, space: Iterable[Schedule]) -> Schedule | None:
    """The same, if one is prescribed."""
    if (found := forced.get(nest)) is None:
        return None
    schedule = parse(found.schedule)
    if schedule not in space:
        fix = "tune it anew with `benchgraph tune --store=FILE`, or leave the row out"
        raise ParseError(f"this nest cannot have the schedule '{found.schedule}'", where=f"{found.by}: '{nest}'", fix=fix)
    take([nest])
    return schedule


def store(path: Path, target: Target, found: Iterable[Finding]) -> None:
    """Add findings for this machine to a file, in place of older ones for the same nests; those whose best is the compiler's choice only
    remove these. Raises ParseError, BenchgraphError."""
    machines = {}
    try:
        need_no_device(path)
        if path.exists():
            stat = path.stat()
            machines = dict(_read(path, stat.st_mtime_ns, stat.st_size))
    except OSError as bad:
        raise BenchgraphError(f"cannot read the tuning file: {bad.strerror}", where=str(path), fix="name another one") from bad
    key = machine_key(target)
    mine = {f.forced.nest: f for f in (*machines.get(key, ()), *found)}
    machines[key] = tuple(mine[nest] for nest in sorted(mine) if mine[nest].ratio > 1)
    plain = {k: {f.forced.nest: _plain(f) for f in machines[k]} for k in sorted(machines)}
    document = {"format": FORMAT, "version": VERSION, "machines": plain}
    beside = path.with_name(f"{path.name}.{os.getpid()}.part")
    try:
        beside.write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")
        beside.replace(path)
    except OSError as bad:
        raise BenchgraphError(f"cannot write the tuning file: {bad.strerror}", where=str(path), fix="name another one") from bad


def _plain(f: Finding) -> dict[str, object]:
    return {"schedule": f.forced.schedule, "ratio": round(f.ratio, 4)}


@lru_cache(maxsize=8)
def _read(path: Path, mtime_ns: int, nbytes: int) -> dict[str, tuple[Finding, ...]]:
    """By machine. The time of change and the size are only there to read again what has changed. Raises ParseError, OSError."""
    try:
        document = json.loads(path.read_text(encoding="utf-8"), object_pairs_hook=pairs)
    except (ValueError, RecursionError) as bad:
        raise ParseError(f"is no JSON: {bad}", where=str(path), fix=_AGAIN) from bad
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise ParseError("is no tuning file", where=str(path), fix=_AGAIN)
    _check_keys(str(path), document, ("format", "version", "machines"))
    if document.get("version") != VERSION:
        raise ParseError(f"is of version {document.get('version')!r}, this is {VERSION}", where=str(path), fix=_AGAIN)
    machines = document.get("machines")
    if not isinstance(machines, dict) or not all(isinstance(found, dict) for found in machines.values()):
        raise ParseError("'machines' is no table of tables", where=str(path), fix=_AGAIN)
    _check_keys(f"{path}: 'machines'", machines)
    for key, found in machines.items():
        _check_keys(f"{path}: {quoted(key)}", found)
    return {key: tuple(_finding(path, nest, each) for nest, each in found.items()) for key, found in machines.items()}


def _check_keys(where: str, said: Mapping[str, Any], known: tuple[str, ...] = ()) -> None:
    """Raise ParseError for a key that is there twice, and for one that is not known, if some are."""
    if isinstance(said, Doubled):
        raise ParseError(f"{quoted(said.key)} is there twice", where=where, fix="leave one of them out")
    if known and (other := next((key for key in said if key not in known), None)) is not None:
        fix = did_you_mean(other, known) or f"leave it out; the keys here are {', '.join(known)}"
        raise ParseError(f"no key {quoted(other)}", where=where, fix=fix)


def _finding(path: Path, nest: str, said: Any) -> Finding:
    where, said = f"{path}: '{nest}'", said if isinstance(said, dict) else {}
    _check_keys(where, said, ("schedule", "ratio"))
    schedule, ratio = said.get("schedule"), said.get("ratio")
    if not isinstance(schedule, str) or isinstance(ratio, bool) or not isinstance(ratio, int | float) or not 0 < ratio <= MOST_RATE:
        raise ParseError("'schedule' is no text or 'ratio' no positive number", where=where, fix=_AGAIN)
    with within(where):
        parse(schedule)
    return Finding(Forced(nest, schedule, str(path)), float(ratio))
