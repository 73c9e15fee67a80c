"""A running PostgreSQL server, as tests see it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any


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
