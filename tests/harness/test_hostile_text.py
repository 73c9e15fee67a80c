"""Text out of files in everything that is printed or written: it moves no cursor, breaks no line, and every encoding takes it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from benchgraph.cli import main
from benchgraph.core.errors import BenchgraphError, ParseError
from benchgraph.core.printable import LINE, listed, printable, quoted
from benchgraph.graph import json_values, load

FAKE = "\n0:PASSED (1 ms) __REPRO: fake\x1b[31m\x07\u202e\u2028"
DEEP = "[" * 100000


def relu(**fields: Any) -> dict[str, Any]:
    tensors = ({"id": id, "dtype": "f32", "shape": [4, 6]} for id in (0, 1))
    return {"id": 0, "kind": "ReLU", "attrs": {}, **dict(zip(("inputs", "outputs"), ([t] for t in tensors), strict=True)), **fields}


def text(**fields: Any) -> str:
    return json.dumps({"graph": [relu(**fields)]})


HOSTILE = {  # name of a file -> its text, and what the reason says of it; '' for one that passes
    "name": (text(name=FAKE), ""),
    "long": (text(name="x" * 3_000_000), ""),
    "version": (json.dumps({"version": FAKE, "graph": [relu()]}), ""),
    "kind": (text(kind=FAKE), "unknown op kind '\\n0:PASSED"),
    "lost": (text(kind="\ud800"), '"kind" is "\\ud800"; it must be text'),
    "lost_name": (text(name="\udfff"), '"name" is "\\udfff"; it must be text'),
    "lost_attr": (text(attrs={"\ud800": {"type": "s64", "value": 1}}), 'an attribute\'s name is "\\ud800"'),
    "attr": (text(attrs={FAKE * 1000: {"type": "s64", "value": 1}}), "unknown attribute '\\n0:PASSED"),
    "type": (text(attrs={"a": {"type": FAKE, "value": 1}}), "unknown type '\\n0:PASSED"),
    "mode": (json.dumps({"fpmath_mode": FAKE, "graph": [relu()]}), "unknown fpmath_mode '\\n0:PASSED"),
    "deep": (DEEP, "brackets nest too deep in it; those of a graph nest at most seven deep"),
    "deep_inside": (text(comment="@").replace('"@"', DEEP), "brackets nest too deep"),
    "digits": (text().replace("[4, 6]", f"[{'9' * 5000}, 6]"), 'op 0: ReLU: inputs[0]: element 0 of "shape" is an integer of 5000 digits'),
    "digits_id": (text().replace('"id": 0', f'"id": {"9" * 5000}', 1), 'graph[0]: "id" is an integer of 5000 digits; it must be between'),
    "real": (
        text(kind="Pow", attrs={"beta": {"type": "f32", "value": 10**400}}),
        "attribute 'beta': the value is 1000",
    ),
    "real_digits": (
        text(kind="Pow", attrs={"beta": {"type": "f32", "value": 7}}).replace("7", "7" * 6000),
        "attribute 'beta': the value is an integer of 6000 digits; give it numbers that f32 has",
    ),
    "doubled": (text().replace('"kind"', '"kind": "Abs", "kind"'), 'graph[0]: the op has the key "kind" twice; leave one of them out'),
    "mark": ("\ufeff" + text(), "the file begins with a byte order mark; save it as UTF-8 without one"),
    "nul": (text() + "\x00", "not JSON: line 1"),
    "open": ('{"a": "' + '\\"' * 200_000, "not JSON: line 1"),
}


@pytest.fixture(scope="module")
def cases(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    folder = tmp_path_factory.mktemp("hostile")
    for name, (held, _) in HOSTILE.items():
        (folder / f"{name}.json").write_text(held, encoding="utf-8")
    return [folder / f"{name}.json" for name in HOSTILE]


def run(*words: str) -> Result:
    result = CliRunner().invoke(main, list(words))
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result


def check_plain(written: str) -> None:
    """Lines of characters that are printed as themselves."""
    written.encode()
    assert [c for line in written.split("\n") for c in line if not c.isprintable()] == []


@pytest.mark.parametrize("mode", ["L", "I", "C", "B", "S"])
def test_every_case_has_one_line_with_the_reason(cases: list[Path], mode: str) -> None:
    output = run("--graph", f"--mode={mode}", *(f"--case={c}" for c in cases)).output
    check_plain(output)
    lines = [line for line in output.partition("=== Failed cases")[0].splitlines() if "__REPRO: --" in line]
    assert len(lines) == len(cases)
    for i, ((name, (_, why)), line) in enumerate(zip(HOSTILE.items(), lines, strict=True)):
        assert line.startswith(f"{i}:INVALID_ARGUMENTS (" if why else f"{i}:"), line
        assert why in line, line
        assert line.endswith(f"{name}.json"), line
        assert len(line) < 1500, name
        assert "INVALID" in line or not why
        assert "Error" not in line


@pytest.mark.parametrize("report", ["json", "junit", "html", "markdown", "csv", "console"])
def test_reports_hold_no_raw_text(cases: list[Path], report: str, tmp_path: Path) -> None:
    run("--graph", f"--report={report}:{tmp_path / 'out'}", *(f"--case={c}" for c in cases))
    check_plain((tmp_path / "out").read_text(encoding="utf-8"))


def test_verbose_text_is_plain_too(cases: list[Path]) -> None:
    check_plain(run("--graph", "-v9", *(f"--case={c}" for c in cases)).output)


@pytest.mark.parametrize("command", [("show",), ("show", "--format=svg"), ("show", "--format=dot"), ("explain",), ("tune",)])
def test_commands_end_in_a_line_or_an_answer(cases: list[Path], command: tuple[str, ...]) -> None:
    for case in cases:
        result = run(*command, f"--case={case}")
        check_plain(result.output)
        why = HOSTILE[case.stem][1]
        assert result.exit_code == (1 if why or command == ("tune",) else 0), result.output
        if why:
            assert result.output.startswith("benchgraph: ")
            assert why in result.output


def test_compile_times_prints_the_error_without_its_class(cases: list[Path]) -> None:
    result = run("compile-times", "--runs=1", f"--case={cases[3]}")
    assert result.exit_code == 1
    assert "unknown op kind '\\n0:PASSED" in result.output
    assert "NoSuchOpKind" not in result.output


def test_a_name_that_the_encoding_of_the_output_lacks_is_escaped(tmp_path: Path) -> None:
    (tmp_path / "大.json").write_text(text())
    env = {**os.environ, "PYTHONIOENCODING": "latin-1", "PYTHONUTF8": "0"}
    line = [sys.executable, "-m", "benchgraph", "--graph", "--mode=L", f"--case={tmp_path / '大.json'}"]
    done = subprocess.run(line, env=env, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr
    assert b"\\u5927.json" in done.stdout


def test_names_of_files_are_escaped(tmp_path: Path) -> None:
    names = ["a\n0:PASSED\x1b[31m.json", os.fsdecode(b"bad\xff.json"), "z" * 300 + ".json", "nul\x00.json"]
    for name in names[:2]:
        (tmp_path / name).write_text(text())
    output = run("--graph", "--mode=C", f"--dump-dir={tmp_path / 'out'}", *(f"--case={tmp_path / name}" for name in names)).output
    check_plain(output)
    assert "tests:4 passed:2 skipped:0 mistrusted:0 unimplemented:0 invalid_arguments:2" in output
    assert "a\\n0:PASSED\\x1b[31m.json" in output
    assert "bad\\xff.json" in output


def test_other_things_than_files_are_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "folder").mkdir()
    output = run("--graph", "--mode=L", *(f"--case={p}" for p in (tmp_path / "fifo", tmp_path / "folder", "/dev/zero"))).output
    assert output.count("it is a device or a pipe, not a file") >= 2
    assert "it is a directory, not a file" in output
    for path in (tmp_path / "fifo", Path("/dev/zero")):
        with pytest.raises(BenchgraphError, match="cannot read the file: it is a device or a pipe; give the path"):
            load(path)


def test_a_file_larger_than_any_graph_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_values, "MOST_BYTES", 1 << 20)
    with (tmp_path / "huge.json").open("wb") as file:
        file.truncate(1 << 40)
    with pytest.raises(BenchgraphError, match="the file is larger than 1 MiB; dump fewer ops"):
        load(tmp_path / "huge.json")


def test_text_for_messages() -> None:
    assert printable("plain, größe 中") == "plain, größe 中"
    assert printable("a\r\n\x1b\x85\u2028\u202e\ud800\x7f") == "a\\r\\n\\x1b\\x85\\u2028\\u202e\\ud800\\x7f"
    assert quoted("x" * 500) == f"'{'x' * LINE}...'"
    assert quoted((1, 2.5, True)) == "(1, 2.5, True)"
    assert quoted((1,)) == "(1,)"
    assert quoted(10**5000) == "an integer of 16610 bits"
    assert len(quoted(tuple(range(10**6)))) < LINE + 10
    assert listed(range(30)) == ", ".join(map(str, range(20))) + ", ..."
    assert listed([]) == "none"


def test_errors_are_one_line_and_show_text_below() -> None:
    bad = ParseError("what\nelse", where="a\x1bb", fix="m" * 5000, shown="x\n^")
    assert bad.line.startswith("a\\x1bb: what\\nelse; mmm")
    assert len(bad.line) < 1100
    assert str(bad) == f"{bad.line}\nx\n^"
    assert str(bad.inside("f")) == f"f: {bad}"
