"""DynamicQuantize and DynamicDequantize against the static ops, and illegal graphs."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from benchgraph.compile import compile_partition
from benchgraph.core.attrs import Attrs
from benchgraph.core.dtypes import DType
from benchgraph.core.errors import InvalidGraphOp, InvalidShape
from benchgraph.core.tensor import Shape, TensorType
from benchgraph.graph.build import GraphBuilder, sample_graph
from benchgraph.machine.target import ISAS, Isa, Target, current, missing
from benchgraph.ops import call_of, check_op, spec, with_defaults
from benchgraph.ops.spec import Array, Sample
from benchgraph.partition.ir import Policy
from benchgraph.partition.partitioner import partitions
from benchgraph.reference import evaluate

f32, u8, s8, s32 = DType.f32, DType.u8, DType.s8, DType.s32
SCALES, ZPS = (0.5, 0.25, 2.0), (0, 3, 7)


@pytest.mark.parametrize(("qtype", "axis"), [("per_tensor", 1), ("per_channel", 1), ("per_channel", -2)])
def test_dynamic_ops_equal_static_ops_with_the_same_scales(qtype: str, axis: int) -> None:
    n = 1 if qtype == "per_tensor" else 3
    src = np.random.default_rng(1).uniform(-20, 200, (4, 3, 5)).astype(np.float32).astype(np.float64)
    attrs = Attrs(qtype=qtype, axis=axis)
    fixed = attrs.updated(scales=SCALES[:n], zps=ZPS[:n])
    given = np.array(SCALES[:n]), np.array(ZPS[:n], np.uint8)
    shapes = ((4, 3, 5), (n,), (n,))
    static = spec("Quantize").semantics.reference(call_of("Quantize", Sample(shapes[:1], fixed, out_dtypes=(u8,))), (src,))[0]
    dynamic = call_of("DynamicQuantize", Sample(shapes, attrs, (f32, f32, u8), (u8,)))
    assert np.array_equal(spec("DynamicQuantize").semantics.reference(dynamic, (src, *given))[0], static)
    back = spec("Dequantize").semantics.reference(call_of("Dequantize", Sample(shapes[:1], fixed, (u8,), (f32,))), (static,))[0]
    dynamic = call_of("DynamicDequantize", Sample(shapes, attrs, (u8, f32, u8), (f32,)))
    assert np.array_equal(spec("DynamicDequantize").semantics.reference(dynamic, (static, *given))[0], back)


def both(kind: str, sample: Sample, ins: list[Array], target: Target | None = None) -> tuple[Array, Array]:
    """The results of the reference and of compiled code."""
    graph = sample_graph(spec(kind), sample)
    (want,) = evaluate(graph, {t.id: a for t, a in zip(graph.inputs, ins, strict=True)}).values()
    (partition,) = partitions(graph, Policy.one_op_each)
    got = np.full(want.shape, 77, want.dtype)
    compile_partition(partition, target).bind(ins, [got])()
    return want, got


@pytest.mark.parametrize("zps", [None, u8, s32])
@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("dst", [u8, s8])
def test_scales_of_0_infinity_and_nan_give_the_reference_result(dst: DType, axis: int, zps: DType | None) -> None:
    """Divided by 0, infinities and NaN at execution: the ends of the range, the zero point, and 0 for NaN. No warnings."""
    numbers = np.array([0.0, -0.0, 1, -1, np.inf, -np.inf, np.nan, 3e38], np.float32)
    scales = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 0.5, -0.5, 3], np.float32)
    src = np.ascontiguousarray(np.broadcast_to(numbers if axis == 0 else numbers[:, None], (8, 8)))
    ins = [src, scales, *(() if zps is None else (np.arange(3, 11).astype(zps.numpy),))]
    dtypes = (f32, f32, *(() if zps is None else (zps,)))
    want, got = both("DynamicQuantize", Sample(tuple(a.shape for a in ins), Attrs(qtype="per_channel", axis=axis), dtypes, (dst,)), ins)
    assert np.array_equal(got, want)
    low, high = dst.range
    by_zero = want[0] if axis == 0 else want[:, 0]
    assert by_zero[2:7].tolist() == [high, low, high, low, 0]


TINY = np.array([1e-45, -1e-45, 3e-45, 1e-40, -1e-40, 2.9e-39, 2.0**-128, 2.0**-127], np.float32)  # 1 / 2**-128 is beyond f32
NORMAL = np.array([0, -0.0, 2.0**-120, -(2.0**-120), 1e-30, -1e-30, 1, -1, 3e38, -3e38, np.inf, -np.inf, np.nan], np.float32)
SUBNORMAL = np.array([1e-45, -1e-45, 3e-45, 2e-40, 1e-39, -1e-39, 1e-38, 1e-37], np.float32)
HAVE = [isa for isa in ISAS.values() if not missing(isa)]


@pytest.mark.parametrize("isa", HAVE, ids=lambda isa: isa.name)
@pytest.mark.parametrize(("dst", "axis", "zps"), [(u8, 0, s32), (u8, 1, u8), (s8, 0, None), (s8, 1, s32)])
def test_a_subnormal_scale_leaves_zero_at_the_zero_point(dst: DType, axis: int, zps: DType | None, isa: Isa) -> None:
    """Dividends from 2**-120 on saturate. Smaller ones give numbers between the zero point and the reference."""
    numbers = np.concatenate([NORMAL, SUBNORMAL])
    shape = (len(TINY), len(numbers)) if axis == 0 else (len(numbers), len(TINY))
    src = np.ascontiguousarray(np.broadcast_to(numbers if axis == 0 else numbers[:, None], shape))
    ins = [src, TINY, *(() if zps is None else (np.arange(3, 11).astype(zps.numpy),))]
    dtypes = (f32, f32, *(() if zps is None else (zps,)))
    sample = Sample(tuple(a.shape for a in ins), Attrs(qtype="per_channel", axis=axis), dtypes, (dst,))
    want, got = (a if axis == 0 else a.T for a in both("DynamicQuantize", sample, ins, replace(current(), isa=isa)))
    zero = np.zeros(8) if zps is None else np.arange(3, 11)
    assert want[:, 0].tolist() == zero.tolist()
    assert np.array_equal(got[:, : len(NORMAL)], want[:, : len(NORMAL)])
    assert np.array_equal(got[-1], want[-1]), "f32 holds the reciprocal of 2**-127"
    between = got[:, len(NORMAL) :], want[:, len(NORMAL) :], zero[:, None]
    assert np.all((np.minimum(*between[1:]) <= between[0]) & (between[0] <= np.maximum(*between[1:])))


@pytest.mark.parametrize("isa", HAVE, ids=lambda isa: isa.name)
@pytest.mark.parametrize("zps", [(), (7,)])
@pytest.mark.parametrize("scale", [1e-45, 3e-45, 1e-40, 2.0**-128])
def test_a_subnormal_scale_that_is_known_divides(scale: float, zps: tuple[int, ...], isa: Isa) -> None:
    """Powers of two, whose reciprocal would be exact, and others."""
    numbers = np.concatenate([NORMAL, SUBNORMAL])
    attrs = Attrs(scales=(scale,), zps=zps) if zps else Attrs(scales=(scale,))
    want, got = both("Quantize", Sample((numbers.shape,), attrs, (f32,), (u8,)), [numbers], replace(current(), isa=isa))
    assert np.array_equal(got, want)


@pytest.mark.parametrize("scale", [1e-45, 1e-40])
def test_a_subnormal_scale_divides_rounded_numbers(scale: float) -> None:
    b = GraphBuilder()
    x = b.input((32,))
    b.op("Quantize", b.op("Multiply", x, x), dtype=u8, scales=[scale], zps=[7], qtype="per_tensor")
    (partition,) = partitions(b.graph(), Policy.fused)
    got = np.zeros(32, np.uint8)
    compile_partition(partition).bind([np.concatenate([np.zeros(31), [1e-20]]).astype(np.float32)], [got])()
    square = float(np.float32(1e-20) ** 2)
    assert got.tolist() == [7] * 31 + [min(round(square / float(np.float32(scale))) + 7, 255)]


@pytest.mark.parametrize("dtype", [DType.s4, DType.u4])
def test_four_bit_integers_are_legal_sources_and_zero_points(dtype: DType) -> None:
    attrs = Attrs(qtype="per_group", group_shape=(1, 1, 8, 1), axis=2)
    check_op("DynamicDequantize", attrs, ((dtype, None), (DType.bf16, None), (dtype, None)), (DType.bf16,))
    types = (TensorType(dtype, (1, 32, 128, 32)), *(TensorType(t, (1, 32, 16, 32)) for t in (DType.bf16, dtype)))
    assert spec("DynamicDequantize").semantics.infer(with_defaults("DynamicDequantize", attrs), types) == ((1, 32, 128, 32),)


@pytest.mark.parametrize(
    ("kind", "attrs", "message"),
    [
        ("DynamicQuantize", {"qtype": "per_group"}, "attribute 'qtype' is 'per_group'; choose per_tensor or per_channel"),
        ("DynamicDequantize", {"qtype": "x"}, "attribute 'qtype' is 'x'; choose per_tensor or per_channel or per_group"),
        (
            "DynamicDequantize",
            {"qtype": "per_group"},
            "attribute 'group_shape' is missing for qtype per_group; give it one size per dim of src",
        ),
    ],
)
def test_a_wrong_qtype_is_refused(kind: str, attrs: dict[str, object], message: str) -> None:
    src, dst = (f32, u8) if kind == "DynamicQuantize" else (u8, f32)
    with pytest.raises(InvalidGraphOp) as caught:
        check_op(kind, Attrs(attrs), ((src, None), (f32, None)), (dst,))
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("shapes", "attrs", "message"),
    [
        (((4, 8), (8,)), {}, "scales has shape (8,) for qtype per_tensor; give scales the shape (1,)"),
        (
            ((4, 8), (4,)),
            {"qtype": "per_channel"},
            "scales has shape (4,), while axis 1 of src (4, 8) has 8 channels; give scales the shape (8,)",
        ),
        (
            ((4, 8), (8,), (4,)),
            {"qtype": "per_channel"},
            "zps has shape (4,), while axis 1 of src (4, 8) has 8 channels; give zps the shape (8,)",
        ),
        (((4, 8), (8,)), {"qtype": "per_channel", "axis": 2}, "axis 2 is out of range for src (4, 8); let axis name a dim of src"),
        (
            ((4, 8), (2, 4)),
            {"qtype": "per_group", "group_shape": (2, 1)},
            "scales has shape (2, 4), while src (4, 8) has groups (2, 1); give scales the shape (2, 8)",
        ),
        (
            ((4, 8), (2, 8), (1, 8)),
            {"qtype": "per_group", "group_shape": (2, 1)},
            "zps has shape (1, 8), while src (4, 8) has groups (2, 1); give zps the shape (2, 8)",
        ),
        (
            ((4, 8), (2, 8)),
            {"qtype": "per_group", "group_shape": (3, 1)},
            "src (4, 8) cannot be cut into groups (3, 1); let every size of group_shape divide its dim",
        ),
        (
            ((4, 8), (2, 8)),
            {"qtype": "per_group", "group_shape": (2,)},
            "group_shape (2,) does not fit src (4, 8); give it one size per dim of src, which are two at least",
        ),
    ],
)
def test_wrong_shapes_are_refused(shapes: tuple[Shape, ...], attrs: dict[str, object], message: str) -> None:
    types = tuple(TensorType(t, shape) for t, shape in zip((s8, f32, s32), shapes, strict=False))
    with pytest.raises(InvalidShape) as caught:
        spec("DynamicDequantize").semantics.infer(with_defaults("DynamicDequantize", Attrs(attrs)), types)
    assert str(caught.value) == message
