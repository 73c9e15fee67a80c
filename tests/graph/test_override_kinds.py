"""--op-kind, --dt, --tensor-property, --attr-fpmath, and the order of all overrides."""

from __future__ import annotations

import pytest

from benchgraph.core.dtypes import DType
from benchgraph.core.errors import BenchgraphError, InvalidArguments, NoSuchOpKind
from benchgraph.core.tensor import PropertyType
from benchgraph.graph import Graph, infer_shapes, parse_graph, validate
from benchgraph.graph.override import (
    BadOverride,
    NewShape,
    Overrides,
    rewrite,
    with_dtype,
    with_dtypes,
    with_fpmath,
    with_kinds,
    with_properties,
)
from benchgraph.ops import OPS


def graph(*lines: str, head: str = "") -> Graph:
    return infer_shapes(parse_graph(f"graph engine=cpu fpmath=strict {head} {{\n" + "\n".join(lines) + "\n}"))


def kinds(g: Graph) -> list[str]:
    return [op.kind for op in g.ops]


def dtypes(g: Graph) -> dict[int, str]:
    return {id: t.dtype.value for id, t in sorted(g.tensors.items())}


SCALED = graph(
    "%2: f32[*] = MatMul#0(%0: f32[4,8], %1: f32[8,4])",
    "%4: f32[*] = Multiply#1(%2, %3: f32[])",
    "%5: f32[*] = ReLU#2(%4)",
    "%6: f32[*] = SoftMax#3(%5) {axis=1}",
)

# ---- --op-kind -------------------------------------------------------------------------------------------------------


def test_the_families_are_benchdnns() -> None:
    """The classes of ops that benchdnn's graph driver distinguishes (oneDNN, tests/benchdnn/graph)."""
    families = {f: sorted(k for k, row in OPS.items() if row.schema.family == f) for f in ("binary", "eltwise")}
    assert families["binary"] == [
        *("Add", "BiasAdd", "BiasAddBackward", "Divide", "GreaterEqual", "Maximum", "Minimum", "Multiply", "Select", "Subtract"),
    ]
    assert {"ReLU", "ReLUBackward", "GELU", "Pow", "Reciprocal", "Round", "SquaredDifference", "TanhBackward"} <= set(families["eltwise"])
    assert not {"PReLU", "MatMul", "SoftMax", "TypeCast", "LogSoftmax"} & set(families["eltwise"])


def test_an_op_becomes_another_of_its_family() -> None:
    g = with_kinds(SCALED, {1: "Divide", 2: "Tanh"})
    assert kinds(g) == ["MatMul", "Divide", "Tanh", "SoftMax"]
    assert validate(g).tensors == SCALED.tensors


def test_an_op_with_one_input_can_be_taken_out() -> None:
    g = with_kinds(SCALED, {2: "undef"})
    assert kinds(g) == ["MatMul", "Multiply", "SoftMax"]
    assert [t.id for t in g.ops[2].inputs] == [4]


def test_of_two_inputs_the_computed_one_is_passed_on() -> None:
    g = with_kinds(SCALED, {1: "undef", 2: "undef"})
    assert kinds(g) == ["MatMul", "SoftMax"]
    assert [t.id for t in g.ops[1].inputs] == [2]
    assert [t.id for t in g.inputs] == [0, 1]


def test_an_output_of_the_graph_moves_to_what_is_passed_on() -> None:
    g = graph("%1: f32[*] = ReLU#0(%0: f32[4])", "%2: f32[*] = Abs#1(%1)", head="outputs=[2]")
    new = with_kinds(g, {1: "undef"})
    assert (new.output_ports, [t.id for t in new.outputs]) == ((1,), [1])


@pytest.mark.parametrize(
    ("change", "kind", "message"),
    [
        ({7: "Add"}, InvalidArguments, "op 7: there is no such op; the graph has 0 (MatMul), 1 (Multiply), 2 (ReLU), 3 (SoftMax)"),
        ({1: "ReLU"}, InvalidArguments, "op 1: Multiply: ReLU cannot take its place; choose one of Add, BiasAdd, "),
        ({0: "Add"}, InvalidArguments, "op 0: MatMul: Add cannot take its place; only ops of the families binary and eltwise have one"),
        ({1: "Mul"}, NoSuchOpKind, "op 1: Multiply: unknown op kind 'Mul'"),
        (
            {3: "undef"},
            InvalidArguments,
            "op 3: SoftMax: it cannot be taken out; only eltwise and binary ops with one output and one or two",
        ),
    ],
)
def test_ops_that_cannot_be_exchanged_are_refused(change: dict[int, str], kind: type[BenchgraphError], message: str) -> None:
    with pytest.raises(kind) as bad:
        with_kinds(SCALED, change)
    assert str(bad.value).startswith(message)


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (["%2: f32[*] = Add#0(%0: f32[4], %1: f32[4])", "%3: f32[*] = Abs#1(%2)"], "op 0: Add: 0 of its inputs are computed, so none is"),
        (
            ["%1: f32[*] = Abs#1(%0: f32[4])", "%2: f32[*] = Exp#2(%0)", "%3: f32[*] = Add#0(%1, %2)"],
            "op 0: Add: 2 of its inputs are computed, so none is the one to pass on; ",
        ),
        (
            ["%1: f32[*] = Abs#1(%0: f32[4])", "%3: f32[*] = Add#0(%1, %2: f32[3,4])"],
            "op 0: Add: its input 1 is f32 (4,), its output f32 (3, 4); ",
        ),
        (["%1: f32[*] = Abs#0(%0: f32[4])"], "op 0: Abs: it is the graph's only op; leave it in"),
    ],
)
def test_ops_that_cannot_be_taken_out_are_refused(lines: list[str], message: str) -> None:
    with pytest.raises(InvalidArguments) as bad:
        with_kinds(graph(*lines), {0: "undef"})
    assert str(bad.value).startswith(message)


# ---- --dt ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [DType.bf16, DType.f16])
def test_one_dtype_for_the_whole_graph(dtype: DType) -> None:
    assert set(dtypes(validate(with_dtype(SCALED, dtype))).values()) == {dtype.value}
    assert with_dtype(with_dtype(SCALED, dtype), DType.f32) == SCALED
    assert with_dtype(SCALED, DType.undef) is SCALED


def test_statistics_parameters_integers_booleans_and_host_scalars_keep_their_dtype() -> None:
    norm = graph(
        "%3: f32[*], %4: f32[*], %5: f32[*] = LayerNorm#0(%0: f32[2,8], %1: f32[8], %2: f32[8])",
        "%6: f32[*], %7: f32[*] = SoftMax#1(%3) {axis=1}",
    )
    assert dtypes(validate(with_dtype(norm, DType.f16))) == {id: "f16" if id in (0, 3, 6) else "f32" for id in range(8)}
    rms = graph("%2: f32[*] = RMSNorm#0(%0: f32[2,8], %1: f32[8])")
    assert set(dtypes(validate(with_dtype(rms, DType.bf16))).values()) == {"bf16"}
    mask = graph(
        "%1: s32[*] = GenIndex#0(%0: f32[4,4]) {axis=0}",
        "%3: s32[*] = Add#1(%1, %2: s32[])",
        "%4: boolean[*] = GreaterEqual#2(%1, %3)",
        "%6: f32[*] = Select#3(%4, %0, %5: f32[] host_scalar)",
    )
    scalar = with_dtype(mask, DType.bf16)
    assert dtypes(scalar) == {0: "bf16", 1: "s32", 2: "s32", 3: "s32", 4: "boolean", 5: "f32", 6: "bf16"}


def test_a_graph_that_converts_is_refused() -> None:
    g = graph("%1: f32[*] = Dequantize#5(%0: u8[4]) {scales=[0.5]}")
    with pytest.raises(InvalidArguments) as bad:
        with_dtype(g, DType.bf16)
    assert str(bad.value) == "op 5: Dequantize: it converts between dtypes; set tensors one by one, as in --dt=0:bf16+3:bf16"


def test_single_dtypes_count_at_every_use() -> None:
    g = with_dtypes(SCALED, {0: DType.f16, 1: DType.f16, 3: DType.bf16})
    assert dtypes(validate(g)) == {0: "f16", 1: "f16", 2: "f32", 3: "bf16", 4: "f32", 5: "f32", 6: "f32"}
    with pytest.raises(InvalidArguments, match=r"^tensor 9: there is no such tensor; the graph has 0, 1, 2, 3, 4, 5, 6$"):
        with_dtypes(SCALED, {9: DType.f16})


# ---- properties and fpmath -------------------------------------------------------------------------------------------


def test_properties_count_at_every_use_and_end_what_was() -> None:
    g = with_properties(SCALED, {3: PropertyType.host_scalar, 1: PropertyType.constant})
    assert [t.property_type.value for t in g.inputs] == ["undef", "constant", "host_scalar"]
    assert with_properties(g, {3: PropertyType.undef, 1: PropertyType.undef}) == SCALED
    with pytest.raises(InvalidArguments, match=r"^tensor 9: there is no such tensor; the graph has 0, "):
        with_properties(SCALED, {9: PropertyType.constant})
    with pytest.raises(InvalidArguments, match=r"^logical tensor 0: a host scalar that is no single number; give it shape "):
        with_properties(SCALED, {0: PropertyType.host_scalar})


def test_fpmath_is_a_fact_of_the_graph() -> None:
    g = with_fpmath(SCALED, "bf16", apply_to_int=True)
    assert (g.fpmath_mode, g.fpmath_apply_to_int) == ("bf16", True)
    with pytest.raises(InvalidArguments, match=r"^unknown mode 'bf1'; did you mean 'bf16'\?$"):
        with_fpmath(SCALED, "bf1")


# ---- all of them -----------------------------------------------------------------------------------------------------


def test_no_options_change_nothing() -> None:
    assert rewrite(SCALED, Overrides()) == SCALED


def test_all_overrides_in_benchdnns_order() -> None:
    g = rewrite(
        SCALED,
        Overrides(
            in_shapes={1: NewShape((8, 6))},
            mb=9,
            op_attrs={3: {"axis": "0"}, 2: {"alpha": "0.5"}},  # an attribute of the kind that --op-kind brings
            op_kind={1: "undef", 2: "LeakyReLU"},
            attr_fpmath=("bf16", False),
            dt=DType.bf16,
            dts={6: DType.f32},
            tensor_property={1: PropertyType.constant},
        ),
    )
    assert (kinds(g), g.fpmath_mode) == (["MatMul", "LeakyReLU", "SoftMax"], "bf16")
    assert [(t.dtype.value, t.shape) for t in (*g.inputs, *g.outputs)] == [("bf16", (9, 8)), ("bf16", (8, 6)), ("f32", (9, 6))]
    assert validate(g) == g


def test_the_batch_wins_over_dim_0_of_the_shapes() -> None:
    g = rewrite(SCALED, Overrides(in_shapes={0: NewShape((5, 16)), 1: NewShape((16, 3))}, mb=7))
    assert [t.shape for t in g.inputs] == [(7, 16), (16, 3), ()]


def test_a_batch_and_a_target_that_only_fit_together() -> None:
    g = graph("%1: f32[*] = StaticReshape#0(%0: f32[4,3,8]) {shape=[2,48],special_zero=false}")
    assert rewrite(g, Overrides(mb=3, op_attrs={0: {"shape": "9x8"}})).tensors[1].shape == (9, 8)


def test_an_illegal_file_can_be_mended() -> None:
    g = parse_graph('graph engine=cpu fpmath=strict {\n%1: f32[*] = SoftMax#0(%0: f32[4]) {axis=0,mode="nothing"}\n}')
    assert rewrite(g, Overrides(op_attrs={0: {"mode": "none"}})).ops[0].attrs["mode"] == "none"
    with pytest.raises(BenchgraphError, match=r"^op 0: SoftMax: attribute 'mode' is 'nothing'") as bad:
        rewrite(g, Overrides(mb=3))
    assert not isinstance(bad.value, BadOverride), "the file is to blame, not the batch size"


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (Overrides(in_shapes={0: NewShape(layout="zz")}), "--in-shapes: tensor 0: the tag 'zz'"),
        (Overrides(in_shapes={1: NewShape((7, 4))}), "--in-shapes: op 0: MatMul: "),
        (Overrides(in_shapes={1: NewShape((7, 4))}, mb=4, op_attrs={3: {"axis": "0"}}), "--in-shapes --mb --op-attrs: op 0: MatMul: "),
        (Overrides(mb=-1), "--mb: the batch size is -1"),
        (Overrides(op_attrs={3: {"axle": "1"}}), "--op-attrs: op 3: SoftMax: unknown attribute 'axle'"),
        (Overrides(op_attrs={3: {"axes": "1"}}), "--op-attrs: op 3: SoftMax: unknown attribute 'axes'"),
        (Overrides(op_kind={1: "Select"}), "--op-kind: op 1: Select: has 2 inputs"),
        (Overrides(attr_fpmath=("fast", False)), "--attr-fpmath: unknown mode 'fast'"),
        (Overrides(dts={0: DType.s8}), "--dt: op 0: MatMul: input src has dtype s8"),
        (Overrides(dt=DType.s8), "--dt: s8 for the whole graph"),
        (Overrides(dts={0: DType.undef}), "--dt: tensor 0: dtype undef"),
        (Overrides(tensor_property={0: PropertyType.host_scalar}), "--tensor-property: logical tensor 0: a host scalar"),
    ],
)
def test_the_option_to_blame_is_named(overrides: Overrides, message: str) -> None:
    with pytest.raises(BadOverride) as bad:
        rewrite(SCALED, overrides)
    assert str(bad.value).startswith(message)
