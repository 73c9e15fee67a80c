"""The command as people call it: whole output as text, on a fake clock and a fake library."""

import io
import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import click
import numpy as np
import pytest
from click.testing import CliRunner, Result

from benchgraph.cli import main
from benchgraph.core.config import table
from benchgraph.core.files import data_dir
from benchgraph.graph import GraphBuilder, save
from benchgraph.options.argv import parse
from benchgraph.options.knobs import Globals, knobs_of
from benchgraph.options.plugins import load_driver
from benchgraph.partition.ir import Policy
from benchgraph.present.screen import progress
from tests.support.fake_library import Clock, FakeLibrary, fake_bench

Run = Callable[..., Result]


@pytest.fixture
def cases(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory with good.json (MatMul, ReLU) to stand in."""
    b = GraphBuilder()
    b.op("ReLU", b.op("MatMul", b.input((4, 8)), b.constant((8, 16))))
    save(b.graph(), tmp_path / "good.json")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(*words: str, library: FakeLibrary | None = None) -> Result:
    library = library or FakeLibrary(Clock())
    return CliRunner().invoke(main, list(words), obj=fake_bench(library), prog_name="benchgraph")


def spoiled(kind: str, array: np.ndarray) -> np.ndarray:
    return array + 1 if kind == "ReLU" else array


# ---- good cases ------------------------------------------------------------------------------------------------------


def test_a_correct_case_prints_its_status_and_the_summary(cases: Path) -> None:
    result = run("--driver", "graph", "--case", "good.json")
    assert result.output == (
        "0:PASSED (510 ms) __REPRO: --graph --case=good.json\n"
        "tests:1 passed:1 skipped:0 mistrusted:0 unimplemented:0 invalid_arguments:0 failed:0 listed:0\n"
        "total: 0.51s;\n"
    )
    assert result.exit_code == 0


def test_several_cases_run_with_the_state_they_find(cases: Path) -> None:
    result = run("--graph", "--mb=2,4", "--case=good.json", "--reset", "--mode=L", "--case=good.json")
    assert result.output == (
        "0:PASSED (510 ms) __REPRO: --graph --mb=2 --case=good.json\n"
        "1:PASSED (510 ms) __REPRO: --graph --mb=4 --case=good.json\n"
        "2:LISTED (0 ms) __REPRO: --mode=L --graph --case=good.json\n"
        "tests:3 passed:2 skipped:0 mistrusted:0 unimplemented:0 invalid_arguments:0 failed:0 listed:1\n"
        "total: 1.02s;\n"
    )


def test_mode_p_prints_a_table(cases: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("benchgraph.harness.machine.cpu_name", lambda: "Test CPU")
    result = run("--mode=P", "--graph", "--threads=2", "--fix-times-per-prb=2", "--case=good.json")
    lines = result.output.splitlines()
    assert lines[:2] == ["Template entries: perf,%engine%,%prb%,%-time%,%0time%", "perf,engine,prb,min_time,avg_time"]
    assert lines[2] == "perf,cpu,--mode=P --threads=2 --fix-times-per-prb=2 --graph --case=good.json,5,5"
    lines = lines[3:]
    assert lines[0] == "0:EXECUTED (3484 ms) __REPRO: --mode=P --threads=2 --fix-times-per-prb=2 --graph --case=good.json"
    assert lines[1].startswith("Test CPU, ")
    assert lines[2] == "f32 peak 8 GFLOP/s with 1 thread, 16 with 2; microkernel 256x256x256 7 GFLOP/s (90%)"
    assert [line.split()[:3] for line in lines[3:5]] == [["bf16", "peak", "16"], ["int8", "peak", "32"]]
    assert lines[5] == "memory is read at 2.0 GB/s with 2"
    assert [" ".join(line.replace("|", " ").split()) for line in lines[7:18]] == [
        "--mode=P --threads=2 --fix-times-per-prb=2 --graph --case=good.json",
        "hot caches; f32 peak 16.0 GFLOP/s; bandwidth 6.0 GB/s (reading 896 B over and over)",
        "policy / partition min ms median ms GFLOP/s % peak GB/s % bw FLOP/B roof compile ms ratio",
        lines[10],
        "fused (1 partition) 5.0000 5.0000 0.0 0.0% 0.0 0.0% 1.2 bw 500.0 1.00",
        "post_ops (2 partitions) 6.0000 6.0000 0.0 0.0% 0.0 0.0% 1.2 bw 1000.0 1.20",
        "0 fake: ops 0 3.0000 3.0000 0.0 0.0% 0.0 0.0% 1.1 bw 500.0",
        "1 fake: ops 1 3.0000 3.0000 0.0 0.0% 0.0 0.0% 0.1 bw 500.0",
        "one_op_each (2 partitions) 6.0000 6.0000 0.0 0.0% 0.0 0.0% 1.2 bw 1000.0 1.20",
        "0 fake: ops 0 3.0000 3.0000 0.0 0.0% 0.0 0.0% 1.1 bw 500.0",
        "1 fake: ops 1 3.0000 3.0000 0.0 0.0% 0.0 0.0% 0.1 bw 500.0",
    ]
    assert lines[18] == "times over those of fused, with 95 % intervals within this run: post_ops 1.20, one_op_each 1.20"
    assert result.exit_code == 0


def test_a_report_file_is_written_and_named(cases: Path) -> None:
    result = run("--graph", "--report=json:deep/er/out.json", "--case=good.json")
    assert "json report: deep/er/out.json\n" in result.output
    assert json.loads((cases / "deep/er/out.json").read_text())["cases"][0]["status"] == "PASSED"


@pytest.mark.parametrize("name", ["json", "csv", "html", "markdown", "junit", "console"])
def test_a_report_that_cannot_be_written_fails_the_run_before_it_begins(cases: Path, name: str) -> None:
    (cases / "file").touch()
    (cases / "folder").mkdir()
    for place, reason in {"file/out": "Not a directory", "file/a/b/out": "Not a directory", "folder": "Is a directory"}.items():
        result = run("--graph", f"--report={name}:{place}", "--case=good.json")
        assert result.stderr == f"benchgraph: --report={name}:{place}: cannot write the file: {reason}; name another one\n"
        assert (result.exit_code, result.stdout) == (2, "")


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="no /proc")
@pytest.mark.parametrize(
    "words", [["--report=csv:/proc/x/out.csv"], ["--resume=/proc/out.json"], ["--dump-dir=/proc/dump"], ["--history=/proc/h.db"]]
)
def test_a_place_that_takes_no_files_fails_the_run_before_it_begins(cases: Path, words: list[str]) -> None:
    result = run("--graph", *words, "--case=good.json")
    assert (result.exit_code, result.stdout) == (2, "")
    assert "/proc" in result.stderr
    assert "Traceback" not in result.stderr


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full")
@pytest.mark.parametrize("report", ["json", "csv", "html"])
def test_a_full_disk_is_named_with_its_remedy_and_the_results_are_saved_elsewhere(cases: Path, report: str) -> None:
    result = run("--graph", f"--report={report}:/dev/full", "--case=good.json")
    (saved,) = cases.glob("benchgraph-unsaved-*")
    what = f"benchgraph: --report={report}:/dev/full: cannot write the file: No space left on device"
    assert result.stderr == f"{what}; make room there, or name another one; it is in {saved.name}\n"
    assert saved.suffix == f".{report}"
    assert "good.json" in saved.read_text()
    assert "tests:1 passed:1" in result.stdout
    assert result.exit_code == 1


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full")
def test_results_that_no_file_takes_are_printed(cases: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("benchgraph.harness.outputs.tempfile.gettempdir", lambda: str(cases / "nowhere"))
    real = Path.open

    def full(self: Path, mode: str = "r", *more: object, **named: object) -> object:
        return real(Path("/dev/full"), "w") if mode == "x" else real(self, mode, *more, **named)  # type: ignore[call-overload]

    monkeypatch.setattr(Path, "open", full)
    result = run("--graph", "--report=csv:/dev/full", "--case=good.json")
    assert "index,repro,status" in result.stdout
    assert result.stderr.endswith("; no other place takes it either, so it is printed\n")


@pytest.mark.parametrize("name", ["json", "csv", "html", "markdown", "junit", "console"])
def test_a_report_on_standard_output_has_it_to_itself(cases: Path, name: str) -> None:
    alone, beside = run("--graph", f"--report={name}:-", "--case=good.json"), run("--graph", f"--report={name}", "--case=good.json")
    assert alone.stderr.startswith("0:PASSED (510 ms) __REPRO: --graph --case=good.json\n")
    assert "tests:1 passed:1" in alone.stderr
    assert "0:PASSED" in beside.stdout
    assert alone.stdout.rstrip("\n") or name == "console"
    assert "__REPRO" not in alone.stdout
    assert alone.exit_code == 0
    if name == "json":
        assert json.loads(alone.stdout)["cases"][0]["status"] == "PASSED"


def test_a_json_report_can_be_piped_in_every_mode(cases: Path) -> None:
    for words in (["--mode=P", "--fix-times-per-prb=2"], ["-v3"], ["--report=csv:out.csv"], ["--summary=no-failures", "--fail-fast"]):
        result = run("--graph", "--case=good.json", "--report=json:-", *words)
        assert [c["repro"].endswith("--graph --case=good.json") for c in json.loads(result.stdout)["cases"]] == [True]
    assert "policy / partition" in run("--mode=P", "--fix-times-per-prb=2", "--graph", "--case=good.json", "--report=json:-").stderr


def test_a_pipe_that_nobody_reads_costs_no_results(cases: Path) -> None:
    code = "import sys; from benchgraph.cli import main; main(sys.argv[1:])"
    words = [sys.executable, "-c", code, "--mode=L", "--graph", "--case=good.json", "--report=json:-"]
    piped = ["sh", "-c", 'exec 3>&1; { "$@"; echo $? >&3; } | true', "sh", *words]
    done = subprocess.run(piped, capture_output=True, text=True, check=True)
    (saved,) = cases.glob("benchgraph-unsaved-*.json")
    assert json.loads(saved.read_text())["cases"]
    assert done.stdout == "1\n"
    assert f"; it is in {saved.name}\n" in done.stderr
    assert "Exception ignored" not in done.stderr


@pytest.mark.parametrize(
    ("words", "what", "fix"),
    [
        ("--report=json:x.html", "the file's name says html, and the report is json", "write html:x.html, or name the file otherwise"),
        ("--report=html:x.JSON", "the file's name says json, and the report is html", "write json:x.JSON, or name the file otherwise"),
        ("--report=json:a --report=csv:./a", "two reports in one file", "give each a place of its own"),
        ("--report=csv:a --report=json:a", "two reports in one file", "give each a place of its own"),
        ("--report=json:- --report=csv:-", "two reports on standard output", "give each a place of its own"),
    ],
)
def test_places_that_contradict_themselves_are_refused(cases: Path, words: str, what: str, fix: str) -> None:
    result = run("--graph", "--case=good.json", *words.split())
    message = f"benchgraph: {words.replace(' ', ', ')}: {what}; {fix}\n"
    assert (result.stderr, result.stdout, result.exit_code) == (message, "", 2)


@pytest.mark.parametrize(
    "words",
    [
        "--graph --report=json:good.json --case=good.json",
        "--graph --data=good.json --report=json:good.json --case=packaged/relu.json",
        "explain --json -o good.json --case=good.json",
        "show --format=dot -o link --case=good.json",
        "merge good.json other.json --output=good.json",
        "render good.json --report=json:good.json",
        "compare a.json,link good.json --report=markdown:link",
        "--graph --history=link --report=json:good.json --case=packaged/relu.json",
        "--graph --history=sqlite:///good.json --report=json:good.json --case=packaged/relu.json",
        "history --history=good.json --report=json:link",
        "regressions --history=good.json --report=json:good.json",
        "tune --store=link --output=link --case=good.json",
        "ab . . --report=json:good.json --case=good.json",
        "import folder/graph.json -o folder",
        "import folder/times.txt -o folder",
    ],
)
def test_nothing_that_is_read_is_overwritten(cases: Path, words: str) -> None:
    (cases / "folder").mkdir()
    (cases / "folder" / "graph.json").write_bytes((cases / "good.json").read_bytes())
    (cases / "folder" / "times.txt").write_text("__REPRO: --graph --case=good.json\n")
    (cases / "link").symlink_to("good.json")
    before = {path: path.read_bytes() for path in cases.rglob("*") if path.is_file()}
    result = run(*words.split())
    assert result.stderr.endswith(": it is read, and would be overwritten; name another file\n"), result.output
    assert (result.exit_code, result.stdout) in ((2, ""), (1, ""))
    assert {path: path.read_bytes() for path in cases.rglob("*") if path.is_file()} == before


@pytest.mark.parametrize("option", ["--resume", "--history"])
def test_what_is_read_again_is_no_pipe(cases: Path, option: str) -> None:
    result = run("--graph", "--case=good.json", f"{option}=-")
    fix = "give a file: what is on standard output cannot be read again"
    assert (result.stderr, result.exit_code) == (f"benchgraph: {option}: bad value '-'; {fix}\n", 2)
    assert run("--graph", "--case=good.json", "--resume=a", "--report=csv:a").exit_code == 2


@pytest.mark.parametrize("word", ["json:x.json.old", "json:x", "json:x.dat", "html:x.htm", "console:x.txt", "markdown:x.md", "junit:x.xml"])
def test_a_name_that_says_nothing_else_will_do(cases: Path, word: str) -> None:
    assert run("--mode=L", "--graph", "--case=good.json", f"--report={word}").exit_code == 0
    assert (cases / word.partition(":")[2]).is_file()


NO_FOLDER, SAYS = "cannot write the file: Not a directory; name another one", "--output={0}: the file's name says"


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        ("show --case=good.json --format=svg -o x.dot", 2, f"{SAYS} dot; write '--format=dot'"),
        ("show --case=good.json -o x.json", 2, f"{SAYS} json, and console is what it gets; name it otherwise"),
        ("explain --case=good.json -o x.html", 2, f"{SAYS} html, and console is what it gets; name it otherwise"),
        ("merge good.json -o x.html", 2, f"{SAYS} html, and json is what it gets; name it otherwise"),
        ("tune --case=good.json --store=good.json/x", 2, f"{{0}}: {NO_FOLDER}"),
        ("fuzz --count=1 -o good.json", 2, f"--output={{0}}: {NO_FOLDER}"),
        ("compare a.json b.json --report=csv:good.json/x", 2, f"{{0}}: {NO_FOLDER}"),
        (
            "compare a.json b.json --report=csv:a.json",
            2,
            "--report: bad value 'csv:a.json'; the file's name says json; give it another one",
        ),
    ],
)
def test_what_a_command_is_to_write_is_tried_before_it_works(cases: Path, words: str, code: int, message: str) -> None:
    result = run(*words.split())
    said = f"benchgraph: {words.split()[0]}: {message.format(words.split()[-1])}\n"
    assert (result.stderr, result.stdout, result.exit_code) == (said, "", code)


def test_a_command_writes_to_standard_output_where_it_is_named(cases: Path) -> None:
    assert run("show", "--case=good.json", "-o", "-").stdout == run("show", "--case=good.json").stdout
    assert json.loads(run("explain", "--json", "--case=good.json", "-o", "-").stdout)
    assert not list(cases.glob("-*"))


def test_a_batch_file_runs(cases: Path) -> None:
    (cases / "batch").write_text("# all\n--reset --mb=2 --case=good.json\n--reset --case=good.json\n")
    result = run("--graph", "--batch=batch")
    assert [line.partition("__REPRO: ")[2] for line in result.output.splitlines()[:2]] == [
        "--graph --mb=2 --case=good.json",
        "--graph --case=good.json",
    ]


def test_no_progress_bar_without_a_terminal(cases: Path) -> None:
    assert run("--graph", "--mb=1,2,4", "--case=good.json").stderr == ""


def test_a_progress_bar_on_a_terminal_and_only_for_several_cases(cases: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    shown = []
    for words in (["--graph", "--case=good.json"], ["--graph", "--mb=1,2", "--case=good.json"]):
        monkeypatch.setenv("TERM", "xterm")
        monkeypatch.setattr(sys, "stderr", terminal := Terminal())
        with progress(parse(words).problems) as step:
            step()
        shown.append(terminal.getvalue())
    assert shown[0] == ""
    assert "cases" in shown[1]


# ---- bad input: one line, the right status, the right exit code, no traceback ----------------------------------------


def tensor(id: int, shape: list[int], dtype: str = "f32") -> dict[str, object]:
    stride = [1] * len(shape)
    for i in range(len(shape) - 2, -1, -1):
        stride[i] = stride[i + 1] * shape[i + 1]
    return {"id": id, "dtype": dtype, "shape": shape, "stride": stride, "layout_type": "strided", "property_type": "undef"}


def op(id: int, kind: str, ins: list[object], outs: list[object], **attrs: object) -> dict[str, object]:
    return {"id": id, "name": "", "kind": kind, "attrs": attrs, "inputs": ins, "outputs": outs}


def relu(id: int, src: int, dst: int) -> dict[str, object]:
    return op(id, "ReLU", [tensor(src, [4])], [tensor(dst, [4])])


BAD = {
    "not JSON": ("{", r"not JSON: line 1, column 2: .*; mend the text there, or dump or import the graph again"),
    "empty file": ("", r"the file is empty; a graph has at least one op"),
    "unknown op kind": ([op(3, "Relu", [tensor(0, [4])], [tensor(1, [4])])], r"op 3: Relu: unknown op kind 'Relu'; did you mean 'ReLU'\?"),
    "unknown attribute": (
        [op(3, "SoftMax", [tensor(0, [4])], [tensor(1, [4])], axes={"type": "s64", "value": 0})],
        r"op 3: SoftMax: .*'axes'.*did you mean 'axis'\?",
    ),
    "mismatched shapes": (
        [op(3, "MatMul", [tensor(0, [4, 8]), tensor(1, [7, 8])], [tensor(2, [4, 8])])],
        r"op 3: MatMul: .*8.*7.*",
    ),
    "two producers": ([relu(0, 0, 1), relu(5, 0, 1)], r".*ops 0 and 5 both produce tensor 1; give each output its own tensor id"),
    "cycle": ([relu(0, 1, 2), relu(5, 2, 1)], r".*the ops form a cycle \(each needs the next\): .*; a graph must be acyclic"),
    "unsupported dtype": ([op(3, "ReLU", [tensor(0, [4], "s8")], [tensor(1, [4], "s8")])], r"op 3: ReLU: .*s8.*"),
    "unknown dtype": (
        [op(3, "ReLU", [tensor(0, [4], "f33")], [tensor(1, [4])])],
        r"op 3: ReLU: .*unknown dtype 'f33'; did you mean 'f32'\?",
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input_is_one_line_with_file_op_and_remedy(cases: Path, name: str) -> None:
    content, message = BAD[name]
    (cases / "bad.json").write_text(content if isinstance(content, str) else json.dumps({"graph": content}))
    result = run("--graph", "--case=bad.json", "--case=good.json")
    lines = result.output.splitlines()
    pattern = rf"0:INVALID_ARGUMENTS \(bad\.json: {message}\) \(0 ms\) __REPRO: --graph --case=bad\.json"
    assert re.fullmatch(pattern, lines[0]), lines[0]
    assert lines[1] == "1:PASSED (510 ms) __REPRO: --graph --case=good.json"
    assert lines[-2] == "tests:2 passed:1 skipped:0 mistrusted:0 unimplemented:0 invalid_arguments:1 failed:1 listed:0"
    assert result.exit_code == 1
    assert "Traceback" not in result.output


def test_a_missing_case_is_one_line_with_a_suggestion(cases: Path) -> None:
    result = run("--graph", "--case=paper/mlp_3.json")
    assert result.output.splitlines()[0] == (
        "0:INVALID_ARGUMENTS (paper/mlp_3.json: no such file; did you mean 'paper/mlp_2.json'?) (0 ms) "
        "__REPRO: --graph --case=paper/mlp_3.json"
    )
    assert result.exit_code == 1


@pytest.mark.parametrize("word", ["--in-shapes=0:3", "--op-kind=0:Foo", "--expected-n-partitions=9"])
def test_a_packaged_file_is_named_as_it_was_given(cases: Path, word: str) -> None:
    result = run("--graph", word, "--report=json", "--case=paper/mlp_2.json")
    assert "UNTESTED_FAILED" in result.output or "INVALID_ARGUMENTS" in result.output
    assert str(data_dir("inputs")) not in result.output


def test_a_batch_size_that_fits_nothing_is_untested(cases: Path) -> None:
    b = GraphBuilder()
    b.op("Multiply", b.input((1,)), b.input((1,)))
    save(b.graph(), cases / "scalar.json")
    (cases / "scalar.json").write_text((cases / "scalar.json").read_text().replace("[1]", "[]"))
    result = run("--graph", "--mb=4", "--case=scalar.json")
    assert result.output.startswith("0:UNTESTED_FAILED (scalar.json: --mb: ")
    assert result.exit_code == 1


def test_a_missing_batch_file_is_exit_2(cases: Path) -> None:
    result = run("--graph", "--batch=nowhere")
    assert result.stderr.startswith("benchgraph: nowhere: no such file; looked in ")
    assert (result.exit_code, result.stdout) == (2, "")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--graph", "--caze=x"], "benchgraph: --caze: unknown option; did you mean '--case'?\n"),
        (["--graph", "--mb=x", "--case=good.json"], "benchgraph: --mb: bad value 'x'; give a non-negative integer\n"),
        (["--graph"], "benchgraph: nothing to run; add --case FILE\n"),
        (["--fuzz"], "benchgraph: nothing to run; add a descriptor, as 1:17\n"),
        (["explain", "--fuzz"], "benchgraph: explain: no case to explain; add a descriptor, as 1:17\n"),
        (["compile-times", "--fuzz"], "benchgraph: compile-times: no case to compile; add a descriptor, as 1:17\n"),
        (["--eltwise", "--alg=gelu", "3"], "benchgraph: --alg: bad value 'gelu'; did you mean 'gelu_erf' or 'gelu_tanh'?\n"),
        (["ops", "Pow", "MatMul"], "benchgraph: ops: MatMul: one op kind at a time is shown; leave the others out\n"),
        (["--store=t.json", "--matmul", "2x3:3x4"], "benchgraph: --store: unknown option; it is one of benchgraph tune\n"),
        (["explain", "--store=t.json"], "benchgraph: --store: unknown option; it is one of benchgraph tune\n"),
        (["fuzz", "--store=t.json"], "benchgraph: --store: unknown option; it is one of benchgraph tune\n"),
        (["history", "--launches=3"], "benchgraph: history: --launches: unknown option; it is one of benchgraph ab\n"),
        (["compare", "a", "b", "--tries=3"], "benchgraph: compare: --tries: unknown option; it is one of benchgraph fuzz\n"),
        (["show", "--max-launches=3"], "benchgraph: --max-launches: unknown option; it is one of benchgraph ab, benchgraph bisect\n"),
        (["show", "--case=mlp.json", "--unfold=3"], "benchgraph: show: --unfold takes no value, and '3' is one; write '--unfold'\n"),
        (["localise", "--json=x"], "benchgraph: localise: --json takes no value, and 'x' is one; write '--json'\n"),
        (["merge", "a", "--incomplete=1"], "benchgraph: merge: --incomplete takes no value, and '1' is one; write '--incomplete'\n"),
        (["opt", "--list="], "benchgraph: opt: --list takes no value, and '' is one; write '--list'\n"),
        (
            ["render", "a", "--report=csv:x", "--report=junit:./x"],
            "benchgraph: render: --report=csv:x, --report=junit:./x: two reports in one file; give each a place of its own\n",
        ),
        (["history", "--commit=HEAD"], "benchgraph: history: --commit: it is of a report that is added; add --add=FILE, or leave it out\n"),
        (
            ["history", "--add=a", "--case=x"],
            "benchgraph: history: --case: --add only adds a report; leave it out, and ask for it afterwards\n",
        ),
        (["render", ""], "benchgraph: render: an empty word, as of a variable that is not set; give a name, or leave it out\n"),
        (["ops", ""], "benchgraph: ops: an empty word, as of a variable that is not set; give a name, or leave it out\n"),
        (["explain", "--case=mlp.json", "--match=none"], "benchgraph: --match and --shard leave none of 1 cases; widen them\n"),
        (["show", "--shard=2/2", "--case=mlp.json"], "benchgraph: --match and --shard leave none of 1 cases; widen them\n"),
        (["ops", "--knd=Add"], "benchgraph: ops: --knd: unknown option; did you mean '--kind'?\n"),
        (["ops", "--kind"], "benchgraph: ops: --kind: a value is missing; write '--kind VALUE'\n"),
    ],
)
def test_a_command_line_nobody_can_run_is_exit_2(cases: Path, words: list[str], message: str) -> None:
    result = run(*words)
    assert (result.stderr, result.stdout, result.exit_code) == (message, "", 2)


def test_a_number_out_of_benchdnns_range_is_clamped_and_said_once(cases: Path) -> None:
    result = run("--mode=L", "--max-ms-per-prb=5", "--graph", "--case=good.json", "--max-ms-per-prb=5", "--case=good.json")
    assert result.stderr.splitlines() == ["benchgraph: --max-ms-per-prb=5: out of range, 10 is taken"]
    assert result.exit_code == 0


def test_a_bad_environment_variable_is_named(cases: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("benchgraph.core.config._current", None)
    monkeypatch.setenv("BENCHGRAPH_THREADS", "many")
    result = run("--graph", "--case=good.json")
    assert result.stderr == "benchgraph: BENCHGRAPH_THREADS: bad value 'many'; give a non-negative integer\n"
    assert result.exit_code == 2


def test_variables_that_nothing_reads_are_named(cases: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("benchgraph.core.config._current", None)
    monkeypatch.setenv("BENCHGRAPH_THREAD", "1")
    monkeypatch.setenv("BENCHGRAPH_PRINT_AFTER", "tir,schedule,jam-rows,all")
    result = run("--mode=L", "--graph", "--case=good.json")
    assert result.stderr == "benchgraph: BENCHGRAPH_THREAD: no such variable; did you mean 'BENCHGRAPH_THREADS'?\n"
    assert result.exit_code == 0


@pytest.mark.parametrize(
    ("stages", "message"),
    [
        ("tir,fuse-fin", "BENCHGRAPH_PRINT_AFTER=fuse-fin: no such pass or stage; did you mean 'fuse-fine'?"),
        (
            "bogus",
            "BENCHGRAPH_PRINT_AFTER=bogus: no such pass or stage; 'benchgraph opt --list' shows the passes; "
            "other stages are partition, gir, tir, llvm, llvm-opt, assembly and all",
        ),
    ],
)
def test_an_unknown_stage_in_the_environment_is_exit_2(cases: Path, monkeypatch: pytest.MonkeyPatch, stages: str, message: str) -> None:
    monkeypatch.setattr("benchgraph.core.config._current", None)
    monkeypatch.setenv("BENCHGRAPH_PRINT_AFTER", stages)
    result = run("--mode=L", "--graph", "--case=good.json")
    assert (result.stderr, result.stdout, result.exit_code) == (f"benchgraph: {message}\n", "", 2)


@pytest.mark.parametrize("command", ["show", "explain", "localise", "compile-times", "tune"])
@pytest.mark.parametrize("option", ["--report=json", "--history=h.db", "--resume=a.json", "--save-failures=out", "--cluster=local:2"])
def test_a_command_that_runs_no_batch_refuses_options_of_its_results(cases: Path, command: str, option: str) -> None:
    result = run(command, "--case=good.json", option)
    assert result.stderr.startswith(f"benchgraph: {command}: {option.partition('=')[0]}: the command runs no batch to ")
    assert (result.exit_code, result.stdout, sorted(cases.iterdir())) == (2, "", [cases / "good.json"])


@pytest.mark.parametrize("command", ["show", "explain", "compile-times", "tune", "fuzz"])
def test_an_unknown_option_of_a_command_leads_to_its_help(cases: Path, command: str) -> None:
    assert run(command, "--bogus").stderr == f"benchgraph: --bogus: unknown option; see 'benchgraph {command} --help'\n"


def test_the_switches_of_policies_are_listed() -> None:
    assert "  no-hoist               hoist-division\n" in run("list", "policies").stdout


# ---- failures of the library -----------------------------------------------------------------------------------------


def test_a_wrong_result_fails_and_is_listed_at_the_end(cases: Path) -> None:
    result = run("--graph", "--case=good.json", library=FakeLibrary(Clock(), spoil=spoiled))
    lines = result.output.splitlines()
    assert lines[0].startswith("0:FAILED (fused: partition 0 (fake): tensor 3: 64 of 64 values differ, by up to 1 (")
    assert lines[0].endswith(" (errors:64 total:64) (510 ms) __REPRO: --graph --case=good.json")
    assert lines[1:3] == ["=== Failed cases summary (--summary=no-failures to disable) ===", lines[0]]
    assert result.exit_code == 1


def test_the_failed_cases_can_be_left_out(cases: Path) -> None:
    result = run("--graph", "--summary=no-failures", "--case=good.json", library=FakeLibrary(Clock(), spoil=spoiled))
    assert "===" not in result.output


def test_ten_failed_cases_are_listed(cases: Path) -> None:
    result = run("--graph", "--seed=" + ",".join(map(str, range(12))), "--case=good.json", library=FakeLibrary(Clock(), spoil=spoiled))
    assert result.output.count("__REPRO") == 12 + 10
    assert "(... 2 more cases ...)" in result.output


def test_an_op_without_a_kernel_is_unimplemented(cases: Path) -> None:
    result = run("--graph", "--case=good.json", library=FakeLibrary(Clock(), unsupported="ReLU"))
    assert result.output.splitlines()[0] == (
        "0:UNIMPLEMENTED (good.json: fused: partition 0 (op 0: MatMul, op 1: ReLU) is unsupported: no kernel) (0 ms) "
        "__REPRO: --graph --case=good.json"
    )
    assert "unimplemented:1 invalid_arguments:0 failed:1" in result.output


def test_a_wrong_partition_count_is_untested(cases: Path) -> None:
    result = run("--graph", "--expected-n-partitions=3", "--case=good.json")
    assert result.output.startswith("0:UNTESTED_FAILED (expected number of partitions (3) doesn't coincide with the actual number of")
    assert result.exit_code == 1


def test_no_memory_skips_the_case(cases: Path) -> None:
    result = run("--graph", "--case=good.json", library=FakeLibrary(Clock(), fails=MemoryError()))
    assert result.output.startswith("0:SKIPPED (not enough memory; try a smaller --mb)")
    assert result.exit_code == 0


def test_a_crash_costs_one_case_and_hides_its_traceback(cases: Path) -> None:
    result = run("--graph", "--case=good.json", library=FakeLibrary(Clock(), fails=KeyError("bug")))
    assert result.output.startswith("0:FAILED (KeyError: 'bug'; run with -v for the traceback) (0 ms)")
    assert "Traceback" not in result.output
    assert result.exit_code == 1


def test_v_shows_the_traceback_and_what_starts(cases: Path) -> None:
    result = run("-v", "--graph", "--case=good.json", library=FakeLibrary(Clock(), fails=KeyError("bug")))
    assert result.stderr.startswith("run: --graph --case=good.json\nTraceback (most recent call last):\n")
    assert result.stdout.startswith("0:FAILED (KeyError: 'bug') (0 ms)")


def test_v_says_where_the_time_went(cases: Path) -> None:
    lines = run("-v", "--graph", "--case=good.json").stdout.splitlines()
    assert [lines[1], lines[2], lines[-3]] == [
        "compile        0.500 s  98.0%",
        "execute        0.010 s   2.0%",
        "whole run      0.510 s 100.0%",
    ]


def test_ctrl_c_keeps_what_was_done(cases: Path) -> None:
    class Interrupted(FakeLibrary):
        def partitions(self, graph, policy):  # type: ignore[no-untyped-def]
            if self.clock.now:
                raise KeyboardInterrupt
            return super().partitions(graph, policy)

    result = run("--graph", "--report=json:out.json", "--seed=1,2,3", "--case=good.json", library=Interrupted(Clock()))
    assert result.output == (
        "0:PASSED (510 ms) __REPRO: --seed=1 --graph --case=good.json\n"
        "json report: out.json\n"
        "interrupted after 1 of 3 cases\n"
        "tests:1 passed:1 skipped:0 mistrusted:0 unimplemented:0 invalid_arguments:0 failed:0 listed:0\n"
        "total: 0.51s;\n"
    )
    assert result.exit_code == 130


# ---- help ------------------------------------------------------------------------------------------------------------


def test_help_names_every_option_and_variable() -> None:
    text = run("--help=all").output
    options = [*knobs_of(Globals), *knobs_of(load_driver("graph").knobs)]
    for word in [
        *options,
        *(name for name, _, _ in table()),
        *(p.value for p in Policy),
        "--driver",
        "--batch",
        "--reset",
        "console",
        "json",
    ]:
        assert word in text, word


def test_help_and_version_work_after_a_driver() -> None:
    assert run("--graph", "--help").output == run("--help=graph").output == run("help", "graph").output
    assert run("--graph", "--version").output.startswith("benchgraph ")


def test_a_misspelt_command_is_named_with_the_nearest() -> None:
    result = run("shwo", "--case=good.json")
    assert (result.stderr, result.stdout, result.exit_code) == ("benchgraph: shwo: no such command; did you mean 'show'?\n", "", 2)


def test_nothing_at_all_shows_help() -> None:
    assert "Usage: benchgraph" in run().output


def modules_after(*words: str, prints: str) -> set[str]:
    """The modules that a process has loaded once it has run benchgraph, which prints this, too."""
    code = f"import sys; from benchgraph.cli import main; main({list(words)}, standalone_mode=False); print(*sys.modules, file=sys.stderr)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=Path(__file__).parents[1])
    assert prints in done.stdout
    return set(done.stderr.split())


def test_help_loads_nothing_heavy() -> None:
    heavy = {"numpy", "llvmlite", "pandas", "rich", "scipy", "ml_dtypes"}
    assert heavy.isdisjoint(modules_after("--help", prints="Usage:"))


def test_a_case_loads_no_package_that_it_does_not_need() -> None:
    """Every worker process starts with this."""
    needless = {"pandas", "rich", "scipy", "sqlalchemy", "matplotlib", "onnx", "torch"}
    assert needless.isdisjoint(modules_after("--graph", "--case=op/relu.json", prints="passed:1"))


def test_a_process_that_hands_cases_to_workers_loads_no_compiler() -> None:
    loaded = modules_after("--jobs=2", "--graph", "--case=op/relu.json", prints="passed:1")
    assert {"llvmlite", "benchgraph.ops", "benchgraph.compile"}.isdisjoint(loaded)


def test_the_command_is_clicks() -> None:
    assert isinstance(main, click.Command)
