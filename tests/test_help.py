"""Help: one screen per command and driver, every word of it understood by what it is about; `benchgraph list`; suggestions."""

from __future__ import annotations

import inspect
import re
import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from click.testing import CliRunner

from benchgraph.cli import main
from benchgraph.commands.help import COMMANDS, EXAMPLES, USED_MOST, topic
from benchgraph.commands.help_page import NARROW, WIDE
from benchgraph.commands.listing import POLICIES, listing
from benchgraph.core.config import table
from benchgraph.core.errors import BenchgraphError, did_you_mean
from benchgraph.core.files import data_dir
from benchgraph.options.argv import parse
from benchgraph.options.knobs import INERT, Globals, knobs_of
from benchgraph.options.plugins import load_driver, names, suffixes
from benchgraph.partition.ir import Policy
from tests.support.fake_library import Clock, FakeLibrary, fake_bench

SCREEN = (80, 45)  # columns, lines
DRIVERS = names("drivers")

# What each command calls once it has understood its words; a line without a command is a run
WORK = {
    "": "benchgraph.cli.run_line",
    "list": "benchgraph.commands.listing.batches",
    "ops": "benchgraph.commands.ops.in_full",
    "opt": "benchgraph.commands.opt.text_of",
    "history": "benchgraph.commands.history.Database",
    "regressions": "benchgraph.commands.history.Database",
    "explain": "benchgraph.options.problem.Problem.graph",
    "localise": "benchgraph.options.problem.Problem.graph",
    "compile-times": "benchgraph.commands.compile_times._in_new_process",
    "show": "benchgraph.options.problem.Problem.graph",
    "compare": "benchgraph.commands.compare.read",
    "render": "benchgraph.commands.render._run",
    "merge": "benchgraph.commands.merge.read",
    "import": "benchgraph.commands.import_.read_log",
    "calibrate": "benchgraph.commands.calibrate._measured",
    "tune": "benchgraph.options.problem.Problem.graph",
    "fuzz": "benchgraph.cli.run_line",
    "ab": "benchgraph.commands.ab.sides",
    "bisect": "benchgraph.commands.bisect.repository_of",
}
VALUES = {
    "KIND": "SoftMax",
    "URL": "h.db",
    "REGEX": "mlp",
    "SHARE": "5%",
    "P[,P...]": "fused",
    "NAME[:FILE]": "csv",
    "console|markdown|json[:FILE]": "json",
    "console|markdown|csv[:FILE]": "csv",
    "console|markdown|json|html[:FILE]": "json",
    "REF": "HEAD",
    "TEMPLATE": "https://git.example/{commit}",
    "M": "9",
    "LIBRARY:PATH": "onednn:lib",
    "STATUS[,...]": "skipped",
    "PASS[,PASS...]": "simplify",
    "LEVEL": "avx2",
    "FIELD=VALUE[,...]": "cores=2",
    "NAME:SHAPE[+...]": "ids:1x128",
}
NEEDED = {  # what a command asks for besides the option at hand
    "show": ["--case=mlp.json"], "explain": ["--case=mlp.json"], "localise": ["--case=mlp.json"], "compile-times": ["--case=mlp.json"],
    "tune": ["--matmul", "4x8:8x6"], "import": ["torch.log", "-o", "out"],
    "compare": ["a.json", "b.json"], "history": ["--report=html"], "regressions": ["--report=html"],
    "render": ["a.json"], "merge": ["a.json"], "ab": ["HEAD~1", "."], "opt": ["--pipeline=simplify", "graph.txt"],
    "bisect": ["v1", "HEAD", "--case=mlp.json", "--build=make", "--library=onednn:lib", "--repository=."],
}  # fmt: skip


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where there are no such files, on a terminal of 80 columns."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")


def run(*words: str) -> str:
    done = CliRunner().invoke(main, list(words), obj=fake_bench(FakeLibrary(Clock())))
    assert done.exit_code == 0, done.output
    return done.stdout


# ---- one screen each -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("about", ["", *COMMANDS, *DRIVERS])
def test_help_fits_one_screen(about: str) -> None:
    assert len(topic(about).splitlines()) <= SCREEN[1]


@pytest.mark.parametrize("about", ["", "all", "env", *COMMANDS, *DRIVERS])
@pytest.mark.parametrize("columns", [NARROW, 70, SCREEN[0], 100, WIDE])
def test_no_line_of_help_is_wider_than_the_terminal(about: str, columns: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    assert [line for line in topic(about).splitlines() if len(line) > columns] == []


def test_a_long_line_is_broken_between_words(monkeypatch: pytest.MonkeyPatch) -> None:
    """An example so that a shell takes it; a form below which its description stands."""
    monkeypatch.setenv("COLUMNS", str(NARROW))
    page = topic("compare")
    assert page.startswith("Usage: benchgraph compare A.json[,A2.json...]\n           B.json[,B2.json...] [OPTIONS]\n")
    examples = page.partition("Examples:\n")[2].replace("\\\n", "").splitlines()
    assert [shlex.split(line) for line in examples] == [["benchgraph", *shlex.split(line)] for line in COMMANDS["compare"].examples]
    assert "\n  --tensor-property\n      ID:{undef,variable,constant,host_scalar}[+...]\n      " in topic("graph")


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_has_help_of_its_own_wherever_it_is_asked_for(command: str) -> None:
    text = run(command, "--help")
    assert text.startswith(f"Usage: benchgraph {command} ")
    assert text == run(command, "--case=x", "--help") == run("help", command) == run(f"--help={command}")
    assert text != run("--help")
    assert text.count("\n  benchgraph ") >= 2


@pytest.mark.parametrize("driver", DRIVERS)
def test_a_driver_has_help_of_its_own(driver: str) -> None:
    text = run(f"--{driver}", "--help")
    assert text == run("--driver", driver, "--help") == run(f"--driver={driver}", "--mode=P", "--help")
    assert driver in COMMANDS or text == run(driver, "--help")
    assert text == run("help", driver) or driver in COMMANDS
    driver_knobs = knobs_of(load_driver(driver).knobs)
    for option in [*driver_knobs, *load_driver(driver).inert]:
        assert re.search(rf"{option}\b", text), option
    assert text.count("\n  benchgraph ") == 2


def test_the_last_driver_is_the_one_asked_about() -> None:
    assert run("--matmul", "2x3:3x4", "--conv", "--help") == run("--conv", "--help")


def test_the_whole_names_commands_drivers_and_where_more_is() -> None:
    text = run("--help")
    assert all(f"\n  {name} " in text for name in COMMANDS)
    assert all(name in text for name in DRIVERS)
    assert set(USED_MOST) <= set(knobs_of(Globals))
    for line in EXAMPLES:
        assert f"\n  benchgraph {line}\n" in text


def test_everything_and_the_variables() -> None:
    text = run("--help=all")
    words = [*knobs_of(Globals), *INERT, *(option for d in DRIVERS for option in knobs_of(load_driver(d).knobs)), *COMMANDS]
    assert [word for word in words if word not in text] == []
    for name, _, _ in table():
        assert name in text
        assert name in run("help", "env")


def test_help_about_nothing_is_refused_with_the_nearest() -> None:
    for words in (["--help=matmull"], ["help", "matmull"]):
        done = CliRunner().invoke(main, words)
        assert (done.stderr, done.exit_code) == ("benchgraph: --help: no help about 'matmull'; did you mean 'matmul'?\n", 2)
    done = CliRunner().invoke(main, ["help", "matmul", "conv"])
    assert (done.stderr, done.exit_code) == (
        "benchgraph: --help: no help about 'matmul conv'; did you mean 'matmul'?\n",
        2,
    )


# ---- what help says is so --------------------------------------------------------------------------------------------


def command_of(words: Sequence[str]) -> str:
    return words[0] if words[0] in COMMANDS else ""


def is_understood(words: Sequence[str], monkeypatch: pytest.MonkeyPatch) -> bool:
    """Whether the command gets to its work."""
    reached = list[object]()

    def stop(*given: object, **named: object) -> None:
        reached.append(given)
        raise BenchgraphError("understood")

    with monkeypatch.context() as patch:
        patch.setattr(WORK[command_of(words)], stop)
        if words[0] == "ops":
            patch.setattr("benchgraph.commands.ops.overview", stop)
        if "--list" in words:
            patch.setattr("benchgraph.commands.opt.listing", stop)
        if words[:1] == ["list"]:
            patch.setattr("benchgraph.commands.listing._batches_of", stop)
        CliRunner().invoke(main, list(words), obj=fake_bench(FakeLibrary(Clock())))
    return bool(reached)


def examples() -> Iterator[list[str]]:
    yield from (shlex.split(line) for line in EXAMPLES)
    yield from (shlex.split(line) for name, command in COMMANDS.items() if name != "help" for line in command.examples)


def test_every_command_has_two_examples() -> None:
    assert {command_of(words) for words in examples()} == set(WORK)
    assert all(len(command.examples) == 2 for command in COMMANDS.values())
    assert all(shlex.split(line)[0] == name for name, command in COMMANDS.items() for line in command.examples)


@pytest.mark.parametrize("words", list(examples()), ids=" ".join)
def test_an_example_is_understood(words: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    assert is_understood(words, monkeypatch)
    assert not is_understood([*words, "--caze=x"], monkeypatch)
    for i, word in enumerate(words):
        if word.startswith("--") and "=" in word:
            assert not is_understood([*words[:i], word.replace("=", "e="), *words[i + 1 :]], monkeypatch), word


@pytest.mark.parametrize("command", [name for name, command in COMMANDS.items() if command.options])
def test_every_option_of_a_command_is_understood(command: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for form, _ in COMMANDS[command].options:
        names, _, value = form.rpartition(" ") if " " in form.replace(", ", ",") else (form, "", "")
        given = VALUES.get(value, value.strip("{}").split(",")[0] if value.startswith("{") else "3.2" if value == "X.Y" else "2")
        for option in (names or form).split(", "):
            words = [command, *NEEDED.get(command, []), option, *([given] if value else [])]
            assert is_understood(words, monkeypatch), words


@pytest.mark.parametrize(
    "command",
    [
        "show",
        "explain",
        "localise",
        "import",
        "opt",
        "compile-times",
        "calibrate",
        "tune",
        "fuzz",
        "compare",
        "ab",
        "bisect",
        "render",
        "merge",
        "history",
        "regressions",
    ],
)
def test_no_option_of_a_command_is_left_out(command: str) -> None:
    """Every option that the command's module names stands in its help."""
    name = {"list": "listing", "regressions": "history", "import": "import_"}.get(command, command.replace("-", "_"))
    source = (Path(inspect.getfile(topic)).parent / f"{name}.py").read_text()
    code = source if command not in ("history", "regressions") else source.partition(f"def {command}(")[2].partition("\n\n\ndef ")[0]
    found = set(re.findall(r'"(--[a-z-]+|-o)"', code)) - {"--driver", "--graph"}
    shown = {option for form, _ in COMMANDS[command].options for option in re.findall(r"--[a-z-]+|-o\b", form)}
    assert found - shown == set()


@pytest.mark.parametrize("driver", DRIVERS)
def test_the_examples_of_a_driver_make_graphs(driver: str) -> None:
    for line in load_driver(driver).examples:
        problems = parse(shlex.split(line)).problems
        assert problems
        assert {p.driver.name for p in problems} == {driver}
        for problem in problems[:3]:
            assert problem.graph().ops


# ---- what there is ---------------------------------------------------------------------------------------------------


def test_the_list_names_every_batch_with_what_is_in_it() -> None:
    text = run("list")
    for driver in DRIVERS:
        folder = data_dir("inputs") / driver
        for path in (p for p in folder.glob("*") if p.is_file() and not p.suffix):
            count = parse([f"--{driver}", f"--batch={path.name}"]).planned
            row = re.search(rf"^  {path.name} +(\d+) +(\d+)(  .*)?$", text.partition(f"Batches of {driver}:")[2], re.MULTILINE)
            assert row, path
            assert int(row[2]) == count
    assert [line for line in text.splitlines() if len(line) > SCREEN[0]] == []
    assert {p.value for p in Policy} == set(POLICIES)
    for name in (*DRIVERS, *names("reports"), *POLICIES):
        assert re.search(rf"^  {name} ", text, re.MULTILINE), name


def test_a_batch_is_listed_with_its_first_remark() -> None:
    assert "Sizes that hurt: 1, prime" in listing(["matmul"])
    assert "Batches of conv" not in listing(["matmul"])
    assert listing(["policies"]).startswith("Policies: ")
    assert listing(["framework"]) == "framework has no batch files of its own"


def test_a_list_of_nothing_is_refused() -> None:
    done = CliRunner().invoke(main, ["list", "matmull"])
    assert (done.stderr, done.exit_code) == ("benchgraph: list: no list of 'matmull'; did you mean 'matmul'?\n", 2)


def test_every_report_says_how_its_files_are_called() -> None:
    assert set(suffixes().values()) == set(names("reports"))


# ---- suggestions -----------------------------------------------------------------------------------------------------

NEAR = {
    "--mbb": "--mb", "--grahp": "--graph", "--bacth": "--batch", "--in-shape": "--in-shapes", "--polciy": "--policy",
    "--max-ms": "--max-ms-per-prb", "--verbos": "--verbose", "--attr-fpmth": "--attr-fpmath", "--Mode": "--mode",
}  # fmt: skip
FAR = ["--size", "--foo", "--iterations", "--abc", "--x", "--device", "--output-file", "--gpu", "--warmup", "--zzz", "--benchmark"]


def test_lists_of_few_say_all_of_each() -> None:
    for what in ("reports", "policies", "drivers"):
        assert "..." not in run("list", what).replace("[,...]", "").replace("+...", "")
    said = " ".join(run("list", "reports").split())
    assert "tables for people: times, shares of the machine's arithmetic peak and bandwidth, policies side by side" in said


def test_words_that_are_as_near_are_all_suggested() -> None:
    directions = ["FWD_B", "FWD_D", "FWD_I", "BWD_D"]
    assert did_you_mean("FWD_X", directions) == "did you mean 'FWD_B' or 'FWD_D' or 'FWD_I'?"
    assert did_you_mean("FWD_X", [*directions, "FWD_Y"]) == ""
    assert did_you_mean("gelu", ["elu", "gelu_erf", "gelu_tanh"]) == "did you mean 'gelu_erf' or 'gelu_tanh'?"
    assert did_you_mean("GELU", ["gelu", "gelu_erf"]) == "did you mean 'gelu'?"


def test_what_is_near_is_suggested_and_nothing_else() -> None:
    known = [
        *knobs_of(Globals),
        *knobs_of(load_driver("graph").knobs),
        *INERT,
        "--batch",
        "--driver",
        "--reset",
        *(f"--{d}" for d in DRIVERS),
    ]
    assert {word: did_you_mean(word, known) for word in NEAR} == {word: f"did you mean '{right}'?" for word, right in NEAR.items()}
    assert {word: did_you_mean(word, known) for word in FAR} == dict.fromkeys(FAR, "")


@pytest.mark.parametrize(
    ("word", "known", "right"),
    [
        ("per_occ", ["per_oc", "per_ocic"], "per_oc"),
        ("src", ["scr"], "scr"),
        ("relu", ["ReLU", "PReLU", "ELU"], "ReLU"),
        ("sofmax", ["SoftMax", "SoftMaxBackward"], "SoftMax"),
        ("ab", ["ba", "abc"], "abc"),
    ],
)
def test_the_fewest_slips_count(word: str, known: list[str], right: str) -> None:
    assert did_you_mean(word, known) == f"did you mean '{right}'?"


@pytest.mark.parametrize("words", [["--foo"], ["--graph", "--foo=1"], ["compare", "--foo"]])
def test_an_unknown_option_beside_help_is_refused(words: list[str]) -> None:
    result = CliRunner().invoke(main, [*words, "--help"])
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith("benchgraph: --foo: unknown option; ")
