"""A Dask cluster of processes for tests, and benchgraph as its client."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from benchgraph.cli import main
from benchgraph.core.config import override
from benchgraph.harness.bench import Bench
from tests.fleet.chaos import Cluster
from tests.support.misbehaving_library import BENCH


def run(*words: str, bench: Bench | None = BENCH) -> Result:
    return CliRunner().invoke(main, [*words], obj=bench, prog_name="benchgraph", catch_exceptions=False)


def timeless(text: str) -> str:
    return re.sub(r"\(\d+ ms\)|total: .*s;", "(T)", text)


@contextmanager
def cluster(folder: Path, workers: int = 2) -> Iterator[Cluster]:
    pytest.importorskip("distributed", reason="the extra fleet is not installed")
    with Cluster(folder, workers).up() as up, override(host_lock=str(folder / "host.lock")):
        yield up
