"""A process of oneDNN's, faked or real."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from benchgraph.core.errors import BenchgraphError
from benchgraph.onednn import client
from benchgraph.onednn.library import OneDnn


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Path]:
    """The path of a file that stands for oneDNN: fake_server.py answers for it."""
    monkeypatch.setattr(client, "SERVER", "tests.onednn.fake_server")
    file = tmp_path / "libdnnl.so.3"
    file.touch()
    yield file
    client.close_all()


@pytest.fixture
def real() -> Iterator[OneDnn]:
    """The real oneDNN, where there is one."""
    try:
        found = OneDnn()
    except BenchgraphError as bad:
        pytest.skip(str(bad))
    yield found
    client.close_all()
