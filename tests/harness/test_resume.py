"""--resume: an interrupted run goes on where it was."""

from __future__ import annotations

import errno
import json
import os
import re
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from benchgraph.cli import main
from benchgraph.harness import session
from benchgraph.results.growing_report import GrowingReport
from benchgraph.results.json_report import is_whole
from tests.support.fake_library import Clock, FakeLibrary, fake_bench
from tests.support.misbehaving_library import write_cases

WORDS = ["--graph", "--seed=1,2,3", "--case=good.json", "--mode=L", "--seed=1", "--case=good.json"]
REPROS = [f"--seed={n} --graph --case=good.json" for n in (1, 2, 3)] + ["--mode=L --seed=1 --graph --case=good.json"]


@pytest.fixture(autouse=True)
def cases(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    write_cases(tmp_path)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(*words: str, library: FakeLibrary | None = None) -> tuple[Result, list[str]]:
    """The run, and the repro lines of what it really ran."""
    result = CliRunner().invoke(main, ["-v", *words], obj=fake_bench(library or FakeLibrary(Clock())), prog_name="benchgraph")
    return result, re.findall(r"^run: (.*)$", result.stderr, re.MULTILINE)


def saved_repros(file: str) -> list[str]:
    return [c["repro"] for c in json.loads(Path(file).read_text())["cases"]]


def keep(file: str, *kept: int) -> None:
    """Leave of a report what an interrupted run would have left: some cases, in the order in which they finished."""
    document = json.loads(Path(file).read_text())
    document["cases"] = [document["cases"][n] for n in kept]
    lines = ",".join("\n" + json.dumps(c) for c in document.pop("cases"))
    tail = {name: document.pop(name) for name in ("elapsed_s", "summary")}
    Path(file).write_text(f'{json.dumps(document)[:-1]}, "cases": [{lines}\n], {json.dumps(tail)[1:]}\n')


def test_the_first_run_starts_the_file() -> None:
    result, ran = run(*WORDS, "--resume=out.json")
    assert result.stdout.startswith("out.json: no such file yet; all 4 cases run\n0:PASSED ")
    assert ran == REPROS
    assert saved_repros("out.json") == REPROS
    assert "json report: out.json\n" in result.stdout


def test_a_file_that_does_not_exist_yet_is_reported() -> None:
    first, again = (run("--resume=misspelt.json", *WORDS)[0].output.splitlines()[0] for _ in range(2))
    assert first == "misspelt.json: no such file yet; all 4 cases run"
    assert again == "misspelt.json: 4 of 4 cases are done already"


def test_finished_cases_are_counted_and_reported_but_not_run() -> None:
    whole, _ = run(*WORDS, "--report=json:out.json")
    keep("out.json", 3, 1)
    resumed, ran = run(*WORDS, "--resume=out.json")
    assert ran == [REPROS[0], REPROS[2]]
    assert resumed.stdout.startswith("out.json: 2 of 4 cases are done already\n")
    assert re.findall(r"^\d+:.*|^tests:.*", resumed.stdout, re.MULTILINE) == re.findall(r"^\d+:.*|^tests:.*", whole.stdout, re.MULTILINE)
    assert saved_repros("out.json") == REPROS
    assert resumed.exit_code == 0


def test_nothing_runs_when_all_is_done_and_failures_still_count() -> None:
    spoiled = FakeLibrary(Clock(), spoil=lambda kind, array: array + 1)
    first, _ = run(*WORDS, "--report=json:out.json", library=spoiled)
    again, ran = run(*WORDS, "--resume=out.json")
    assert ran == []
    assert "failed:3" in again.stdout
    assert (first.exit_code, again.exit_code) == (1, 1)


def test_the_same_case_twice_is_two_results() -> None:
    run(*WORDS, "--report=json:out.json")
    keep("out.json", 0)
    result, ran = run("--graph", "--seed=1,1", "--case=good.json", "--resume=out.json")
    assert ran == [REPROS[0]]
    assert "tests:2 passed:2" in result.stdout


def test_a_torn_last_line_is_run_again() -> None:
    run(*WORDS, "--report=json:out.json")
    text = Path("out.json").read_text()
    Path("out.json").write_text(text[: text.index('"index": 2') + 30])
    _, ran = run(*WORDS, "--resume=out.json")
    assert ran == REPROS[2:]
    assert saved_repros("out.json") == REPROS


def test_a_case_whose_file_has_changed_is_run_again() -> None:
    run(*WORDS, "--report=json:out.json")
    later = Path("out.json").stat().st_mtime + 1
    os.utime("good.json", (later, later))
    _, ran = run(*WORDS, "--resume=out.json")
    assert ran == REPROS


def test_results_are_on_disk_as_soon_as_there_are_any() -> None:
    seen = []

    class Looking(FakeLibrary):
        def partitions(self, graph, policy):  # type: ignore[no-untyped-def]
            seen.append(saved_repros("out.json"))
            return super().partitions(graph, policy)

    run(*WORDS, "--report=json:out.json", library=Looking(Clock()))
    assert seen == [REPROS[:n] for n in range(3)]


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('"isa": "', '"isa": "x', r"instruction set was x\w+, is \w+"),
        ('"source": "', '"source": "x', r"benchgraph's code was x\w+, is \w+"),
        ('"numpy": "', '"numpy": "0.', r"numpy was 0\.[\d.]+, is [\d.]+"),
    ],
)
def test_results_of_another_machine_or_code_are_not_mixed_in(old: str, new: str, message: str) -> None:
    run(*WORDS, "--report=json:out.json")
    text = Path("out.json").read_text().replace(old, new)
    Path("out.json").write_text(text)
    result, ran = run(*WORDS, "--resume=out.json")
    assert re.fullmatch(
        rf"benchgraph: --resume=out\.json: its results come from elsewhere: {message}; run the cases anew into another file\n",
        result.stderr,
    )
    assert (ran, result.stdout, result.exit_code) == ([], "", 2)
    assert Path("out.json").read_text() == text


@pytest.mark.parametrize("identity", ['"host": "', '"cpu": "', '"cpuid": "'])
def test_verdicts_of_another_machine_are_taken_over_and_say_so(identity: str) -> None:
    run(*WORDS, "--report=json:out.json")
    keep("out.json", 3, 1)
    Path("out.json").write_text(Path("out.json").read_text().replace(identity, f"{identity}other ", 1))
    result, ran = run(*WORDS, "--resume=out.json")
    assert (ran, result.exit_code) == ([REPROS[0], REPROS[2]], 0)
    assert result.stdout.startswith("out.json: 2 of 4 cases are done already, 2 of them on another machine\n")
    document = json.loads(Path("out.json").read_text())
    (other,) = document["machines"]
    assert [case.get("machine") for case in document["cases"]] == [None, other, None, other]
    assert run(*WORDS, "--resume=out.json")[0].stdout.startswith("out.json: 4 of 4 cases are done already, 2 of them")


TIMED = ["--graph", "--mode=P", "--fix-times-per-prb=2", "--case=good.json", "--seed=1", "--case=good.json"]


@pytest.mark.parametrize(("identity", "what"), [('"cpu": "', "CPU was other .*, is .*"), ('"cpuid": "', "cpuid was other .*, is .*")])
def test_times_of_another_kind_of_machine_are_refused(identity: str, what: str) -> None:
    run(*TIMED, "--report=json:out.json")
    keep("out.json", 0)
    text = Path("out.json").read_text().replace(identity, f"{identity}other ", 1)
    Path("out.json").write_text(text)
    result, ran = run(*TIMED, "--resume=out.json")
    fix = "run the cases anew into another file"
    assert re.fullmatch(rf"benchgraph: --resume=out\.json: its results come from elsewhere: {what}; {fix}\n", result.stderr)
    assert (ran, result.exit_code, Path("out.json").read_text()) == ([], 2, text)


def test_times_of_another_host_of_this_kind_are_taken_over() -> None:
    run(*TIMED, "--report=json:out.json")
    keep("out.json", 0)
    Path("out.json").write_text(Path("out.json").read_text().replace('"host": "', '"host": "other-', 1))
    result, ran = run(*TIMED, "--resume=out.json")
    assert (len(ran), result.exit_code) == (1, 0)
    document = json.loads(Path("out.json").read_text())
    assert [case.get("machine") for case in document["cases"]] == [*document["machines"], None]


def test_a_verdict_of_a_timed_run_holds_elsewhere_too() -> None:
    """Where a case that was skipped is all that another machine has done."""
    words = [*TIMED, "--mode=L", "--seed=2", "--case=good.json"]
    run(*words, "--report=json:out.json")
    keep("out.json", 2)
    Path("out.json").write_text(Path("out.json").read_text().replace('"cpu": "', '"cpu": "other ', 1))
    assert run(*words, "--resume=out.json")[0].exit_code == 0


def test_a_file_that_is_no_report_is_refused_and_stays() -> None:
    text = Path("good.json").read_text()
    result, ran = run(*WORDS, "--resume=good.json")
    message = "benchgraph: --resume=good.json: not a JSON report of benchgraph; give a file that --report=json:FILE wrote\n"
    assert (result.stderr, ran, result.exit_code) == (message, [], 2)
    assert Path("good.json").read_text() == text


def test_a_folder_is_refused() -> None:
    result, _ = run(*WORDS, "--resume=.")
    assert result.stderr == "benchgraph: --resume=.: cannot write the file: Is a directory; name another one\n"
    assert result.exit_code == 2


def test_a_full_disk_ends_the_keeping_and_not_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(self: GrowingReport, case: object, elapsed_s: float) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(GrowingReport, "add", full)
    result, _ = run(*WORDS, "--report=json:out.json")
    fix = "make room there before the run ends, when all of them are written"
    assert result.stderr.count(f"benchgraph: out.json: cannot keep further results there: No space left on device; {fix}\n") == 1
    assert "tests:4 passed:3" in result.stdout
    assert saved_repros("out.json") == REPROS


def test_a_disk_that_fills_up_keeps_earlier_results(monkeypatch: pytest.MonkeyPatch) -> None:
    """Half of the third line fits, the rest does not. At the end there is no room for the report either."""
    write, no_room = os.pwrite, OSError(errno.ENOSPC, "No space left on device")
    cut = list[bytes]()

    def fills_up(file: int, data: bytes, at: int) -> int:
        if cut and data == cut[-1]:
            raise no_room
        half = len(data) // 2 if REPROS[2].encode() in data else len(data)
        cut.append(data[half:])
        return write(file, data[:half], at)

    def full(path: Path, text: str) -> None:
        raise no_room

    monkeypatch.setattr(os, "pwrite", fills_up)
    monkeypatch.setattr(session, "write_whole", full)
    result, _ = run(*WORDS, "--report=json:out.json")
    fix = "make room there, then --resume=out.json runs what is missing; it is in benchgraph-unsaved-"
    assert f"benchgraph: --report=json:out.json: cannot write the file: No space left on device; {fix}" in result.stderr
    assert result.exit_code == 1
    assert is_whole(Path("out.json").read_text())
    assert saved_repros("out.json") == REPROS[:2]


def test_the_phases_are_those_that_ran() -> None:
    run(*WORDS, "--report=json:out.json")
    keep("out.json", 0, 1)
    result, _ = run(*WORDS, "--resume=out.json")
    assert "compile        0.500 s  98.8%\n" in result.stdout


def test_reports_to_the_terminal_and_to_devices_do_not_grow() -> None:
    result, _ = run("--graph", "--report=json", f"--report=json:{os.devnull}", "--case=good.json")
    document = result.stdout[result.stdout.index("{") : result.stdout.rindex("}") + 1]
    assert len(json.loads(document)["cases"]) == 1
    assert result.exit_code == 0


@pytest.mark.parametrize(
    "words",
    [("--graph", "--case=good.json"), ("--graph", "--seed=1,2", "--case=good.json"), (*WORDS, "--match=seed=2")],
    ids=["none", "some", "match"],
)
def test_a_file_with_cases_that_are_not_asked_for_is_refused_and_stays(words: tuple[str, ...]) -> None:
    run(*WORDS, "--report=json:out.json")
    text = Path("out.json").read_text()
    result, ran = run(*words, "--resume=out.json")
    assert re.fullmatch(
        r"benchgraph: --resume=out\.json: it has \d cases that this line does not ask for, such as '--.*'; they would be lost; "
        r"give it the options of its own run, or name another file\n",
        result.stderr,
    )
    assert (ran, result.stdout, result.exit_code) == ([], "", 2)
    assert Path("out.json").read_text() == text


def test_changed_code_is_reported_even_if_no_case_matches() -> None:
    run(*WORDS, "--report=json:out.json")
    Path("out.json").write_text(Path("out.json").read_text().replace('"source": "', '"source": "x'))
    result, ran = run("--graph", "--case=good.json", "--resume=out.json")
    assert "its results come from elsewhere: benchgraph's code was x" in result.stderr
    assert ran == []


@pytest.mark.parametrize("where", ["machine_of", "begin"])
def test_ctrl_c_before_the_first_case_leaves_the_file_as_it_is(where: str, monkeypatch: pytest.MonkeyPatch) -> None:
    run(*WORDS, "--report=json:out.json")
    text = Path("out.json").read_text()

    def interrupt(*given: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(session, where, interrupt)
    result, _ = run(*WORDS, "--resume=out.json")
    assert Path("out.json").read_text() == text
    assert (result.stdout, result.exit_code) == ("interrupted after 0 of 4 cases\n", 130)


def test_ctrl_c_while_earlier_results_are_printed_loses_none(monkeypatch: pytest.MonkeyPatch) -> None:
    run(*WORDS, "--report=json:out.json")
    keep("out.json", 0, 1, 2)

    def interrupt(*given: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(session.Screen, "take_over", interrupt)
    result, _ = run(*WORDS, "--resume=out.json")
    assert saved_repros("out.json") == REPROS[:3]
    assert result.exit_code == 130


def test_a_report_of_an_interrupted_run_has_a_remark_until_it_is_complete() -> None:
    class Interrupted(FakeLibrary):
        def partitions(self, graph, policy):  # type: ignore[no-untyped-def]
            if len(saved_repros("out.json")) == 2:
                raise KeyboardInterrupt
            return super().partitions(graph, policy)

    told = "out.json: cut short after 2 cases; run the rest with --resume=out.json"
    commands = (("render", "out.json"), ("compare", "out.json", "out.json"), ("history", "--history=h.db", "--add=out.json"))
    result, _ = run(*WORDS, "--report=json:out.json", library=Interrupted(Clock()))
    assert result.exit_code == 130
    assert [told in CliRunner().invoke(main, words).output for words in commands] == [True] * 3
    run(*WORDS, "--resume=out.json")
    assert ["cut short" in CliRunner().invoke(main, words).output for words in commands] == [False] * 3
