"""Exit codes: one table, which the docs repeat and every command follows."""

from __future__ import annotations

from contextlib import chdir
from pathlib import Path
from shutil import copytree

import pytest
from click.testing import CliRunner

from benchgraph.cli import main
from benchgraph.commands.help import COMMANDS
from benchgraph.results.exit_codes import MEANINGS, RUN, ExitCode

DOCS = (Path(__file__).parents[1] / "docs" / "exit-codes.md").read_text()


def table(columns: int) -> list[list[str]]:
    """The rows of the table of the docs with so many columns, without its head."""
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in DOCS.splitlines() if line.startswith("|")]
    return [row for row in rows if len(row) == columns and not set(row[0]) <= {"-"}][1:]


def test_the_docs_have_the_codes() -> None:
    assert [(int(code), name) for code, name, _ in table(3)] == [(int(code), code.name) for code in ExitCode]


def test_the_docs_say_what_the_code_says_of_every_command() -> None:
    said = {row[0].strip("`").partition(" ")[0].removeprefix("--"): dict(zip(ExitCode, row[1:], strict=True)) for row in table(5)}
    assert said == MEANINGS


def test_every_command_of_the_help_is_in_the_table() -> None:
    assert set(COMMANDS) == set(MEANINGS) - {RUN}


CASE = "--case=mlp.json"
FOLLOWED = {
    RUN: ({0: ["--graph", CASE], 1: ["--graph", "--case=absent.json"], 2: ["--graph", "--cas=mlp.json"]}),
    "help": {0: ["show"], 2: ["nothing"]},
    "list": {0: ["policies"], 2: ["nothing"]},
    "ops": {0: [], 1: ["--kind=Mish2"], 2: ["--kid=Mish"]},
    "show": {0: [CASE], 1: ["--case=absent.json"], 2: ["--format=png", CASE]},
    "explain": {0: [CASE], 1: ["--case=absent.json"], 2: ["-o"]},
    "localise": {0: [CASE], 1: ["--case=absent.json"], 2: []},
    "import": {0: ["torch.log", "-o", "out"], 1: ["absent.log", "-o", "out"], 2: ["torch.log"]},
    "opt": {0: ["--list"], 1: ["--pipeline=decompose", "absent.txt"], 2: ["--pipeline=fold", "graph.txt"]},
    "compile-times": {1: ["--case=absent.json"], 2: []},
    "calibrate": {2: ["--seconds=0"]},
    "tune": {1: ["--in-shapes=0:1", "--case=op/relu.json", "--rounds=1"], 2: []},
    "fuzz": {0: ["--seed=1", "--count=1", "--ops=1"], 1: ["--count=1", "--memory-kind=buffer", "--fail-on=skipped"], 2: ["--count=x"]},
    "compare": {0: ["a.json", "a.json"], 1: ["a.json", "less.json", "--fail-on=missing"], 2: ["a.json"]},
    "ab": {2: ["HEAD~1"]},
    "bisect": {2: ["HEAD~1"]},
    "history": {0: ["--history=h.db"], 2: ["--case"]},
    "regressions": {0: ["--history=h.db"], 2: ["--history"]},
    "render": {0: ["a.json"], 2: ["absent.json"]},
    "merge": {0: ["1.json", "2.json"], 2: ["1.json"]},
}


@pytest.fixture(scope="module")
def reports(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with reports of one case, and of another one."""
    folder, two = tmp_path_factory.mktemp("reports"), [CASE, "--mb=2", CASE]
    with chdir(folder):
        for name, words in (("a.json", two), ("less.json", [CASE]), ("1.json", ["--shard=1/2", *two]), ("2.json", ["--shard=2/2", *two])):
            assert CliRunner().invoke(main, ["--mode=L", "--graph", f"--report=json:{name}", *words]).exit_code == 0
        assert CliRunner().invoke(main, ["--mode=L", "--graph", "--history=h.db", CASE]).exit_code == 0
    (folder / "torch.log").write_text("0:PASSED __REPRO: --matmul 4x8:8x6\n")
    return folder


@pytest.fixture
def here(reports: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of it."""
    copytree(reports, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("command", MEANINGS)
def test_every_command_follows_the_table(here: Path, command: str) -> None:
    for code, words in FOLLOWED[command].items():
        result = CliRunner().invoke(main, [*([] if command == RUN else [command]), *words])
        assert result.exit_code == code, (words, result.output)


@pytest.mark.parametrize(
    "words",
    [
        ["--graph", "--batch=nobatch"],
        ["--graph", "--batch=."],
        ["show", "--batch=nobatch"],
        ["--graph", CASE, "--history=:memory:"],
        ["--graph", CASE, "--history=foo://x"],
        ["--graph", CASE, "--history=a.json"],
        ["--graph", CASE, "--report=json:."],
        ["--graph", CASE, "--report=json:a.json/x"],
        ["--graph", CASE, "--resume=corrupt"],
        ["fuzz", "--count=1", "--history=foo://x"],
    ],
)
def test_what_is_known_before_the_run_is_refused(here: Path, words: list[str]) -> None:
    (here / "corrupt").write_text("{")
    result = CliRunner().invoke(main, words)
    assert (result.exit_code, result.stdout) == (ExitCode.refused, ""), result.output


def test_the_folder_of_a_report_is_made_as_the_help_says(here: Path) -> None:
    result = CliRunner().invoke(main, ["--mode=L", "--graph", CASE, "--report=json:new/deep/r.json"])
    assert (result.exit_code, (here / "new/deep/r.json").is_file()) == (ExitCode.ok, True)
    assert "its folder is made" in " ".join(CliRunner().invoke(main, ["--help=all"]).stdout.split())


@pytest.mark.parametrize("words", [["--graph", CASE], ["show", CASE], ["ops"], ["list"], ["compare", "a.json", "a.json"]])
@pytest.mark.parametrize("name", ["BENCHGRAPH_THREADS", "BENCHGRAPH_RUNTIME"])
def test_a_bad_variable_is_refused_by_every_command(here: Path, monkeypatch: pytest.MonkeyPatch, words: list[str], name: str) -> None:
    monkeypatch.setattr("benchgraph.core.config._current", None)
    monkeypatch.setenv(name, "abc")
    result = CliRunner().invoke(main, words)
    assert (result.exit_code, result.stdout) == (ExitCode.refused, "")
    assert result.stderr.startswith(f"benchgraph: {name}: bad value 'abc'; ")


@pytest.mark.parametrize("command", [c for c in MEANINGS if c not in (RUN, "help")])
def test_ctrl_c_ends_every_command_with_its_code(command: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where it strikes before anything is done."""

    def strike() -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("benchgraph.cli.use_one_thread", strike)
    result = CliRunner().invoke(main, [command])
    assert (result.exit_code, "Aborted" in result.output) == (ExitCode.interrupted, False)


def test_ctrl_c_while_tuning_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    def strike(*given: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("benchgraph.commands.tune.run", strike)
    result = CliRunner().invoke(main, ["tune", "--matmul", "8x8:8x8"])
    assert (result.exit_code, result.stderr) == (ExitCode.interrupted, "benchgraph: interrupted\n")


@pytest.mark.parametrize("words", [["--graph", CASE], ["fuzz", "--seed=1", "--count=1", "--ops=1", "--mode=C"]])
def test_a_status_that_fail_on_names_is_exit_code_1(words: list[str]) -> None:
    skip = ["--memory-kind=buffer"]
    for given, code in (([], 0), (["--fail-on=mistrusted"], 0), (["--fail-on=skipped"], 1), (["--fail-on=mistrusted,skipped"], 1)):
        place = 1 if words[0] == "fuzz" else 0
        result = CliRunner().invoke(main, [*words[:place], *skip, *given, *words[place:]])
        assert result.exit_code == code, (given, result.output)
        assert ("exit code 1" in result.stderr) == (code == 1)
    assert result.stderr == "benchgraph: --fail-on=skipped,mistrusted: 1 skipped; exit code 1\n"


def test_a_status_that_cannot_be_named_is_refused() -> None:
    result = CliRunner().invoke(main, ["--graph", "--fail-on=missing", CASE])
    assert result.exit_code == ExitCode.refused
    assert "choose one of skipped, mistrusted" in result.stderr
