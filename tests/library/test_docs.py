"""The page about the programming model: its code runs, and its numbers and error messages are right."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import benchgraph
from benchgraph import BenchgraphError, DType, Engine, Graph, LogicalTensor, Op, Partition

PAGE = Path(__file__).parents[2] / "docs" / "programming-model.md"
TEXT = PAGE.read_text(encoding="utf-8")
f32 = DType.f32


@pytest.fixture(scope="module")
def names() -> dict[str, Any]:
    """What the page's code leaves behind."""
    (code,) = re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)
    found: dict[str, Any] = {}
    exec(compile(code, str(PAGE), "exec"), found)
    return found


def test_the_code_of_the_readme_runs() -> None:
    """It says itself what is right."""
    readme = PAGE.parents[1] / "README.md"
    (code,) = re.findall(r"```python\n(.*?)```", readme.read_text(encoding="utf-8"), re.DOTALL)
    assert "assert " in code
    exec(compile(code, str(readme), "exec"), {})


def test_the_pages_convolution_is_right(names: dict[str, Any]) -> None:
    """The RFC's example, 8x3x227x227 by 96x3x11x11 in steps of 4, then ReLU."""
    src, weights, bias = (names["arrays"][i] for i in range(3))
    windows = np.lib.stride_tricks.sliding_window_view(src, (11, 11), axis=(2, 3))[:, :, ::4, ::4]
    want = np.maximum(np.tensordot(windows, weights, axes=([1, 4, 5], [1, 2, 3])).transpose(0, 3, 1, 2) + bias.reshape(1, -1, 1, 1), 0)
    got = names["output"].array
    assert got.shape == want.shape == (8, 96, 55, 55)
    np.testing.assert_allclose(got, want, rtol=1e-3, atol=1e-4)


def test_every_name_the_page_mentions_exists() -> None:
    words = set(re.findall(r"`([A-Z]\w+)[`(.]", TEXT)) - {"Wildcard", "End", "Reorder", "None"}
    words = {word for word in words if not word.startswith(("ONEDNN_", "BENCHGRAPH_"))}
    assert words >= {"LogicalTensor", "Op", "Graph", "Partition", "CompiledPartition", "Tensor", "Engine", "Stream", "Allocator"}
    assert not [word for word in words if not hasattr(benchgraph, word)]
    functions = set(re.findall(r"`(set_\w+|get_\w+)", TEXT))
    classes = (Graph, benchgraph.Partition, benchgraph.CompiledPartition, Op, LogicalTensor)
    assert not [f for f in functions if not hasattr(benchgraph, f) and not any(hasattr(c, f) for c in classes)]


def test_the_pages_errors_are_the_real_ones() -> None:
    a, b, c = (LogicalTensor(i, f32, (4, 4)) for i in range(3))
    said = set()
    with pytest.raises(BenchgraphError) as raised:
        Graph().add_op(Op(10, "MatMul", inputs=[a, b], outputs=[c], transpose=True))
    said.add(str(raised.value))
    with pytest.raises(BenchgraphError) as raised:
        Partition(Op(1, "ReLU", inputs=[a], outputs=[b])).compile([LogicalTensor(0, DType.bf16, (4, 4))], [b], Engine())
    said.add(str(raised.value))
    assert {line.strip() for line in TEXT.split("## Errors")[1].splitlines() if line.startswith("    ")} == said
