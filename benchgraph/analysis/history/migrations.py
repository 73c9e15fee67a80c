"""Schema migrations: one step per version, each with the tables as they were then; steps never change.

A new database goes through all steps too, which tests each of them. `migrate` runs in the transaction of a writer, of which there is one at
a time (database.py); both databases have transactional DDL, so a failed step changes nothing.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from statistics import median

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Connection,
    Double,
    ForeignKey,
    Integer,
    MetaData,
    String,
    Table,
    Text,
    UniqueConstraint,
    inspect,
    select,
    text,
)

from benchgraph.analysis.history.tables import SCHEMA, version
from benchgraph.core.errors import BenchgraphError


def schema_of(connection: Connection) -> int:
    """The version of the schema, 0 for a database without one."""
    if not inspect(connection).has_table(version.name):
        return 0
    return int(connection.execute(select(version.c.version)).scalar_one())


def check(schema: int) -> None:
    """Raises BenchgraphError for a schema newer than this benchgraph."""
    if schema > SCHEMA:
        fix = "update benchgraph, or name another database"
        raise BenchgraphError(f"its schema has version {schema}; this benchgraph knows versions up to {SCHEMA}", fix=fix)


def migrate(connection: Connection) -> None:
    """Migrate the database to the current schema. Raises BenchgraphError for a newer one."""
    schema = schema_of(connection)
    check(schema)
    for step in STEPS[schema:]:
        step(connection)
    if not schema:
        version.create(connection)
        connection.execute(version.insert().values(version=SCHEMA))
    elif schema < SCHEMA:
        connection.execute(version.update().values(version=SCHEMA))


def _first(connection: Connection) -> None:
    """0 -> 1: machines, runs, cases."""
    then = MetaData()
    Table(
        "history_machine",
        then,
        Column("id", Integer, primary_key=True),
        Column("cpu", String, nullable=False),
        Column("cores", Integer, nullable=False),
        Column("threads", Integer, nullable=False),
        Column("isa", String, nullable=False),
        UniqueConstraint("cpu", "cores", "threads", "isa", name="history_machine_is_one"),
    )
    Table(
        "history_run",
        then,
        Column("id", Integer, primary_key=True),
        Column("uid", String, nullable=False, unique=True),
        Column("machine_id", ForeignKey("history_machine.id"), nullable=False, index=True),
        Column("started", Double, nullable=False),
        Column("commit_id", String, nullable=False),
        Column("is_dirty", Boolean, nullable=False),
        Column("mode", String, nullable=False),
        Column("versions", Text, nullable=False),
        Column("elapsed_s", Double, nullable=False),
        Column("head", Text, nullable=False),
    )
    Table(
        "history_case",
        then,
        Column("id", Integer, primary_key=True),
        Column("run_id", ForeignKey("history_run.id"), nullable=False, index=True),
        Column("position", Integer, nullable=False),
        Column("repro", Text, nullable=False),
        Column("status", String, nullable=False),
        Column("document", Text, nullable=False),
    )
    then.create_all(connection)


def _timings(connection: Connection) -> None:
    """1 -> 2: medians in a table of their own, since reading them from the documents reads every sample."""
    then = MetaData()
    case = Table("history_case", then, Column("id", Integer, primary_key=True), Column("document", Text, nullable=False))
    timing = Table(
        "history_timing",
        then,
        Column("id", Integer, primary_key=True),
        Column("case_id", ForeignKey("history_case.id"), nullable=False, index=True),
        Column("policy", String, nullable=False),
        Column("median_s", Double, nullable=False),
        Column("peak_flops", Double, nullable=False),
        Column("flops", BigInteger, nullable=False),
    )
    timing.create(connection)
    for id in connection.execute(select(case.c.id).order_by(case.c.id)).scalars().all():  # one document at a time: all may be gigabytes
        document = json.loads(connection.execute(select(case.c.document).where(case.c.id == id)).scalar_one())
        peaks = document["peak_samples"]
        rows = [
            {
                "case_id": id,
                "policy": policy,
                "median_s": median(timed["samples_s"]),
                "peak_flops": median(peaks) if peaks else 0.0,
                "flops": document["flops"],
            }
            for policy, timed in document["timings"].items()
        ]
        if rows:
            connection.execute(timing.insert(), rows)


def _machines_of_cases(connection: Connection) -> None:
    """2 -> 3: the machine of a case that did not run on that of its run. Both databases know these words."""
    connection.execute(text("ALTER TABLE history_case ADD COLUMN machine_id INTEGER REFERENCES history_machine (id)"))
    connection.execute(text("CREATE INDEX ix_history_case_machine_id ON history_case (machine_id)"))


STEPS: tuple[Callable[[Connection], None], ...] = (_first, _timings, _machines_of_cases)
