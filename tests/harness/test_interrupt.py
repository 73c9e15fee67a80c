"""Ctrl-C, as real processes get it."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from click.testing import CliRunner

from benchgraph.cli import main
from benchgraph.harness import interrupt
from benchgraph.harness.interrupt import awaiting, code_of, interruptible
from tests.support.misbehaving_library import write_cases
from tests.support.processes import LISTEN, is_gone
from tests.support.written_reports import saved_cases

ROOT = Path(__file__).parents[2]
PROGRAM = "from benchgraph.cli import main; from tests.support.misbehaving_library import BENCH"
COMMAND = f"{LISTEN}; {PROGRAM}; main(obj=BENCH, prog_name='benchgraph')"
PATIENCE_S = 60  # for things to happen on a busy machine

Start = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """start(words): the command on the misbehaving library, in a process of its own, which is killed after PATIENCE_S."""
    write_cases(tmp_path)
    started, alarms = [], []

    def start(*words: str, setting: str = "") -> subprocess.Popen[str]:
        command = [sys.executable, "-u", "-c", f"{setting}\n{COMMAND}", "--graph", *words]
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        pipe = subprocess.PIPE
        started.append(subprocess.Popen(command, cwd=tmp_path, env=environment, stdout=pipe, stderr=pipe, text=True))
        alarms.append(threading.Timer(2 * PATIENCE_S, started[-1].kill))
        alarms[-1].start()
        return started[-1]

    yield start
    for alarm in alarms:
        alarm.cancel()
        alarm.join()
    for process in started:
        process.kill()
        process.communicate()


def descendants(process: int) -> list[int]:
    """Processes started by this one, directly or not."""
    parents = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            parents[int(stat.parent.name)] = int(stat.read_text().rpartition(")")[2].split()[1])
        except (FileNotFoundError, ProcessLookupError):
            continue
    found = [process]
    for at in found:
        found += [child for child, parent in parents.items() if parent == at]
    return found[1:]


def wait_until(fact: Callable[[], bool]) -> bool:
    """Whether it comes true."""
    end = time.monotonic() + PATIENCE_S
    while not fact() and time.monotonic() < end:
        time.sleep(0.05)
    return fact()


def lines_until(process: subprocess.Popen[str], start: str) -> None:
    """Read stdout up to a line that starts so."""
    assert process.stdout
    assert any(line.startswith(start) for line in process.stdout)


def test_ctrl_c_reports_finished_cases_and_ends_all_processes(start: Start) -> None:
    process = start("--jobs=2", "--case=good.json", "--case=native_hang.json", "--case=starts_a_process.json", "--case=good.json")
    lines_until(process, "0:PASSED")
    assert wait_until(lambda: len(descendants(process.pid)) == 3)  # two workers, and what the third case starts
    family = descendants(process.pid)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=PATIENCE_S)
    assert out.splitlines()[:-1] == [
        "interrupted after 1 of 4 cases",
        "tests:1 passed:1 skipped:0 mistrusted:0 unimplemented:0 invalid_arguments:0 failed:0 listed:0",
    ]
    assert (err, process.returncode) == ("", 130)
    assert wait_until(lambda: all(is_gone(p) for p in family))


def test_sigterm_ends_a_run_as_ctrl_c_does(start: Start, tmp_path: Path) -> None:
    """Twice at once, as `timeout` sends it."""
    process = start("--jobs=2", "--report=json:o.json", "--report=html:o.html", "--case=good.json", "--case=native_hang.json")
    lines_until(process, "0:PASSED")
    family = descendants(process.pid)
    for _ in range(2):
        process.send_signal(signal.SIGTERM)
    out, err = process.communicate(timeout=PATIENCE_S)
    assert out.splitlines()[:3] == ["json report: o.json", "html report: o.html", "interrupted by SIGTERM after 1 of 2 cases"]
    assert (err, process.returncode) == ("", 143)
    assert len(saved_cases(tmp_path / "o.json")) == 1
    assert "cut short: 1 of 2 cases ran" in (tmp_path / "o.html").read_text()
    assert wait_until(lambda: all(is_gone(p) for p in family))


def test_sigterm_ends_compiled_code_that_hangs(start: Start) -> None:
    process = start("--case=native_hang.json", setting="from benchgraph.harness import interrupt; interrupt.GRACE_S = 0.1")
    lines_until(process, "hangs")
    time.sleep(0.2)  # it says so just before it does
    process.send_signal(signal.SIGTERM)
    _, err = process.communicate(timeout=PATIENCE_S)
    assert (err, process.returncode) == ("interrupted by SIGTERM; compiled code does not return, so reports stay as they are\n", 143)


def test_ctrl_c_shows_results_that_waited_for_one_before_them(start: Start, tmp_path: Path) -> None:
    words = ["--case=native_hang.json", "--seed=1,2,3", "--case=good.json", "--seed=0", "--case=loop.json"]
    process = start("--jobs=2", "--report=json:out.json", *words)
    assert wait_until(lambda: len(saved_cases(tmp_path / "out.json")) == 3)
    process.send_signal(signal.SIGINT)
    out, _ = process.communicate(timeout=PATIENCE_S)
    assert re.findall(r"^(\d)+:PASSED", out, re.MULTILINE) == ["1", "2", "3"]
    assert "json report: out.json\ninterrupted after 3 of 5 cases\ntests:3 passed:3 " in out
    assert len(saved_cases(tmp_path / "out.json")) == 3


def test_a_killed_run_can_be_resumed(start: Start, tmp_path: Path) -> None:
    words = ["--seed=1,2,3", "--case=good.json", "--seed=4", "--case=loop.json", "--seed=5,6", "--case=good.json", "--case=segfault.json"]
    process = start("--jobs=1", "--report=json:out.json", *words)
    assert wait_until(lambda: len(saved_cases(tmp_path / "out.json")) == 3)
    process.kill()
    process.communicate()
    resumed = start("-v", "--jobs=2", "--timeout=1", "--resume=out.json", *words)
    out, err = resumed.communicate(timeout=PATIENCE_S)
    assert re.findall("^run: --seed=(.)", err, re.MULTILINE) == ["4", "5", "6", "5", "6"]
    assert re.findall(r"^\d+:([A-Z]+)", out.partition("===")[0], re.MULTILINE) == [
        *["PASSED"] * 3,
        "FAILED",
        *["PASSED"] * 2,
        *["FAILED"] * 2,
    ]
    assert len(saved_cases(tmp_path / "out.json")) == 8
    assert resumed.returncode == 1


def test_a_second_ctrl_c_ends_even_compiled_code_that_hangs(start: Start) -> None:
    process = start("--case=good.json", "--case=native_hang.json")
    lines_until(process, "hangs")
    time.sleep(0.2)  # it says so just before it does
    process.send_signal(signal.SIGINT)
    assert process.stderr
    assert process.stderr.readline() == "interrupted; waiting for the case to return. Ctrl-C again to stop at once\n"
    assert process.poll() is None
    process.send_signal(signal.SIGINT)
    assert process.wait(PATIENCE_S) == 130


def test_workers_do_not_survive_a_parent_that_is_killed(start: Start) -> None:
    process = start("--jobs=2", "--case=good.json", "--case=native_hang.json", "--case=loop.json")
    lines_until(process, "0:PASSED")
    workers = descendants(process.pid)
    assert len(workers) == 2
    process.kill()
    assert wait_until(lambda: all(is_gone(p) for p in workers))


@pytest.fixture
def listens() -> Iterator[None]:
    """SIGINT and SIGHUP as Python has them, even where these tests run in the background or under nohup."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler), signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    for number, handler in zip((signal.SIGINT, signal.SIGHUP), before, strict=True):
        signal.signal(number, handler)


@pytest.mark.usefixtures("listens")
def test_ctrl_c_is_as_before_outside_the_block() -> None:
    handler, threads = signal.getsignal(signal.SIGINT), threading.active_count()
    with pytest.raises(KeyboardInterrupt), interruptible():
        signal.raise_signal(signal.SIGINT)
    assert (signal.getsignal(signal.SIGINT), threading.active_count()) == (handler, threads)
    assert signal.set_wakeup_fd(-1) == -1


def test_a_handler_of_somebody_else_keeps_ctrl_c(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []
    before = signal.signal(signal.SIGINT, lambda number, frame: seen.append(number))
    try:
        with interruptible():
            signal.raise_signal(signal.SIGINT)
            signal.raise_signal(signal.SIGINT)
    finally:
        signal.signal(signal.SIGINT, before)
    assert seen == [signal.SIGINT] * 2


@pytest.mark.parametrize("module", ["click", "benchgraph.harness.session"])
def test_ctrl_c_while_modules_are_imported_is_one_line(module: str) -> None:
    script = f"""{LISTEN}
import builtins, signal
really = builtins.__import__
def hook(name, *rest):
    if name == {module!r}:
        signal.raise_signal(signal.SIGINT)
    return really(name, *rest)
builtins.__import__ = hook
from benchgraph.__main__ import main
main()
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "benchgraph: interrupted\n")


@pytest.mark.usefixtures("listens")
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_a_signal_is_raised_once_and_has_its_exit_code(number: signal.Signals, code: int) -> None:
    before = signal.getsignal(number)

    def twice() -> None:
        try:
            signal.raise_signal(number)
        finally:
            signal.raise_signal(number)  # while what the first one asked for is being done

    with pytest.raises(KeyboardInterrupt) as raised, interruptible():
        twice()
    assert code_of(raised.value) == code
    assert signal.getsignal(number) == before


def test_sigterm_works_where_ctrl_c_is_ignored() -> None:
    """As in what a shell has in its background."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)

    def both() -> None:
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGTERM)

    try:
        with pytest.raises(KeyboardInterrupt) as raised, interruptible():
            both()
    finally:
        signal.signal(signal.SIGINT, before)
    assert code_of(raised.value) == 143


@pytest.mark.usefixtures("listens")
def test_sighup_that_is_ignored_stays_so() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)  # as nohup does
    try:
        with interruptible():
            signal.raise_signal(signal.SIGHUP)
    finally:
        signal.signal(signal.SIGHUP, before)


@pytest.mark.usefixtures("listens")
def test_a_late_ctrl_c_prints_what_must_end_first(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(interrupt, "PATIENCE_S", 0.0)
    told = list[str]()
    with suppress(KeyboardInterrupt), interruptible(), awaiting("the machine to be measured"):
        try:
            signal.raise_signal(signal.SIGINT)
        finally:
            wait_until(lambda: told.append(capfd.readouterr().err) or bool(told[-1]))
    assert "".join(told) == "interrupted; waiting for the machine to be measured. Ctrl-C again to stop at once\n"


@pytest.mark.usefixtures("listens")
def test_ctrl_c_before_the_first_case_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("benchgraph.cli._need_resources", lambda line, bench: signal.raise_signal(signal.SIGINT))
    done = CliRunner().invoke(main, ["--graph", "--case=mlp.json"])
    assert (done.exit_code, done.stdout, done.stderr) == (130, "", "benchgraph: interrupted\n")
