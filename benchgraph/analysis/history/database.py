"""A database by its URL: SQLite, or PostgreSQL for teams. Errors are one line with a remedy.

A writer locks the whole history from its first statement to the end of the transaction: by BEGIN IMMEDIATE in SQLite (waiting PATIENCE_S),
by an advisory lock in PostgreSQL. So there are no races, and migrations run once. Runs are at least seconds apart, and writing one takes
milliseconds.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Engine, create_engine, event, text
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError, NoSuchModuleError, SQLAlchemyError
from sqlalchemy.pool import NullPool

from benchgraph.analysis.history.migrations import check, migrate, schema_of
from benchgraph.analysis.history.tables import SCHEMA
from benchgraph.core.errors import BenchgraphError, InvalidArguments
from benchgraph.core.files import exists, make_folder

PATIENCE_S = 60  # for other writers
CONNECT_S = 10  # for a server to answer
LOCK = 0x62656E6368  # 'bench': the key of the advisory lock
DRIVERS = {"sqlite": "sqlite", "postgresql": "postgresql+psycopg", "postgres": "postgresql+psycopg"}
POSTGRESQL = "postgresql://USER@HOST/DATABASE"
SECRETS = ("password", "passfile", "sslpassword")  # in the query of a URL


class Database:
    """A history. A connection is open only during a transaction, so that an idle server does not disturb a run."""

    def __init__(self, where: str) -> None:
        """where: a URL, or the name of a SQLite file. Raises InvalidArguments for another kind of URL, or a missing driver."""
        url = _url(where)
        self.name = _printable(url)
        self.file = Path(url.database) if url.drivername == "sqlite" and url.database else None
        try:
            self._engine = _engine(url)
        except (NoSuchModuleError, ImportError) as bad:
            raise InvalidArguments("the driver is not installed", where=self.name, fix="pip install 'benchgraph[postgres]'") from bad

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """A transaction that sees one state. Raises BenchgraphError; InvalidArguments if there is no history."""
        if self.file and not exists(self.file):
            raise self._none()
        with self._transaction() as connection:
            version = schema_of(connection)
            if not version:
                raise self._none()
            check(version)
            if version == SCHEMA:
                yield connection
                return
        with self.writing():  # migrates an older schema
            pass
        with self._transaction() as connection:
            yield connection

    @contextmanager
    def writing(self) -> Iterator[Connection]:
        """An exclusive transaction on a database of the current schema, created if necessary. Raises BenchgraphError."""
        if self.file:
            try:
                make_folder(self.file.parent)
            except OSError as bad:
                raise BenchgraphError(f"cannot make the folder: {bad.strerror}", where=self.name, fix="name another file") from bad
        with self._transaction(writes=True) as connection:
            migrate(connection)
            yield connection

    def damaged(self) -> BenchgraphError:
        """The error for content that benchgraph did not write."""
        return BenchgraphError(
            "the history is damaged, or is none of benchgraph's", where=self.name, fix="restore it from a copy, or name another one"
        )

    def _none(self) -> InvalidArguments:
        return InvalidArguments("there is no history", where=self.name, fix="a run with --history=URL begins one")

    @contextmanager
    def _transaction(self, *, writes: bool = False) -> Iterator[Connection]:
        try:
            with self._engine.connect().execution_options(writes=writes) as connection, connection.begin():
                if writes and connection.dialect.name == "postgresql":
                    connection.execute(text(f"SET LOCAL lock_timeout = '{PATIENCE_S}s'"))
                    connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": LOCK})
                yield connection
        except SQLAlchemyError as bad:
            raise self._explained(bad) from bad
        except UnicodeDecodeError as bad:
            raise self.damaged() from bad
        except BenchgraphError as bad:
            raise bad if bad.where else bad.inside(self.name) from bad

    def _explained(self, bad: SQLAlchemyError) -> BenchgraphError:
        message = str(getattr(bad, "orig", None) or bad)
        if sqlstate := getattr(getattr(bad, "orig", None), "sqlstate", None):
            message += f" [{sqlstate}]"
        for pattern, what, fix in MEANINGS:
            if re.search(pattern, message, re.IGNORECASE):
                return BenchgraphError(what, where=self.name, fix=fix)
        lines = [line.strip() for line in message.splitlines() if line.strip()]
        return BenchgraphError(f"the database says: {lines[-1] if lines else type(bad).__name__}", where=self.name)


# Patterns of error messages (SQLite's sqlite3_errstr; libpq's messages, PostgreSQL's SQLSTATE codes), their meaning and remedy.
MEANINGS = (
    (r"disk is full|No space left|\[53100\]", "the disk is full", "make room there"),
    (r"unable to open database file", "cannot open the file", "name a file in a folder that may be read and written"),
    (r"file is not a database|malformed", "not a SQLite database, or a damaged one", "name another file"),
    (r"readonly database|\[25006\]", "may not be written", "ask for the right to write there, or name another database"),
    (r"database is locked|\[55P03\]", f"another program has held it for {PATIENCE_S} s", "end that program"),
    (r"password authentication failed|no password supplied", "the server refuses user or password", "mend them in the URL"),
    (r'database ".*" does not exist', "the server has no such database", "create it with 'createdb', or mend the name in the URL"),
    (r'role ".*" does not exist', "the server does not know the user", "mend the name in the URL"),
    (r"permission denied|\[42501\]", "the user may not do that", "have an administrator grant the right to create and write tables"),
    (
        r"connection failed|connection to server|is the server running|could not connect|connection refused|could not translate|"
        r"failed to resolve|timeout expired|name or service|server closed the connection|connection is closed|terminating connection|"
        r"\[57P0[123]\]|\[08\w{3}\]",
        "the server cannot be reached",
        "start it, or mend host and port in the URL",
    ),
)


def _url(where: str) -> URL:
    """Raises InvalidArguments, whose text repeats no part of the URL that could be a password."""
    if where.removeprefix("sqlite:///") == ":memory:":
        raise InvalidArguments("a history in memory ends with the run", where="--history=:memory:", fix="name a file")
    if "://" not in where:
        return URL.create("sqlite", database=where)
    fix = f"write sqlite:///FILE or {POSTGRESQL}"
    scheme = where.partition("://")[0].partition("+")[0]
    if scheme not in DRIVERS:
        raise InvalidArguments(f"no history is kept in '{scheme}'", where="--history", fix=fix)
    try:
        url = make_url(where).set(drivername=DRIVERS[scheme])
    except (ArgumentError, ValueError) as bad:
        raise InvalidArguments("the URL cannot be read", where="--history", fix=fix) from bad
    if scheme == "sqlite" and (not url.database or url.host or url.query):
        raise InvalidArguments("the URL names no file", where="--history", fix="write sqlite:///FILE, or just FILE")
    return url


def _printable(url: URL) -> str:
    if url.drivername == "sqlite":
        return url.database or ""
    public = url.difference_update_query([name for name in url.query if name in SECRETS])
    return public.set(drivername="postgresql").render_as_string(hide_password=True)


def _engine(url: URL) -> Engine:
    if url.drivername == "sqlite":
        engine = create_engine(url, poolclass=NullPool, connect_args={"timeout": PATIENCE_S})
        event.listen(engine, "connect", _leave_transactions_to_us)
        event.listen(engine, "begin", _begin)
        return engine
    return create_engine(url, poolclass=NullPool, connect_args={} if "connect_timeout" in url.query else {"connect_timeout": CONNECT_S})


def _leave_transactions_to_us(connection: Any, record: object) -> None:
    """Python's driver begins transactions late, and not around DDL, so SQLAlchemy's events begin them."""
    connection.isolation_level = None
    connection.execute("PRAGMA foreign_keys=ON")


def _begin(connection: Connection) -> None:
    if not connection.get_execution_options().get("writes"):
        connection.exec_driver_sql("BEGIN")
        return
    # stored in the file; in this mode readers and writers do not wait for each other
    if connection.exec_driver_sql("PRAGMA journal_mode").scalar() != "wal":
        connection.exec_driver_sql("PRAGMA journal_mode=WAL")
    connection.exec_driver_sql("BEGIN IMMEDIATE")
