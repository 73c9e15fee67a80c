"""The example lines of `benchgraph --help`: each is understood by the command that it shows. What the command does then is left out."""

import re
from collections.abc import Iterator
from inspect import cleandoc
from pathlib import Path

import pytest
from click.testing import CliRunner

from benchgraph.cli import main
from benchgraph.core.errors import BenchgraphError
from tests.harness.fake_library import Clock, FakeLibrary, fake_bench

# What each command calls once it has understood its words; a line without a command is a run
WORK = {
    "": "benchgraph.cli.run_line",
    "ops": "benchgraph.harness.ops_table.in_full",
    "history": "benchgraph.harness.history.command.Database",
    "regressions": "benchgraph.harness.history.command.Database",
    "explain": "benchgraph.harness.problem.Problem.graph",
    "compile-times": "benchgraph.harness.compile_times._in_new_process",
    "show": "benchgraph.harness.problem.Problem.graph",
    "compare": "benchgraph.harness.compare.command.read",
    "report": "benchgraph.harness.page.command._run",
    "tune": "benchgraph.harness.problem.Problem.graph",
    "fuzz": "benchgraph.cli.run_line",
}
STANDS_FOR = {"S": "1", "N": "1", "I": "1", "MAX": "1", "T": "1"}  # other names in capitals are values as they are


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where there are no such files."""
    monkeypatch.chdir(tmp_path)


def examples(text: str) -> Iterator[list[str]]:
    """The words of each line `benchgraph ...` with all that is optional: the first of alternatives, one of what may be repeated.

    What eight spaces set apart says what it does; a line that is indented goes on with the words if it begins with a bracket.
    """
    lines = re.findall(r"^benchgraph (.*(?:\n +\[.*)*)", text, re.MULTILINE)
    for line in ("\n".join(part.strip().partition(" " * 8)[0] for part in line.split("\n")) for line in lines):
        plain = re.sub(r"(?<=\w)\[[^]]*\]|\[OPTIONS\]|\.\.\.", "", line)  # A.json[,A2.json...] -> A.json
        first = re.sub(r"\|\w+", "", plain.replace("--policy=P", "--policy=fused")).translate(str.maketrans("", "", "[]"))
        yield [re.sub(r"(?<==)[A-Z]+$|^[A-Z]$", lambda name: STANDS_FOR.get(name[0], name[0]), word) for word in first.split()]


def command_of(words: list[str]) -> str:
    return "" if words[0].startswith("-") else words[0]


def is_understood(words: list[str], monkeypatch: pytest.MonkeyPatch) -> bool:
    """Whether the command gets to its work."""
    reached = list[object]()

    def stop(*given: object, **named: object) -> None:
        reached.append(given)
        raise BenchgraphError("understood")

    with monkeypatch.context() as patch:
        patch.setattr(WORK[command_of(words)], stop)
        CliRunner().invoke(main, words, obj=fake_bench(FakeLibrary(Clock())))
    return bool(reached)


HELP = cleandoc(main.help or "")
LINES = list(examples(HELP))


def test_every_command_has_a_line() -> None:
    assert {command_of(words) for words in LINES} == set(WORK)
    assert len(LINES) == HELP.count("\nbenchgraph ")


@pytest.mark.parametrize("words", LINES, ids=" ".join)
def test_a_line_is_understood(words: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    assert is_understood(words, monkeypatch)


@pytest.mark.parametrize("words", LINES, ids=" ".join)
def test_a_line_with_an_option_that_nobody_knows_is_not(words: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    assert not is_understood([*words, "--caze=x"], monkeypatch)
    for i, word in enumerate(words):
        if word.startswith("--") and "=" in word:
            assert not is_understood([*words[:i], word.replace("=", "e="), *words[i + 1 :]], monkeypatch), word


def test_lines_are_read_with_all_that_is_optional() -> None:
    text = "benchgraph cut A.json[,B.json...] [-n N]\n      [--as=x|y[:FILE]] [C.json ...]        --no=t, what\n      it does\nbenchgraph x"
    assert list(examples(text)) == [["cut", "A.json", "-n", "1", "--as=x", "C.json"], ["x"]]
