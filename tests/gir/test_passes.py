"""Each Graph IR pass on the smallest graph that shows it, as text; and invariants of all passes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from benchgraph.core.dtypes import DType
from benchgraph.core.errors import CompilerFault, InvalidShape
from benchgraph.core.passes import Pass, check_order, run
from benchgraph.core.tensor import LogicalTensor
from benchgraph.gir.build import Builder
from benchgraph.gir.ir import Constness, FusedOp, Graph, Op
from benchgraph.gir.parse import parse_gir
from benchgraph.gir.passes import PIPELINE
from benchgraph.gir.passes.fold_constants import fold_constants
from benchgraph.gir.passes.hoist_division import hoist_division
from benchgraph.gir.passes.mark_runtime_constants import mark_runtime_constants
from benchgraph.gir.text import print_gir
from benchgraph.gir.verify import GirError, verify
from benchgraph.graph.build import GraphBuilder
from benchgraph.machine.target import Target
from benchgraph.ops import spec
from tests.support.graph_ir import gir, up_to
from tests.support.targets import TARGET


def linear(b: GraphBuilder, x, k: int, n: int):
    return b.op("ReLU", b.op("MatMul", x, b.constant((k, n)), b.constant((n,))))


def attention(b: GraphBuilder) -> None:
    s = b.op("MatMul", b.input((2, 3, 10, 8)), b.input((2, 3, 8, 20)))
    p = b.op("SoftMax", b.op("Divide", s, b.input((1,))), axis=3)
    b.op("StaticTranspose", b.op("MatMul", p, b.input((2, 3, 20, 16))), order=[0, 2, 1, 3])


def test_decompose_interpolate_along_the_inner_of_two_dims_first() -> None:
    attrs = {"mode": "linear", "scales": (2.0, 2.0), "data_format": "NCX"}
    first, _ = up_to(gir(lambda b: b.op("Interpolate", b.input((2, 3, 5, 9)), **attrs)), "decompose").nodes
    assert isinstance(first, Op)
    assert first.attrs.integers("sizes") == (5, 18)
    assert "scales" not in first.attrs


def test_what_is_deferred_among_constants_is_left_to_init() -> None:
    """The product before its scaling, too, or init would read what main makes."""

    def build(b: GraphBuilder) -> None:
        q, k, v = (b.constant((2, 3, 20, 16)) for _ in range(3))
        p = b.op("SoftMax", b.op("MatMul", q, k, transpose_b=True), axis=3)
        b.op("Add", b.op("MatMul", p, v), b.input((2, 3, 20, 16)))

    g = up_to(gir(build), "defer-scaling")
    *made, last = (op for op in g.nodes if isinstance(op, Op))
    assert [spec(op.kind).semantics.is_product for op in made[-2:]] == [False, True]
    assert all(g.value(op.outs[0]).is_constant for op in made)
    assert not g.value(last.outs[0]).is_constant
    verify(g)


def test_a_hoisted_reciprocal_is_as_exact_as_the_quotient() -> None:
    """In bf16 it would have 8 bits, and so would every f32 quotient."""
    g = up_to(gir(lambda b: b.op("Divide", b.input((4, 16)), b.input((4, 1), DType.bf16), dtype=DType.f32)), "hoist-division")
    assert [(op.kind, g.value(op.outs[0]).dtype) for op in g.nodes if isinstance(op, Op)] == [
        ("Divide", DType.f32),
        ("Multiply", DType.f32),
    ]


def hoisted_from(build: Callable[[GraphBuilder], None]) -> list[str]:
    """What takes the place of divisions, up to their products."""
    g = up_to(gir(build), "hoist-division")
    return [op.kind for op in g.nodes if isinstance(op, Op) and not op.kind.startswith(("StaticReshape", "TypeCast"))]


def test_a_reciprocal_is_bounded_where_quotients_end_in_bytes() -> None:
    """Not a user's own quotients, whose infinities they may want to see; and what is known and has none in f32 stays a divisor."""

    def dynamic(b: GraphBuilder, *zps: LogicalTensor) -> None:
        b.op("DynamicQuantize", b.input((4, 16)), b.input((1,)), *zps, dtype=DType.u8)

    def own(b: GraphBuilder) -> None:
        b.op("Divide", b.input((4, 16)), b.input((1,)))

    def seen(b: GraphBuilder) -> None:
        quotient = b.op("Divide", b.input((4, 16)), b.input((1,)))
        b.op("DynamicQuantize", b.op("Add", quotient, b.input((16,))), b.input((4,)), dtype=DType.u8, qtype="per_channel", axis=0)
        b.end(quotient)

    def known(b: GraphBuilder, scale: float) -> None:
        b.op("Quantize", b.op("Exp", b.input((4, 16))), dtype=DType.u8, scales=[scale], qtype="per_tensor")

    assert hoisted_from(dynamic) == ["_BoundedReciprocal", "Multiply"]
    assert hoisted_from(lambda b: dynamic(b, b.input((1,), DType.u8))) == ["_BoundedReciprocal", "Multiply", "Add"]
    assert hoisted_from(own) == ["Divide", "Multiply"]
    assert hoisted_from(seen) == ["Divide", "Multiply", "Add", "_BoundedReciprocal", "Multiply"]
    assert hoisted_from(lambda b: known(b, 0.1)) == ["Exp", "Divide", "Multiply"]
    assert hoisted_from(lambda b: known(b, 1e-40)) == ["Exp", "Divide"]


def test_known_divisors_stay_where_ties_are_by_design() -> None:
    """Up to operations that round once, if at all; what comes of sums, functions or scales of many bits is noise."""

    def after(build: Callable[[GraphBuilder], LogicalTensor]) -> list[str]:
        return hoisted_from(lambda b: b.op("Quantize", build(b), dtype=DType.u8, scales=[0.1], qtype="per_tensor"))

    def added(b: GraphBuilder, scale: float) -> LogicalTensor:
        return b.op("Add", b.op("Dequantize", b.input((4, 16), DType.u8), dtype=DType.f32, scales=[scale]), b.input((4, 16)))

    hoisted = ["Divide", "Multiply"]
    assert after(lambda b: added(b, 0.375)) == ["Multiply", "Add", "Divide"]
    assert after(lambda b: added(b, 0.3)) == ["Multiply", "Add", *hoisted]
    assert after(lambda b: b.op("Add", b.input((4, 16)), b.input((4, 16)))) == ["Add", "Divide"]
    assert after(lambda b: b.op("Abs", b.op("Multiply", b.input((4, 16)), b.input((1,))))) == ["Multiply", "Abs", "Divide"]
    assert after(lambda b: b.op("Exp", b.input((4, 16)))) == ["Exp", *hoisted]
    assert after(lambda b: b.op("Add", b.op("Exp", b.input((4, 16))), b.input((4, 16)))) == ["Exp", "Add", *hoisted]
    assert after(lambda b: b.op("MatMul", b.input((4, 16)), b.input((16, 16)))) == ["MatMul", *hoisted]


def requantised(by: float | list[float], to: float | list[float], *, relu: bool = False, axes: tuple[int, int] = (1, 1)) -> list[str]:
    """What is left of a requantisation from one scale, or one per channel, to another."""

    def attrs(scales: float | list[float], axis: int) -> dict[str, object]:
        return {"scales": scales, "qtype": "per_channel", "axis": axis} if isinstance(scales, list) else {"scales": [scales]}

    def build(b: GraphBuilder) -> None:
        x = b.op("Dequantize", b.input((2, 16), DType.s8), dtype=DType.f32, **attrs(by, axes[0]))
        b.op("Quantize", b.op("ReLU", x) if relu else x, dtype=DType.s8, **attrs(to, axes[1]))

    return hoisted_from(build)


def test_known_factors_are_divided_instead_of_their_products() -> None:
    """But where there would be more of them, f32 might not hold them, or a ReLU would see other signs."""
    many = [0.1 * i for i in range(1, 17)]
    assert requantised(0.1, 0.3) == requantised(many, 0.3) == requantised(many, many) == requantised(0.1, many) == ["Multiply"]
    assert requantised(0.1, 0.3, relu=True) == requantised(many, many, relu=True) == ["Multiply", "ReLU"]
    assert requantised(0.1, -0.3) == ["Multiply"]
    assert requantised(0.375, -0.3, relu=True) == ["Multiply", "ReLU", "Divide"]
    assert requantised([0.375, 0.75], many, axes=(0, 1)) == ["Multiply", "Divide"]
    assert requantised(2.0**-100, 0.3) == requantised(0.375, 1e30) == ["Multiply", "Divide"]


def test_a_factor_whose_products_others_read_is_not_divided() -> None:
    def build(b: GraphBuilder) -> None:
        x = b.op("Dequantize", b.input((2, 16), DType.s8), dtype=DType.f32, scales=[0.375])
        b.op("Quantize", x, dtype=DType.s8, scales=[0.3])
        b.op("Abs", x)

    assert sorted(hoisted_from(build)) == ["Abs", "Divide", "Multiply"]


def test_quotients_of_factors_are_rounded_to_odd_on_the_way_to_integers() -> None:
    """Unless they are exact; to f8, to the nearest."""

    def factor(scale: float, dtype: DType) -> np.float32:
        def build(b: GraphBuilder) -> None:
            x = b.op("Dequantize", b.input((4, 16), dtype), dtype=DType.f32, scales=[scale])
            b.op("Quantize", x, dtype=dtype, scales=[0.1])

        g = up_to(gir(build), "hoist-division")
        (product,) = (op for op in g.nodes if isinstance(op, Op) and op.kind == "Multiply")
        literal = g.value(product.ins[1]).literal
        assert literal is not None
        return np.float32(literal.array)

    half, just_more = 0.5 * float(np.float32(0.1)), np.nextafter(np.float32(0.15), np.float32(1))
    assert factor(half, DType.s8) == factor(half, DType.f8_e5m2) == 0.5
    for scale in (0.15, 0.3, 0.7, 0.23, float(just_more)):
        exact = float(np.float32(scale)) / float(np.float32(0.1))
        odd, nearest = factor(scale, DType.s8), factor(scale, DType.f8_e5m2)
        assert nearest == np.float32(exact)
        assert float(nearest) != exact
        assert odd.view(np.uint32) % 2 == 1
        assert abs(float(odd) - exact) < np.spacing(odd)


def sources_side_by_side(b: GraphBuilder) -> None:
    x, y = b.input((4, 8)), b.input((4, 3))
    shared = b.op("ReLU", y)
    b.op("Exp", b.op("Concat", b.op("Tanh", x), y, shared, shared, b.op("StaticTranspose", b.input((5, 4)), order=[1, 0]), axis=1))


CHANNELS_FIRST = {"strides": (2, 2), "pads_begin": (1, 1), "pads_end": (1, 1), "dilations": (1, 1), "data_format": "NCX"}


@pytest.mark.parametrize("dtype", [DType.f32, DType.bf16])
@pytest.mark.parametrize("size", [4, 1])
def test_make_views_lets_no_product_write_element_by_element(dtype: DType, size: int) -> None:
    """Neither o nor i of weights i x o x 4 x 4 is dense; of i x o x 1 x 1 o is."""

    def gradient(b: GraphBuilder) -> None:
        src, diff_dst = b.input((2, 64, 4, 4), dtype), b.input((2, 32, 8 if size > 1 else 5, 8 if size > 1 else 5), dtype)
        attrs = {**CHANNELS_FIRST, "weights_format": "IOX", "weights_shape": (64, 32, size, size)}
        b.op("ConvTransposeBackwardWeights", src, diff_dst, **attrs)

    turning = [op.kind for op in up_to(gir(gradient), "make-views").nodes if isinstance(op, Op) and op.kind == "StaticTranspose"]
    assert turning == (["StaticTranspose"] if size > 1 else [])


def test_make_views_lets_what_no_product_made_write_any_way() -> None:
    def parts(b: GraphBuilder) -> None:
        turned = b.op("StaticTranspose", b.input((4, 8, 16)), order=[1, 2, 0])
        b.op("Concat", b.op("StaticReshape", turned, shape=(8, 16, 4), special_zero=False), b.input((8, 16, 4)), axis=0)

    assert [op.kind for op in up_to(gir(parts), "make-views").nodes if isinstance(op, Op)] == ["StaticReshape", "Reorder"]


@pytest.mark.parametrize("dtype", [DType.f32, DType.bf16])
def test_make_views_lets_phases_write_rows_in_pieces(dtype: DType) -> None:
    def phases(b: GraphBuilder) -> None:
        b.op("ConvTranspose", b.input((2, 20, 5, 12), dtype), b.constant((20, 64, 3, 3), dtype), **CHANNELS_FIRST, weights_format="IOX")

    assert not [op for op in up_to(gir(phases), "make-views").nodes if isinstance(op, Op) and op.kind == "StaticTranspose"]


@pytest.mark.parametrize("is_made", [False, True])
@pytest.mark.parametrize("shape", [(70, 40), (3, 70, 40)])
def test_weights_that_are_only_converted_go_into_panels_from_where_they_lie(shape: tuple[int, ...], is_made: bool) -> None:
    """By columns; so does one matrix for all entries, which is turned and has dims put before it. Others' maker writes them by rows."""

    def keys(b: GraphBuilder) -> None:
        given = b.input(shape, DType.f16)
        b.op("MatMul", b.input((3, 17, 40), DType.f16), b.op("Tanh", given) if is_made else given, transpose_b=True)

    g = up_to(gir(keys), "propagate-layout")
    (product,) = (op for op in g.nodes if isinstance(op, Op) and spec(op.kind).lowering.is_contraction)
    assert bool(g.value(product.ins[1]).layout.blocks) == (not is_made or len(shape) == 2)


@pytest.mark.parametrize("leave", [False, True])
def test_turned_weights_with_another_reader_are_written_turned(leave: bool) -> None:
    def keys(b: GraphBuilder) -> None:
        turned = b.op("StaticTranspose", b.op("TypeCast", b.input((70, 40), DType.bf16), dtype=DType.f32), order=(1, 0))
        b.op("MatMul", b.input((3, 17, 40)), b.op("StaticReshape", turned, shape=(1, 40, 70), special_zero=False))
        if leave:
            b.end(turned)
        else:
            b.op("Exp", turned)

    g = up_to(gir(keys), "make-views")
    conversion, *others = (op for op in g.nodes if isinstance(op, Op))
    assert [op.kind for op in others] == ["MatMul"] + ["Exp"] * (not leave)
    assert g.value(conversion.outs[0]).view is not None


def test_weights_that_are_turned_back_are_read_as_they_were() -> None:
    def keys(b: GraphBuilder) -> None:
        turned = b.op("StaticTranspose", b.op("TypeCast", b.input((40, 70), DType.bf16), dtype=DType.f32), order=(1, 0))
        b.op("MatMul", b.input((17, 40)), b.op("StaticTranspose", turned, order=(1, 0)))

    g = up_to(gir(keys), "make-views")
    conversion, product = (op for op in g.nodes if isinstance(op, Op))
    assert conversion.outs[0] == product.ins[1]


def test_weights_made_of_a_number_have_no_axis() -> None:
    def number(b: GraphBuilder) -> None:
        b.op("MatMul", b.input((3, 17, 1)), b.op("StaticReshape", b.op("Tanh", b.input(())), shape=(1, 1), special_zero=False))

    assert [op.kind for op in up_to(gir(number), "make-views").nodes if isinstance(op, Op)] == ["Tanh", "MatMul"]


def test_verify_wants_every_part_written_once() -> None:
    g = up_to(gir(sources_side_by_side), "make-views")
    reader = g.nodes[-1]
    assert isinstance(reader, Op)
    with pytest.raises(GirError, match=f"{reader.kind} reads %{reader.ins[0]} before it is written"):
        verify(replace(g, nodes=(*g.nodes[:-2], reader)))
    with pytest.raises(GirError, match=r"writes %\d+, which already has a value"):
        verify(replace(g, nodes=(*g.nodes[:-1], g.nodes[-2], reader)))


def nests(g: Graph) -> list[FusedOp]:
    return [n for n in up_to(g, "schedule").nodes if isinstance(n, FusedOp) and not g_is_constant(g, n)]


def g_is_constant(g: Graph, node: FusedOp) -> bool:
    return all(v in g.by_id and g.value(v).is_constant for v in node.ins)


def kernels(g: Graph) -> list[int]:
    """Matrix products per nest that runs at every execution."""
    found = [sum(op.kind == "MatMul" for op in n.ops) for n in nests(g)]
    return [count for count in found if count]


def test_three_layers_are_one_nest() -> None:
    g = gir(lambda b: linear(b, linear(b, linear(b, b.input((64, 13)), 13, 128), 128, 64), 64, 64))
    assert kernels(g) == [3]


def test_attention_is_one_nest() -> None:
    assert kernels(gir(attention)) == [2]


def test_attention_with_a_causal_mask_is_one_nest() -> None:
    def build(b: GraphBuilder) -> None:
        s = b.op("MatMul", b.input((2, 3, 64, 8)), b.input((2, 3, 8, 64)))
        mask = b.op("GreaterEqual", b.op("Add", b.op("GenIndex", s, axis=2), b.input((1,), DType.s32)), b.op("GenIndex", s, axis=3))
        b.op("MatMul", b.op("SoftMax", b.op("Select", mask, s, b.input((1,))), axis=3), b.input((2, 3, 64, 16)))

    assert len(nests(gir(build))) == 1


def test_one_row_is_not_worth_one_nest_when_cores_would_idle() -> None:
    g = gir(lambda b: linear(b, linear(b, b.input((1, 13)), 13, 128), 128, 64))
    assert kernels(g) == [1, 1]


def test_few_rows_and_weights_beyond_l2_are_a_nest_for_each_product() -> None:
    def three(rows: int, n: int) -> list[int]:
        return kernels(gir(lambda b: linear(b, linear(b, linear(b, b.input((rows, n)), n, n), n, n), n, 1)))

    assert three(16, 1024) == [1, 1, 1]
    assert three(512, 576) == [3], "rows enough for all weights"
    assert three(16, 256) == [3], "L2 keeps them"


@pytest.mark.parametrize("is_constant", [True, False])
def test_few_wide_rows_are_a_nest_for_each_product(is_constant: bool) -> None:
    """Each task would fetch all weights."""

    def build(b: GraphBuilder) -> None:
        weights = b.constant if is_constant else b.input
        b.op("MatMul", b.op("MatMul", b.input((16, 4096)), weights((4096, 14336))), weights((14336, 4096)))

    assert kernels(gir(build)) == [1, 1]


def test_few_rows_of_reductions_stay_one_nest_where_l2_holds_the_weights() -> None:
    def build(b: GraphBuilder) -> None:
        x = b.input((16, 256))
        for _ in range(2):
            x = b.op("SoftMax", linear(b, x, 256, 256), axis=1)

    assert kernels(gir(build)) == [2]


@pytest.mark.parametrize(("k", "n", "count"), [(512, 8000, 2), (256, 512, 1), (16, 8000, 1)])
def test_rows_are_worked_on_apart_if_few_of_them_would_fetch_all_weights(k: int, n: int, count: int) -> None:
    """L2 keeps the weights of the others."""
    g = gir(lambda b: b.op("SoftMax", b.op("MatMul", b.input((16, k)), b.constant((k, n))), axis=1))
    assert len(nests(g)) == count


def test_rows_of_attention_stay_whole_though_its_keys_are_one_matrix() -> None:
    def build(b: GraphBuilder) -> None:
        p = b.op("SoftMax", b.op("MatMul", b.input((1, 8192, 64)), b.input((1, 64, 8192))), axis=2)
        b.op("MatMul", p, b.input((1, 8192, 64)))

    assert kernels(gir(build)) == [2]


def test_a_weight_that_is_a_result_keeps_its_own_nest() -> None:
    def build(b: GraphBuilder) -> None:
        w = b.op("MatMul", b.input((16, 8)), b.input((8, 20)))
        b.op("MatMul", b.input((5, 16)), w)

    assert kernels(gir(build)) == [1, 1]


@pytest.mark.parametrize("dtype", [DType.f32, DType.bf16])
def test_a_power_of_two_stays_a_divisor_where_f32_does_not_hold_the_reciprocal(dtype: DType) -> None:
    most = 127  # the exponent of the largest power of two

    def folded(exponent: int) -> Graph:
        t = dtype.value
        text = f"graph(%0: {t}[4]) {{\n  %1: {t}[] = const {2.0**exponent}\n  %2: {t}[4] = Divide(%0, %1)\n  return %2\n}}"
        return fold_constants(hoist_division(parse_gir(text), TARGET), TARGET)

    multiplied, divided = folded(-most), folded(-most - 1)
    assert [op.kind for op in (*multiplied.ops, *divided.ops)] == ["Multiply", "Divide"]
    (factor,) = (v.literal.array for v in multiplied.values if v.literal and v.id == multiplied.ops[0].ins[1])
    assert factor == 2.0**most


def test_a_pass_with_nothing_to_do_returns_the_same_graph() -> None:
    g = up_to(gir(lambda b: b.op("ReLU", b.input((4, 8)))), "schedule")
    for p in PIPELINE:
        if p.name in ("dead-op", "fuse-coarse", "schedule"):  # those that work on fused graphs
            assert p.fn(g, TARGET) is g, p.name


def test_basic_passes_leave_a_basic_graph_alone() -> None:
    g = gir(lambda b: b.op("ReLU", b.input((4, 8))))
    for p in PIPELINE[: [p.name for p in PIPELINE].index("mark-runtime-constants")]:
        assert p.fn(g, TARGET) is g, p.name


def test_the_pipeline_gives_every_pass_what_it_needs() -> None:
    check_order(PIPELINE)


def test_a_pass_before_what_it_needs_is_refused() -> None:
    with pytest.raises(ValueError, match="pass settle-borders needs views"):
        check_order(tuple(p for p in PIPELINE if p.name != "make-views"))


def test_shapes_that_a_pass_refuses_are_the_compilers_fault() -> None:
    """Not those of an invalid case, which would be skipped."""

    def broken(g: Graph, target: Target) -> Graph:
        raise InvalidShape("2 and 3 do not broadcast")

    with pytest.raises(CompilerFault, match=r"^pass broken: 2 and 3 do not broadcast; a fault of the compiler"):
        run((Pass("broken", broken),), gir(attention), TARGET, show=print_gir, verify=verify, observe=lambda *_: None)


def test_verify_names_a_value_read_too_early() -> None:
    g = gir(lambda b: b.op("ReLU", b.op("Exp", b.input((4,)))))
    backwards = Graph(g.values, tuple(reversed(g.nodes)), g.ins, g.outs)
    with pytest.raises(GirError, match="ReLU reads %2 before it is written"):
        verify(backwards)


def test_verify_refuses_a_layout_op_that_converts() -> None:
    g = gir(lambda b: b.op("StaticTranspose", b.input((4, 3)), order=[1, 0]))
    narrow = tuple(replace(v, dtype=DType.bf16) if v.id in g.outs else v for v in g.values)
    with pytest.raises(GirError, match="StaticTranspose of %0 moves elements and does not convert them: f32, bf16"):
        verify(replace(g, values=narrow))


def test_verify_refuses_constants_made_of_variables() -> None:
    """Else init would compute them before it has their operands."""
    g = gir(lambda b: b.op("ReLU", b.op("Exp", b.input((4,)))))
    (first,) = g.nodes[0].outs
    spoilt = g.with_values({first: replace(g.value(first), constness=Constness.runtime)})
    with pytest.raises(GirError, match=f"Exp makes the constant %{first} of %0, which is not constant"):
        verify(spoilt)


def constants_as_parts() -> Graph:
    """After make-views: a runtime constant, copied to two parts of an output whose first part is variable."""

    def build(b: GraphBuilder) -> None:
        made = b.op("Exp", b.constant((3,)))
        b.op("Concat", b.op("Exp", b.input((3,))), made, made, axis=0)

    return up_to(gir(build), "make-views")


def test_parts_of_an_output_stay_variable_when_constants_are_marked_once_more() -> None:
    g = constants_as_parts()
    assert mark_runtime_constants(g, TARGET) is g


def test_verify_refuses_a_constant_part_of_a_variable() -> None:
    """Init would write it into a buffer of its own, and main nothing into that of the variable."""
    g = constants_as_parts()
    part = next(
        v for v in g.values if v.view is not None and all(g.value(i).is_constant for op in g.ops if v.id in op.outs for i in op.ins)
    )
    with pytest.raises(GirError, match=f"makes the constant %{part.id} as a part of %{g.root(part.id)}, which is none"):
        verify(g.with_values({part.id: replace(part, constness=Constness.runtime)}))


def test_verify_refuses_literals_of_half_a_byte() -> None:
    g = gir(lambda b: b.op("ReLU", b.input((4,))))
    builder = Builder(g.values)
    builder.const(3.0, DType.u4)
    with pytest.raises(GirError, match=r"the literal %2 is u4, two elements to a byte; only inputs can be"):
        verify(replace(g, values=tuple(builder.values.values())))


def test_passes_have_names_and_files_alike() -> None:
    for p in PIPELINE:
        assert isinstance(p, Pass)
        assert p.fn.__module__.rsplit(".", 1)[-1] == p.name.replace("-", "_")


def test_an_op_that_becomes_one_other_op_is_decomposed() -> None:
    g = up_to(gir(lambda b: b.op("BiasAdd", b.input((4, 8)), b.input((8,)))), "decompose")
    assert [node.kind for node in g.nodes if not isinstance(node, FusedOp)] == ["Add"]
