"""`benchgraph fuzz`: its words, shrinking of failures, and cases found by it."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from click.testing import Result as Output

from benchgraph import ops
from benchgraph.cli import main
from benchgraph.commands.fuzz import Request, _as_it_ran, parse_request, shrink_all
from benchgraph.core.attrs import Attrs
from benchgraph.core.config import config
from benchgraph.core.dtypes import DType
from benchgraph.core.files import data_dir
from benchgraph.core.tensor import PropertyType, dense_strides
from benchgraph.fuzz.generate import generate
from benchgraph.fuzz.shrink import complexity, shrink
from benchgraph.graph import Graph, load, parse_graph, validate
from benchgraph.graph.ir import END, Op
from benchgraph.harness.isolate import share_of_threads
from benchgraph.ops.spec import Elementwise
from benchgraph.options.argv import parse
from benchgraph.options.problem import Problem
from benchgraph.results.result import CaseResult, Result, Status
from benchgraph.tir.ir import Expr
from tests.support.fake_library import Clock, FakeLibrary, fake_bench

REGRESSIONS = data_dir("inputs") / "graph" / "regressions"


def fuzz(*words: str, library: FakeLibrary | None = None) -> Output:
    bench = None if library is None else fake_bench(library)
    return CliRunner().invoke(main, ["fuzz", *words], obj=bench, prog_name="benchgraph")


# ---- the command -----------------------------------------------------------------------------------------------------


def test_it_runs_graphs_of_a_seed_each_of_which_runs_alone() -> None:
    result = fuzz("--seed", "1", "--count", "3", "--start=4", "--ops=4", library=FakeLibrary(Clock()))
    assert result.exit_code == 0, result.output
    repros = re.findall(r"__REPRO: (.*)", result.output)
    assert repros == ["--fuzz --ops=4 1:4", "--fuzz --ops=4 1:5", "--fuzz --ops=4 1:6"]
    assert [parse(r.split()).problems[0].graph() for r in repros] == [generate(1, i, 4) for i in (4, 5, 6)]


def test_the_other_words_go_to_every_graph() -> None:
    request = parse_request(["--count=2", "--policy=fused,post_ops", "-o", "found", "--jobs", "2", "--tries", "7"])
    assert request == Request(count=2, output="found", tries=7, rest=("--policy=fused,post_ops", "--jobs=2"))
    assert request.words == ["--fuzz", "--policy=fused,post_ops", "--jobs=2", "0:0", "0:1"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--count=0"], "fuzz: --count: bad value '0'; give an integer from 1 on"),
        (["--seed=x"], "fuzz: --seed: bad value 'x'; give a non-negative integer"),
        (["--seed", "-1"], "fuzz: --seed: bad value '-1'; give a non-negative integer"),
        (["--seed", "--count=1"], "fuzz: --seed: a value is missing; write '--seed VALUE'"),
        (["--seed"], "fuzz: --seed: a value is missing; write '--seed VALUE'"),
        (["--release=2.0"], "--release: bad value '2.0'; give a release of oneDNN, 3.2 or a newer one"),
        (["--release=3.1"], "--release: bad value '3.1'; give a release of oneDNN, 3.2 or a newer one"),
        (["5"], "fuzz: 5: a word that is not an option; write options as --name=value"),
        (["--case=mlp.json"], "fuzz: --case=mlp.json: the cases of the command are random graphs; leave it out"),
        (["--jobs=1", "--batch", "test_graph_ci"], "fuzz: --batch: the cases of the command are random graphs; leave it out"),
        (["--graph"], "fuzz: --graph: the cases of the command are random graphs; leave it out"),
        (["--match=none"], "--match and --shard leave none of 100 cases; widen them"),
        (["--cuont=3"], "--cuont: unknown option"),
    ],
)
def test_invalid_words_end_it_at_once(words: list[str], message: str) -> None:
    result = fuzz(*words)
    assert result.exit_code == 2
    assert message in result.stderr


@pytest.mark.parametrize("case", ["1", "1:", "1:2:3", "a:b", "1:-2"])
def test_a_place_that_names_no_graph_costs_its_case(case: str) -> None:
    result = CliRunner().invoke(main, ["--fuzz", f"--case={case}"])
    assert "INVALID_ARGUMENTS" in result.output
    assert "give SEED:INDEX, as in 1:17" in result.output


def test_a_place_where_no_graph_can_be_made_is_an_error(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("benchgraph.fuzz.grow.Growth.grow", lambda growth, wanted: None)
    result = fuzz("--count=1", "--ops=1", "-o", str(tmp_path), library=FakeLibrary(Clock()))
    assert result.exit_code == 1
    assert isinstance(result.exception, SystemExit)
    assert "INVALID_ARGUMENTS (0:0: none of 100 attempts with at most 1 op came to a graph; take another place" in result.output
    assert "AssertionError" not in result.output


def spoilt(kind: str, array: np.ndarray) -> np.ndarray:
    return array + 1 if kind == "Tanh" else array


def tanh_place() -> int:
    """A graph of seed 1 with several ops, a Tanh among them."""
    return next(i for i in range(999) if {"Tanh"} < {op.kind for op in generate(1, i, 8).ops if op.kind != END})


def test_a_failure_becomes_a_case_of_its_own(tmp_path: Path) -> None:
    index = tanh_place()
    library = FakeLibrary(Clock(), spoil=spoilt)
    result = fuzz("--seed=1", "--count=1", f"--start={index}", "--ops=8", "-o", str(tmp_path / "found"), library=library)
    assert result.exit_code == 1, result.output
    path = tmp_path / "found" / f"fuzz-1-{index}.json"
    assert [op.kind for op in load(path).ops] == ["Tanh"]
    shrunk = result.output.splitlines()[-1]
    assert re.match(r"shrunk in \d+ tries to 1 op: 0:FAILED ", shrunk)
    repro = shrunk.partition("__REPRO: ")[2].split()
    again = CliRunner().invoke(main, repro, obj=fake_bench(library))
    assert "0:FAILED" in again.output
    assert fuzz("--seed=1", "--count=1", f"--start={index}", "--ops=8", "--tries=0", library=library).output.count("shrunk") == 0


@pytest.mark.parametrize("name", ["benchgraph", "onednn"])
def test_unimplemented_ops_of_another_library_are_not_shrunk(name: str, tmp_path: Path) -> None:
    problem = parse(["--fuzz", "1:0"]).problems[0]
    problem = replace(problem, globals=replace(problem.globals, library=(name,)))
    refused = CaseResult(0, problem.repro, 0.0, Result(Status.UNIMPLEMENTED, "no kernel"))
    bench = fake_bench(FakeLibrary(Clock()))
    told = list(shrink_all(Request(output=str(tmp_path), tries=1), [problem], [refused], bench))
    assert len(told) == (name == "benchgraph")


@pytest.mark.parametrize(
    ("words", "threads"), [([], config().threads), (["--jobs=2"], share_of_threads(2)), (["--threads=3", "--jobs=2"], 3)]
)
def test_a_failure_is_shrunk_with_the_threads_it_ran_with(words: list[str], threads: int) -> None:
    """Code depends on them, and workers have fewer."""
    (problem,) = parse(["--fuzz", *words, "1:0"]).problems
    assert _as_it_ran(problem).globals.threads == threads


def test_a_refusal_is_shrunk_to_the_refused_op(tmp_path: Path) -> None:
    index = tanh_place()
    library = FakeLibrary(Clock(), unsupported="Tanh")
    fuzz("--seed=1", "--count=1", f"--start={index}", "--ops=8", "-o", str(tmp_path), library=library)
    assert [op.kind for op in load(tmp_path / f"fuzz-1-{index}.json").ops] == ["Tanh"]


def test_a_wrong_rewrite_in_the_compiler_is_found_and_cornered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tanh compiled as the identity: nothing is left but one Tanh of few numbers, all in f32."""

    def identity(attrs: Attrs, ins: tuple[Expr, ...]) -> Expr:
        return ins[0]

    row = ops.spec("Tanh")
    monkeypatch.setitem(ops._ROWS, "Tanh", replace(row, lowering=replace(row.lowering, form=Elementwise(identity))))
    index = tanh_place()
    result = fuzz("--seed=1", "--count=1", f"--start={index}", "--ops=8", "-o", str(tmp_path))
    assert result.exit_code == 1
    (op,) = load(tmp_path / f"fuzz-1-{index}.json").ops
    assert op.kind == "Tanh"
    (src,), (dst,) = op.inputs, op.outputs
    assert (src.dtype, src.property_type) == (DType.f32, PropertyType.undef)
    assert src.type.elements == 1
    assert src.strides == dense_strides(src.known_shape) == dst.strides


# ---- shrinking -------------------------------------------------------------------------------------------------------

LAYERS = validate(
    parse_graph(
        "graph engine=cpu fpmath=strict {"
        " %2: bf16[6,8] = MatMul#0(%0: bf16[6,4] strides=[1,6], %1: bf16[4,8] constant)"
        " %3: bf16[6,8] = LeakyReLU#1(%2) {alpha=0.25}"
        " %4: bf16[6,8] = SoftMax#2(%3) {axis=-1}"
        " %6: bf16[6,8] = Add#3(%4, %5: bf16[8])"
        " %7: f32[6,8] = TypeCast#4(%6)"
        " End#5(%4) }"
    )
)


def having(kind: str, least: int = 0) -> Callable[[Graph], bool]:
    """Fails where there is such an op with so many elements in its first input."""
    return lambda graph: any(op.kind == kind and op.inputs[0].type.elements >= least for op in graph.ops)


@pytest.mark.parametrize("op", [op for op in LAYERS.ops if op.kind != END], ids=lambda op: op.kind)
def test_only_the_op_at_fault_remains(op: Op) -> None:
    small = shrink(LAYERS, having(op.kind)).graph
    assert [o.kind for o in small.ops] == [op.kind]
    assert max(t.type.elements for t in small.tensors.values()) == 1
    assert {t.dtype for t in small.inputs} == {DType.bf16 if op.kind == "TypeCast" else DType.f32}
    assert {t.property_type for t in small.inputs} == {PropertyType.undef}


def test_a_size_that_matters_stays() -> None:
    (op,) = shrink(LAYERS, having("SoftMax", least=5)).graph.ops
    assert 5 <= op.inputs[0].type.elements <= 6


def test_two_ops_that_fail_together_stay_together() -> None:
    small = shrink(LAYERS, lambda g: any(o.kind == "Add" and g.producers.get(o.inputs[0].id) for o in g.ops)).graph
    assert len(small.ops) == 2


def test_every_candidate_is_legal_and_simpler_and_no_try_is_made_twice() -> None:
    seen: list[Graph] = []

    def fails(graph: Graph) -> bool:
        assert validate(graph) == graph
        assert graph not in seen
        assert complexity(graph) < complexity(LAYERS)
        seen.append(graph)
        return having("SoftMax")(graph)

    first = shrink(LAYERS, fails)
    assert first.tries == len(seen)
    assert shrink(LAYERS, having("SoftMax")) == first


def test_tries_are_bounded() -> None:
    found = shrink(LAYERS, having("SoftMax"), tries=3)
    assert found.tries == 3
    assert having("SoftMax")(found.graph)


def test_a_graph_that_cannot_be_made_smaller_stays() -> None:
    assert shrink(LAYERS, lambda graph: False).graph == LAYERS


# ---- what was found --------------------------------------------------------------------------------------------------


def regressions() -> tuple[Problem, ...]:
    return parse(["--graph", "--batch=harness_regressions_ci"]).problems


def test_every_regression_is_in_the_batch() -> None:
    assert {p.file for p in regressions()} == set(REGRESSIONS.glob("*.json"))
    for path in REGRESSIONS.glob("*.json"):
        json.loads(path.read_text())
        load(path)


def test_known_failures_stay_fixed() -> None:
    done = CliRunner().invoke(main, ["--batch=harness_regressions_ci"])
    count = len(regressions())
    assert f"tests:{count} passed:{count} " in done.output, done.output
