"""A PostgreSQL server that runs while the tests of one process do, as a pytest plugin (tests/conftest.py loads it)."""

from __future__ import annotations

import os
import pwd
import secrets
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

PASSWORD = "s3cret"


@dataclass(frozen=True)
class Server:
    """folder: of the socket, through which alone it can be reached."""

    folder: Path
    password: str

    def url(self, database: str, user: str = "tester", password: str | None = None) -> str:
        return f"postgresql://{user}:{self.password if password is None else password}@/{database}?host={self.folder}"

    def new(self, database: str) -> str:
        """Make an empty database."""
        self.do("postgres", f"CREATE DATABASE {database} TEMPLATE template0")
        return self.url(database)

    def do(self, database: str, *statements: str) -> None:
        import psycopg

        with psycopg.connect(self.url(database), autocommit=True) as connection:
            for statement in statements:
                sql: Any = statement
                connection.execute(sql)


def _programs() -> Path | None:
    """Where initdb is: Debian's package puts it outside of PATH, by version."""
    if found := shutil.which("initdb"):
        return Path(found).resolve().parent
    return max((p.parent for p in Path("/usr/lib/postgresql").glob("*/bin/initdb")), key=lambda p: int(p.parent.name), default=None)


def _account() -> str | None:
    """Who may run a server, which root may not."""
    if os.getuid():
        return pwd.getpwuid(os.getuid()).pw_name
    return next((p.pw_name for p in pwd.getpwall() if p.pw_name in ("postgres", "nobody")), None)


@pytest.fixture(scope="session")
def server() -> Iterator[Server]:
    programs, account = _programs(), _account()
    if programs is None or account is None:
        pytest.skip("PostgreSQL is not installed here (Debian's package postgresql)")
    if find_spec("psycopg") is None:
        pytest.skip("psycopg is not installed here (pip install 'benchgraph[postgres]')")
    folder = Path(tempfile.mkdtemp(prefix="benchgraph-pg-", dir="/tmp"))  # short, for the socket, and open to the account
    (folder / "password").write_text(PASSWORD)
    if os.getuid() == 0:
        for path in (folder, folder / "password"):
            shutil.chown(path, account)

    def do(*words: str) -> None:
        done = subprocess.run(
            [str(programs / words[0]), *words[1:]],
            user=account if os.getuid() == 0 else None,
            cwd=folder,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr

    data = str(folder / "data")
    do("initdb", "-D", data, "-U", "tester", "--auth=scram-sha-256", f"--pwfile={folder / 'password'}", "--no-sync")
    do("pg_ctl", "-D", data, "-w", "-o", f"-k {folder} -c listen_addresses= -c fsync=off", "-l", str(folder / "log"), "start")
    try:
        yield Server(folder, PASSWORD)
    finally:
        do("pg_ctl", "-D", data, "-m", "immediate", "stop")
        shutil.rmtree(folder)


@pytest.fixture
def postgresql(server: Server) -> str:
    """The URL of a new database."""
    return server.new(f"d{secrets.token_hex(6)}")
