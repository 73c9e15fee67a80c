"""Appends runs to a database, each in one transaction, and reads them back."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from sqlalchemy import Connection, func, select

from benchgraph.analysis.history import tables
from benchgraph.analysis.history.database import Database
from benchgraph.core.errors import BenchgraphError, InvalidArguments
from benchgraph.core.formats import computer
from benchgraph.results.json_report import assemble, head, line, parse, with_machines
from benchgraph.results.machine import Machine, united
from benchgraph.results.result import CaseResult, Origin, ResultSet, placed


@dataclass(frozen=True)
class Appended:
    """run: its number in the database. cases: how many were added; the others were there."""

    run: int
    cases: int


def append(database: Database, results: ResultSet) -> Appended:
    """Add a run, or the missing cases of a run (one that was resumed, or is added again). results have an origin, and a machine each.

    Raises BenchgraphError, and leaves the database unchanged.
    """
    origin = results.origin
    if origin is None or any(results.machine_of(c) is None for c in results.cases) or not results.machines:
        raise InvalidArguments("the results do not say which machine they come from", fix="run the cases anew with --history")
    with database.writing() as connection:
        row = connection.execute(select(tables.run.c.id, tables.run.c.head).where(tables.run.c.uid == origin.uid)).one_or_none()
        if row is None:
            run, own = _insert_run(connection, results, origin), results.machine
        else:
            run, own = row.id, parse(assemble(row.head, [], 0.0)).machine
        known = {tuple(r) for r in connection.execute(select(tables.case.c.position, tables.case.c.repro).filter_by(run_id=run))}
        left = [c for c in results.cases if (c.index, _plain(c.repro)) not in known]
        new = placed(left, results, own)
        named = united(c.machine for c in new if c.machine is not None)
        if row is not None and named:
            connection.execute(tables.run.update().filter_by(id=run).values(head=with_machines(row.head, named)))
        numbers = {key: _machine(connection, m) for key, m in named.items()}
        for c in new:
            _insert_case(connection, run, c, None if c.machine is None else numbers[c.machine.key])
    return Appended(run, len(new))


def _insert_run(connection: Connection, results: ResultSet, origin: Origin) -> int:
    machine = results.machines[0] if results.machine is None else results.machine
    inserted = connection.execute(
        tables.run.insert().values(
            uid=origin.uid,
            machine_id=_machine(connection, machine),
            started=origin.started,
            commit_id=_plain(origin.commit),
            is_dirty=origin.is_dirty,
            mode=results.mode.value,
            versions=json.dumps({**machine.versions, **machine.system}),
            elapsed_s=results.elapsed_s,
            head=head(results),
        )
    )
    return _key(inserted.inserted_primary_key)


def _machine(connection: Connection, machine: Machine) -> int:
    """The number of the machine. One of which less was known is this one from now on: it is the only one so far that may be."""
    same = {"cores": machine.cores, "threads": machine.threads, "isa": machine.isa}
    for cpu in machine.former_names:
        row = connection.execute(select(tables.machine.c.id).filter_by(cpu=cpu, **same)).scalar()
        if row is not None:
            connection.execute(tables.machine.update().filter_by(id=row).values(cpu=machine.full_name))
            return int(row)
    return _key(connection.execute(tables.machine.insert().values(cpu=machine.full_name, **same)).inserted_primary_key)


def _insert_case(connection: Connection, run: int, c: CaseResult, machine: int | None) -> None:
    """machine: its number, None for that of the run."""
    values = {"run_id": run, "position": c.index, "repro": _plain(c.repro), "status": c.result.status.value, "document": line(c)}
    values["machine_id"] = machine
    id = _key(connection.execute(tables.case.insert().values(**values)).inserted_primary_key)
    peak = median(c.result.peak_samples) if c.result.peak_samples else 0.0
    rows = [
        {"case_id": id, "policy": t.policy, "median_s": t.timing.median_s, "peak_flops": peak, "flops": c.result.flops}
        for t in c.result.timings
    ]
    if rows:
        connection.execute(tables.timing.insert(), rows)


def _key(made: Sequence[int] | None) -> int:
    if made is None:
        raise BenchgraphError("the database gave a row no number")
    return int(made[0])


def _plain(word: str) -> str:
    """Text that databases accept, for words with bytes that are not UTF-8 or NUL. The document keeps the original."""
    return word.encode(errors="backslashreplace").decode().replace("\0", "\\x00")


def read(database: Database, run: int) -> ResultSet:
    """A run as it was appended. Raises BenchgraphError."""
    with database.reading() as connection:
        row = connection.execute(select(tables.run.c.head, tables.run.c.elapsed_s).filter_by(id=run)).one_or_none()
        if row is None:
            raise InvalidArguments(f"there is no run {run}", where=database.name)
        order = (tables.case.c.position, tables.case.c.id)
        cases = connection.execute(select(tables.case.c.document).filter_by(run_id=run).order_by(*order)).scalars().all()
    return parse(assemble(row.head, cases, row.elapsed_s))


# ---- looking back ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class RunRow:
    """id: the number shown to users. machine, others: the numbers of its own machine and of those of other cases. started: seconds since
    1970. commit: '' when unknown.
    """

    id: int
    machine: int
    started: float
    commit: str
    is_dirty: bool
    versions: dict[str, str]
    others: tuple[int, ...] = ()

    @property
    def machines(self) -> tuple[int, ...]:
        return tuple(dict.fromkeys((self.machine, *self.others)))


@dataclass(frozen=True)
class Point:
    """One case under one policy in one run: the median of its samples, and of the peak meanwhile (0 if not measured)."""

    run: int
    machine: int
    repro: str
    policy: str
    median_s: float
    peak_flops: float
    flops: int


def runs(database: Database) -> list[RunRow]:
    """All runs, by time. Raises BenchgraphError."""
    with database.reading() as connection:
        rows = connection.execute(select(tables.run).order_by(tables.run.c.started, tables.run.c.id)).mappings().all()
        elsewhere = select(tables.case.c.run_id, tables.case.c.machine_id).where(tables.case.c.machine_id.is_not(None)).distinct()
        others = defaultdict[int, list[int]](list)
        for run, machine in connection.execute(elsewhere.order_by(tables.case.c.machine_id)):
            others[run].append(machine)
    return [
        RunRow(
            r["id"], r["machine_id"], r["started"], r["commit_id"], r["is_dirty"], json.loads(r["versions"]), tuple(others.get(r["id"], ()))
        )
        for r in rows
    ]


def machines(database: Database) -> dict[int, str]:
    """The description of each machine by its id."""
    with database.reading() as connection:
        rows = connection.execute(select(tables.machine)).mappings().all()
    return {r["id"]: computer(r["cpu"], r["cores"], r["isa"], r["threads"]) for r in rows}


def points(database: Database) -> list[Point]:
    """Every timing of the history, in the order in which they were added."""
    run, case, timing = tables.run, tables.case, tables.timing
    machine = func.coalesce(case.c.machine_id, run.c.machine_id)
    columns = select(case.c.run_id, machine, case.c.repro, timing.c.policy, timing.c.median_s, timing.c.peak_flops, timing.c.flops)
    with database.reading() as connection:
        rows = connection.execute(columns.select_from(timing.join(case).join(run)).order_by(timing.c.id)).all()
    return [Point(*row) for row in rows]
