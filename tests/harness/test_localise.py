"""`benchgraph localise`: the op that was made wrong is the op that is named."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from benchgraph.cli import main
from benchgraph.core.dtypes import DType
from benchgraph.graph import GraphBuilder
from benchgraph.graph.ir import Graph
from benchgraph.graph.json import save
from tests.support.fake_library import Clock, FakeLibrary, fake_bench

LAYERS, TOKENS, WIDTH = 12, 4, 8


def encoder() -> Graph:
    """Attention with one head and a perceptron, with residual sums and norms, twelve times."""
    b = GraphBuilder()
    x = b.input((1, TOKENS, WIDTH))
    for _ in range(LAYERS):
        query, key, value = (b.op("MatMul", x, b.constant((WIDTH, WIDTH))) for _ in range(3))
        weights = b.op("SoftMax", b.op("MatMul", query, key, transpose_b=True), axis=-1)
        x = b.op("LayerNorm", b.op("Add", x, b.op("MatMul", weights, value)), keep_stats=False, use_affine=False)
        wide = b.op("GELU", b.op("MatMul", x, b.constant((WIDTH, 2 * WIDTH))))
        x = b.op("LayerNorm", b.op("Add", x, b.op("MatMul", wide, b.constant((2 * WIDTH, WIDTH)))), keep_stats=False, use_affine=False)
    return b.graph()


GRAPH = encoder()
TEN = [op for op in GRAPH.order if op.kind != "SoftMax"][5::13][:10]


@pytest.fixture
def case(tmp_path: Path) -> str:
    save(GRAPH, tmp_path / "encoder.json")
    return f"--case={tmp_path / 'encoder.json'}"


def localise(case: str, library: FakeLibrary, *words: str) -> tuple[int, str]:
    done = CliRunner().invoke(main, ["localise", case, "--expected-n-partitions=0", *words], obj=fake_bench(library))
    return done.exit_code, done.output


def test_the_ten_faults_are_of_different_ops() -> None:
    assert len({op.id for op in TEN}) == 10
    assert len({op.kind for op in TEN}) >= 4


@pytest.mark.parametrize("op", TEN, ids=lambda op: op.label)
def test_an_op_that_is_wrong_alone(op, case: str) -> None:  # type: ignore[no-untyped-def]
    code, output = localise(case, FakeLibrary(Clock(), wrong=frozenset({op.id})), "--json")
    (found,) = json.loads(output)
    assert (code, found["op"]["id"], found["company"]) == (1, op.id, [])
    assert found["right"] == GRAPH.order.index(op)


@pytest.mark.parametrize("op", TEN, ids=lambda op: op.label)
def test_an_op_that_is_wrong_in_company(op, case: str) -> None:  # type: ignore[no-untyped-def]
    """The partition is the whole graph. A few other ops are company enough."""
    code, output = localise(case, FakeLibrary(Clock(), wrong=frozenset({op.id}), alone_too=False), "--json", "--fill=reals")
    (found,) = json.loads(output)
    assert (code, found["op"]["id"]) == (1, op.id)
    assert found["right"] == len(GRAPH.ops)
    assert 1 <= len(found["company"]) <= 3


def test_a_right_case(case: str) -> None:
    code, output = localise(case, FakeLibrary(Clock()))
    assert code == 0
    assert f"{len(GRAPH.ops)} ops right, alone and in their partitions" in output


def test_the_text_names_op_and_reason(case: str) -> None:
    _, output = localise(case, FakeLibrary(Clock(), wrong=frozenset({TEN[0].id})))
    assert f"{TEN[0].label} is the first wrong op, alone: tensor {TEN[0].outputs[0].id}: " in output


def test_ops_that_the_library_cannot_run_alone_are_computed_by_the_reference(case: str) -> None:
    code, output = localise(case, FakeLibrary(Clock(), unsupported="GELU", wrong=frozenset({TEN[-1].id})))
    assert code == 1
    assert "the library cannot run alone, so that the reference stood in: " in output
    assert f"{TEN[-1].label} is the first wrong op" in output


def test_our_own_library_is_right(tmp_path: Path) -> None:
    b = GraphBuilder()
    b.op("ReLU", b.op("MatMul", b.input((4, 8), DType.bf16), b.constant((8, 4), DType.bf16)))
    save(b.graph(), tmp_path / "graph.json")
    done = CliRunner().invoke(main, ["localise", f"--case={tmp_path / 'graph.json'}"])
    assert (done.exit_code, "2 ops right, alone and in their partitions" in done.output) == (0, True)


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ([], "localise: no case to look into; add --case FILE"),
        (["--policy=fused,post_ops", "--case=mlp.json"], "localise: one library and one policy at a time"),
        (["--mode=P", "--case=mlp.json"], "localise: --mode: outputs are compared, which mode P does not"),
    ],
)
def test_errors_name_the_remedy(words: list[str], says: str) -> None:
    done = CliRunner().invoke(main, ["localise", *words])
    assert done.exit_code == 2
    assert says in done.output
