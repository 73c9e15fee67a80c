"""Shape inference over a graph."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from benchgraph.core.attrs import Attrs
from benchgraph.core.errors import InvalidShape, NoSuchOpKind
from benchgraph.core.tensor import LayoutType, LogicalTensor, PropertyType, Shape
from benchgraph.graph import Graph, GraphBuilder, infer_shapes, load, parse_graph, validate
from tests.support.corpus import corpus_files

SHARED = Path(__file__).parents[2].parent / "shared"


def graph(*lines: str) -> Graph:
    return parse_graph("graph engine=cpu fpmath=strict {\n" + "\n".join(lines) + "\n}")


def shape(g: Graph, id: int) -> Shape | None:
    return infer_shapes(g).tensors[id].shape


def test_no_change_returns_the_same_graph() -> None:
    b = GraphBuilder()
    b.op("ReLU", b.op("MatMul", b.input((4, 3)), b.constant((3, 5))))
    g = b.graph()
    assert infer_shapes(g) is g


def test_unknown_shapes_follow_from_the_inputs_whatever_the_order_of_the_ops() -> None:
    g = infer_shapes(graph("%4: f32[*] = ReLU#1(%3: f32[*])", "%3: f32[*] = MatMul#0(%0: f32[4,3], %1: f32[3,5])"))
    assert g.tensors[4] == LogicalTensor(4, g.tensors[4].dtype, (4, 5), (5, 1))
    assert g.ops[0].inputs[0] is g.ops[1].outputs[0]
    assert [op.id for op in g.ops] == [1, 0]


def test_unknown_dims_are_filled_and_known_ones_kept() -> None:
    assert shape(graph("%1: f32[?,3] = ReLU#0(%0: f32[4,3])"), 1) == (4, 3)


def test_unknown_strides_become_row_major_and_given_ones_stay() -> None:
    g = infer_shapes(graph("%1: f32[4,3] strides=[1,4] = ReLU#0(%0: f32[4,3] strides=?)"))
    assert (g.tensors[0].strides, g.tensors[1].strides) == ((3, 1), (1, 4))


def test_an_undefined_layout_becomes_strided_and_any_stays() -> None:
    g = infer_shapes(graph("%1: f32[4,3] undef = ReLU#0(%0: f32[4,3])", "%2: f32[4,3] any = ReLU#1(%1)"))
    assert (g.tensors[1].layout_type, g.tensors[1].strides) == (LayoutType.strided, (3, 1))
    assert (g.tensors[2].layout_type, g.tensors[2].strides) == (LayoutType.any, None)


def test_defaults_of_absent_attributes_count() -> None:
    g = graph("%1: f32[*] = ReduceSum#0(%0: f32[4,3]) {axes=[1]}")
    assert shape(g, 1) == (4,)


def test_the_producer_describes_a_tensor() -> None:
    g = infer_shapes(graph("%1: f32[4,3] = ReLU#0(%0: f32[4,3])", "%2: f32[*] = ReLU#1(%1: f32[1,1] constant)"))
    assert g.ops[1].inputs == g.ops[0].outputs
    assert g.tensors[2].shape == (4, 3)


def test_uses_of_an_input_are_merged() -> None:
    first, second = "%1: f32[*] = ReLU#0(%0: f32[?,3])", "%2: f32[*] = ReLU#1(%0: f32[4,?] constant)"
    for lines in ((first, second), (second, first)):
        t = infer_shapes(graph(*lines)).tensors[0]
        assert (t.shape, t.property_type) == ((4, 3), PropertyType.constant)


def test_uses_of_an_input_that_disagree_are_an_error() -> None:
    with pytest.raises(InvalidShape) as bad:
        infer_shapes(graph("ReLU#0(%0: f32[4,3])", "ReLU#1(%0: f32[4,5])"))
    assert str(bad.value) == (
        "op 1: ReLU: input 0 has shape 4x5 here but 4x3 where it was used before; describe a tensor with the same shape at every use"
    )


def test_an_input_without_a_shape_is_an_error() -> None:
    for dims, text in (("*", "unknown"), ("?,3", "?x3")):
        with pytest.raises(InvalidShape) as bad:
            infer_shapes(graph(f"ReLU#3(%0: f32[{dims}])"))
        assert str(bad.value).startswith(f"op 3: ReLU: graph input 0 has unknown dims {text}; give the input a shape")


def test_a_wrong_output_shape_is_an_error_that_shows_both() -> None:
    with pytest.raises(InvalidShape) as bad:
        infer_shapes(graph("%2: f32[4,6] = MatMul#3(%0: f32[4,3], %1: f32[3,5])"))
    want = "op 3: MatMul: output 2 has shape 4x6, but its inputs give 4x5; correct one of the shapes, or leave the output's unknown"
    assert str(bad.value) == want


def test_errors_of_a_row_name_the_op() -> None:
    with pytest.raises(InvalidShape, match=r"^op 3: MatMul: ") as bad:
        infer_shapes(graph("%2: f32[*] = MatMul#3(%0: f32[4,3], %1: f32[7,5])"))
    assert "3" in bad.value.what
    assert "7" in bad.value.what


def test_dtypes_that_cannot_be_inferred_must_be_given() -> None:
    known = graph("%1: f32[4,3] = Wildcard#0(%0: f32[2])")
    assert infer_shapes(known) is known
    with pytest.raises(InvalidShape, match=r"op 0: Wildcard: the shape of output 1 cannot be inferred from the inputs; give its dims"):
        infer_shapes(graph("%1: f32[*] = Wildcard#0(%0: f32[2])"))


def test_validate_checks_before_it_infers() -> None:
    g = graph("%1: f32[4,6] = ReLU#3(%0: f32[4,3])")
    bad_attr = replace(g, ops=(replace(g.ops[0], attrs=Attrs(alpha=1.0)),))
    with pytest.raises(InvalidShape):
        validate(g)
    with pytest.raises(Exception, match="unknown attribute 'alpha'"):
        validate(bad_attr)


@pytest.mark.parametrize("folder", ["paper", "onednn/op", "onednn/pattern", "onednn/complex_fusion"])
def test_the_corpus_states_the_shapes_that_are_inferred(folder: str) -> None:
    if not (SHARED / "corpus").is_dir():
        pytest.skip("the corpus is not here")
    for path in corpus_files(folder):
        try:
            g = load(path)
        except NoSuchOpKind:
            continue
        known = infer_shapes(g)
        assert all(t.has_known_shape for t in known.tensors.values()), path.name
        blank = {t.id: replace(t, shape=None, strides=None) for id, t in known.tensors.items() if id in known.producers}
        again = infer_shapes(known.with_tensors(blank))
        assert {id: t.shape for id, t in again.tensors.items()} == {id: t.shape for id, t in known.tensors.items()}, path.name
