"""oneDNN's own batch files, read in place, in mode L: every line is understood, expanded as benchdnn does, and its overrides apply."""

from __future__ import annotations

import json
from math import prod
from pathlib import Path

import pytest

from benchgraph.harness.bench import Bench
from benchgraph.harness.case import run_all
from benchgraph.ops import OPS
from benchgraph.options.argv import parse
from benchgraph.options.problem import Problem
from benchgraph.options.repro import split_quoted
from benchgraph.results.result import Status
from tests.support.corpus import CORPUS

ROOT = CORPUS / "onednn"
pytestmark = pytest.mark.skipif(not ROOT.is_dir(), reason=f"no inputs at {ROOT}")

# --case lines and expanded cases of oneDNN's files as they are upstream. What lies beside this checkout may be a part of them.
UPSTREAM = {
    "test_graph_all": (2564, 2978),
    "test_graph_ci": (178, 225),
    "test_graph_f32": (1104, 1261),
    "test_graph_bf16": (591, 613),
    "test_graph_f16": (591, 616),
    "test_graph_int8": (113, 119),
    "test_graph_f8": (10, 10),
    "test_graph_fusions": (155, 359),
    "op/harness_f32_all": (855, 1008),
    "op/harness_bf16_all": (566, 588),
    "op/harness_f16_all": (566, 591),
    "op/harness_f32_ci": (51, 67),
    "op/harness_bf16_ci": (23, 28),
    "op/harness_f16_ci": (23, 28),
    "pattern/harness_f32_all": (249, 253),
    "pattern/harness_int8_all": (113, 119),
    "pattern/harness_bf16_all": (25, 25),
    "pattern/harness_f16_all": (25, 25),
    "pattern/harness_f8_all": (10, 10),
    "pattern/harness_f32_ci": (1, 1),
    "pattern/harness_bf16_ci": (1, 1),
    "pattern/harness_f16_ci": (1, 1),
    "pattern/harness_int8_ci": (1, 1),
    "pattern/harness_f8_ci": (2, 2),
    "complex_fusion/harness_mha_all": (145, 346),
    "complex_fusion/harness_mha_ci": (65, 83),
    "complex_fusion/harness_mlp_all": (7, 10),
    "complex_fusion/harness_mlp_ci": (7, 10),
    "complex_fusion/harness_bmb_all": (3, 3),
    "complex_fusion/harness_bmb_ci": (3, 3),
}
LEAVES = [name for name in UPSTREAM if "/" in name and name.endswith("_all")]

# Lines that are mistaken: they set shapes of tensors that are not there, or fractions where an attribute is an integer. They run as in
# benchdnn, and the result says so.
MISTAKEN = {
    "maxpool_bwd.json": "there is no tensor",
    "int8_conv_add_add_fusion.json": "there is no tensor",
    "int8_conv_2d_fusion.json": "there is no tensor",
    "int8_matmul_mul_add_mul_fusion.json": "there is no tensor",
    "interpolate_bwd.json": "sizes takes integers",
}


def problems(name: str, monkeypatch: pytest.MonkeyPatch) -> tuple[Problem, ...]:
    monkeypatch.chdir(ROOT)  # the paths in the files begin there
    return parse(["--mode=L", "--graph", f"--batch={name}"]).problems


def counted(path: Path) -> tuple[int, int]:
    """--case lines and expanded cases, by counting commas: every line is `--reset options --case=...`."""
    lines = cases = 0
    for line in path.read_text().splitlines():
        words = [w for w in line.partition("#")[0].split() if w.startswith("--")]
        if words and words[0].startswith("--batch="):
            inner = counted(ROOT / words[0].removeprefix("--batch="))
            lines, cases = lines + inner[0], cases + inner[1]
        elif any(w.startswith("--case=") for w in words):
            assert words[0] == "--reset"
            lines, cases = lines + 1, cases + prod(w.count(",") + 1 for w in words)
    return lines, cases


def test_every_batch_file_is_in_the_table() -> None:
    found = {str(p.relative_to(ROOT)) for p in ROOT.rglob("*") if p.is_file() and p.suffix != ".json"}
    assert found <= set(UPSTREAM)


@pytest.mark.parametrize("name", UPSTREAM)
def test_a_batch_expands_into_as_many_cases_as_in_benchdnn(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if not (ROOT / name).is_file():
        pytest.skip(f"no {name} at {ROOT}")
    lines, cases = counted(ROOT / name)
    assert len(problems(name, monkeypatch)) == cases
    upstream = UPSTREAM[name]
    assert lines <= upstream[0]
    assert cases == upstream[1] if lines == upstream[0] else cases <= upstream[1]


@pytest.mark.parametrize("name", LEAVES)
def test_the_overrides_of_every_line_apply(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if not (ROOT / name).is_file():
        pytest.skip(f"no {name} at {ROOT}")
    todo = problems(name, monkeypatch)
    missing = {file for file in {p.file for p in todo if p.file} if not _has_rows(file)}
    results = run_all([p for p in todo if p.file not in missing], Bench(), print)
    cases = list(results)
    assert [c.line for c in cases if c.result.status is not Status.LISTED] == []
    assert [c.line for c in cases if c.result.reason and MISTAKEN.get(c.repro.rpartition("/")[2], "?") not in c.result.reason] == []


def _has_rows(path: Path) -> bool:
    """Whether every op kind of the file has a row by now."""
    return all(op["kind"] in OPS for op in json.loads(path.read_text())["graph"])


def test_a_line_runs_as_its_repro_line(monkeypatch: pytest.MonkeyPatch) -> None:
    """The overridden graph of every 40th case is that of its repro line alone."""
    for problem in problems("test_graph_all", monkeypatch)[::40]:
        (again,) = parse(split_quoted(problem.repro)).problems
        assert again.knobs == problem.knobs
        if problem.file is not None and _has_rows(problem.file) and problem.file.name not in MISTAKEN:
            assert again.graph() == problem.graph()
