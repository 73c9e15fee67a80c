"""The cases and batch files under inputs/graph, and the script that writes them."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

import pytest
from click.testing import CliRunner

from benchgraph.cli import main
from benchgraph.core.dtypes import GRAPH_DTYPES, DType
from benchgraph.core.files import data_dir
from benchgraph.graph import Graph, load
from benchgraph.ops import OPS
from benchgraph.options.argv import parse
from benchgraph.options.problem import Problem
from benchgraph.partition.ir import Policy
from benchgraph.partition.partitioner import partitions
from inputs.graph.generate import FAMILIES, LEVELS, write
from inputs.graph.generate.case import CASES

INPUTS = data_dir("inputs") / "graph"
BATCHES = sorted(p.name for p in INPUTS.iterdir() if p.is_file() and p.suffix != ".json")
RUN = [name for name in BATCHES if not name.startswith("harness_")]
FOUND = ("regressions", "harness_regressions_ci")  # graphs that failed once; nobody writes them but who mends what made them fail
NEVER_UPSTREAM = {  # kinds that no JSON of oneDNN's own contains
    *("BiasAddBackward", "GELUBackward", "HardSwishBackward", "MishBackward", "Pow", "SigmoidBackward", "SoftPlus", "SqrtBackward"),
    *("SquaredDifference", "TanhBackward"),
}


@cache
def problems(batch: str) -> tuple[Problem, ...]:
    return parse(["--graph", f"--batch={batch}"]).problems


def described(batch: str) -> list[str]:
    return [p.description for p in problems(batch)]


@cache
def graphs() -> tuple[Graph, ...]:
    """Of every problem there is."""
    return tuple(problem.graph() for problem in problems("test_graph_all"))


def files(folder: Path) -> set[str]:
    found = (p.relative_to(folder) for p in folder.rglob("*") if p.is_file())
    return {str(p) for p in found if p.parts[0] not in ("generate", *FOUND)}


def test_committed_files_are_those_that_the_script_writes(tmp_path: Path) -> None:
    write(tmp_path)
    assert files(INPUTS) == files(tmp_path), "run python -m inputs.graph.generate, and remove what no case is called any more"
    for name in files(INPUTS):
        assert (INPUTS / name).read_text() == (tmp_path / name).read_text(), f"{name} is stale: run python -m inputs.graph.generate"


def test_the_cases_are_strict_json_that_loads() -> None:
    assert len({case.path for case in CASES}) == len(CASES)
    for case in CASES:
        json.loads((INPUTS / case.path).read_text())
        assert load(INPUTS / case.path) == case.graph()


def test_each_case_is_partitioned_as_its_line_says() -> None:
    for case in CASES:
        work = [p for p in partitions(case.graph(), Policy.fused) if p.kind != "end"]
        assert len(work) == case.partitions, case.path
        assert all(p.is_supported for p in work), case.path
    assert "--reset --expected-n-partitions=2 --case=pattern/two_islands.json\n" in (INPUTS / "harness_graph_pattern_ci").read_text()


@pytest.mark.parametrize("stem", ["test_graph", *(f"harness_graph_{family}" for family in FAMILIES)])
def test_every_level_holds_the_one_below_and_nothing_twice(stem: str) -> None:
    smoke, ci, everything = (described(f"{stem}_{level}") for level in LEVELS)
    assert set(smoke) < set(ci) < set(everything)
    for level in (smoke, ci, everything):
        assert len(level) == len(set(level))


@pytest.mark.parametrize("level", LEVELS)
def test_a_test_is_made_of_the_families(level: str) -> None:
    families = {d for family in FAMILIES for d in described(f"harness_graph_{family}_{level}")}
    assert set(described(f"test_graph_{level}")) == families


def test_every_case_is_in_the_ci_batch() -> None:
    assert {p.file for p in problems("test_graph_ci")} == {INPUTS / case.path for case in CASES}


@pytest.mark.parametrize("name", BATCHES)
def test_batches_begin_with_a_reset(name: str) -> None:
    words = [w for line in (INPUTS / name).read_text().splitlines() for w in line.partition("#")[0].split()]
    assert words[0] == "--reset"


@pytest.mark.parametrize("name", RUN)
def test_commands_need_no_driver_and_every_problem_makes_a_graph(name: str) -> None:
    assert parse([f"--batch={name}"]).problems == problems(name)
    for problem in problems(name):
        assert problem.graph().ops


def test_every_kind_that_can_be_computed_is_tested() -> None:
    """A Wildcard stands for an op that nobody knows: it is the only kind that no test can run."""
    tested = {op.kind for graph in graphs() for op in graph.ops}
    assert tested >= NEVER_UPSTREAM
    assert {kind for kind, row in OPS.items() if not row.is_internal} - tested == {"Wildcard"}


def test_every_dtype_of_data_is_tested_and_the_sizes_that_hurt() -> None:
    tensors = [t for graph in graphs() for op in graph.ops for t in (*op.inputs, *op.outputs)]
    assert {t.dtype for t in tensors} >= {dtype for dtype in GRAPH_DTYPES if dtype is not DType.undef}
    shapes = {t.known_shape for t in tensors}
    assert () in shapes
    for size in (0, 1, 17, 33, 129):
        assert any(size in shape for shape in shapes)
    assert any(sorted(t.known_strides, reverse=True) != list(t.known_strides) for t in tensors)


def test_the_smoke_batch_passes() -> None:
    done = CliRunner().invoke(main, ["--batch=test_graph_smoke"])
    count = len(problems("test_graph_smoke"))
    assert f"tests:{count} passed:{count} " in done.output, done.output


def test_the_ablation_has_every_subgraph_of_the_paper_under_every_policy() -> None:
    """2 MLPs at 5 batch sizes and 4 attention shapes at 3, in f32, bf16 and int8; and the command line chooses nothing but the mode."""
    found = parse(["--mode=P", "--graph", "--batch=perf_paper_ablation"]).problems
    assert len(found) == (2 * 5 + 4 * 3) * 3
    assert {p.globals.policies for p in found} == {("one_op_each", "post_ops", "fused:no-coarse", "fused")}
