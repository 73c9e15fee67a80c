"""A child process that dies, hangs or talks rubbish: what its parent is told, and that it is gone. misdeeds.py is the child."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

import pytest

from benchgraph.core import child_process
from benchgraph.core.child_process import CapturedOutput, Child, ChildLost, Program
from benchgraph.core.config import environment
from tests.support.processes import is_gone

PATIENCE_S = 30.0  # for a process to start, or to end, on a busy machine


class Start(Protocol):
    def __call__(self, misdeed: str, *, parent: int = ..., **how: object) -> Child: ...


@pytest.fixture
def start() -> Iterator[Start]:
    """start(misdeed): a process that does it."""
    started = list[Child]()

    def start(misdeed: str, *, parent: int = os.getpid(), **how: object) -> Child:
        started.append(
            Child(Program("tests.core.misdeeds"), misdeed, parent, **{"env": environment({}), "stderr": subprocess.DEVNULL} | how)
        )  # type: ignore[arg-type]
        return started[-1]

    yield start
    for found in started:
        found.kill()
        assert is_gone(found.pid)


def loss(found: Child) -> tuple[str, int]:
    """How it was lost, after which nothing of it is left."""
    assert found.pipe.poll(PATIENCE_S)
    with pytest.raises(ChildLost) as caught:
        found.receive()
    assert is_gone(found.pid)
    assert found.pipe.closed
    return str(caught.value), caught.value.signal


def test_messages_of_any_size_go_there_and_back(start: Start) -> None:
    found = start("echoes")
    for message in (None, {"a": [1.5, "ü"]}, b"x" * (1 << 22)):
        found.send(message)
        assert found.receive() == message
    found.kill()
    assert is_gone(found.pid)


def test_a_child_finds_modules_where_its_parent_does(start: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = Path(__file__).parents[2]
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [str(root), "relative", *sys.path])
    found = start("says_where", env=environment({"SAID": "so"}, PYTHONPATH="/elsewhere"))
    said, path, _, stdin = found.receive()
    assert (said, stdin) == ("so", "")
    assert path[:2] == [str(root), str(tmp_path / "relative")]
    assert "/elsewhere" not in path


def test_ctrl_c_reaches_a_child_only_in_the_parents_group(start: Start) -> None:
    alone, together = start("says_where"), start("says_where", group=None)
    assert alone.receive()[2] == alone.pid
    assert together.receive()[2] == os.getpgid(0)


def test_a_child_inherits_the_given_file_descriptors(start: Start) -> None:
    outlet, inlet = os.pipe()
    found = start("reads", fds=[outlet])
    os.write(inlet, b"by the same number")
    os.close(inlet)
    found.send(outlet)
    assert found.receive() == "by the same number"
    os.close(outlet)


@pytest.mark.parametrize(
    ("misdeed", "how"),
    [
        ("leaves", ("exited with code 3", 0)),
        ("raises", ("exited with code 1", 0)),
        ("dies_in_a_message", ("was killed by SIGSEGV", signal.SIGSEGV)),
    ],
)
def test_the_end_of_a_child_is_described(start: Start, misdeed: str, how: tuple[str, int]) -> None:
    assert loss(start(misdeed)) == how


@pytest.mark.parametrize(("number", "name"), [(signal.SIGKILL, "SIGKILL"), (signal.SIGTERM, "SIGTERM"), (40, "signal 40")])
def test_the_signal_that_killed_a_child_is_named(start: Start, number: int, name: str) -> None:
    found = start("is_killed")
    found.send(number)
    assert loss(found) == (f"was killed by {name}", number)


RUBBISH = {
    "no pickle": (9).to_bytes(4, "big") + b"no pickle",
    "a pickle of what there is not": (len(b"cnowhere\nnothing\n.")).to_bytes(4, "big") + b"cnowhere\nnothing\n.",
    "longer than any memory": b"\xff\xff\xff\xff" + b"\x7f" * 8,
}


@pytest.mark.parametrize("what", RUBBISH)
def test_an_invalid_message_ends_a_child(start: Start, what: str) -> None:
    found = start("writes")
    found.send(RUBBISH[what])
    how, number = loss(found)
    assert how.startswith("sent what cannot be read (")
    assert how.endswith(")")
    assert number == 0


def test_a_child_that_closes_its_pipe_is_ended(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(child_process, "EXIT_S", 0.05)
    assert loss(start("closes")) == ("closed its pipe", 0)


@pytest.mark.parametrize("misdeed", ["hangs", "echoes"])
def test_a_child_that_hangs_or_is_stopped_can_be_killed_twice(start: Start, misdeed: str) -> None:
    found = start(misdeed)
    if misdeed == "echoes":
        found.send("it runs")
        assert found.receive() == "it runs"
        os.kill(found.pid, signal.SIGSTOP)
    assert not found.pipe.poll(0.05)
    found.kill()
    assert is_gone(found.pid)
    found.kill()


def test_sending_to_a_dead_child_is_no_error(start: Start) -> None:
    found = start("leaves")
    assert found.pipe.poll(PATIENCE_S)
    for _ in range(2):
        found.send(b"x" * (1 << 22))
    assert loss(found) == ("exited with code 3", 0)


def test_grandchildren_do_not_hide_the_end_of_a_child(start: Start) -> None:
    found = start("leaves_an_orphan")
    orphan = found.receive()
    try:
        assert loss(found) == ("exited with code 0", 0)
        assert not is_gone(orphan)
    finally:
        os.kill(orphan, signal.SIGKILL)


def test_a_failed_start_leaves_no_file_open(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    before = os.listdir("/proc/self/fd")
    with pytest.raises(FileNotFoundError) as caught:
        start("echoes")
    assert os.listdir("/proc/self/fd") == before
    assert caught


def test_a_child_without_a_parent_ends(start: Start) -> None:
    found = start("hangs", parent=os.getppid())  # not its parent: as if the one that started it had died meanwhile
    assert loss(found) == ("exited with code 1", 0)


ORPHANED = """
import os, signal
from subprocess import DEVNULL
from benchgraph.core.child_process import Child, Program
found = Child(Program("tests.core.misdeeds"), "closes", os.getpid(), env=os.environ, stdout=DEVNULL)
print(found.pid, flush=True)
found.pipe.poll(None)
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_child_does_not_outlive_a_killed_parent() -> None:
    killed = subprocess.run([sys.executable, "-c", ORPHANED], stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parents[2])
    assert killed.returncode == -signal.SIGKILL
    orphan, end = int(killed.stdout), time.monotonic() + PATIENCE_S
    while not is_gone(orphan) and time.monotonic() < end:
        time.sleep(0.01)
    if not is_gone(orphan):
        os.kill(orphan, signal.SIGKILL)
        pytest.fail("it does")


def test_a_fork_of_the_parent_does_not_kill_the_child(start: Start) -> None:
    found = start("echoes")
    fork = os.fork()
    if not fork:
        try:
            found.kill()
        finally:
            os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(fork, 0)[1]) == 0
    found.send("it lives")
    assert found.receive() == "it lives"


def test_output_of_a_child_is_kept_and_taken_once(start: Start) -> None:
    printed = CapturedOutput()
    found = start("prints", stderr=printed.file)
    assert printed.take() == ""
    for text in ("first\n", "a longer second\n", "\N{GREEK SMALL LETTER LAMDA}"):
        found.send(text.encode())
        assert found.receive() == "printed"
        assert printed.take() == text
    found.send(b"last \xff")
    assert found.receive() == "printed"
    found.kill()
    assert printed.take() == "last \N{REPLACEMENT CHARACTER}"
    assert printed.take() == ""
    printed.file.close()
