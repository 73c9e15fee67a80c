"""`benchgraph show`: the partitioned graph as text, DOT and SVG."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from hypothesis import given
from hypothesis import strategies as st

from benchgraph.cli import main
from benchgraph.core.dtypes import DType
from benchgraph.core.tensor import LogicalTensor
from benchgraph.present.show.graph_drawing import GAP, lay_out
from benchgraph.present.show.picture import label

Golden = Callable[[str], None]
CASE = ["--case=attention.json", "--policy=post_ops"]


def show(*words: str) -> Result:
    return CliRunner().invoke(main, ["show", *words])


@pytest.mark.parametrize("format", ["text", "dot"])
def test_attention_is_drawn(format: str, golden: Golden) -> None:
    result = show(*CASE, f"--format={format}")
    assert result.exit_code == 0, result.output
    golden(result.output)


@pytest.mark.parametrize("case", ["attention.json", "mlp.json", "quantised_mlp.json", "complex_fusion/gated_mlp.json"])
@pytest.mark.parametrize("policy", ["fused", "post_ops", "one_op_each"])
def test_the_svg_is_xml_and_holds_every_op_and_tensor(case: str, policy: str) -> None:
    from benchgraph.core.files import data_dir
    from benchgraph.graph import load

    graph = load(data_dir("inputs") / "graph" / case)
    result = show(f"--case={case}", f"--policy={policy}", "--format=svg")
    root = ET.fromstring(result.output)
    groups = {g.get("id"): "".join(g.itertext()) for g in root.iter("{http://www.w3.org/2000/svg}g") if g.get("id")}
    assert {f"op{op.id}" for op in graph.ops} | {f"t{id}" for id in graph.tensors} == set(groups)
    for op in graph.ops:
        assert f"{op.id}: {op.kind}" in groups[f"op{op.id}"]


def test_options_count_wherever_they_stand() -> None:
    before, after = show("--policy=one_op_each", "--case=mlp.json"), show("--case", "mlp.json", "--policy", "one_op_each")
    assert before.output == after.output
    assert "6 partitions under one_op_each" in before.output
    words = ["4x8:8x6", "--attr-post-ops=relu"]
    assert show("--matmul", *words).output == show(*reversed(words), "--driver", "matmul").output


def test_operands_stand_in_the_order_of_the_ports() -> None:
    assert "| %3, %4 f32 1 a " in show(*CASE).output


def test_one_op_is_not_ops() -> None:
    assert show("--eltwise", "4x8").output.startswith("--eltwise 4x8: 1 op, 1 partition under fused\n")


def test_a_file_is_written_and_named(tmp_path: Path) -> None:
    file = tmp_path / "deep" / "er.svg"
    result = show(*CASE, "--format=svg", "-o", str(file))
    assert (result.output, result.exit_code) == (f"svg: {file}\n", 0)
    assert file.read_text() == show(*CASE, "--format=svg").output


ONE = "give one --case, one value per option and one --policy"


@pytest.mark.parametrize(
    ("words", "message", "code"),
    [
        (["--case=mlp.json", "--format=png"], "show: --format: bad value 'png'; choose one of text, dot, svg", 2),
        (["--case=mlp.json", "-o"], "show: -o: a value is missing; write '-o VALUE'", 2),
        (["--case=mlp.json", "--mb=1,2"], f"show: 2 cases to draw; {ONE}", 2),
        ([], f"show: 0 cases to draw; {ONE}", 2),
        (["--case=mlp.json", "--policy=fused,post_ops"], f"show: 2 policies to draw; {ONE}", 2),
        (["--case=mpl.json"], "mpl.json: no such file; did you mean 'mlp.json'?", 1),
        (["--matmul", "2x3"], "2x3: 1 tensor is given where 2 to 3 are needed; join them by ':', as in 128x512:512x256", 1),
    ],
)  # fmt: skip
def test_errors_of_show_are_one_line(words: list[str], message: str, code: int) -> None:
    result = show(*words)
    assert (result.stderr, result.stdout, result.exit_code) == (f"benchgraph: {message}\n", "", code)


@pytest.mark.parametrize(
    ("tensor", "text"),
    [
        (LogicalTensor(3, DType.f32, (2, 3, 4, 5), (60, 1, 15, 3)), "%3 f32 2x3x4x5 acdb"),
        (LogicalTensor(3, DType.bf16, (2, 3), (8, 1)), "%3 bf16 2x3 strides 8x1"),
        (LogicalTensor(3, DType.f32, (), ()), "%3 f32 scalar"),
    ],
)
def test_a_label_has_id_dtype_dims_and_layout(tensor: LogicalTensor, text: str) -> None:
    assert label(tensor) == text


@st.composite
def graphs(draw: st.DrawFn) -> tuple[dict[str, float], list[tuple[str, str]]]:
    count = draw(st.integers(1, 12))
    widths = {f"n{i}": draw(st.floats(10, 200)) for i in range(count)}
    pairs = [(f"n{a}", f"n{b}") for b in range(count) for a in range(b)]
    return widths, draw(st.lists(st.sampled_from(pairs), unique=True)) if pairs else []


@given(graphs())
def test_nothing_overlaps_and_every_line_goes_down(graph: tuple[dict[str, float], list[tuple[str, str]]]) -> None:
    widths, edges = graph
    layout = lay_out(widths, edges)
    for row in set(layout.layer.values()):
        beside = sorted((n for n in widths if layout.layer[n] == row), key=lambda n: layout.centre[n])
        for a, b in pairwise(beside):
            assert layout.centre[b] - layout.centre[a] >= (widths[a] + widths[b]) / 2 + GAP - 1e-6
    for a, b in edges:
        rows = [row for _, row in layout.paths[a, b]]
        assert rows == list(range(layout.layer[a], layout.layer[b] + 1))
        assert len(rows) > 1
