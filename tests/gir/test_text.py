"""Graph IR as text and back, with messages for broken text. tests/test_ir_round_trip.py compares many graphs."""

from __future__ import annotations

import numpy as np
import pytest

from benchgraph.core.dtypes import DType
from benchgraph.core.errors import ParseError
from benchgraph.gir.build import Builder
from benchgraph.gir.ir import Graph
from benchgraph.gir.parse import parse_gir
from benchgraph.gir.text import print_gir
from benchgraph.gir.verify import verify

TEXT = """\
graph(%0: f32[4,8] strides=[1,4], %1: s8[8,16] constant) forced=[(nest="4x8:8x16", schedule="tile m by 4")] fpmath_mode="bf16" {
  %2: f32[] = const 0.5
  %3: u8[3] = const [1, 2, 255]
  %4: f32[16,4] = reads %7 through StaticTranspose {order=[1,0]}
  %5: f32[4,16] = writes %9 through StaticReshape {shape=[64], special_zero=false}
  %8: f32[2,2]
  %6 = nest0(%1) {
    stage {
      %6: f32[8,16] Ba16b constant = TypeCast(%1) at rows
    }
  }
  %7, %5 = nest1(%0, %6, %2) prefetched_rows=[0] {  # tasks: 2
    stage parameters=(batch=1, m=4, n=16, k=8, mb=2, nb=16, cores=2, why=[
      (parameter="mb", text="rows of \\"half\\" a core"),
      (parameter="nb", text="one panel"),
      (parameter="anchor", text="all at the tile")
    ]) along=[0, none] {
      %7: f32[4,16] = MatMul(%0, %6) at kernel
      %5: f32[4,16] = Multiply(%7, %2) at tile
    }
  }
  %10: f32[16,4] = LeakyReLU(%4) {alpha=0.1}
  %9: f32[64] = ReLU(%10)
  return %10 in any layout, %9 strides
}"""
TEXT = TEXT.replace(", %9 strides", ", %7 in Ab4a")


def test_all_forms_come_back() -> None:
    assert print_gir(parse_gir(TEXT)) == TEXT


def test_layout_and_comments_do_not_matter() -> None:
    assert parse_gir(TEXT.replace("\n", "  # words\n\n").replace(", ", " ,")) == parse_gir(TEXT)


@pytest.mark.parametrize(
    ("array", "dtype", "text"),
    [
        (np.full((2, 3), -0.0), DType.f32, "-0.0"),
        (np.array([0.1, np.inf, np.nan]), DType.f32, "[0.1, inf, nan]"),
        (np.array([0.1, 2.0]), DType.bf16, "[0.10009765625, 2.0]"),
        (np.array([True, False]), DType.boolean, "[true, false]"),
        (np.array([-(2**63), 2**63 - 1]), DType.s64, "[-9223372036854775808, 9223372036854775807]"),
        (np.zeros((0, 4)), DType.f32, "[]"),
        (np.arange(17), DType.u8, "0x000102030405060708090a0b0c0d0e0f10"),
        (np.frombuffer(bytes.fromhex("0100c07f0000807f"), np.float32), DType.f32, "0x0100c07f0000807f"),  # another NaN than numpy's
    ],
)
def test_constants_come_back_to_the_bit(array: np.ndarray, dtype: DType, text: str) -> None:
    b = Builder(())
    v = b.const(array, dtype)
    g = Graph(tuple(b.values.values()), (), (), (v,))
    assert f"= const {text}\n" in print_gir(g)
    assert parse_gir(print_gir(g)) == g


@pytest.mark.parametrize(
    ("line", "column", "message"),
    [
        ("%1: f32[4] = Relu(%0)", 16, "unknown op kind 'Relu'; did you mean 'ReLU'?"),
        ("%1: f32[4] = ReLU(%3)", 21, "no value is called %3"),
        ("%1 = ReLU(%0)", 6, "expected ': dtype[dims]'"),
        ("%1: f31[4] = ReLU(%0)", 7, "expected a data type"),
        ("%1: f32[4] ba = ReLU(%0)", 3, "the layout ba is of 2 dims, %1 has 1"),
        ("%0: f32[5] = ReLU(%0)", 3, "%0 was declared otherwise before"),
        ("%1: f32[4] = const [1.0, 2.0]", 22, "%1 has 4 elements, 16 bytes; here are 8 bytes"),
        ("%1: f32[4] = ReLU(%0) {a}", 27, "expected '='"),
        ("%1 = nest0(%0) { stage { %1: f32[4] = ReLU(%0) at row } }", 53, "expected an anchor: batch, rows"),
        ("%1 = nest0(%0) { stage { %1: f32[4] = ReLU(%0) } }", 50, "expected 'at'"),
        ("%1 = nest0(%0) { stage parameters=(m=1) {} }", 38, "Parameters has no field 'batch' here"),
        ("%1 = nest0(%0) prefetched_row=[0] { }", 18, "a field of FusedOp: 'name=value' (did you mean 'prefetched_rows'?)"),
        ("ReLU(%0)", 3, "expected a value: '%1: dtype[dims] = ...', or 'return'"),
    ],
)
def test_broken_text_is_shown_where_it_breaks(line: str, column: int, message: str) -> None:
    with pytest.raises(ParseError) as caught:
        parse_gir(f"graph(%0: f32[4]) {{\n  {line}\n  return %1\n}}", "g.txt")
    assert caught.value.where == f"g.txt:2:{column}"
    assert message in caught.value.line
    assert caught.value.shown == f"  {line}\n{' ' * (column - 1)}^"


def test_text_may_be_wrong_and_the_verifier_finds_it() -> None:
    g = parse_gir("graph(%0: f32[4]) {\n  %1: f32[4] = ReLU(%2)\n  %2: f32[4] = ReLU(%0)\n  return %1\n}")
    with pytest.raises(Exception, match="ReLU reads %2 before it is written"):
        verify(g)
