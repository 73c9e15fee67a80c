"""Properties of benchdnn's strategies: range, integers, exact sums, density, numbers of the dtype."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from benchgraph.core.attrs import Attrs
from benchgraph.core.dtypes import DType
from benchgraph.core.tensor import Shape, TensorType
from benchgraph.ops import OPS, call_of, spec
from benchgraph.ops.fill_rules import filling, norms, pointwise, products, rows
from benchgraph.ops.fill_rules.noise import Noise
from benchgraph.ops.spec import Array, Call, OpSpec, Sample

F32, BF16, F16, S8, U8 = DType.f32, DType.bf16, DType.f16, DType.s8, DType.u8
NOISE = Noise(3, 17)
BITS = {F32: 24, BF16: 8, F16: 11}


def made(call: Call, port: int, seed: int = 3) -> Array:
    return spec(call.kind).testing.fill(call, port).make(call.ins[port], Noise(seed, port))


def one(kind: str, *shapes: Shape, dtype: DType = F32, out: DType | None = None, **attrs: object) -> Call:
    return call_of(kind, Sample(shapes, Attrs(attrs), (dtype,) * len(shapes), (out or dtype,), "here"))


def matmul(k: int, dtype: DType = F32) -> Call:
    return one("MatMul", (32, k), (k, 24), dtype=dtype)


@pytest.mark.parametrize("row", OPS.values(), ids=OPS.keys())
def test_every_row_fills_its_samples_with_numbers_of_the_dtype(row: OpSpec) -> None:
    for sample in row.testing.samples:
        call = call_of(row.kind, sample)
        for port, t in enumerate(call.ins):
            filling = row.testing.fill(call, port)
            array = filling.make(t, NOISE)
            assert (array.dtype, array.shape) == (t.dtype.numpy, t.shape)
            assert filling.description
            assert array.tobytes() == row.testing.fill(call, port).make(t, NOISE).tobytes()
            if not t.dtype.is_float:
                low, high = t.dtype.range
                assert np.all((array >= low) & (array <= high)), "s4 and u4 take a byte, but not all of its numbers"
        assert 0 <= row.testing.zero_limit(call) <= 1


@pytest.mark.parametrize(("dtype", "src", "wei"), [(F32, 64, 128), (BF16, 4, 2), (F16, 4, 2)])
@pytest.mark.parametrize("k", [3, 64, 5000])
def test_sums_of_products_are_exact(dtype: DType, src: int, wei: int, k: int) -> None:
    call = matmul(k, dtype)
    a, b = (made(call, port).astype(np.float64) for port in (0, 1))
    for array, limit in ((a, src), (b, wei)):
        assert np.array_equal(array, np.rint(array))
        assert limit / 2 < np.abs(array).max() <= limit
        assert array.flat[0] > 0
    assert (np.abs(a) @ np.abs(b)).max() < 2**24, "the accumulator, f32, holds every partial sum"
    np.testing.assert_array_equal((a @ b).astype(dtype.numpy).astype(np.float64), a @ b)


def test_a_long_sum_is_made_sparse() -> None:
    for dtype, k, want in ((F32, 1000, 1.0), (F32, 8192, 0.25), (BF16, 1024, 1 / 32)):
        operands = products.Operands(products.MATMUL, dtype, dtype, dtype, k)
        assert operands.density == pytest.approx(want)
    counted = products.Operands(products.MATMUL, F32, F32, F32, 8192).sparse().make(TensorType(F32, (100, 1000)), NOISE)
    assert (counted != 0).mean() == pytest.approx(0.25 * 128 / 129, abs=0.01)


def test_ranges_of_quantised_operands() -> None:
    def limits(src: DType, wei: DType, dst: DType, ranges: products.Ranges = products.MATMUL) -> tuple[products.Range, products.Range]:
        return products.Operands(ranges, src, wei, dst, 64).limits

    assert limits(U8, S8, U8) == ((0, 8), (-4, 4))
    assert limits(S8, S8, U8) == ((-4, 4), (-2, 2))
    assert limits(U8, S8, F32) == ((0, 160), (-4, 4))
    assert limits(U8, U8, U8) == ((0, 1), (0, 8))
    assert limits(S8, S8, U8, products.CONVOLUTION) == ((-4, 4), (-8, 8))
    assert limits(F32, DType.u4, F32) == ((-64, 64), (0, 4))
    assert limits(F32, F32, S8) == ((-8, 8), (-16, 16)), "halved in turn until one product fits"
    assert products.Operands(products.MATMUL, U8, S8, U8, 240).density == pytest.approx(0.1)
    even = products.Operands(products.CONVOLUTION, S8, S8, U8, 9).dense().make(TensorType(S8, (999,)), NOISE)
    assert set(np.unique(even)) == {-8, -6, -4, -2, 0, 2, 4, 6, 8}


@pytest.mark.parametrize(
    ("kind", "sparse", "dense"), [("Convolution", 0, 1), ("ConvolutionBackwardData", 0, 1), ("ConvolutionBackwardWeights", 1, 0)]
)
def test_the_sparse_operand_is_the_gradient_or_else_src(kind: str, sparse: int, dense: int) -> None:
    narrow = [bf16(call_of(kind, s)) for s in spec(kind).testing.samples]
    assert any("%" in spec(kind).testing.fill(call, sparse).description for call in narrow)
    assert not any("%" in spec(kind).testing.fill(call, dense).description for call in narrow)


def bf16(call: Call) -> Call:
    return replace(call, ins=tuple(replace(t, dtype=BF16) for t in call.ins), outs=tuple(replace(t, dtype=BF16) for t in call.outs))


def test_binary_operands_are_halves_and_never_divide_by_zero() -> None:
    call = one("Add", (999,), (999,))
    src_0, src_1 = made(call, 0), made(call, 1)
    assert set(np.unique(src_0 * 2)) == set(range(-8, 9))
    assert set(np.unique(src_1)) == set(range(-8, 9)) - {0}
    condition = pointwise.CONDITION.make(TensorType(DType.boolean, (9999,)), NOISE)
    assert condition.mean() == pytest.approx(8 / 9, abs=0.02)


def test_activations_get_all_phases_in_order() -> None:
    array = made(one("Clamp", (1300,), min=-0.375, max=6.0), 0).astype(np.float64).reshape(-1, 13)
    for phase, (low, high, is_whole) in enumerate(
        [(0, 10, True), (-10, 0, True), (0, 0.09, False), (-0.09, 0, False), (0, 100, True), (-100, 0, True), (0, 0.9, False)]
    ):
        column = array[:, phase]
        assert np.all((column >= low) & (column <= high))
        assert np.array_equal(column, np.rint(column)) == is_whole
        assert column.min() < low + (high - low) / 4
        assert column.max() > high - (high - low) / 4
    assert np.all((array[:, 8] >= 88) & (array[:, 8] < 88.9) & (array[:, 9] >= 22) & (array[:, 10] >= 44))
    with np.errstate(over="ignore"):
        overflows = np.isinf(np.exp(array[:, 8].astype(np.float32)))
    assert 0 < overflows.sum() < 100, "exp overflows at some of them and not at others"
    assert set(array[:, 11]) == {-0.375}
    assert set(array[:, 12]) == {6.0}
    log = made(one("Log", (26,)), 0)
    assert (log[0], log[1]) == (np.inf, -np.inf)


def test_dst_of_a_gradient_is_the_forward_result() -> None:
    call = one("TanhBackward", (500,), (500,), use_dst=True)
    dst, diff = made(call, 0), made(call, 1)
    assert np.abs(dst).max() <= 1 < np.abs(diff).max()
    assert np.abs(made(one("TanhBackward", (500,), (500,), use_dst=False), 0)).max() > 88


@pytest.mark.parametrize("dtype", [F32, BF16, F16])
@pytest.mark.parametrize(("alpha", "beta"), [(1.28, 0.128), (2.0, 1.0), (-0.5, 0.25)])
def test_hard_sigmoid_gradients_have_half_of_the_flat_numbers_on_the_slope(dtype: DType, alpha: float, beta: float) -> None:
    shape = (32, 14, 14)
    call = one("HardSigmoidBackward", shape, shape, dtype=dtype, alpha=alpha, beta=beta)
    before, src = (made(c, 0).astype(np.float64) for c in (one("HardSigmoid", shape, dtype=dtype, alpha=alpha, beta=beta), call))
    line = alpha * src + beta
    assert np.minimum(np.abs(line), np.abs(line - 1)).min() >= 2.0**-9
    flat, was_flat = ((x * alpha + beta <= 0) | (x * alpha + beta >= 1) for x in (src, before))
    assert 0.4 < flat.sum() / was_flat.sum() < 0.6
    assert set(np.unique(np.rint(4 * line[was_flat & ~flat]))) == {1, 2, 3}


@pytest.mark.parametrize("size", [1, 5, 8, 9, 100, 1000])
@pytest.mark.parametrize("axis", [0, 1])
def test_softmax_rows_have_few_tops_and_a_background(size: int, axis: int) -> None:
    shape = (size, 40) if axis == 0 else (40, size)
    array = np.moveaxis(made(one("SoftMax", shape, axis=axis), 0), axis, 1)
    is_top = array > F32.range[0]
    assert np.all(is_top.sum(axis=1) >= min(size, 8))
    assert np.all(is_top.sum(axis=1) <= 15)
    tops = np.where(is_top, array, 0)
    assert set(np.unique(tops[0::2])) <= {0, 88, 89, 90}
    assert set(np.unique(tops[1::2])) <= {0, -88, -87, -86}
    assert np.all((array == np.where(np.arange(40) % 2, -86, 90)[:, None]).any(axis=1)), "every row has a largest number"
    assert (~is_top).mean() <= rows.softmax_zeros(size)


def test_a_softmax_gradient_has_opposite_signs() -> None:
    call = one("SoftMaxBackward", (8, 100), (8, 100), axis=1)
    assert made(call, 0).min() >= 0 >= made(call, 1).max()
    assert len(np.unique(made(call, 0))) == rows.RAMP


@pytest.mark.parametrize("dtype", [F32, BF16, F16])
@pytest.mark.parametrize("count", [1, 2, 7, 64, 1001, 70000])
def test_rows_of_norms_have_exact_statistics(dtype: DType, count: int) -> None:
    call = one("LayerNorm", (9, count), (count,), (count,), dtype=dtype, out=dtype, keep_stats=False)
    array = made(call, 0)
    mean = 0.25 * 2.0 ** (np.arange(9) % norms.MEANS)
    np.testing.assert_array_equal(array.astype(np.float64).mean(axis=1), mean)
    sums = np.add.reduce(np.square(array.astype(np.float32) - mean.astype(np.float32)[:, None]), axis=1, dtype=np.float32)
    np.testing.assert_array_equal(sums, np.square(array.astype(np.float64) - mean[:, None]).sum(axis=1), "no order of adding rounds")
    assert count < 2 or sums.min() > 0


def test_batch_norm_normalises_per_channel() -> None:
    call = call_of("BatchNormInference", Sample(((4, 3, 5, 2), *((3,),) * 4), Attrs(epsilon=1e-5, data_format="NCX"), why="here"))
    np.testing.assert_array_equal(made(call, 0).mean(axis=(0, 2, 3)), [0.25, 0.5, 1.0])
    np.testing.assert_array_equal(made(call, 3), [0.25, 0.5, 1.0])
    assert set(made(call, 4)) <= {0.25, 1.0, 4.0}


def test_pools_get_integers_and_means_no_negative_ones() -> None:
    attrs = {"strides": (1, 1), "kernel": (2, 2), "pads_begin": (0, 0), "pads_end": (0, 0)}
    largest = made(one("MaxPool", (4, 9, 9, 9), **attrs), 0)
    mean = made(one("AvgPool", (4, 9, 9, 9), dtype=BF16, exclude_pad=True, **attrs), 0).astype(np.float64)
    assert (largest.min() < -1900, largest.max() > 1900, np.array_equal(largest, np.rint(largest))) == (True, True, True)
    assert (mean.min(), mean.max()) == (0, 32)


@pytest.mark.parametrize("dtype", [F32, BF16])
@pytest.mark.parametrize("count", [3, 100, 40000])
def test_sums_of_reductions_are_exact(dtype: DType, count: int) -> None:
    array = made(one("ReduceSum", (4, count), dtype=dtype, axes=(1,)), 0).astype(np.float64)
    assert np.array_equal(array, np.rint(array))
    assert 2 < np.abs(array).max() <= 16
    total = array.sum(axis=1)
    np.testing.assert_array_equal(total.astype(dtype.numpy).astype(np.float64), total)
    assert np.all(made(one("ReduceMean", (4, count), dtype=BF16, axes=(1,)), 0).astype(np.float64).sum(axis=1) != total)


def test_products_are_of_powers_of_two_and_few() -> None:
    array = made(one("ReduceProd", (50, 2000), axes=(1,)), 0)
    assert set(np.unique(np.abs(array))) == {0.5, 1, 2}
    assert (array != 1).sum(axis=1).mean() == pytest.approx(10, abs=2)
    assert np.all(np.isfinite(array.prod(axis=1)) & (array.prod(axis=1) != 0))


def test_prelu_interpolation_conversion_and_concat() -> None:
    prelu = one("PReLU", (2, 5000), (5000,))
    src, slope = made(prelu, 0), made(prelu, 1)
    assert set(np.abs(src.ravel())) == {0, 1, 2}
    assert set(np.abs(slope)) == {2.0**n for n in range(-3, 4)}
    assert (slope < 0).mean() == pytest.approx(0.1, abs=0.02)
    ramp = pointwise.interpolate(one("Interpolate", (1, 1, 9, 9), mode="nearest", sizes=(3, 3), data_format="NCX"), 0)
    assert set(np.unique(ramp.make(TensorType(F32, (34,)), NOISE) / 1.25)) == set(range(17))
    assert ramp.make(TensorType(BF16, (99,)), NOISE).astype(np.float64).max() == 1
    table = made(call_of("TypeCast", Sample(((64,),), dtypes=(F32,), out_dtypes=(BF16,), why="here")), 0)
    np.testing.assert_array_equal(table[:10], [256, -256, 0, 0.25, 0.5, 1, 1.5, 2, 16, 64])
    assert not np.array_equal(table.astype(BF16.numpy).astype(np.float32), table), "some have to be rounded"
    assert made(one("Concat", (9999,), (3,), axis=0), 0).min() == -128


def test_scales_of_dynamic_quantisation() -> None:
    for sample in spec("DynamicDequantize").testing.samples:
        call = call_of("DynamicDequantize", sample)
        scales = set(np.unique(made(call, 1).astype(np.float64)))
        grouped = call.attrs.get("qtype") == "per_group"
        assert scales <= ({2.0} if call.attrs.get("qtype") == "per_tensor" else {1 / 16, 1 / 8, 1 / 4})
        if len(call.ins) > 2:
            zps = set(np.unique(made(call, 2)).astype(int))
            assert zps <= set(range(-2, 3)) if grouped else zps == {1}


def test_noise_depends_on_the_position_only() -> None:
    at = np.arange(100_000)
    np.testing.assert_array_equal(NOISE.words(at)[77_000:], NOISE.words(at[77_000:]))
    for other in (Noise(4, 17), Noise(3, 18)):
        assert (NOISE.words(at) == other.words(at)).sum() == 0
    assert (NOISE.words(at) == NOISE.words(at, lane=1)).sum() == 0
    drawn = NOISE.integers(-3, 3, at)
    assert np.bincount(drawn + 3).min() > 0.97 * len(at) / 7
    assert NOISE.unit(at).mean() == pytest.approx(0.5, abs=0.01)


def test_a_long_tensor_begins_like_a_short_one_and_chunks_differ() -> None:
    numbers = filling.integers(-100, 100)
    long = numbers.make(TensorType(S8, (3 * filling.CHUNK,)), NOISE)
    np.testing.assert_array_equal(long[: filling.CHUNK], numbers.make(TensorType(S8, (filling.CHUNK,)), NOISE))
    assert (long[: filling.CHUNK] == long[filling.CHUNK : 2 * filling.CHUNK]).mean() < 0.02
