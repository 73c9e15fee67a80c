"""The batch files under inputs/<driver>/, of every driver of descriptors."""

from __future__ import annotations

import pickle
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from benchgraph.cli import main
from benchgraph.core.files import data_dir
from benchgraph.graph import Graph
from benchgraph.options.argv import parse
from benchgraph.options.plugins import load_driver, names
from benchgraph.options.problem import CannotExpress, Problem
from benchgraph.options.repro import split_quoted

DRIVERS = [name for name in names("drivers") if not load_driver(name).reads_files]
FILES = [path for name in DRIVERS for path in sorted((data_dir("inputs") / name).iterdir()) if path.is_file()]


def problems(path: Path) -> tuple[Problem, ...]:
    return parse([f"--{path.parent.name}", f"--batch={path.name}"]).problems


@cache
def built(driver: str, knobs: Any) -> Graph:
    """Files share cases. The graph follows from the knobs; tests/fuzz/test_generate.py shows it for the random ones."""
    return load_driver(driver).build(knobs)


@pytest.mark.parametrize("driver", DRIVERS)
def test_every_driver_has_shapes_a_set_of_them_all_a_smoke_and_a_ci_batch(driver: str) -> None:
    found = {path.name for path in FILES if path.parent.name == driver}
    assert {"set_all", f"test_{driver}_smoke", f"test_{driver}_ci"} <= found
    shapes = [path for path in FILES if path.parent.name == driver and path.name.startswith("shapes_")]
    assert {p.repro for path in shapes for p in problems(path)} == {p.repro for p in problems(data_dir("inputs") / driver / "set_all")}


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_every_case_builds(path: Path) -> None:
    assert path.name.startswith(("shapes_", "set_", "test_", "perf_"))
    found = problems(path)
    assert found
    for problem in found:
        again = parse(split_quoted(problem.repro)).problems[0]
        assert built(again.driver.name, again.knobs) == built(problem.driver.name, problem.knobs), problem.repro
        if path.name.startswith(("shapes_", "set_")):
            assert len(split_quoted(problem.repro)) == 2, f"{path.name} is for shapes alone"


@pytest.mark.parametrize("path", [p for p in FILES if p.name.startswith(("test_", "perf_"))], ids=lambda path: path.name)
def test_deployed_batches_begin_with_a_reset_and_run_without_their_driver_named(path: Path) -> None:
    words = [w for line in path.read_text().splitlines() for w in line.partition("#")[0].split()]
    assert words[0] == "--reset"
    assert parse([f"--batch={path.name}"]).problems == problems(path)


@pytest.mark.parametrize("driver", DRIVERS)
def test_the_smoke_batch_passes(driver: str) -> None:
    done = CliRunner().invoke(main, [f"--batch=test_{driver}_smoke"])
    count = len(problems(data_dir("inputs") / driver / f"test_{driver}_smoke"))
    assert f"tests:{count} passed:{count} " in done.output, done.output


@pytest.mark.parametrize("driver", DRIVERS)
def test_problems_can_go_to_worker_processes(driver: str) -> None:
    for problem in problems(data_dir("inputs") / driver / f"test_{driver}_smoke"):
        assert pickle.loads(pickle.dumps(problem)) == problem


def test_a_batch_of_descriptors_runs_in_worker_processes() -> None:
    done = CliRunner().invoke(main, ["--jobs=2", "--batch=test_reorder_smoke"])
    count = len(problems(data_dir("inputs") / "reorder" / "test_reorder_smoke"))
    assert f"tests:{count} passed:{count} " in done.output, done.output


def test_a_driver_that_cannot_express_a_case_says_so() -> None:
    """The batches leave such cases out, so that a SKIPPED in them is news."""
    with pytest.raises(CannotExpress):
        parse(["--matmul", "--dt=s32", "2x3:3x4"]).problems[0].graph()


def test_the_papers_single_products_are_80() -> None:
    """8 layers at 5 batch sizes in 2 dtypes, each with the work of its layer."""
    found = problems(data_dir("inputs") / "matmul" / "perf_matmul_paper")
    shapes = {(p.knobs.mb, p.knobs.case, str(p.knobs.dt)) for p in found}
    assert len(found) == len(shapes) == 80
    assert {mb for mb, _, _ in shapes} == {32, 64, 128, 256, 512}
    chains = {(13, 512, 256, 128), (479, 1024, 1024, 512, 256, 1)}
    assert {case.shapes[1] for _, case, _ in shapes} == {pair for widths in chains for pair in pairwise(widths)}
    assert {p.graph().ops[-1].kind for p in found} == {"ReLU", "Quantize"}
