"""--in-shapes and --op-attrs: changes, their consequences, and errors."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchgraph.core.errors import BenchgraphError, InvalidArguments, InvalidShape, ParseError
from benchgraph.core.remarks import collected
from benchgraph.core.tensor import Shape, dense_strides
from benchgraph.graph import Graph, GraphBuilder, infer_shapes, parse_graph, validate
from benchgraph.graph.override import BadOverride, NewShape, Overrides, rewrite, with_attrs, with_shapes
from benchgraph.graph.override.layout import axes_of, strides_in


def graph(*lines: str) -> Graph:
    return infer_shapes(parse_graph("graph engine=cpu fpmath=strict {\n" + "\n".join(lines) + "\n}"))


def shape(g: Graph, id: int) -> Shape | None:
    return g.tensors[id].shape


def strides(g: Graph, id: int) -> Shape | None:
    return g.tensors[id].strides


CHAIN = graph("%1: f32[*] = ReLU#0(%0: f32[2,3,4,5])", "%3: f32[*] = Add#1(%1, %2: f32[5])")


def test_new_dims_are_row_major_and_everything_behind_them_follows() -> None:
    g = with_shapes(CHAIN, {0: NewShape((7, 3, 2, 5))})
    assert [shape(g, id) for id in (0, 1, 2, 3)] == [(7, 3, 2, 5), (7, 3, 2, 5), (5,), (7, 3, 2, 5)]
    assert strides(g, 0) == strides(g, 3) == (30, 10, 5, 1)
    assert validate(g) == g


def test_the_rank_may_change_and_be_zero() -> None:
    g = with_shapes(CHAIN, {0: NewShape(()), 2: NewShape((4,))})
    assert [shape(g, id) for id in (0, 1, 3)] == [(), (), (4,)]
    assert shape(with_shapes(CHAIN, {0: NewShape((64, 0, 5))}), 3) == (64, 0, 5)


def test_a_tag_names_axes_from_the_outermost_on_and_outputs_follow_the_first_input() -> None:
    g = with_shapes(CHAIN, {0: NewShape(layout="acdb")})
    assert strides(g, 0) == strides(g, 1) == strides(g, 3) == (60, 1, 15, 3)
    assert strides(with_shapes(CHAIN, {0: NewShape((2, 1, 4, 1), "acdb")}), 0) == (4, 1, 1, 1)


def test_explicit_strides_may_leave_gaps_and_outputs_are_dense_in_the_same_order() -> None:
    g = with_shapes(CHAIN, {0: NewShape(layout=(200, 1, 50, 10))})
    assert strides(g, 0) == (200, 1, 50, 10)
    assert strides(g, 1) == (60, 1, 15, 3)


def test_outputs_of_another_rank_and_of_movements_are_row_major() -> None:
    moved = graph("%1: f32[*] = StaticTranspose#0(%0: f32[2,3,4]) {order=[1,0,2]}")
    assert strides(with_shapes(moved, {0: NewShape(layout="cba")}), 1) == (8, 4, 1)
    grown = graph("%2: f32[*] = Add#0(%0: f32[3,4], %1: f32[2,3,4])")
    assert strides(with_shapes(grown, {0: NewShape(layout="ba")}), 2) == (12, 4, 1)


def test_an_output_may_be_laid_out_anew_and_its_readers_see_it() -> None:
    g = parse_graph(
        "graph engine=cpu fpmath=strict outputs=[1,3] {\n%1: f32[*] = ReLU#0(%0: f32[2,3])\n%3: f32[*] = Add#1(%1, %2: f32[3])\n}"
    )
    new = with_shapes(g, {1: NewShape(layout="ba")})
    assert strides(new, 1) == new.consumers[1][0].inputs[0].strides == (1, 2)
    assert strides(with_shapes(g, {3: NewShape((2, 3), (8, 1))}), 3) == (8, 1)
    with pytest.raises(InvalidShape, match=r"output 3 has shape 9x3, but its inputs give 2x3"):
        with_shapes(g, {3: NewShape((9, 3))})


def test_an_input_the_file_leaves_open_gets_its_dims() -> None:
    g = with_shapes(parse_graph("graph engine=cpu fpmath=strict {\n%1: f32[*] = ReLU#0(%0: f32[*])\n}"), {0: NewShape((2, 3))})
    assert shape(g, 1) == (2, 3)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {1: NewShape((1,))},
            "tensor 1: it is computed inside the graph, so its shape follows from others; set inputs (0, 2) or outputs (3)",
        ),
        ({0: NewShape(layout="abc")}, "tensor 0: the tag 'abc' for 4 dims; give each letter of 'abcd' once"),
        ({0: NewShape(layout="abca")}, "tensor 0: the tag 'abca' for 4 dims; give each letter of 'abcd' once"),
        ({0: NewShape((2, 3), (3, 1, 1))}, "tensor 0: 3 strides for 2 dims; give one stride, in elements, per dim"),
        ({3: NewShape(layout="ba")}, "tensor 3: the tag 'ba' for 4 dims; give each letter of 'abcd' once"),
    ],
)
def test_arrays_that_do_not_fit_are_refused(change: dict[int, NewShape], message: str) -> None:
    with pytest.raises(InvalidArguments) as bad:
        with_shapes(CHAIN, change)
    assert str(bad.value).endswith(message)


def test_a_missing_tensor_causes_a_remark() -> None:
    with collected() as remarks:
        assert with_shapes(CHAIN, {9: NewShape((1,))}) == with_shapes(CHAIN, {})
    assert remarks == ["--in-shapes: there is no tensor 9: ignored, as benchdnn does; inputs are 0, 2, outputs 3"]


def test_a_layout_without_dims_needs_an_input_that_has_some() -> None:
    open_graph = parse_graph("graph engine=cpu fpmath=strict {\n%1: f32[*] = ReLU#0(%0: f32[*])\n}")
    with pytest.raises(InvalidArguments, match=r"^tensor 0: a layout without dims, which the graph leaves open; give the dims too$"):
        with_shapes(open_graph, {0: NewShape(layout="ab")})


def test_shapes_that_do_not_go_together_name_the_op() -> None:
    with pytest.raises(InvalidShape, match=r"^op 1: Add: "):
        with_shapes(CHAIN, {2: NewShape((7,))})
    with pytest.raises(InvalidShape, match=r"^op 0: MatMul: "):
        with_shapes(graph("%2: f32[*] = MatMul#0(%0: f32[4,8], %1: f32[8,3])"), {0: NewShape((4, 9))})


@given(st.lists(st.integers(0, 5), max_size=5).flatmap(lambda dims: st.tuples(st.just(tuple(dims)), st.permutations(range(len(dims))))))
def test_strides_in_an_order_reach_every_element_once(case: tuple[Shape, list[int]]) -> None:
    dims, order = case
    found = strides_in(dims, order)
    assert strides_in(dims, range(len(dims))) == dense_strides(dims)
    offsets = {0}
    for d, s in zip(dims, found, strict=True):
        offsets = {o + i * s for o in offsets for i in range(d)}
    total = len(offsets)
    assert offsets == set(range(total))
    g = with_shapes(graph("%1: f32[*] = ReLU#0(%0: f32[1])"), {0: NewShape(dims, found)})
    if dims:
        assert strides_in(dims, axes_of(g.tensors[0])) == found or 0 in dims


def test_text_of_a_new_shape() -> None:
    spelt = {NewShape((2, 3)): "2x3", NewShape(()): "-", NewShape(layout="ba"): "*ba", NewShape((2, 3), (4, 1)): "2x3*4x1"}
    assert [str(s) for s in spelt] == list(spelt.values())


# ---- attributes ------------------------------------------------------------------------------------------------------

POOL = graph("%1: f32[*] = MaxPool#4(%0: f32[1,8,8,3]) {kernel=[2,2],strides=[2,2],pads_begin=[0,0],pads_end=[0,0]}")


def test_attributes_are_read_by_their_type_and_shapes_follow() -> None:
    g = with_attrs(POOL, {4: {"kernel": "3x3", "rounding_type": "ceil"}})
    assert (g.ops[0].attrs["kernel"], g.ops[0].attrs["rounding_type"], shape(g, 1)) == ((3, 3), "ceil", (1, 4, 4, 3))
    norm = graph("%1: f32[*] = LayerNorm#0(%0: f32[2,8]) {keep_stats=false,use_affine=false}")
    assert with_attrs(norm, {0: {"epsilon": "0.5", "begin_norm_axis": "-1"}}).ops[0].attrs.real("epsilon") == 0.5
    product = graph("%2: f32[*] = MatMul#0(%0: f32[4,4], %1: f32[4,4])")
    assert with_attrs(product, {0: {"transpose_a": "1"}}).ops[0].attrs.flag("transpose_a") is True
    assert with_attrs(product, {0: {"transpose_a": "True"}}) == with_attrs(product, {0: {"transpose_a": "1"}})


def test_undef_removes_an_attribute() -> None:
    g = with_attrs(with_attrs(POOL, {4: {"rounding_type": "ceil"}}), {4: {"rounding_type": "undef"}})
    assert g == POOL


def test_auto_pad_counts_at_once() -> None:
    assert shape(with_attrs(POOL, {4: {"auto_pad": "SAME_UPPER", "kernel": "3x3"}}), 1) == (1, 4, 4, 3)


@pytest.mark.parametrize(
    ("attrs", "kind", "message"),
    [
        ({5: {"kernel": "3x3"}}, InvalidArguments, "op 5: there is no such op; the graph has 4 (MaxPool)"),
        ({4: {"kernels": "3x3"}}, InvalidArguments, "op 4: MaxPool: unknown attribute 'kernels'; did you mean 'kernel'?"),
        ({4: {"zzz": "3"}}, InvalidArguments, "op 4: MaxPool: unknown attribute 'zzz'; there are accumulation_mode, "),
        ({4: {"kernel": "3x"}}, ParseError, "op 4: MaxPool: attribute 'kernel' cannot be '3x'; give integers joined by x, as in 2x2"),
        ({4: {"axis": "1.5"}}, ParseError, "op 4: MaxPool: attribute 'axis' cannot be '1.5'; give an integer"),
        ({4: {"epsilon": "small"}}, ParseError, "op 4: MaxPool: attribute 'epsilon' cannot be 'small'; give a number"),
        ({4: {"exclude_pad": "2"}}, ParseError, "op 4: MaxPool: attribute 'exclude_pad' cannot be '2'; give 0 or 1"),
        ({4: {"kernel": "9x9"}}, InvalidShape, "op 4: MaxPool: "),
    ],
)
def test_attributes_that_cannot_be_are_refused(attrs: dict[int, dict[str, str]], kind: type[BenchgraphError], message: str) -> None:
    with pytest.raises(kind) as bad:
        with_attrs(POOL, attrs)
    assert str(bad.value).startswith(message)


# ---- what a row says must follow -------------------------------------------------------------------------------------

CHANNELS = 'qtype="per_channel",axis=1'


def test_scales_per_channel_go_round_again_and_zero_points_end_in_zeros() -> None:
    g = graph(f"%1: f32[*] = Dequantize#0(%0: u8[2,3,4]) {{{CHANNELS},scales=[0.5,1.0,2.0],zps=[1,2,3]}}")
    more = with_shapes(g, {0: NewShape((2, 5, 4))}).ops[0].attrs
    assert (more.reals("scales"), more.integers("zps")) == ((0.5, 1.0, 2.0, 0.5, 1.0), (1, 2, 3, 0, 0))
    fewer = with_shapes(g, {0: NewShape((2, 2, 4))}).ops[0].attrs
    assert (fewer.reals("scales"), fewer.integers("zps")) == ((0.5, 1.0), (1, 2))
    assert with_shapes(g, {0: NewShape((9, 3, 4))}).ops[0].attrs == g.ops[0].attrs


def test_scales_of_grouped_weights_stay_several_times_as_many() -> None:
    g = graph(f"%1: f32[*] = Dequantize#0(%0: s8[4,1,3]) {{{CHANNELS},scales=[0.5,1.0]}}")
    assert with_shapes(g, {0: NewShape((4, 2, 3))}).ops[0].attrs.reals("scales") == (0.5, 1.0, 0.5, 1.0)


GROUPS = graph(
    '%3: f32[*] = DynamicDequantize#0(%0: s8[8,6], %1: f32[2,6], %2: s8[2,6]) {qtype="per_group",group_shape=[4,1]}',
)


def test_groups_follow_the_shapes() -> None:
    g = with_shapes(GROUPS, {0: NewShape((16, 6))})
    assert (g.ops[0].attrs.integers("group_shape"), shape(g, 1), shape(g, 3)) == ((8, 1), (2, 6), (16, 6))
    g = with_shapes(GROUPS, {1: NewShape((4, 3))})
    assert (g.ops[0].attrs.integers("group_shape"), shape(g, 1), shape(g, 2)) == ((2, 2), (4, 3), (4, 3))


def test_scales_follow_the_groups() -> None:
    g = with_attrs(GROUPS, {0: {"group_shape": "2x3"}})
    assert (shape(g, 1), shape(g, 2)) == ((4, 2), (4, 2))


def test_scales_and_groups_that_contradict_each_other_are_refused() -> None:
    groups = {0: {"group_shape": "4x1"}}
    for scales in ((8, 6), (2, 6)):  # another shape, and the one it had
        with pytest.raises(BadOverride, match=r"^--in-shapes --op-attrs: op 0: DynamicDequantize: scales has shape"):
            rewrite(GROUPS, Overrides(in_shapes={0: NewShape((16, 6)), 1: NewShape(scales)}, op_attrs=groups))
    fits = rewrite(GROUPS, Overrides(in_shapes={0: NewShape((16, 6)), 1: NewShape((4, 6))}, op_attrs=groups))
    assert (shape(fits, 1), shape(fits, 2)) == ((4, 6), (4, 6))


def test_shapes_that_an_op_needs_of_what_is_computed_are_refused() -> None:
    g = graph(
        "%1: f32[*] = Abs#1(%0: f32[2,6])",
        '%3: f32[*] = DynamicDequantize#0(%2: s8[8,6], %1) {qtype="per_group",group_shape=[4,1]}',
    )
    with pytest.raises(InvalidArguments, match=r"^op 0: DynamicDequantize: input 1 would have to become \(4, 6\) .* but it is computed"):
        with_attrs(g, {0: {"group_shape": "2x1"}})


def test_a_fraction_in_a_list_of_integers_is_cut_off_and_remarked_on() -> None:
    b = GraphBuilder()
    b.op("StaticReshape", b.input((2, 3)), shape=(3, 2), special_zero=False)
    with collected() as remarks:
        g = with_attrs(b.graph(), {0: {"shape": "6.9x1"}})
    assert g.ops[0].attrs["shape"] == (6, 1)
    assert remarks == ["--op-attrs: shape takes integers: 6.9 is cut off to 6, as in benchdnn"]
