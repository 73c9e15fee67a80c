"""Standard output and error that take no more: the run goes on for its files, or ends, and no write of its own ends it."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import TextIO

import pytest

from benchgraph.cli import main
from benchgraph.harness.standard_streams import enduring, lost
from tests.support.written_reports import saved_cases

CASES = ["--graph", "--case=mlp.json", "--case=mlp.json"]
FULL = "benchgraph: standard output: cannot write there: No space left on device; make room there, or send it elsewhere\n"


@pytest.fixture(params=["closed", "full"])
def out(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[TextIO]:
    """Standard output: a pipe that nobody reads, or a disk without room."""
    monkeypatch.chdir(tmp_path)
    reader, writer = os.pipe()
    os.close(reader)
    with open(writer, "w") as pipe, Path("/dev/full").open("w") as full:
        yield pipe if request.param == "closed" else full


def ended(*words: str) -> int:
    """The exit code of the command."""
    with pytest.raises(SystemExit) as left:
        main(words)
    assert isinstance(left.value.code, int)
    return left.value.code


def test_a_run_without_standard_output_continues_for_its_files(out: TextIO, capfd: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    with redirect_stdout(out):
        reports = {"json": "json", "html": "html", "csv": "csv", "markdown": "md", "junit": "xml"}
        assert ended("--mode=I", *(f"--report={name}:o.{suffix}" for name, suffix in reports.items()), *CASES) == 1
    assert capfd.readouterr().err == (FULL if "full" in str(out.name) else "")
    assert len(saved_cases(tmp_path / "o.json")) == 2
    assert "cut short" not in (tmp_path / "o.html").read_text()
    assert all((tmp_path / f"o.{suffix}").stat().st_size for suffix in reports.values())
    assert not list(tmp_path.glob("benchgraph-unsaved-*"))


def test_a_run_without_files_stops(out: TextIO, capfd: pytest.CaptureFixture[str]) -> None:
    with redirect_stdout(out):
        assert ended("-v", "--mode=I", *CASES) == 1
    told = capfd.readouterr().err
    assert told.count("run: ") == 1
    assert told.endswith(FULL) == ("full" in str(out.name))


def test_stderr_that_takes_no_more_loses_nothing_else(capsys: pytest.CaptureFixture[str]) -> None:
    with Path("/dev/full").open("w") as full, redirect_stderr(full):
        assert ended("-v", "--mode=I", *CASES) == 0
    assert "tests:2 passed:2 " in capsys.readouterr().out


def test_a_pipe_that_does_not_block_gets_everything() -> None:
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    text = "x" * 200_000  # more than it holds
    child = os.fork()
    if not child:
        os.close(writer)
        with open(reader) as pipe:
            os._exit(0 if pipe.read() == text else 1)
    with open(writer, "w") as pipe, redirect_stdout(pipe), enduring("stdout"):
        print(text, end="", flush=True)
        assert lost(sys.stdout) is None
    os.close(reader)
    assert os.waitpid(child, 0)[1] == 0
