from __future__ import annotations

import sys
from dataclasses import replace

import ml_dtypes
import numpy as np
import pytest

from benchgraph.core.dtypes import DType
from benchgraph.graph import GraphBuilder, parse_graph, validate
from benchgraph.reference import compare, domain, evaluate, masked, tolerance, zero_limit
from benchgraph.reference.compare import CHUNK
from benchgraph.reference.evaluate import Array

MLP = """
graph engine=cpu fpmath=strict {
  %3: f32[64,96] = MatMul#0(%0: f32[64,48], %1: f32[48,96], %2: f32[96])
  %4: f32[64,96] = ReLU#1(%3)
  %6: f32[64,80] = MatMul#2(%4, %5: f32[96,80])
}
"""
ATTENTION = """
graph engine=cpu fpmath=strict {
  %5: f32[2,3,32,32] = MatMul#0(%0: f32[2,3,32,16], %1: f32[2,3,16,32])
  %6: f32[2,3,32,32] = Divide#1(%5, %2: f32[1])
  %7: f32[2,3,32,32] = Add#2(%6, %3: f32[2,1,1,32])
  %8: f32[2,3,32,32] = SoftMax#3(%7) {axis=-1}
  %9: f32[2,3,32,16] = MatMul#4(%8, %4: f32[2,3,32,16])
}
"""
QUANTISED = """
graph engine=cpu fpmath=strict {
  %2: f32[64,96] = MatMul#0(%0: f32[64,48], %1: f32[48,96])
  %3: u8[64,96] = Quantize#1(%2) {scales=[0.05], zps=[128]}
}
"""


def result(text: str) -> tuple[Array, Array, DType, float]:
    """(a faultless result, what is wanted, its dtype, the tolerance)."""
    graph = parse_graph(text)
    (out,) = graph.outputs
    want = evaluate(graph, domain(graph, 0))[out.id]
    return want.astype(out.dtype.numpy), want, out.dtype, tolerance(graph)


def typical(want: Array) -> tuple[int, ...]:
    """Where a value of ordinary size is."""
    sizes = np.abs(want.astype(np.float64))
    return tuple(int(n) for n in np.unravel_index(np.argmin(np.abs(sizes - np.median(sizes))), want.shape))


@pytest.mark.parametrize("text", [MLP, ATTENTION, QUANTISED])
def test_a_faultless_result_passes(text: str) -> None:
    c = compare(*result(text))
    assert c.ok
    assert not c.is_mistrusted(0.3)
    assert c.points == ()
    assert c.max_rel < 1e-7


@pytest.mark.parametrize("text", [MLP, ATTENTION])
def test_one_element_off_by_a_thousandth_is_caught_where_it_is(text: str) -> None:
    got, want, dtype, rtol = result(text)
    at = typical(want)
    got[at] *= np.float32(1.001)
    c = compare(got, want, dtype, rtol)
    assert c.errors == 1
    assert c.points[0].index == at
    assert c.points[0].got == got[at]
    assert c.max_rel == pytest.approx(1e-3, rel=1e-3)


@pytest.mark.parametrize("text", [MLP, ATTENTION])
def test_last_bits_are_not_faults(text: str) -> None:
    got, want, dtype, rtol = result(text)
    assert compare(np.nextafter(got, np.float32(np.inf)), want, dtype, rtol).ok


@pytest.mark.parametrize("text", [MLP, ATTENTION, QUANTISED])
def test_swapped_rows_are_caught(text: str) -> None:
    got, want, dtype, rtol = result(text)
    got[..., [2, 3], :] = got[..., [3, 2], :]
    c = compare(got, want, dtype, rtol)
    assert not c.ok
    assert {p.index[-2] for p in c.points} <= {2, 3}


@pytest.mark.parametrize("text", [MLP, ATTENTION])
def test_an_unwritten_element_is_caught(text: str) -> None:
    got, want, dtype, rtol = result(text)
    got[(0,) * got.ndim] = np.nan
    c = compare(got, want, dtype, rtol)
    assert c.errors == 1
    assert np.isnan(c.points[0].got)
    assert np.isfinite(c.max_abs)


def test_an_output_of_zeros_passes_but_is_mistrusted() -> None:
    zeros = np.zeros((4, 8), np.float32)
    c = compare(zeros, zeros.astype(np.float64), DType.f32, 1e-6)
    assert c.ok
    assert c.is_mistrusted(0.99)
    assert not c.is_mistrusted(1.0)
    assert c.zero_share == 1.0
    assert not compare(zeros[:1], zeros[:1].astype(np.float64), DType.f32, 1e-6).is_mistrusted(0.5), "8 elements may all be zero"


def test_wrong_zeros_fail() -> None:
    c = compare(np.zeros(16, np.float32), np.ones(16), DType.f32, 1e-6)
    assert c.errors == 16
    assert not c.is_mistrusted(0.5)
    assert len(c.points) == 10


def test_nan_and_infinity_pass_only_where_the_reference_has_them() -> None:
    want = np.array([np.nan, np.inf, -np.inf, 1e39, 1.0])
    right = np.array([np.nan, np.inf, -np.inf, np.inf, 1.0], np.float32)
    assert compare(right, want, DType.f32, 1e-6).ok
    assert compare(right[::-1].copy(), want[::-1], DType.f32, 1e-6).ok
    wrong = np.array([1.0, -np.inf, np.inf, 3e38, np.inf], np.float32)
    assert compare(wrong, want, DType.f32, 1e-6).errors == 5


def test_cancellation_is_judged_by_the_size_of_its_surroundings() -> None:
    want = np.full(1000, 100.0)
    want[7] = 1e-6
    got = want.astype(np.float32)
    got[7] = 3e-5
    assert compare(got, want, DType.f32, 1e-6).ok
    got[7] = 3e-4
    assert compare(got, want, DType.f32, 1e-6).errors == 1


def test_a_narrow_float_may_be_rounded_either_way_but_not_two_steps_off() -> None:
    want = np.array([1.0 + 2**-8, 100.0])  # halfway between two bf16 numbers
    bf16 = DType.bf16.numpy
    for neighbour in (1.0, 1.0 + 2**-7):
        assert compare(np.array([neighbour, 100.0]).astype(bf16), want, DType.bf16, 1e-6).ok
    assert not compare(np.array([1.0, 102.0]).astype(bf16), want, DType.bf16, 1e-6).ok


@pytest.mark.parametrize("dtype", [DType.bf16, DType.f16, DType.f8_e4m3, DType.f8_e5m2])
def test_a_narrow_float_that_was_truncated_is_found(dtype: DType) -> None:
    want = np.random.default_rng(0).uniform(1, 2, 1000)
    nearest = want.astype(dtype.numpy)
    down = np.where(nearest.astype(np.float64) > want, np.floor(want / dtype.eps) * dtype.eps, nearest).astype(dtype.numpy)
    assert compare(nearest, want, dtype, 1e-6).ok
    assert compare(down, want, dtype, 1e-6).errors > 100


def test_subnormal_numbers_may_be_zero() -> None:
    """However small most values are, as those of a softmax by integers. Of an exact op it may not."""
    want = np.array([1.0, *[3e-40] * 7, 1e-37])
    flushed, lost = (np.where(want < least, 0.0, want).astype(np.float32) for least in (1e-38, 1e-36))
    assert compare(flushed, want, DType.f32, 1e-6).ok
    assert not compare(lost, want, DType.f32, 1e-6).ok
    assert not compare(flushed, want, DType.f32, 0.0).ok


def test_an_exact_op_must_round_to_nearest() -> None:
    want = np.array([1.0 + 2**-9, 3.0])
    up = np.array([1.0 + 2**-7, 3.0]).astype(DType.bf16.numpy)
    assert not compare(up, want, DType.bf16, 0.0).ok
    assert compare(want.astype(DType.bf16.numpy), want, DType.bf16, 0.0).ok
    assert not compare(np.array([2], np.int8), np.array([3], np.int8), DType.s8, 0.0).ok


def test_integers_may_be_off_by_one_rarely_and_never_by_two() -> None:
    got, want, dtype, rtol = result(QUANTISED)
    got[0, :3] += 1
    c = compare(got, want, dtype, rtol)
    assert c.ok
    assert c.off_by_one == 3
    got[0, :20] ^= 1
    assert not compare(got, want, dtype, rtol).ok
    got, want, dtype, rtol = result(QUANTISED)
    got[5, 5] += 2
    assert compare(got, want, dtype, rtol).errors == 1


def test_strides_and_chunks_do_not_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.modules["benchgraph.reference.compare"], "CHUNK", 16)
    rng = np.random.default_rng(0)
    want = rng.normal(size=(5, 7, 9))
    got = np.asfortranarray(want.astype(np.float32))
    got[3, 2, 1] += 1
    got[4, 6, 8] += 1
    c = compare(got, want, DType.f32, 1e-6)
    assert [p.index for p in c.points] == [(3, 2, 1), (4, 6, 8)]
    assert c.total == want.size
    assert compare(got[:, ::2], want[:, ::2], DType.f32, 1e-6).errors == 2


def test_no_elements_and_rank_zero_compare() -> None:
    assert compare(np.zeros((0, 4), np.float32), np.zeros((0, 4)), DType.f32, 1e-6).ok
    assert compare(np.float32(2.0).reshape(()), np.array(2.0), DType.f32, 1e-6).ok
    assert compare(np.float32(2.5).reshape(()), np.array(2.0), DType.f32, 1e-6).points[0].index == ()


INFINITE = [DType.f32, DType.bf16, DType.f16, DType.f8_e5m2]


@pytest.mark.parametrize("dtype", [*INFINITE, DType.f8_e4m3])
@pytest.mark.parametrize("is_wanted", [True, False])
def test_a_nan_in_the_wrong_place_is_the_headline_whatever_else_is_wrong(dtype: DType, is_wanted: bool) -> None:
    """It comes after more small errors than are kept, and in another chunk."""
    right = np.linspace(1, 2, CHUNK + 40).astype(dtype.numpy)
    wrong, at = right.copy(), CHUNK + 13
    wrong[:99] += np.array(0.25, dtype.numpy)
    (right if is_wanted else wrong)[at] = np.nan
    c = compare(wrong, right.astype(np.float64), dtype, 1e-6)
    value = f"{float((wrong if is_wanted else right)[at]):.6g}"
    want, got = ("nan", value) if is_wanted else (value, "nan")
    assert (c.errors, c.nonfinite, c.points[0].index, c.max_abs) == (100, 1, (at,), 0.25)
    headline = f"100 of {right.size} values differ, 1 of them in NaN or infinity, first at [{at}]: want {want}, got {got}; "
    assert str(c).startswith(f"{headline}the others by up to 0.25 (")


@pytest.mark.parametrize("dtype", INFINITE)
def test_infinities_of_either_sign_numbers_and_nan_are_distinguished(dtype: DType) -> None:
    kinds = np.array([np.inf, -np.inf, np.nan, 1.0])
    want, got = (a.ravel() for a in np.meshgrid(kinds, kinds))
    c = compare(got.astype(dtype.numpy), want, dtype, 1e-6)
    assert (c.errors, c.nonfinite, c.max_abs) == (12, 12, 0)
    assert "the others" not in str(c)


def test_a_nan_wanted_of_integers_is_the_headline() -> None:
    want = np.array([3.0, 4.0, np.nan])
    c = compare(np.array([5, 6, 0], np.int8), want, DType.s8, 1e-6)
    assert (c.errors, c.nonfinite) == (3, 1)
    assert (
        str(c)
        == "3 of 3 values differ, 1 of them in NaN or infinity, first at [2]: want nan, got 0; the others by up to 2 (0.667 relative)"
    )


def test_a_point_reads_as_a_sentence() -> None:
    c = compare(np.array([[1.5, 2.0]], np.float32), np.array([[1.0, 2.0]]), DType.f32, 1e-6)
    assert str(c.points[0]) == "[0:0] want 1, got 1.5"


NARROW = "%1: bf16[4] = ReLU#0(%0: bf16[4]) %2: f32[4] = TypeCast#1(%1)"


def test_tolerance_adds_up_over_ops_and_narrow_intermediates() -> None:
    plain, cast, quantised = (
        tolerance(parse_graph(f"graph engine=cpu fpmath=strict {{ {body} }}"))
        for body in (
            "%2: f32[4,4] = MatMul#0(%0: f32[4,4], %1: f32[4,4]) %3: f32[4,4] = Exp#1(%2)",
            "%2: bf16[4,4] = MatMul#0(%0: bf16[4,4], %1: bf16[4,4]) %3: bf16[4,4] = Exp#1(%2)",
            "%2: u8[4,4] = Quantize#0(%0: f32[4,4]) {scales=[0.1]} %3: f32[4,4] = Dequantize#1(%2) {scales=[0.1]}",
        )
    )
    assert 0 < plain < 1e-5
    assert cast == pytest.approx(plain + 2 * DType.bf16.eps)
    assert 2**-7 < quantised < 2**-6
    assert tolerance(parse_graph("graph engine=cpu fpmath=strict { %1: f32[4] = Reorder#0(%0: f32[4]) }")) == 0
    kept = tolerance(parse_graph(f"graph engine=cpu fpmath=strict {{ {NARROW} End#2(%1) }}"))
    assert kept == tolerance(parse_graph(f"graph engine=cpu fpmath=strict {{ {NARROW} }}")), "it is rounded all the same"


@pytest.mark.parametrize(("mode", "numpy"), [("bf16", ml_dtypes.bfloat16), ("f16", np.float16)])
def test_a_math_mode_lets_operands_of_products_be_rounded_and_no_more(mode: str, numpy: type) -> None:
    """Rounded operands pass, sixteen times the error does not; what is no product, or has no f32 operand, is held to what it was."""
    body = "%2: f32[64,64] = MatMul#0(%0: f32[64,48], %1: f32[48,64])"
    strict, relaxed = (parse_graph(f"graph engine=cpu fpmath={m} {{ {body} }}") for m in ("strict", mode))
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(64, 48)), rng.normal(size=(48, 64))
    want, rounded = a @ b, a.astype(numpy).astype(np.float64) @ b.astype(numpy).astype(np.float64)
    assert compare(rounded.astype(np.float32), want, DType.f32, tolerance(relaxed)).ok
    assert not compare(rounded.astype(np.float32), want, DType.f32, tolerance(strict)).ok
    assert not compare((want + 16 * (rounded - want)).astype(np.float32), want, DType.f32, tolerance(relaxed)).ok
    for other in ("%1: f32[4] = Exp#0(%0: f32[4])", "%2: bf16[4,4] = MatMul#0(%0: bf16[4,4], %1: bf16[4,4])"):
        one, two = (tolerance(parse_graph(f"graph engine=cpu fpmath={m} {{ {other} }}")) for m in ("strict", mode))
        assert one == two


@pytest.mark.parametrize(
    ("dtype", "want", "got", "ulp"),
    [
        (DType.f32, 1.0, 1.0 + 2.0**-23, 1.0),
        (DType.f32, 1.0, 1.0 - 2.0**-24, 0.5),  # below a power of two the steps are half as long
        (DType.f32, 3.0, 3.0 - 2.0**-21, 2.0),
        (DType.f32, 2.0**-149, 0.0, 1.0),
        (DType.f32, 0.0, 2.0**-149, 1.0),
        (DType.bf16, -1.0, -1.0 - 2.0**-7, 1.0),
        (DType.f16, 1.0 + 2.0**-12, 1.0, 0.25),  # the reference is not rounded
        (DType.s8, 5, 7, 2.0),
        (DType.f32, np.inf, np.inf, 0.0),
    ],
)
def test_distances_in_units_in_the_last_place(dtype: DType, want: float, got: float, ulp: float) -> None:
    c = compare(np.array([got], dtype.numpy), np.array([want], np.float64), dtype, 1.0)
    assert c.max_ulp == ulp


def test_a_few_huge_values_do_not_hide_errors_in_the_others() -> None:
    want = np.linspace(1, 2, 1000)
    for huge in (1e20, float(np.finfo(np.float32).max)):
        want[:50] = huge
        got = want.astype(np.float32)
        assert compare(got, want, DType.f32, 1e-5).ok
        got[500] *= np.float32(1.001)
        assert compare(got, want, DType.f32, 1e-5).errors == 1


def test_either_side_of_overflow_is_right_near_the_end_of_the_range_alone() -> None:
    most = float(np.finfo(np.float32).max)
    right = [(np.inf, most * (1 - 1e-6)), (most, np.inf), (-np.inf, -most * (1 - 1e-6))]
    wrong = [(np.inf, most / 2), (most / 2, np.inf), (-np.inf, most), (np.nan, most)]
    for ok, pairs in ((True, right), (False, wrong)):
        for got, want in pairs:
            assert compare(np.array([got], np.float32), np.array([want]), DType.f32, 1e-5).ok is ok, (got, want)
    assert not compare(np.array([np.inf], np.float32), np.array([most]), DType.f32, 0.0).ok, "an exact op is never off"


def limit(text: str, sure: float = 0.0) -> float:
    graph = validate(parse_graph(f"graph engine=cpu fpmath=strict {{ {text} }}"))
    return zero_limit(graph, graph.outputs[0].id, sure)


def test_the_op_that_makes_an_output_says_how_many_zeros_it_may_have() -> None:
    assert limit("%1: f32[9] = ReLU#0(%0: f32[9])") == 0.65
    assert limit("%2: f32[4,4] = MatMul#0(%0: f32[4,4], %1: f32[4,4]) %4: f32[4,4] = Add#1(%2, %3: f32[4])") == 0.3
    assert limit("%2: boolean[9] = GreaterEqual#0(%0: f32[9], %1: f32[9])") == 0.99
    assert limit("%1: f32[5,80] = SoftMax#0(%0: f32[5,80]) {axis=1}") == pytest.approx(0.9)
    assert limit("%1: f32[5,8] = SoftMax#0(%0: f32[5,8]) {axis=1}") == 0
    assert limit("%1: s32[5,8] = GenIndex#0(%0: f32[5,8]) {axis=1}") == 1


def test_certain_zeros_do_not_count() -> None:
    relu = "%1: f32[9] = ReLU#0(%0: f32[9])"
    assert limit(relu, sure=0.5) == pytest.approx(0.825)
    assert limit("%1: f32[9] = Clamp#0(%0: f32[9]) {min=0.0, max=0.0}") == 1
    assert limit(f"{relu} %3: f32[9] = Multiply#1(%1, %2: f32[9])") == 0.65, "a product of zeros"
    assert limit(f"{relu} %3: f32[9] = Divide#1(%1, %2: f32[9])") == 0.65, "a quotient of zeros"
    assert limit(f"{relu} %3: f32[9] = Divide#1(%2: f32[9], %1)") == 0.3
    mask = np.array([[0, -np.inf], [-np.inf, -np.inf]], np.float32)
    assert masked([np.zeros((2, 2), np.float32), mask, mask[0]]) == 0.75
    assert masked([np.full(3, -np.inf), np.zeros((2, 2), np.int8)]) == 0


def test_rows_may_be_apart_in_size() -> None:
    """As those of a gradient by keys under a causal mask are: few queries see the late ones."""
    rng = np.random.default_rng(1)
    want = rng.normal(size=(40, 50)) * np.where(np.arange(40) < 8, 10.0, 1.0)[:, None]
    got = want + 8e-6 * np.sqrt(np.mean(want**2)) * np.sign(want)
    assert compare(got.astype(np.float32), want, DType.f32, 1e-5).ok


def test_a_small_result_of_a_large_row_answers_for_its_row() -> None:
    """One key in ten thousand that most queries look at; its gradient is 50 times as large, and small elements of it are differences."""
    rng = np.random.default_rng(2)
    want = rng.normal(size=(10_000, 8))
    want[77] = 1000.0
    want[77, 3] = 0.5
    for row, by, errors in ((77, 5.0, 0), (77, 15.0, 1), (78, 5.0, 1)):
        got = want.astype(np.float32)
        got[row, 3] += np.float32(by)
        assert compare(got, want, DType.f32, 1e-2).errors == errors


def test_one_large_element_does_not_speak_for_its_row() -> None:
    want = np.random.default_rng(3).normal(size=(1000, 64))
    want[7, 0] = 1e6
    got = want.astype(np.float32)
    got[7, 5] += np.float32(1.0)
    assert compare(got, want, DType.f32, 1e-2).errors == 1


def test_concatenations_and_reductions_may_have_the_zeros_of_their_inputs() -> None:
    text = """
graph engine=cpu fpmath=strict {
  %1: f32[4,8] = ReLU#0(%0: f32[4,8])
  %3: f32[4,16] = Concat#1(%1, %2: f32[4,8]) {axis=1}
  %4: f32[4,1] = ReduceMean#2(%1) {axes=[1], keep_dims=true}
}
"""
    whole = validate(parse_graph(text))
    relu, parts = zero_limit(whole, 1), {op.outputs[0].id: replace(whole, ops=(op,)) for op in whole.ops}
    assert zero_limit(whole, 3) == zero_limit(whole, 4) == relu == 0.65
    for id in (3, 4):
        assert zero_limit(parts[id], id) == 0.30
        assert zero_limit(parts[id], id, whole=whole) == relu


def test_a_chain_of_squares_by_multiplication_asks_every_op_once() -> None:
    b = GraphBuilder()
    x = b.input((4,))
    for _ in range(2000):
        x = b.op("Multiply", x, x)
    assert zero_limit(b.graph(), x.id) == 0.30
