"""What the system does not give: threads, processes, names that it can find. Each is a line, or done without."""

from __future__ import annotations

import errno
import os
import threading
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from benchgraph.cli import main
from benchgraph.compile import compile_partition
from benchgraph.core import child_process
from benchgraph.core.config import override
from benchgraph.core.errors import BenchgraphError, InvalidArguments
from benchgraph.graph import Graph, GraphBuilder, save
from benchgraph.measure.streams import Streams
from benchgraph.onednn.session import Refused, load
from benchgraph.partition.ir import Policy
from benchgraph.partition.partitioner import partitions

CASE = ("--graph", "--case=relu.json")
LONG = "x" * 5000


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    save(relu(), tmp_path / "relu.json")


def relu() -> Graph:
    b = GraphBuilder()
    b.op("ReLU", b.input((16,)))
    return b.graph()


def run(*words: str) -> Result:
    return CliRunner().invoke(main, words)


@pytest.fixture
def threadless(monkeypatch: pytest.MonkeyPatch) -> None:
    """No thread starts, as under `ulimit -u`."""

    def start(self: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", start)


@pytest.mark.usefixtures("threadless")
def test_a_case_on_one_thread_needs_no_other() -> None:
    done = run("--threads=1", *CASE)
    assert (done.exit_code, "0:PASSED" in done.stdout) == (0, True), done.output


@pytest.mark.usefixtures("threadless")
@pytest.mark.parametrize("words", [("--threads=29", *CASE), ("--framework", "--callers=3", "--threads=1", "--case=relu.json")])
def test_threads_that_do_not_start_are_a_reason(words: tuple[str, ...]) -> None:
    """29, because other tests leave pools of few behind."""
    done = run(*words)
    assert (done.exit_code, "run with -v for the traceback" in done.stdout) == (1, False)
    assert "this system " in done.stdout


def test_callers_beyond_what_a_machine_can_start_are_a_reason() -> None:
    done = run("--framework", f"--callers={'9' * 30}", "--case=relu.json")
    assert (done.exit_code, "this system does not let 999999999999999999999999999999 threads start" in done.stdout) == (1, True)


@pytest.mark.usefixtures("threadless")
def test_streams_need_a_thread_each() -> None:
    with pytest.raises(InvalidArguments, match="this system lets only 0 of 2 threads of streams start; ask for fewer streams"):
        Streams([None, None])  # type: ignore[list-item]


def test_more_streams_than_threads_are_refused_before_the_machine_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("benchgraph.harness.session.machine_of", lambda line, bench: pytest.fail("it is measured"))
    done = run("--mode=P", "--num-streams=100000", *CASE)
    assert done.exit_code == 2
    assert "a stream takes one at least; ask for fewer streams" in done.stderr


def test_a_process_that_does_not_start_is_no_library(monkeypatch: pytest.MonkeyPatch) -> None:
    def start(*given: Any, **named: Any) -> None:
        raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))

    monkeypatch.setattr(child_process, "Popen", start)
    Path("libdnnl.so.3").touch()
    done = run("--library=onednn:libdnnl.so.3", *CASE)
    assert (done.exit_code, done.output.count("\n")) == (2, 1)
    assert "no process can be started for it: Resource temporarily unavailable; end other processes" in done.stderr


def test_a_library_for_another_machine_says_so() -> None:
    header = bytearray(Path("/proc/self/exe").read_bytes()[: 1 << 16])
    header[18:20] = b"\xf3\x00" if header[18] != 0xF3 else b"\x3e\x00"  # e_machine: RISC-V, or x86-64
    Path("libdnnl.so.3").write_bytes(header)
    with pytest.raises(Refused, match=r"libdnnl\.so\.3 cannot be loaded: it is for another machine"):
        load(str(Path("libdnnl.so.3").resolve()))


@pytest.mark.parametrize("path", [LONG, "circle/x"])
@pytest.mark.parametrize(
    "words",
    [
        *((option, *CASE) for option in ("--resume=", "--report=csv:", "--tuning=", "--dump-dir=", "--library=onednn:")),
        *(("compare", "", ""), ("render", ""), ("merge", ""), ("history", "--history="), ("history", "--add=")),
        *(("show", *CASE, "-o="), ("tune", *CASE, "--store=")),
    ],
    ids=" ".join,
)
def test_names_that_lead_nowhere_are_one_line(words: tuple[str, ...], path: str) -> None:
    Path("circle").symlink_to("circle")
    done = run(*(f"{word}{path}" if word == "" or word.endswith(("=", ":")) else word for word in words))
    assert (done.exit_code, done.output.count("\n")) == (2, 1), done.output


@pytest.mark.parametrize("path", ["~nobody-of-this-name/x", "circle", LONG])
def test_a_library_that_cannot_be_named_is_one_line(path: str) -> None:
    Path("circle").symlink_to("circle")
    with override(onednn=path):
        done = run("--library=onednn", *CASE)
    assert (done.exit_code, done.output.count("\n")) == (2, 1), done.output
    assert done.output.startswith("benchgraph: --library=onednn: BENCHGRAPH_ONEDNN: ")


def test_a_folder_for_dumps_is_tried_first() -> None:
    with override(dump_dir="/dev/null/x"):
        done = run("--mode=I", *CASE)
    what = "benchgraph: BENCHGRAPH_DUMP_DIR=/dev/null/x: cannot write the file: Not a directory; name another one\n"
    assert (done.exit_code, done.output) == (2, what)


def test_a_dump_that_cannot_be_written_is_a_reason() -> None:
    with override(dump_dir="/dev/null/x"), pytest.raises(BenchgraphError, match="/dev/null/x: cannot write the dump: Not a directory"):
        compile_partition(partitions(relu(), Policy.fused)[0])
