"""Databases of earlier versions of the schema come to the present one; those of later ones are left alone."""

from __future__ import annotations

import json
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest
from sqlalchemy import Connection, MetaData

from benchgraph.analysis.history import migrations, tables
from benchgraph.analysis.history.database import Database
from benchgraph.analysis.history.store import append, points, read, runs
from benchgraph.core.errors import BenchgraphError
from benchgraph.results.json_report import head, line
from tests.analysis.history.made import run

ROOT = Path(__file__).parents[3]
MADE = run(0, {"a": {"fused": 0.25, "post_ops": 0.5}, "b": {"fused": 1.0}}, commit="c0ffee")

# As version 1 was. Not to be changed.
VERSION_1 = """
CREATE TABLE history_version (version INTEGER NOT NULL PRIMARY KEY);
CREATE TABLE history_machine (
    id {key} PRIMARY KEY, cpu VARCHAR NOT NULL, cores INTEGER NOT NULL, threads INTEGER NOT NULL, isa VARCHAR NOT NULL,
    CONSTRAINT history_machine_is_one UNIQUE (cpu, cores, threads, isa));
CREATE TABLE history_run (
    id {key} PRIMARY KEY, uid VARCHAR NOT NULL UNIQUE, machine_id INTEGER NOT NULL REFERENCES history_machine (id),
    started {double} NOT NULL, commit_id VARCHAR NOT NULL, is_dirty BOOLEAN NOT NULL, mode VARCHAR NOT NULL, versions TEXT NOT NULL,
    elapsed_s {double} NOT NULL, head TEXT NOT NULL);
CREATE TABLE history_case (
    id {key} PRIMARY KEY, run_id INTEGER NOT NULL REFERENCES history_run (id), position INTEGER NOT NULL, repro TEXT NOT NULL,
    status VARCHAR NOT NULL, document TEXT NOT NULL);
CREATE INDEX ix_history_run_machine_id ON history_run (machine_id);
CREATE INDEX ix_history_case_run_id ON history_case (run_id);
INSERT INTO history_version VALUES (1);
INSERT INTO history_machine (cpu, cores, threads, isa) VALUES ('Test CPU', 4, 2, 'avx2')
"""
RUN = "INSERT INTO history_run (uid, machine_id, started, commit_id, is_dirty, mode, versions, elapsed_s, head) VALUES ({values})"
CASE = "INSERT INTO history_case (run_id, position, repro, status, document) VALUES ({values})"


def version_1(*, key: str, double: str) -> list[str]:
    def row(template: str, *values: object) -> str:
        return template.format(values=", ".join(f"'{v}'" if isinstance(v, str) else str(v) for v in values))

    origin, machine = MADE.origin, MADE.machine
    assert origin is not None
    assert machine is not None
    of_run = (origin.uid, 1, origin.started, origin.commit, False, "P", json.dumps(machine.versions), MADE.elapsed_s, head(MADE))
    cases = [row(CASE, 1, c.index, c.repro, c.result.status.value, line(c)) for c in MADE.cases]
    return [*VERSION_1.format(key=key, double=double).split(";"), row(RUN, *of_run), *cases]


@pytest.fixture
def old(tmp_path: Path) -> str:
    """A SQLite file of version 1."""
    file = tmp_path / "old.db"
    with sqlite3.connect(file) as connection:
        for statement in version_1(key="INTEGER NOT NULL", double="DOUBLE"):
            connection.execute(statement)
    connection.close()
    return str(file)


def check(where: str) -> None:
    """Nothing is lost, what is new is filled, and the database can be written to."""
    database = Database(where)
    assert read(database, 1) == MADE
    assert [(p.repro[-1], p.policy, p.median_s, p.peak_flops, p.flops) for p in points(database)] == [
        ("a", "fused", 0.25, 16e9, 1000),
        ("a", "post_ops", 0.5, 16e9, 1000),
        ("b", "fused", 1.0, 16e9, 1000),
    ]
    append(database, run(1, {"a": {"fused": 0.25}}))
    assert len(points(database)) == 4
    with database.reading() as connection:
        assert migrations.schema_of(connection) == tables.SCHEMA
        assert shape(connection) == declared(connection)


def shape(connection: Connection) -> dict[str, object]:
    found = MetaData()
    found.reflect(connection)
    return described(found, connection)


def declared(connection: Connection) -> dict[str, object]:
    return described(tables.metadata, connection)


def described(metadata: MetaData, connection: Connection) -> dict[str, object]:
    return {
        t.name: (
            {c.name: (c.type.compile(connection.dialect), c.nullable) for c in t.columns},
            sorted(str(i.name) for i in t.indexes),
        )
        for t in metadata.tables.values()
        if t.name.startswith("history_")
    }


def test_a_database_of_version_1_is_read(old: str) -> None:
    check(old)


def test_a_database_of_version_1_is_read_on_postgresql(server, postgresql: str) -> None:  # type: ignore[no-untyped-def]
    server.do(postgresql.partition("@/")[2].partition("?")[0], *version_1(key="SERIAL", double="DOUBLE PRECISION"))
    check(postgresql)


def test_a_new_database_is_as_declared(url: str) -> None:
    """The steps lead to the tables that the code uses."""
    database = Database(url)
    with database.writing() as connection:
        assert shape(connection) == declared(connection)
        assert migrations.schema_of(connection) == tables.SCHEMA == len(migrations.STEPS)


def test_two_processes_migrate_once(old: str) -> None:
    code = (
        "import sys; from benchgraph.analysis.history.database import Database as D; from benchgraph.analysis.history.store import points"
    )
    code += "\nassert len(points(D(sys.argv[1]))) == 3"
    both = [subprocess.Popen([sys.executable, "-c", code, old], cwd=ROOT) for _ in range(2)]
    assert [p.wait() for p in both] == [0, 0]
    check(old)


def test_a_step_that_fails_leaves_the_old_database(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(connection: Connection) -> None:
        connection.exec_driver_sql("CREATE TABLE history_new (id INTEGER)")
        raise BenchgraphError("the step failed")

    monkeypatch.setattr(migrations, "STEPS", (*migrations.STEPS, fails))
    with monkeypatch.context() as now:
        now.setattr(migrations, "STEPS", migrations.STEPS[:-1])
        database = Database(url)
        append(database, MADE)
    monkeypatch.setattr(migrations, "SCHEMA", tables.SCHEMA + 1)
    with pytest.raises(BenchgraphError, match="the step failed"), database.writing():
        pass
    monkeypatch.setattr(migrations, "SCHEMA", tables.SCHEMA)
    assert [r.id for r in runs(database)] == [1]
    with database.reading() as connection:
        assert "history_new" not in shape(connection)


def test_a_newer_schema_is_not_changed(url: str) -> None:
    database = Database(url)
    with database.writing() as connection:
        connection.execute(tables.version.update().values(version=tables.SCHEMA + 1))
    for use in (database.reading, database.writing):
        with pytest.raises(BenchgraphError) as raised, use():
            pass
        assert str(raised.value) == (
            f"{database.name}: its schema has version 4; this benchgraph knows versions up to 3; "
            "update benchgraph, or name another database"
        )
