"""Which arithmetic a graph's products use."""

from __future__ import annotations

import pytest

from benchgraph.graph.text import parse_graph
from benchgraph.measure.arithmetic import arithmetic


def product(src: str, wei: str, dtype: str = "f32", *before: str, fpmath: str = "strict") -> str:
    """The arithmetic of one product of tensors 2 and 3, which the lines before make of 0 and 1."""
    lines = [*before, f"%4: {dtype}[4,4] = MatMul#9(%2: {src}[4,4], %3: {wei}[4,4])"]
    return arithmetic(parse_graph("\n".join([f"graph engine=cpu fpmath={fpmath} {{", *(f"  {line}" for line in lines), "}"])))


def stored(src: str, wei: str) -> tuple[str, str]:
    """Both operands dequantised."""
    attrs = "{scales=[0.5], zps=[0]}"
    return tuple(f"%{i + 2}: f32[4,4] = Dequantize#{i}(%{i}: {dtype}[4,4]) {attrs}" for i, dtype in enumerate((src, wei)))


@pytest.mark.parametrize(
    ("src", "wei", "want"),
    [
        ("f32", "f32", "f32"), ("bf16", "bf16", "bf16"), ("f16", "f16", "f32"),
    ],
)  # fmt: skip
def test_operands_as_they_are(src: str, wei: str, want: str) -> None:
    assert product(src, wei, dtype=src) == want


@pytest.mark.parametrize(("src", "wei", "want"), [("u8", "s8", "int8"), ("s8", "s8", "int8"), ("f8_e4m3", "f8_e5m2", "bf16")])
def test_quantised_operands_count_as_they_are_stored(src: str, wei: str, want: str) -> None:
    assert product("f32", "f32", "f32", *stored(src, wei)) == want


def test_casts_and_movements_on_the_way_do_not_hide_what_is_stored() -> None:
    """The paper's int8-bf16 attention: dequantised, cast to bf16, transposed."""
    src, wei = stored("u8", "s8")
    casts = (
        src.replace("%2: ", "%12: "),
        "%2: bf16[4,4] = TypeCast#5(%12: f32[4,4])",
        wei.replace("%3: ", "%13: "),
        "%14: bf16[4,4] = TypeCast#6(%13: f32[4,4])",
        "%3: bf16[4,4] = StaticTranspose#7(%14: bf16[4,4]) {order=[1,0]}",
    )
    assert product("bf16", "bf16", "bf16", *casts) == "int8"


def test_weights_alone_in_integers_make_no_integer_product() -> None:
    (_, wei) = stored("u8", "s8")
    assert product("f32", "f32", "f32", wei) == "f32"
    assert product("bf16", "bf16", "bf16", wei.replace("%3: ", "%13: "), "%3: bf16[4,4] = TypeCast#6(%13: f32[4,4])") == "bf16"


@pytest.mark.parametrize(("mode", "want"), [("strict", "f32"), ("bf16", "bf16"), ("any", "bf16"), ("f16", "f32"), ("tf32", "f32")])
def test_a_math_mode_may_let_f32_be_rounded(mode: str, want: str) -> None:
    assert product("f32", "f32", fpmath=mode) == want


def test_the_fastest_counts_and_graphs_without_products_are_f32() -> None:
    two = """graph engine=cpu fpmath=strict {
  %2: f32[4,4] = MatMul#0(%0: f32[4,4], %1: f32[4,4])
  %5: bf16[4,4] = MatMul#1(%3: bf16[4,4], %4: bf16[4,4])
}"""
    assert arithmetic(parse_graph(two)) == "bf16"
    assert arithmetic(parse_graph("graph engine=cpu fpmath=strict {\n  %1: bf16[4] = ReLU#0(%0: bf16[4])\n}")) == "f32"
