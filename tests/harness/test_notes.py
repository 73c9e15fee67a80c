"""What libraries say about their partitions and chains is kept in results."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from benchgraph.cli import main
from benchgraph.results.json_report import parse
from benchgraph.results.result import Result
from tests.support.fake_library import Clock, FakeLibrary, fake_bench


def result(*words: str) -> Result:
    bench = fake_bench(FakeLibrary(Clock(), note="numpy executes it"))
    CliRunner().invoke(main, [*words, "--report=json:out.json", "--graph", "--expected-n-partitions=0", "--case=mlp.json"], obj=bench)
    return parse(Path("out.json").read_text()).cases[0].result


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_mode_c_notes_what_is_said_of_a_partition() -> None:
    assert result("--policy=fused").notes == ("fused: numpy executes it",)


def test_mode_p_warns_of_it_and_notes_what_is_said_of_the_chain() -> None:
    measured = result("--mode=P", "--policy=fused", "--fix-times-per-prb=1")
    assert "fused: numpy executes it" in measured.warnings
    assert measured.notes == ("fused: 1 steps",)
