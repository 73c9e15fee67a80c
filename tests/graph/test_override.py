"""--mb: which inputs carry the batch, and how other shapes follow."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchgraph.core.dtypes import DType
from benchgraph.core.errors import InvalidArguments, InvalidShape, NoSuchOpKind
from benchgraph.core.tensor import LayoutType, LogicalTensor, Shape
from benchgraph.graph import Graph, Op, infer_shapes, load, parse_graph, row_major, validate, with_batch
from tests.support.corpus import corpus_files

SHARED = Path(__file__).parents[2].parent / "shared"


def graph(*lines: str) -> Graph:
    return infer_shapes(parse_graph("graph engine=cpu fpmath=strict {\n" + "\n".join(lines) + "\n}"))


def shapes(g: Graph, *ids: int) -> list[Shape | None]:
    return [g.tensors[id].shape for id in ids]


def changed(g: Graph, mb: int) -> list[int]:
    """Ids of the graph inputs that get another batch."""
    new = validate(with_batch(g, mb))
    return [t.id for t in g.inputs if new.tensors[t.id].shape != t.shape]


def test_a_matmuls_source_carries_the_batch_and_its_weights_and_bias_do_not() -> None:
    g = with_batch(graph("%3: f32[*] = MatMul#0(%0: f32[1,13], %1: f32[13,8], %2: f32[8])", "%4: f32[*] = ReLU#1(%3)"), 128)
    assert shapes(g, 0, 1, 2, 3, 4) == [(128, 13), (13, 8), (8,), (128, 8), (128, 8)]
    assert g.tensors[4].strides == (8, 1)


def test_both_operands_of_a_batched_matmul_carry_it() -> None:
    for batch in (1, 4):
        g = graph(f"%2: f32[*] = MatMul#0(%0: f32[{batch},2,5,3], %1: f32[{batch},2,3,5])")
        assert changed(g, 16) == [0, 1]


def test_an_operand_that_broadcasts_does_not() -> None:
    assert changed(graph("%2: f32[*] = MatMul#0(%0: f32[4,2,5,3], %1: f32[1,2,3,5])"), 16) == [0]
    assert changed(graph("%2: f32[*] = MatMul#0(%0: f32[1,2,5,3], %1: f32[4,2,3,5])"), 16) == [1]
    assert changed(graph("%2: f32[*] = Add#0(%0: f32[4,8], %1: f32[1,8])"), 16) == [0]
    assert changed(graph("%2: f32[*] = Add#0(%0: f32[8], %1: f32[4,8])"), 16) == [1]
    assert changed(graph("%2: f32[*] = Divide#0(%0: f32[4], %1: f32[1])"), 16) == [0]


def test_at_batch_one_the_first_computed_and_whole_operands_carry_it() -> None:
    chain = "%1: f32[*] = ReLU#0(%0: f32[1,8])"
    assert changed(graph(chain, "%3: f32[*] = Add#1(%2: f32[1,8], %1)"), 16) == [0, 2]
    assert changed(graph(chain, "%3: f32[*] = Add#1(%1, %2: f32[1,8])"), 16) == [0]
    assert changed(graph("%2: f32[*] = Add#0(%0: f32[1,4,8], %1: f32[1,4,8])"), 16) == [0, 1]
    assert changed(graph("%2: f32[*] = Add#0(%0: f32[1,4,8], %1: f32[1,4,8] constant)"), 16) == [0]


def test_gradients_of_rows_and_their_statistics_carry_it_and_parameters_do_not() -> None:
    g = graph('%3: f32[*], %4: f32[*] = PReLUBackward#0(%0: f32[4,5,3], %1: f32[5], %2: f32[4,5,3]) {data_format="NCX"}')
    assert changed(g, 16) == [0, 2]
    assert changed(graph("%2: f32[*] = SoftMaxBackward#0(%0: f32[4,8], %1: f32[4,8])"), 16) == [0, 1]
    ins = "%0: f32[4,3,8], %1: f32[4,3,8], %2: f32[4,3], %3: f32[4,3]"
    assert changed(graph(f"%4: f32[*] = LayerNormBackward#0({ins}) {{use_affine=false}}"), 16) == [0, 1, 2, 3]


def test_an_input_blocked_anywhere_does_not_carry_it() -> None:
    """x is also the weights of a matmul, so its dim 0 is not (only) the batch."""
    g = graph("%1: f32[*] = ReLU#0(%0: f32[4,4])", "%3: f32[*] = MatMul#1(%2: f32[4,4], %1)")
    assert changed(g, 16) == [2]


def test_a_transpose_that_moves_the_batch_blocks() -> None:
    g = graph("%1: f32[*] = StaticTranspose#0(%0: f32[4,8]) {order=[1,0]}")
    with pytest.raises(InvalidArguments):
        with_batch(g, 16)
    kept = graph("%1: f32[*] = StaticTranspose#0(%0: f32[4,8,3]) {order=[0,2,1]}")
    assert shapes(with_batch(kept, 16), 0, 1) == [(16, 8, 3), (16, 3, 8)]


def test_a_transposed_source_has_no_batch() -> None:
    with pytest.raises(InvalidArguments):
        with_batch(graph("%2: f32[*] = MatMul#0(%0: f32[4,4], %1: f32[4,8]) {transpose_a=true}"), 16)


def test_a_reduction_over_the_batch_ends_it() -> None:
    g = graph("%1: f32[*] = ReduceSum#0(%0: f32[4,8]) {axes=[0],keep_dims=false}", "%3: f32[*] = Add#1(%1, %2: f32[8])")
    assert changed(g, 16) == [0]
    assert shapes(with_batch(g, 16), 1, 3) == [(8,), (8,)]


def test_operands_aligned_with_other_dims_do_not_carry_the_batch() -> None:
    g = graph("%2: f32[*] = MatMul#0(%0: f32[8], %1: f32[8,4])", "%4: f32[*] = Multiply#1(%2, %3: f32[4])")
    with pytest.raises(InvalidArguments, match="no graph input carries a batch"):
        with_batch(g, 16)


def test_end_does_not_block() -> None:
    assert changed(graph("%1: f32[*] = ReLU#0(%0: f32[4,8])", "End#1(%1)", "%2: f32[*] = ReLU#2(%1)"), 16) == [0]


@pytest.mark.parametrize(
    ("target", "want"),
    [("4,24", (16, 24)), ("0,-1", (16, 24)), ("-1,8", (48, 8)), ("12,8", (48, 8)), ("4,2,12", (16, 2, 12))],
)
def test_a_fixed_reshape_follows_the_batch(target: str, want: Shape) -> None:
    g = graph(f"%1: f32[*] = StaticReshape#0(%0: f32[4,3,8]) {{shape=[{target}],special_zero=true}}")
    new = validate(with_batch(g, 16))
    assert new.tensors[1].shape == want
    assert validate(with_batch(new, 4)).tensors == g.tensors


def test_the_shape_of_a_gradient_follows_the_batch() -> None:
    pool = 'exclude_pad=true, kernel=[2,2], strides=[2,2], pads_begin=[0,0], pads_end=[0,0], data_format="NCX"'
    g = with_batch(graph(f"%1: f32[*] = AvgPoolBackward#0(%0: f32[2,3,2,2]) {{{pool}, src_shape=[2,3,4,4]}}"), 5)
    assert shapes(g, 0, 1) == [(5, 3, 2, 2), (5, 3, 4, 4)]
    assert validate(g) == g
    g = with_batch(graph(f"%2: f32[*] = MaxPoolBackward#0(%0: f32[2,3,4,4], %1: f32[2,3,2,2]) {{{pool.partition(', ')[2]}}}"), 5)
    assert shapes(g, 0, 1, 2) == [(5, 3, 4, 4), (5, 3, 2, 2), (5, 3, 4, 4)]


def test_a_reshape_that_cannot_follow_says_so() -> None:
    g = graph("%1: f32[*] = StaticReshape#0(%0: f32[4,3,8]) {shape=[2,48],special_zero=false}")
    with pytest.raises(InvalidShape, match=r"^op 0: StaticReshape: "):
        with_batch(g, 3)


def test_strides_stay_where_the_batch_is_outermost() -> None:
    g = with_batch(graph("%1: f32[*] = ReLU#0(%0: f32[4,3,5] strides=[20,1,4])"), 16)
    assert g.tensors[0].strides == (20, 1, 4)


def test_strides_keep_their_order_where_it_is_not() -> None:
    g = with_batch(graph("%1: f32[4,3] strides=[1,4] = ReLU#0(%0: f32[4,3] strides=[1,4])"), 16)
    assert (g.tensors[0].strides, g.tensors[1].strides) == ((1, 16), (1, 16))


def test_a_batch_of_one_may_have_any_stride() -> None:
    g = with_batch(graph("%1: f32[*] = ReLU#0(%0: f32[1,3,5] strides=[1,5,1])"), 4)
    assert g.tensors[0].strides == (15, 5, 1)


def test_zero_and_the_batch_it_has_change_nothing() -> None:
    g = graph("%1: f32[*] = ReLU#0(%0: f32[4,8])")
    assert with_batch(g, 0) is g
    assert with_batch(g, 4) is g


def test_a_negative_batch_is_an_error() -> None:
    with pytest.raises(InvalidArguments, match=r"^the batch size is -1; give a positive number, or 0 to keep the graph's own"):
        with_batch(graph("%1: f32[*] = ReLU#0(%0: f32[4,8])"), -1)


def test_no_input_with_a_batch_is_an_error() -> None:
    with pytest.raises(InvalidArguments) as bad:
        with_batch(graph("%1: f32[*] = ReLU#0(%0: f32[])"), 8)
    assert str(bad.value) == "no graph input carries a batch in dim 0; leave --mb out for this graph"


def paper(name: str) -> Graph:
    path = SHARED / "corpus" / "paper" / name
    if not path.exists():
        pytest.skip("the corpus is not here")
    return validate(load(path))


@pytest.mark.parametrize("suffix", ["", "_fp32"])
@pytest.mark.parametrize("layers", ["13x512x256x128", "479x1024x1024x512x256x1"])
def test_the_papers_mlps_change_their_first_source_only(layers: str, suffix: str) -> None:
    g = paper(f"mlp_relu_{layers}{suffix}.json")
    new = with_batch(g, 128)
    assert changed(g, 128) == [g.inputs[0].id]
    assert new.inputs[0].shape == (128, int(layers.split("x")[0]))
    assert new.outputs[0].shape == (128, int(layers.split("x")[-1]))


@pytest.mark.parametrize("suffix", ["", "_fp32"])
@pytest.mark.parametrize("mb", [1, 2, 64])
def test_the_papers_attention_changes_query_key_value_and_mask(suffix: str, mb: int) -> None:
    g = paper(f"MHA_BS32_SL128_H768_A8{suffix}.json")
    assert sorted(t.shape or () for t in with_batch(g, mb).inputs) == sorted(
        [(mb, 8, 128, 96), (mb, 8, 96, 128), (mb, 8, 128, 96), (mb, 1, 1, 128), (1,)]
    )
    if mb > 1:
        assert with_batch(with_batch(g, mb), 32) == g


def test_every_batch_of_the_corpus_gives_a_legal_graph_or_a_clear_error() -> None:
    if not (SHARED / "corpus").is_dir():
        pytest.skip("the corpus is not here")
    fine, refused = 0, []
    for path in corpus_files("onednn"):
        try:
            g = load(path)
        except NoSuchOpKind:
            continue
        try:
            new = with_batch(g, 16)
        except (InvalidArguments, InvalidShape):
            refused.append(path.name)
            continue
        fine += 1
        assert validate(new) == new, path.name
    assert fine > 10 * len(refused)


def test_layouts_of_another_library_become_row_major() -> None:
    """A dump of what a library has laid out runs: neither its ids nor its strides mean anything here."""
    src = LogicalTensor(0, DType.f32, (4, 8), layout_type=LayoutType.opaque, layout_id=18)
    mid = LogicalTensor(1, DType.f32, (4, 8), layout_type=LayoutType.any)
    dst = LogicalTensor(2, DType.f32, (4, 8), (1, 4))
    graph = Graph((Op(0, "ReLU", inputs=(src,), outputs=(mid,)), Op(1, "Exp", inputs=(mid,), outputs=(dst,))))
    known = infer_shapes(row_major(graph))
    assert [t.layout_type for t in known.tensors.values()] == [LayoutType.strided] * 3
    assert [known.tensors[i].strides for i in range(3)] == [(8, 1), (8, 1), (1, 4)]
    assert row_major(known) is known
