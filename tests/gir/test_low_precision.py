"""Products in the stored dtype, and the passes that prepare the ops around them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from benchgraph.core.dtypes import DType
from benchgraph.gir.ir import FusedOp, Graph, Op
from benchgraph.gir.passes.dead_op import dead_op
from benchgraph.graph.build import GraphBuilder
from benchgraph.machine.target import ISAS, Target
from benchgraph.ops import spec
from benchgraph.ops.quantisation.quantised_product import RECENTRE, TOTAL
from benchgraph.tir.groups import BYTES, SHORTS, DTypes
from tests.gir.quantised import per_column, quantised
from tests.support.graph_ir import gir, products, up_to
from tests.support.targets import EMULATED_DOTS, TARGET

FLOATS = DType.f32, DType.f32, DType.f32
IN_WORDS = replace(TARGET, emulated=frozenset({DType.s16}))


def test_a_transposed_weight_takes_its_scales_along() -> None:
    def build(b: GraphBuilder) -> None:
        wei = b.op("Dequantize", b.constant((2, 8), DType.s8), scales=[0.5, 2.0], zps=[0, 0], qtype="per_channel", axis=0)
        b.op("MatMul", quantised(b, b.input((4, 8), DType.u8), 0.25, 0), wei, transpose_b=True)

    assert products(up_to(gir(build), "dead-op", EMULATED_DOTS)) == [BYTES]


def test_scales_along_k_leave_the_product_in_floats() -> None:
    def build(b: GraphBuilder) -> None:
        wei = b.op("Dequantize", b.constant((2, 8), DType.s8), scales=[0.5, 2.0], zps=[0, 0], qtype="per_channel", axis=0)
        b.op("MatMul", quantised(b, b.input((4, 2), DType.u8), 0.25, 0), wei)

    assert products(up_to(gir(build), "dead-op", EMULATED_DOTS)) == [FLOATS]


def test_sums_that_might_not_be_exact_stay_in_floats() -> None:
    def build(b: GraphBuilder) -> None:
        k = 1 << 17
        b.op("MatMul", quantised(b, b.input((1, k), DType.u8), 0.25, 0), quantised(b, b.constant((k, 2), DType.s8), 0.5, 0))

    assert products(up_to(gir(build), "dead-op", EMULATED_DOTS)) == [FLOATS]


@pytest.mark.parametrize("wei", [DType.u8, DType.s8])
@pytest.mark.parametrize("src", [DType.u8, DType.s8])
def test_words_hold_signed_and_unsigned_bytes_without_recentring(src: DType, wei: DType) -> None:
    def build(b: GraphBuilder) -> None:
        b.op("MatMul", quantised(b, b.input((4, 8), src), 0.25, 3), per_column(b, b.constant((8, 2), wei), 2))

    g = up_to(gir(build), "dead-op", IN_WORDS)
    assert products(g) == [SHORTS]
    assert not any(isinstance(op, Op) and op.kind == RECENTRE for op in g.nodes)
    (total,) = (op for op in g.nodes if isinstance(op, Op) and op.kind == TOTAL)
    assert g.value(total.ins[0]).dtype is wei  # as they are stored: no word has to be written for it


@pytest.mark.parametrize(("k", "wanted"), [(33_025, SHORTS), (33_026, FLOATS)])
def test_sums_of_words_are_exact_with_u8_on_both_sides(k: int, wanted: DTypes) -> None:
    def build(b: GraphBuilder) -> None:
        b.op("MatMul", quantised(b, b.input((1, k), DType.u8), 0.25, 0), quantised(b, b.constant((k, 2), DType.u8), 0.5, 0))

    assert products(up_to(gir(build), "dead-op", IN_WORDS)) == [wanted]


@pytest.mark.parametrize(("n", "wanted"), [(1, BYTES), (2, SHORTS)])
def test_one_column_stays_in_bytes_which_need_no_microkernel(n: int, wanted: DTypes) -> None:
    def build(b: GraphBuilder) -> None:
        b.op("MatMul", quantised(b, b.input((4, 8), DType.u8), 0.25, 0), quantised(b, b.constant((8, n), DType.s8), 0.5, 0))

    assert products(up_to(gir(build), "dead-op", IN_WORDS)) == [wanted]


def test_a_cast_to_bf16_between_scale_and_product_is_left_out() -> None:
    def build(b: GraphBuilder) -> None:
        src, wei = (
            b.op("TypeCast", quantised(b, b.input(shape, dtype), 0.25, 0), dtype=DType.bf16)
            for shape, dtype in (((4, 8), DType.u8), ((8, 2), DType.s8))
        )
        b.op("MatMul", src, wei)

    assert products(up_to(gir(build), "dead-op", EMULATED_DOTS)) == [BYTES]


@pytest.mark.parametrize(("target", "dtype"), [(EMULATED_DOTS, DType.bf16), (TARGET, DType.f32)])
def test_bf16_operands_are_multiplied_in_bf16_where_the_machine_can(target: Target, dtype: DType) -> None:
    g = gir(lambda b: b.op("MatMul", b.input((16, 8), DType.bf16), b.input((8, 2), DType.bf16)))
    assert products(up_to(g, "dead-op", target)) == [(dtype, dtype, DType.f32)]


def conv(b: GraphBuilder, src, wei, groups: int = 1, pads: int = 1) -> None:
    attrs = {"strides": [1, 1], "dilations": [1, 1], "pads_begin": [pads, pads], "pads_end": [pads, 0], "groups": groups}
    b.op("Convolution", src, wei, **attrs, data_format="NXC", weights_format="XIO")


@pytest.mark.parametrize("groups", [1, 2])
@pytest.mark.parametrize("pads", [0, 1])
def test_convolutions_of_bf16_are_products_of_bf16(groups: int, pads: int) -> None:
    def build(b: GraphBuilder) -> None:
        conv(b, b.input((2, 5, 5, 8), DType.bf16), b.constant((3, 3, 8 // groups, 4), DType.bf16), groups, pads)

    assert products(up_to(gir(build), "dead-op", EMULATED_DOTS)) == [(DType.bf16, DType.bf16, DType.f32)]


@pytest.mark.parametrize(
    ("src", "zp", "pads", "wanted"),
    [
        (DType.u8, 0, 1, BYTES),
        (DType.u8, 3, 0, BYTES),
        (DType.s8, 0, 1, BYTES),
        (DType.u8, 3, 1, BYTES),
        (DType.s8, -3, 1, BYTES),
        (DType.u8, -3, 1, FLOATS),
        (DType.u8, None, 1, FLOATS),
        (DType.u8, None, 0, BYTES),
    ],
    ids=[
        "no zero point",
        "no padding",
        "recentred behind the padding",
        "zero points are padding",
        "before it is recentred",
        "none that u8 holds",
        "none that is known",
        "no padding again",
    ],
)
def test_convolutions_of_integers_are_products_of_integers(src: DType, zp: int | None, pads: int, wanted: tuple[DType, ...]) -> None:
    """Padding is the zero point, if that can be stored. zp None: known when it runs."""

    def build(b: GraphBuilder) -> None:
        wei = b.op("Dequantize", b.constant((3, 3, 8, 2), DType.s8), scales=[0.5, 2.0], zps=[0, 0], qtype="per_channel", axis=3)
        stored = b.input((2, 5, 5, 8), src)
        if zp is None:
            conv(b, b.op("DynamicDequantize", stored, b.input((1,)), b.input((1,), DType.s32), qtype="per_tensor"), wei, pads=pads)
        else:
            conv(b, quantised(b, stored, 0.25, zp), wei, pads=pads)

    assert products(up_to(gir(build), "dead-op", EMULATED_DOTS)) == [wanted]


def test_padding_is_the_zero_point() -> None:
    """As it is stored: recentring comes after it."""

    def build(b: GraphBuilder) -> None:
        wei = b.op("Dequantize", b.constant((3, 3, 8, 2), DType.s8), scales=[0.5], zps=[0], qtype="per_tensor")
        conv(b, quantised(b, b.input((2, 5, 5, 8), DType.u8), 0.25, 7), wei)

    pads = [
        op.attrs.integer("value") for op in up_to(gir(build), "dead-op", EMULATED_DOTS).nodes if isinstance(op, Op) and op.kind == "_Pad"
    ]
    assert pads == [7]


@pytest.mark.parametrize(("src_axis", "wei_axis"), [(2, None), (None, 0), (None, 2)])
def test_scales_that_vary_within_a_window_leave_a_convolution_in_floats(src_axis: int | None, wei_axis: int | None) -> None:
    def scaled(b: GraphBuilder, x, n: int, axis: int | None):
        attrs = {"qtype": "per_tensor"} if axis is None else {"qtype": "per_channel", "axis": axis}
        count = 1 if axis is None else n
        return b.op("Dequantize", x, scales=[0.5 + i for i in range(count)], zps=[0] * count, **attrs)

    def build(b: GraphBuilder) -> None:
        conv(b, scaled(b, b.input((2, 3, 3, 3), DType.u8), 3, src_axis), scaled(b, b.constant((3, 3, 3, 2), DType.s8), 3, wei_axis), pads=0)

    assert products(up_to(gir(build), "dead-op", EMULATED_DOTS)) == [FLOATS]


def test_groups_of_one_channel_stay_in_floats() -> None:
    def build(b: GraphBuilder) -> None:
        conv(b, b.input((2, 5, 5, 4), DType.bf16), b.constant((3, 3, 1, 8), DType.bf16), groups=4)

    assert products(up_to(gir(build), "dead-op", EMULATED_DOTS)) == [FLOATS]


def stored_windows(zps: int | tuple[int, ...], wei_zp: int = 0, dtype: DType = DType.u8, data_format: str = "NXC") -> tuple[Op, Graph]:
    """The windows of a depthwise convolution of quantised data, channels last, by weights whose kernel is last; their graph in the end."""

    def build(b: GraphBuilder) -> None:
        data = b.input((2, 9, 9, 16) if data_format == "NXC" else (2, 16, 9, 9), dtype)
        if isinstance(zps, int):
            src = quantised(b, data, 0.25, zps)
        else:
            src = b.op("Dequantize", data, scales=[0.5 + i for i in range(16)], zps=list(zps), qtype="per_channel", axis=3)
        scales = [0.5 + i for i in range(16)]
        wei = b.op("Dequantize", b.input((16, 1, 3, 3), DType.s8), scales=scales, zps=[wei_zp] * 16, qtype="per_channel", axis=0)
        attrs = {"strides": [1, 1], "dilations": [1, 1], "pads_begin": [1, 1], "pads_end": [1, 1], "groups": 16}
        b.op("Convolution", src, wei, **attrs, data_format=data_format, weights_format="OIX")

    g = up_to(gir(build), "schedule", EMULATED_DOTS)
    ops = [op for node in g.nodes if isinstance(node, FusedOp) for op in node.ops]
    (windows,) = (op for op in ops if spec(op.kind).lowering.is_window)
    return windows, g


@pytest.mark.parametrize("dtype", [DType.u8, DType.s8])
def test_depthwise_windows_read_bytes_as_they_are_stored(dtype: DType) -> None:
    windows, g = stored_windows(3, dtype=dtype)
    data, wei = (g.value(v) for v in windows.ins)
    assert (data.id, data.dtype) == (g.ins[0], dtype)
    assert windows.attrs["zero"] == 3.0
    assert (wei.dtype, wei.shape) == (DType.f32, (3, 3, 1, 16))
    assert g.value(g.root(wei.id)).layout.is_plain, "the channels of a tap lie side by side"


@pytest.mark.parametrize(
    ("zps", "wei_zp", "dtypes"), [(tuple(range(16)), 0, {DType.f32}), ((0,) * 16, 0, {DType.f32}), (0, 5, {DType.u8, DType.f32})]
)
def test_depthwise_windows_of_other_quantisations_read_floats(zps: int | tuple[int, ...], wei_zp: int, dtypes: set[DType]) -> None:
    """Zero points per channel, scales too; zero points of weights, which are then made in floats on their own."""
    windows, g = stored_windows(zps, wei_zp)
    assert {g.value(v).dtype for v in windows.ins} == dtypes


def test_weights_are_not_reordered_for_channels_first() -> None:
    """Weights are read element by element there."""
    windows, g = stored_windows(3, data_format="NCX")
    assert [g.value(v).dtype for v in windows.ins] == [DType.u8, DType.s8]
    assert g.root(windows.ins[1]) == g.ins[1]


def test_zero_points_of_a_convolutions_weights_leave_it_in_floats() -> None:
    def build(b: GraphBuilder) -> None:
        conv(b, quantised(b, b.input((2, 5, 5, 8), DType.u8), 0.25, 0), quantised(b, b.constant((3, 3, 8, 2), DType.s8), 0.5, 1))

    assert products(up_to(gir(build), "dead-op", EMULATED_DOTS)) == [FLOATS]


@pytest.mark.parametrize(("target", "dtype"), [(EMULATED_DOTS, DType.bf16), (TARGET, DType.f32)])
def test_sums_over_places_are_of_bf16_too(target: Target, dtype: DType) -> None:
    """A transposed source has adjacent positions along x, which can be packed in groups."""

    def build(b: GraphBuilder) -> None:
        src, dst = b.input((2, 5, 5, 8), DType.bf16), b.input((2, 5, 5, 4), DType.bf16)
        attrs = {name: [1, 1] for name in ("strides", "dilations", "pads_begin", "pads_end")}
        b.op("ConvolutionBackwardWeights", src, dst, **attrs, weights_shape=[3, 3, 8, 4], data_format="NXC", weights_format="XIO")

    assert products(up_to(gir(build), "dead-op", target)) == [(dtype, dtype, DType.f32)]


def test_no_dead_reader_of_a_products_f32_operands_is_left() -> None:
    """A second reader of the scores would keep attention's division before the product with V, and whole rows of scores with it."""

    def build(b: GraphBuilder) -> None:
        q, k, v = (b.input((4, 64, 16), DType.bf16) for _ in range(3))
        b.op("MatMul", b.op("SoftMax", b.op("MatMul", q, k, transpose_b=True), axis=-1), v)

    g = up_to(gir(build), "low-precision", EMULATED_DOTS)
    assert products(g) == [(DType.bf16, DType.bf16, DType.f32)] * 2
    assert dead_op(g, EMULATED_DOTS) is g
    deferred = up_to(gir(build), "defer-scaling", EMULATED_DOTS)
    last = next(op for op in reversed(deferred.nodes) if spec(op.kind).semantics.is_product)
    assert deferred.value(last.outs[0]).shape == (4, 64, 16)


@pytest.mark.parametrize(("columns", "dtype"), [(6, DType.f32), (8, DType.bf16)])
def test_reductions_over_a_products_rows_are_narrow_where_that_pays(columns: int, dtype: DType) -> None:
    """For bf16 they have to be packed; each element saves half of the multiplications with all columns."""

    def build(b: GraphBuilder) -> None:
        p = b.op("Exp", b.op("MatMul", b.input((4, 64, 32), DType.bf16), b.input((4, 32, 48), DType.bf16)))
        b.op("MatMul", p, b.input((4, 64, columns), DType.bf16), transpose_a=True)

    assert products(up_to(gir(build), "dead-op", EMULATED_DOTS)) == [(DType.bf16, DType.bf16, DType.f32), (dtype, dtype, DType.f32)]


@pytest.mark.parametrize(("columns", "dtype"), [(128, DType.f32), (160, DType.bf16)])
def test_reductions_over_a_products_rows_are_not_narrow_on_tile_registers(columns: int, dtype: DType) -> None:
    """Rows of src that tile registers load have unit stride along k."""

    def build(b: GraphBuilder) -> None:
        p = b.op("Exp", b.op("MatMul", b.input((4, 64, 32), DType.bf16), b.input((4, 32, 48), DType.bf16)))
        b.op("MatMul", p, b.input((4, 64, columns), DType.bf16), transpose_a=True)

    tiles = replace(EMULATED_DOTS, isa=ISAS["avx512_core_amx"])
    assert products(up_to(gir(build), "dead-op", tiles)) == [(DType.bf16, DType.bf16, DType.f32), (dtype, dtype, DType.f32)]


def test_inputs_are_copied_at_any_cost() -> None:
    """They are inputs, no larger than the user has made them; in f32 they would have to be converted."""

    def build(b: GraphBuilder) -> None:
        b.op("MatMul", b.input((4, 64, 48), DType.bf16), b.input((4, 64, 16), DType.bf16), transpose_a=True)

    assert products(up_to(gir(build), "dead-op", EMULATED_DOTS)) == [(DType.bf16, DType.bf16, DType.f32)]


def test_operands_of_a_layout_op_with_a_narrow_border_stay_narrow() -> None:
    """All sources of a Concat have its dtype, and one of them is an input."""

    def build(b: GraphBuilder) -> None:
        x = b.op("Abs", b.op("TypeCast", b.input((4, 8)), dtype=DType.f16))
        b.op("Exp", b.op("Concat", x, b.input((4, 8), DType.f16), axis=0))

    g = up_to(gir(build), "widen-intermediates", EMULATED_DOTS)
    (concat,) = (op for op in g.nodes if isinstance(op, Op) and len(op.ins) == 2)
    assert {g.value(v).dtype for v in (*concat.ins, *concat.outs)} == {DType.f16}


def test_operands_of_a_bf16_product_are_not_widened() -> None:
    def build(b: GraphBuilder) -> None:
        x = b.op("ReLU", b.op("MatMul", b.input((4, 8), DType.bf16), b.input((8, 4), DType.bf16)))
        b.op("MatMul", x, b.input((4, 2), DType.bf16))

    assert products(up_to(gir(build), "dead-op", EMULATED_DOTS)) == [(DType.bf16, DType.bf16, DType.f32)] * 2
