"""The current schema of the history database. migrations.py upgrades older ones.

    history_version   one row: the version of the schema
    history_machine   what must be equal for times to be comparable
    history_run       one `benchgraph --history`: when, of which commit, on which machine, with which versions
    history_case      one case of a run; `document` is its line of the JSON report, with every raw sample; its machine, if not the run's
    history_timing    one policy of a case: the median of its samples, all that a look back needs

A case is stored as the JSON report has it, so it can be read back whatever fields results get later; an old document is read like an old
report (json_report.py). It is plain text, since samples of a case are some 10 KB, PostgreSQL compresses them itself, and any SQL client can
read them: SELECT json_extract(document, '$.timings.fused.samples_s') FROM history_case. What queries filter by has columns of its own.
Names have a prefix, since a team's database may hold other tables.
"""

from __future__ import annotations

from sqlalchemy import BigInteger, Boolean, Column, Double, ForeignKey, Integer, MetaData, String, Table, Text, UniqueConstraint

SCHEMA = 3

metadata = MetaData()

version = Table("history_version", metadata, Column("version", Integer, primary_key=True))

machine = Table(
    "history_machine",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("cpu", String, nullable=False),  # with what tells it from others of that name, where that is known
    Column("cores", Integer, nullable=False),
    Column("threads", Integer, nullable=False),
    Column("isa", String, nullable=False),
    UniqueConstraint("cpu", "cores", "threads", "isa", name="history_machine_is_one"),
)

run = Table(
    "history_run",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("uid", String, nullable=False, unique=True),
    Column("machine_id", ForeignKey("history_machine.id"), nullable=False, index=True),
    Column("started", Double, nullable=False),  # seconds since 1970, UTC
    Column("commit_id", String, nullable=False),  # '' when not known
    Column("is_dirty", Boolean, nullable=False),
    Column("mode", String, nullable=False),
    Column("versions", Text, nullable=False),  # JSON object: library -> version
    Column("elapsed_s", Double, nullable=False),
    Column("head", Text, nullable=False),  # of the JSON report: its fields before the cases
)

case = Table(
    "history_case",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("run_id", ForeignKey("history_run.id"), nullable=False, index=True),
    Column("position", Integer, nullable=False),  # in the run
    Column("repro", Text, nullable=False),
    Column("status", String, nullable=False),
    Column("document", Text, nullable=False),
    Column("machine_id", ForeignKey("history_machine.id"), index=True),  # NULL: that of the run
)

timing = Table(
    "history_timing",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("case_id", ForeignKey("history_case.id"), nullable=False, index=True),
    Column("policy", String, nullable=False),
    Column("median_s", Double, nullable=False),
    Column("peak_flops", Double, nullable=False),  # median of the case's own samples of it; 0 when not measured
    Column("flops", BigInteger, nullable=False),
)
