"""Graph text: syntax, exact round trip, and error messages."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import pytest

from benchgraph.core.attrs import Attrs
from benchgraph.core.dtypes import DType
from benchgraph.core.errors import NoSuchOpKind, ParseError
from benchgraph.core.tensor import UNKNOWN_DIM, LayoutType, LogicalTensor, PropertyType, Shape
from benchgraph.graph import Graph, GraphBuilder, Op, load, parse_graph, print_graph, read, sample_graph, save
from benchgraph.ops import OPS
from tests.support.corpus import corpus_files

SHARED = Path(__file__).parents[2].parent / "shared"

TEXT = """\
graph engine=cpu fpmath=strict {
  %3: f32[128,512] = MatMul#0 "layer 0"(%0: f32[128,13] variable, %1: f32[13,512] constant, %2: f32[512] constant) {transpose_a=false}
  %4: f32[128,512] = ReLU#1(%3)
  End#2(%3)
}
"""


def one_op(t: LogicalTensor, **attrs: object) -> Graph:
    return Graph((Op(0, "ReLU", Attrs(attrs), (t,), (LogicalTensor(1, DType.f32, (2, 3), (3, 1)),)),))


def first_line(graph: Graph) -> str:
    return print_graph(graph).splitlines()[1].strip()


def test_a_graph_reads_as_shown_in_the_module() -> None:
    b = GraphBuilder()
    wei, bia = b.constant((13, 512)), b.constant((512,))
    x = b.op("MatMul", b.input((128, 13)), wei, bia, name="layer 0", transpose_a=False)
    b.op("ReLU", x)
    b.end(x)
    # the builder numbers tensors as they are made: weights, bias, source
    renumbered = TEXT.replace("%0:", "%9:").replace("%1:", "%0:").replace("%2:", "%1:").replace("%9:", "%2:")
    assert print_graph(b.graph()) == renumbered


def test_text_is_read_back() -> None:
    assert print_graph(parse_graph(TEXT)) == TEXT


def test_layout_and_spacing_of_the_text_do_not_matter() -> None:
    assert parse_graph(TEXT.replace("\n", " ").replace(", ", " ,\n\n  ")) == parse_graph(TEXT)


@pytest.mark.parametrize(
    ("shape", "strides", "want"),
    [
        ((2, 3), (3, 1), "%7: f32[2,3]"),
        ((2, 3), (1, 2), "%7: f32[2,3] strides=[1,2]"),
        ((2, 3), None, "%7: f32[2,3] strides=?"),
        ((), (), "%7: f32[]"),
        (None, None, "%7: f32[*]"),
        ((UNKNOWN_DIM, 16), None, "%7: f32[?,16]"),
        ((0, 4), (4, 1), "%7: f32[0,4]"),
    ],
)
def test_dims_and_strides_show_when_they_are_not_the_usual_ones(shape: Shape | None, strides: Shape | None, want: str) -> None:
    g = one_op(LogicalTensor(7, DType.f32, shape, strides))
    assert f"({want})" in first_line(g)
    assert parse_graph(print_graph(g)) == g


@pytest.mark.parametrize("layout", list(LayoutType))
@pytest.mark.parametrize("strides", [None, (3, 1), (1, 2)])
@pytest.mark.parametrize("property_type", [p for p in PropertyType if p is not PropertyType.host_scalar])
def test_layouts_and_properties_are_read_back(layout: LayoutType, strides: Shape | None, property_type: PropertyType) -> None:
    id = 5 if layout is LayoutType.opaque else 0
    g = one_op(LogicalTensor(7, DType.bf16, (2, 3), strides, layout, property_type, id))
    assert parse_graph(print_graph(g)) == g


def test_a_host_scalar_is_read_back() -> None:
    g = one_op(LogicalTensor(7, DType.s64, (), property_type=PropertyType.host_scalar))
    assert parse_graph(print_graph(g)) == g


def test_a_tensor_described_differently_is_printed_again() -> None:
    t, other = LogicalTensor(7, DType.f32, (2, 3), (3, 1)), LogicalTensor(7, DType.f32, (2, 1), (1, 1))
    g = Graph((Op(0, "Add", inputs=(t, t)), Op(1, "ReLU", inputs=(other,)), Op(2, "ReLU", inputs=(other,))))
    assert [line.strip() for line in print_graph(g).splitlines()[1:4]] == ["Add#0(%7: f32[2,3], %7)", "ReLU#1(%7: f32[2,1])", "ReLU#2(%7)"]
    assert parse_graph(print_graph(g)) == g


@pytest.mark.parametrize(
    ("value", "want"),
    [
        (True, "true"),
        (-3, "-3"),
        (1.0, "1.0"),
        (1e-05, "1e-05"),
        (-math.inf, "-inf"),
        (math.nan, "nan"),
        ('a "b"\n\\', '"a \\"b\\"\\n\\\\"'),
        ("NCX", '"NCX"'),
        ((), "[]"),
        ((1, -1), "[1,-1]"),
        ((0.1, 2.0), "[0.1,2.0]"),
        ((math.nan, math.inf), "[nan,inf]"),
    ],
)
def test_attribute_values_come_back_with_their_type(value: object, want: str) -> None:
    g = one_op(LogicalTensor(7, DType.f32, (2, 3), (3, 1)), a=value)
    assert first_line(g).endswith(f"{{a={want}}}")
    back = parse_graph(print_graph(g))
    assert back == g
    assert repr(back) == repr(g)  # 1 == 1.0, but their texts differ


def test_a_list_with_one_real_is_a_list_of_reals() -> None:
    value = parse_graph(HEAD + "  ReLU#0() {a=[1,2.5]}\n}").ops[0].attrs["a"]
    assert repr(value) == "(1.0, 2.5)"


def test_a_nan_in_json_is_read_back(tmp_path: Path) -> None:
    g = one_op(LogicalTensor(7, DType.f32, (2, 3), (3, 1)), alpha=math.nan)
    save(replace(g, ops=(replace(g.ops[0], kind="LeakyReLU"),)), tmp_path / "x.json")
    g = read(tmp_path / "x.json")
    assert parse_graph(print_graph(g)) == g


def test_the_header_carries_what_is_not_the_default() -> None:
    g = Graph((Op(2**47, "End"),), "gpu", "bf16", True, "3.1.0", (1, 1), ())
    assert print_graph(g).startswith('graph engine=gpu fpmath=bf16 apply_to_int=true version="3.1.0" inputs=[1,1] outputs=[] {\n')
    assert parse_graph(print_graph(g)) == g


def test_ops_with_several_outputs_come_back() -> None:
    a, b = (LogicalTensor(i, DType.f32, (2, 3), (3, 1)) for i in (1, 2))
    g = Graph((Op(0, "SoftMax", outputs=(a, b)),))
    assert first_line(g) == "%1: f32[2,3], %2: f32[2,3] = SoftMax#0()"
    assert parse_graph(print_graph(g)) == g


@pytest.mark.parametrize("kind", OPS)
def test_every_sample_is_read_back(kind: str) -> None:
    for sample in OPS[kind].testing.samples:
        g = sample_graph(OPS[kind], sample)
        assert parse_graph(print_graph(g)) == g


@pytest.mark.parametrize("folder", ["paper", "onednn/op", "onednn/pattern", "onednn/complex_fusion"])
def test_the_corpus_is_read_back(folder: str) -> None:
    if not (SHARED / "corpus").is_dir():
        pytest.skip("the corpus is not here")
    loaded = 0
    for path in corpus_files(folder):
        try:
            g = load(path)
        except NoSuchOpKind:
            continue
        loaded += 1
        assert parse_graph(print_graph(g)) == g, path.name
    assert loaded


HEAD = "graph engine=cpu fpmath=strict {\n"


@pytest.mark.parametrize(
    ("text", "where", "expected"),
    [
        ("", "line 1, column 1", "expected 'graph'"),
        ("graph cpu {", "line 1, column 7", "expected 'engine'"),
        (HEAD, "line 2, column 1", "expected an op: 'outputs = Kind#id(inputs)'"),
        (HEAD + "  ReLU(%0: f32[2])\n}", "line 2, column 7", "expected '#'"),
        (HEAD + "  ReLU#x(%0)\n}", "line 2, column 8", "expected the op's id"),
        (HEAD + "  ReLU#0(%0)\n}", "line 2, column 10", "expected ': dtype[dims]', for tensor 0 has not been described"),
        (HEAD + "  ReLU#0(%0: f33[2])\n}", "line 2, column 14", "expected a data type (did you mean 'f32'?)"),
        (HEAD + "  ReLU#0(%0: f32[2 3])\n}", "line 2, column 20", "expected ',' or ']'"),
        (HEAD + "  ReLU#0(%0: f32[2.5])\n}", "line 2, column 18", "expected a dim or '?'"),
        (HEAD + "  ReLU#0(%0: f32[2] constat)\n}", "line 2, column 21", "expected ',' or ')'"),
        (HEAD + "  ReLU#0(%0: f32[2] opaque)\n}", "line 2, column 27", "expected '('"),
        (HEAD + "  ReLU#0() {a=}\n}", "line 2, column 15", "expected a value: true, false, a number, a string or a list of numbers"),
        (HEAD + "  ReLU#0() {a=yes}\n}", "line 2, column 15", "expected true or false"),
        (HEAD + '  ReLU#0() {a="\\q"}\n}', "line 2, column 15", "expected a string with JSON's escapes"),
        (HEAD + "  %0: f32[2] ReLU#0()\n}", "line 2, column 14", "expected '='"),
        (HEAD + "  ReLU#0() ;\n}", "line 2, column 12", "expected a token of graph text"),
        (HEAD + "} more", "line 2, column 3", "expected nothing after the closing '}'"),
    ],
)
def test_a_mistake_is_shown_in_its_line(text: str, where: str, expected: str) -> None:
    with pytest.raises(ParseError) as bad:
        parse_graph(text)
    first, line, caret = str(bad.value).split("\n")
    assert first == f"{where}: {expected}"
    number, column = (int(part.split()[1]) for part in where.split(", "))
    assert line == text.split("\n")[number - 1]
    assert caret == " " * (column - 1) + "^"
