"""The progress line, which is shown on a terminal only."""

from __future__ import annotations

import fcntl
import io
import os
import pty
import re
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import click
import pytest

from benchgraph.core.progress import Step, begin_item, progress_sent_to, report_progress
from benchgraph.present import progress as module
from benchgraph.present.progress import ERASE, erasing, progress_line
from tests.support.processes import LISTEN


class Terminal(io.StringIO):
    """Something that says it is a terminal; what was written to it."""

    encoding = "utf-8"
    errors = "strict"

    def isatty(self) -> bool:
        return True


def terminal_of(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    """In place of stdout and stderr, 80 columns wide; pytest would take it away from a fixture."""
    made = Terminal()
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setattr(sys, "stderr", made)
    monkeypatch.setattr(sys, "stdout", made)
    return made


def test_a_terminal_of_any_width_gets_a_line(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = terminal_of(monkeypatch)
    monkeypatch.setenv("COLUMNS", "1000000000")
    with progress_line("cases", 2, is_measuring=True):
        begin_item("mlp.json")
    assert 0 < len(terminal.getvalue()) < 10_000


def screen(text: str, width: int = 80) -> list[str]:
    """What a terminal shows of it: the codes that rich writes, and lines that are too long go on in the next."""
    rows, row, column = [""], 0, 0
    i = 0
    while i < len(text):
        if text[i] == "\x1b":
            end = next(j for j in range(i + 2, len(text)) if text[j].isalpha())
            code, i = text[i + 2 : end + 1], end + 1
            if code == "2K":
                rows[row] = ""
            elif code.endswith("A"):
                row -= int(code[:-1] or 1)
            else:
                assert code.endswith(("m", "h", "l")), code
            continue
        if text[i] == "\r":
            column = 0
        elif text[i] == "\n":
            row, column = row + 1, 0
        else:
            if column == width:
                row, column = row + 1, 0
            while len(rows) <= row:
                rows.append("")
            rows[row] = rows[row][:column].ljust(column) + text[i] + rows[row][column + 1 :]
            column += 1
        while len(rows) <= row:
            rows.append("")
        i += 1
    return [line.rstrip() for line in rows]


def test_a_step_names_a_total_only_where_there_is_one() -> None:
    steps = {
        "measure 4.3/12.0 s": Step("", "measure", 4.3, 12.0, "s"),
        "measure 4.3 s": Step("", "measure", 4.3, 0.0, "s"),
        "measure 4.4 s": Step("", "measure", 4.4, 0.003, "s"),  # a budget of nothing, in tenths
        "measure 4/9": Step("", "measure", 4, 9),
        "load: mlp.json": Step("mlp.json", "load"),
    }
    assert {text: str(step) for text, step in steps.items()} == {text: text for text in steps}


def test_steps_go_to_the_innermost_watcher_alone() -> None:
    outer, inner = list[Step](), list[Step]()
    report_progress("nothing")  # nobody watches
    with progress_sent_to(outer.append):
        begin_item("a")
        report_progress("compile", 1, 3)
        with progress_sent_to(inner.append):
            report_progress("measure", 0.25, 2.0, "s")
    assert [str(step) for step in outer] == ["a", "compile 1/3: a"]
    assert [str(step) for step in inner] == ["measure 0.2/2.0 s"]


def test_output_appears_above_the_line_which_disappears_at_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = terminal_of(monkeypatch)
    long = "0:PASSED (1 ms) __REPRO: " + "--graph --case=long.json " * 6
    with progress_line("cases", 2, is_measuring=True) as step:
        begin_item("--graph --case=a.json")
        report_progress("compile", 3, 15)
        assert screen(terminal.getvalue())[-1].endswith(" 0/2 cases 0:00:00 compile 3/15: --graph --case=a.json")
        click.echo(long)
        click.echo("to stderr", err=True)
        step()
        report_progress("measure")
        assert screen(terminal.getvalue())[-1].endswith(" 1/2 cases 0:00:00 measure: --graph --case=a.json")
    click.echo("after")
    shown = screen(terminal.getvalue())
    assert shown == [*(long[i : i + 80].rstrip() for i in range(0, len(long.rstrip()), 80)), "to stderr", "after", ""]
    assert long + "\n" in terminal.getvalue()  # in one piece, to be copied
    assert (sys.stdout, sys.stderr) == (terminal, terminal)


def test_the_line_fits_the_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = terminal_of(monkeypatch)
    with progress_line("cases", 2, is_measuring=True):
        begin_item("--graph --case=" + "x" * 200)
        report_progress("compile", 1, 2)
        (line,) = filter(None, screen(terminal.getvalue()))
        assert len(line) == 80
        assert "compile 1/2: --graph" in line
        assert line.endswith("…")


def test_codes_in_the_name_of_a_case_do_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = terminal_of(monkeypatch)
    with progress_line("cases", 2, is_measuring=True):
        begin_item("\x1b[2Ja.json")
        report_progress("load")
        assert "\x1b[2J" not in terminal.getvalue()
        assert "load: \\x1b[2Ja.json" in screen(terminal.getvalue())[-1]


def test_output_to_a_file_does_not_depend_on_the_progress_line(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = terminal_of(monkeypatch)
    monkeypatch.setattr(sys, "stdout", file := io.StringIO())
    with progress_line("cases", 2, is_measuring=True):
        begin_item("a")
        click.echo("0:PASSED")
        print("1:PASSED")
    assert file.getvalue() == "0:PASSED\n1:PASSED\n"
    assert "PASSED" not in terminal.getvalue()


def test_without_a_terminal_there_is_no_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", file := io.StringIO())
    with progress_line("cases", 2):
        begin_item("a")
        report_progress("compile")
    assert file.getvalue() == ""


def test_the_line_is_cleared_by_an_interrupt_too(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = terminal_of(monkeypatch)

    def work() -> None:
        with progress_line("cases", 2, is_measuring=True):
            begin_item("a")
            assert erasing() == ERASE
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        work()
    assert erasing() == b""
    assert screen(terminal.getvalue()) == [""] * 2
    assert terminal.getvalue().rindex("\x1b[?25h") > terminal.getvalue().rindex("\x1b[?25l")


def test_one_item_is_shown_when_it_lasts(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = terminal_of(monkeypatch)
    monkeypatch.setattr(module, "DELAY_S", 0.0)
    with progress_line():
        begin_item("a")
        wait_for(lambda: "a" in terminal.getvalue())
    assert screen(terminal.getvalue()) == [""] * 2


def wait_for(condition: Callable[[], bool]) -> None:
    for _ in range(2000):
        if condition():
            return
        time.sleep(0.01)
    pytest.fail("in vain")


def test_during_measurements_the_line_is_drawn_only_at_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """No thread that takes time from the samples, and steps of one kind are not all drawn."""
    terminal = terminal_of(monkeypatch)
    with progress_line("cases", 2, is_measuring=True):
        begin_item("a")
        report_progress("measure", 0)
        before = terminal.getvalue()
        for i in range(100):
            report_progress("measure", i, 100)
        assert terminal.getvalue() == before
        report_progress("compare")
        assert terminal.getvalue() != before


def colourless(text: str) -> str:
    return re.sub(r"\x1b\[[\d;]*m", "", text)


# ---- the whole program on a real terminal ----------------------------------------------------------------------------


@contextmanager
def on_terminal(words: list[str], folder: Path, **how: object) -> Iterator[tuple[subprocess.Popen[bytes], Callable[[], str]]]:
    """The program on a terminal of 80 columns, and what that was given so far."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 50, 80, 0, 0))
    env = {k: v for k, v in os.environ.items() if k not in ("COLUMNS", "NO_COLOR", "FORCE_COLOR")} | {"TERM": "xterm"}
    streams = {"stdin": theirs, "stdout": theirs, "stderr": theirs} | how
    command = [sys.executable, "-c", f"{LISTEN}; from benchgraph.__main__ import main; main()", *words]
    process = subprocess.Popen(command, cwd=folder, env=env, start_new_session=True, **streams)  # type: ignore[call-overload]
    os.close(theirs)
    os.set_blocking(ours, False)
    given = bytearray()

    def read() -> str:
        try:
            while some := os.read(ours, 65536):
                given.extend(some)
        except OSError:  # nothing more for now, or ever
            pass
        return given.decode()

    try:
        yield process, read
    finally:
        process.kill()
        process.wait()
        if process.stdout is not None:
            process.stdout.close()
        os.close(ours)


@pytest.mark.parametrize("jobs", [[], ["--jobs=2"]])
def test_a_batch_shows_its_cases_and_leaves_its_status_lines(tmp_path: Path, jobs: list[str]) -> None:
    words = ["-v", *jobs, "--graph", "--mb=1,2,3", "--case=mlp.json"]
    with on_terminal(words, tmp_path) as (process, read):
        wait_for(lambda: bool(read()) and process.poll() is not None)
        text = read()
    assert "/3 cases" in colourless(text)
    shown = screen(text)
    assert not any("/3 cases" in line for line in shown)
    joined = "".join(line.ljust(80) if len(line) == 80 else line + "\n" for line in shown)
    for mb in (1, 2, 3):
        assert f"__REPRO: --graph --mb={mb} --case=mlp.json\n" in joined
    assert process.returncode == 0


def test_a_pipe_gets_the_same_bytes_with_a_terminal_beside_it(tmp_path: Path) -> None:
    words = ["--mode=L", "--graph", "--mb=1,2,3", "--case=mlp.json"]
    with on_terminal(words, tmp_path, stdout=subprocess.PIPE) as (process, read):
        assert process.stdout is not None
        piped = process.stdout.read().decode()
        wait_for(lambda: process.poll() is not None)
        text = read()
    alone = subprocess.run([sys.executable, "-m", "benchgraph", *words], cwd=tmp_path, capture_output=True, text=True, check=True)

    def timeless(said: str) -> list[str]:
        return [line.partition("(")[0] + line.partition(")")[2] for line in said.splitlines() if not line.startswith("total:")]

    assert timeless(piped) == timeless(alone.stdout)
    assert (alone.stderr, "/3 cases" in colourless(text), "LISTED" in text) == ("", True, False)


def test_ctrl_c_clears_the_line_and_reports(tmp_path: Path) -> None:
    words = ["--mode=P", "--max-ms-per-prb=60000", "--policy=fused", "--graph", "--mb=1,2", "--case=mlp.json"]
    with on_terminal(words, tmp_path) as (process, read):
        wait_for(lambda: "peaks" in read())
        os.kill(process.pid, signal.SIGINT)
        wait_for(lambda: bool(read()) and process.poll() is not None)
        shown = screen(read())
    assert process.returncode == 130
    assert "interrupted after 0 of 2 cases" in shown
    assert not any("0/2 cases" in line for line in shown)
