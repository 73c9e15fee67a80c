"""Databases to keep histories in: a file, and a database of a PostgreSQL server."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return str(tmp_path / "h.db") if request.param == "sqlite" else str(request.getfixturevalue("postgresql"))
