"""The interpreter is the definition: what each operation gives, and which mistakes it exposes."""

from __future__ import annotations

import math

import numpy as np
import pytest

from benchgraph.core.dtypes import DType
from benchgraph.core.errors import InvalidArguments
from benchgraph.tir.build import add, binary, cast, f32, mod, mul, seq, sub, unary
from benchgraph.tir.interpret import interpret
from benchgraph.tir.ir import (
    Alloc,
    BinOp,
    Brgemm,
    Broadcast,
    Const,
    Expr,
    Func,
    Load,
    Pack,
    Ramp,
    ReduceLanes,
    Scope,
    Select,
    Slice,
    Store,
    Tensor,
    UnOp,
    tensor,
)
from benchgraph.tir.passes.flatten_index import flatten_index
from tests.support.tir_programs import PROGRAMS, TARGET, at, i, j, loop, matmul_relu, parallel, param, put, relu, results

NAN, INF = math.nan, math.inf


def evaluate(e: Expr, dtype: DType = DType.f32, **data: object) -> object:
    """The value of e, which may read one-element params named as the keywords are."""
    arrays = {name: np.asarray([v]) for name, v in data.items()}
    y = param("y", 1, dtype=dtype)
    out = np.zeros(1, dtype.numpy)
    params = [param(name, 1, dtype=next(d for d in DType if d is not DType.undef and d.numpy == a.dtype)) for name, a in arrays.items()]
    interpret(Func("f", (*params, y), Store(y, (Const(0),), e)), [*arrays.values(), out])
    return out[0]


x = at(param("x", 1), 0)


@pytest.mark.parametrize(("a", "b"), [(1.0, 2.0), (NAN, 2.0), (1.0, NAN), (-0.0, 0.0)])
@pytest.mark.parametrize("op", [BinOp.min, BinOp.max])
def test_min_and_max_give_the_second_operand_when_either_is_nan(op: BinOp, a: float, b: float) -> None:
    got = evaluate(binary(op, x, f32(b)), x=np.float32(a))
    want = np.where(np.float32(a) < b if op is BinOp.min else np.float32(a) > b, np.float32(a), np.float32(b))
    assert np.array_equal(got, want, equal_nan=True)
    assert np.signbit(got) == np.signbit(want)


@pytest.mark.parametrize(("a", "b"), [(1.0, 2.0), (NAN, 2.0), (1.0, NAN), (NAN, NAN), (-INF, INF)])
@pytest.mark.parametrize("op", [BinOp.minimum, BinOp.maximum])
def test_minimum_and_maximum_give_nan_when_either_is(op: BinOp, a: float, b: float) -> None:
    want = NAN if NAN in (a, b) else min(a, b) if op is BinOp.minimum else max(a, b)
    assert np.array_equal(evaluate(binary(op, x, f32(b)), x=np.float32(a)), np.float32(want), equal_nan=True)


@pytest.mark.parametrize("op", [BinOp.minimum, BinOp.maximum])
def test_a_reduction_of_lanes_is_nan_if_any_lane_is(op: BinOp) -> None:
    v, y = param("v", 4), param("y", 1)
    for place in range(4):
        values, out = np.arange(4, dtype=np.float32), np.zeros(1, np.float32)
        values[place] = NAN
        interpret(Func("f", (v, y), Store(y, (Const(0),), ReduceLanes(op, Load(v, (Ramp(Const(0), 1, 4),))))), [values, out])
        assert np.isnan(out[0])


@pytest.mark.parametrize(
    ("value", "dtype", "want"),
    [
        (2.5, DType.s32, 2), (3.5, DType.s32, 4), (-2.5, DType.s8, -2), (300.0, DType.u8, 255), (-1.0, DType.u8, 0), (-1e9, DType.s8, -128),
        (NAN, DType.s32, 0), (INF, DType.s32, 2**31 - 1), (3e9, DType.s32, 2**31 - 1), (INF, DType.s64, 2**63 - 1),
        (-INF, DType.s64, -(2**63)), (0.5, DType.boolean, True), (0.0, DType.boolean, False),
    ],
)  # fmt: skip
def test_cast_rounds_half_to_even_and_saturates(value: float, dtype: DType, want: int) -> None:
    assert evaluate(cast(x, dtype), dtype, x=np.float32(value)) == want


@pytest.mark.parametrize(("value", "want"), [(1 + 2**-8, 1.0), (1 + 3 * 2**-8, 1 + 2**-6), (3.4028235e38, INF)])
def test_cast_to_bf16_rounds_half_to_even(value: float, want: float) -> None:
    assert evaluate(cast(x, DType.bf16), DType.bf16, x=np.float32(value)) == np.float32(want)


@pytest.mark.parametrize(
    ("value", "e4m3", "e5m2"),
    [(1.0625, 1.0, 1.0), (1.1875, 1.25, 1.25), (464.0, 448.0, 448.0), (465.0, NAN, 448.0), (61440.0, NAN, INF), (2.0**-10, 0.0, 2.0**-10)],
)
def test_cast_to_8_bit_floats_rounds_half_to_even(value: float, e4m3: float, e5m2: float) -> None:
    for dtype, want in ((DType.f8_e4m3, e4m3), (DType.f8_e5m2, e5m2)):
        assert np.array_equal(float(evaluate(cast(x, dtype), dtype, x=np.float32(value))), want, equal_nan=True)


@pytest.mark.parametrize("dtype", [DType.f8_e4m3, DType.f8_e5m2, DType.f16])
def test_narrow_floats_pass_through_temporaries_and_flattened_parameters(dtype: DType) -> None:
    """y = x through a temporary; x arrives as a 2-d array with gaps for a 1-d parameter."""
    x, t, y = param("x", 9, dtype=dtype), Tensor("t", dtype, (2,), (3,), Scope.thread), param("y", 2, dtype=dtype)
    moves = [Store(t, (Const(k),), Load(x, (Const(5 * k),))) for k in range(2)]
    data, out = np.arange(10).astype(dtype.numpy).reshape(2, 5)[:, :4], np.zeros(2, dtype.numpy)
    interpret(Func("f", (x, y), seq(Alloc(t), *moves, *(Store(y, (Const(k),), Load(t, (Const(k),))) for k in range(2)))), [data, out])
    np.testing.assert_array_equal(out.astype(np.float32), np.array([0, 5], np.float32))


@pytest.mark.parametrize(("first", "wider"), [(DType.u8, DType.f32), (DType.s8, DType.s32), (DType.u8, DType.bf16)])
def test_casts_of_bytes_to_a_wider_dtype_and_back_cancel(first: DType, wider: DType) -> None:
    b = at(param("b", 1, dtype=first), 0)
    assert cast(cast(b, wider), first) == b
    assert cast(cast(b, wider), DType.s4) != b
    assert cast(cast(f32(0.3), first), DType.f32) != f32(0.3)


@pytest.mark.parametrize("dtype", [DType.bf16, DType.f16, DType.f8_e4m3, DType.boolean])
def test_casts_of_floats_to_f32_and_back_cancel(dtype: DType) -> None:
    h, s = at(param("h", 1, dtype=dtype), 0), at(param("s", 1, dtype=DType.s64), 0)
    other = DType.f16 if dtype is DType.bf16 else DType.bf16
    assert cast(cast(h, DType.f32), dtype) == h
    assert cast(cast(h, other), dtype) != h
    assert cast(cast(h, DType.f32), other) != h
    assert cast(cast(f32(0.3), dtype), DType.f32) != f32(0.3)
    assert cast(cast(s, DType.f32), DType.s64) != s


def test_cast_between_integers_saturates() -> None:
    assert evaluate(cast(at(param("x", 1, dtype=DType.s32), 0), DType.u8), DType.u8, x=np.int32(-3)) == 0


def test_arithmetic_is_f32() -> None:
    assert evaluate(binary(BinOp.add, x, f32(1.0)), x=np.float32(2**24)) == np.float32(2**24)


def test_floordiv_and_mod_round_down() -> None:
    y = param("y", 1, dtype=DType.s64)
    out = np.zeros(1, np.int64)
    minus = sub(i, 5)
    quotient = binary(BinOp.floordiv, minus, Const(4))
    interpret(Func("f", (y,), loop(i, 1, put(y, 0, value=add(mul(quotient, 10), mod(minus, 4))))), [out])
    assert out[0] == -2 * 10 + 3


@pytest.mark.parametrize(
    ("op", "value", "want"),
    [
        (UnOp.round, 2.5, 2.0),
        (UnOp.floor, -0.5, -1.0),
        (UnOp.abs, -2.0, 2.0),
        (UnOp.neg, 2.0, -2.0),
        (UnOp.normal_tail, -2.0, 0.022750132),
        (UnOp.gauss, 2.0, 0.13533528),
        (UnOp.sqrt, 9.0, 3.0),
    ],
)
def test_unary(op: UnOp, value: float, want: float) -> None:
    assert evaluate(unary(op, x), x=np.float32(value)) == np.float32(want)


def vectors(value: Expr, mask: Expr | None, size: int, out: int = 4) -> np.ndarray:
    y, src = param("y", out), np.arange(size, dtype=np.float32) + 1
    got = np.full(out, 9, np.float32)
    interpret(Func("f", (param("x", size), y), Store(y, (Ramp(Const(0), 1, 4),), value, mask)), [src, got])
    return got


FIRST_THREE = binary(BinOp.lt, Ramp(Const(0), 1, 4), Broadcast(Const(3), 4))


def test_masked_load_gives_zero_and_may_point_outside() -> None:
    masked = Load(param("x", 3), (Ramp(Const(0), 1, 4),), FIRST_THREE)
    assert vectors(masked, None, 3).tolist() == [1, 2, 3, 0]


def test_masked_store_keeps_what_was_there() -> None:
    gathered = Load(param("x", 8), (Ramp(Const(1), 2, 4),))
    assert vectors(gathered, FIRST_THREE, 8).tolist() == [2, 4, 6, 9]


def test_reduce_lanes_and_select() -> None:
    load = Load(param("x", 8), (Ramp(Const(0), 1, 4),))
    total = Broadcast(ReduceLanes(BinOp.add, load), 4)
    assert vectors(Select(FIRST_THREE, total, load), None, 8).tolist() == [10, 10, 10, 4]


@pytest.mark.parametrize("dtype", [DType.s64, DType.s32])
def test_ramp_has_the_dtype_of_its_base(dtype: DType) -> None:
    y, got = param("y", 4, dtype=dtype), np.zeros(4, dtype.numpy)
    interpret(Func("f", (y,), Store(y, (Ramp(Const(0), 1, 4),), Ramp(Const(-3, dtype), 2, 4))), [got])
    assert got.tolist() == [-3, -1, 1, 3]


def test_index_outside_raises() -> None:
    y = param("y", 4)
    for index in (4, -1):
        with pytest.raises(IndexError):
            interpret(Func("f", (y,), loop(i, 1, put(y, add(i, index), value=f32(0.0)))), [np.zeros(4, np.float32)])


def test_temporaries_hold_garbage_until_they_are_stored_to() -> None:
    t, y = tensor("t", DType.f32, (2,)), param("y", 1)
    out = np.zeros(1, np.float32)
    interpret(Func("f", (y,), seq(Alloc(t), put(t, 0, value=f32(1.0)), put(y, 0, value=at(t, 1)))), [out])
    assert np.isnan(out[0])


def test_each_run_of_a_declaration_is_a_new_temporary() -> None:
    """A value that one iteration leaves for the next is lost."""
    t, y = tensor("t", DType.f32, (1,)), param("y", 3)
    body = seq(Alloc(t), put(y, i, value=at(t, 0)), put(t, 0, value=f32(1.0)))
    out = np.zeros(3, np.float32)
    interpret(Func("f", (y,), parallel(i, 3, body)), [out])
    assert np.isnan(out).all()


def test_parallel_iterations_run_in_no_particular_order() -> None:
    y = param("y", 64)
    body = put(y, add(i, 1), value=binary(BinOp.add, at(y, i), f32(1.0)))
    out = np.zeros(64, np.float32)
    interpret(Func("f", (y,), parallel(i, 63, body)), [out])
    assert out[-1] < 63


def planned(name: str, offset: int, scope: Scope, size: int = 16) -> Tensor:
    return Tensor(name, DType.f32, (size,), (1,), scope, offset)


def two_buffers(second_at: int, scope: Scope = Scope.shared) -> np.ndarray:
    """t and u are both live while y = t + u is computed; they overlap unless the second is at 64."""
    t, u, y = planned("t", 0, scope), planned("u", second_at, scope), param("y", 2, 16)
    fill = [loop(j, 16, put(buffer, j, value=f32(value))) for buffer, value in ((t, 1.0), (u, 2.0))]
    total = loop(j, 16, put(y, i, j, value=binary(BinOp.add, at(t, j), at(u, j))))
    out = np.zeros((2, 16), np.float32)
    nest = parallel(i, 2, *fill, total) if scope is Scope.thread else loop(i, 2, *fill, total)
    interpret(Func("f", (y,), nest, shared_bytes=128, thread_bytes=128), [out])
    return out


@pytest.mark.parametrize("scope", [Scope.shared, Scope.thread])
def test_overlapping_plan_gives_wrong_results(scope: Scope) -> None:
    assert (two_buffers(64, scope) == 3).all()
    assert (two_buffers(32, scope) != 3).any()


def test_thread_arena_is_garbage_at_the_start_of_an_iteration() -> None:
    t, y = planned("t", 0, Scope.thread, 1), param("y", 3)
    out = np.zeros(3, np.float32)
    body = seq(put(y, i, value=at(t, 0)), put(t, 0, value=f32(1.0)))
    interpret(Func("f", (y,), parallel(i, 3, body), thread_bytes=64), [out])
    assert np.isnan(out).all()


def test_wrong_arguments_are_refused() -> None:
    with pytest.raises(InvalidArguments, match="1 arrays for 2 parameters"):
        interpret(relu(), [np.zeros((4, 40), np.float32)])
    with pytest.raises(InvalidArguments, match="float64 for f32"):
        interpret(relu(), [np.zeros((4, 40)), np.zeros((4, 40))])
    with pytest.raises(InvalidArguments, match=r"shape \(40, 4\) for shape \(4, 40\)"):
        interpret(relu(), [np.zeros((40, 4), np.float32), np.zeros((4, 40), np.float32)])


@pytest.mark.parametrize(("dtype", "want"), [(DType.s4, [-8, 7, 2, -1, -2]), (DType.u4, [8, 7, 2, 15, 14])])
def test_two_elements_share_a_byte(dtype: DType, want: list[int]) -> None:
    memory = np.array([0x78, 0xF2, 0xFE], np.uint8)
    src, out = param("src", 5, dtype=dtype), np.zeros(5, np.int32)
    y = param("y", 5, dtype=DType.s32)
    interpret(Func("f", (src, y), loop(i, 5, put(y, i, value=cast(at(src, i), DType.s32)))), [memory, out])
    assert out.tolist() == want
    with pytest.raises(IndexError):
        interpret(Func("f", (src, y), put(y, 0, value=cast(at(src, 5), DType.s32))), [memory, out])
    for wrong in (memory[:2], np.zeros(5, dtype.numpy), memory.astype(np.int8)):
        with pytest.raises(InvalidArguments, match=f"for the 3 bytes of {dtype.value}"):
            interpret(Func("f", (src, y), put(y, 0, value=cast(at(src, 4), DType.s32))), [wrong, out])


def test_matmul_relu_is_numpy() -> None:
    f = matmul_relu()
    w, b, c, y = results(f, f)
    np.testing.assert_allclose(y, np.maximum(w @ b + c, 0), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.__name__)
def test_programs_read_nothing_undefined(program) -> None:
    assert all(np.isfinite(a).all() for a in results(program(), program()))


@pytest.mark.parametrize(("wide", "narrow", "group"), [(DType.f32, DType.bf16, 2), (DType.s32, DType.s8, 4)], ids=["bf16", "s8"])
@pytest.mark.parametrize("k", [1, 4, 6, 7])
def test_weights_in_groups_are_those_of_the_matrix_whatever_fills_the_last_group(k: int, group: int, wide: DType, narrow: DType) -> None:
    """Two entries of a batch; as a slice of a panel, and flat."""
    rng, left = np.random.default_rng(k), DType.u8 if narrow is DType.s8 else narrow
    groups, n = -(-k // group), 5
    matrix = rng.integers(-8, 8, (2, k, n))
    packed = np.full((2, groups * group, n), np.nan if narrow.is_float else 77).astype(narrow.numpy)
    packed[:, :k] = matrix
    packed = np.ascontiguousarray(packed.reshape(2, groups, group, n).swapaxes(2, 3))
    src = rng.integers(0, 8, (3, 2 * k)).astype(left.numpy)
    x, w, y = (
        param(name, *shape, dtype=d) for name, shape, d in (("x", src.shape, left), ("w", packed.shape, narrow), ("y", (3, n), wide))
    )
    batch = Slice(w, (Const(0),) * 4, ((1, 1), (2, 1), (0, 1)))
    call = Brgemm(
        Slice(x, (Const(0), Const(0)), ((0, 1), (1, 1), (1, k))), batch, Slice(y, (Const(0), Const(0)), ((0, 1), (1, 1))), 3, n, k, (2,)
    )
    want = src[:, :k].astype(int) @ matrix[0] + src[:, k:].astype(int) @ matrix[1]
    for f in (Func("f", (x, w, y), call), flatten_index(Func("f", (x, w, y), call), TARGET)):
        got = np.zeros((3, n), wide.numpy)
        interpret(f, [src, packed, got])
        np.testing.assert_array_equal(got, want)


def test_sums_of_s32_wrap_around() -> None:
    x, w, y = param("x", 1, 4, dtype=DType.u8), param("w", 1, 1, 4, dtype=DType.s8), param("y", 1, 1, dtype=DType.s32)
    rows = (Slice(t, (Const(0),) * len(t.shape), ((0, 1), (1, 1))) for t in (x, w, y))
    got = np.full((1, 1), 2**31 - 1, np.int32)
    interpret(
        Func("f", (x, w, y), Brgemm(*rows, 1, 1, 4, accumulate=True)), [np.full((1, 4), 1, np.uint8), np.ones((1, 1, 4), np.int8), got]
    )
    assert got[0, 0] == 3 - 2**31


@pytest.mark.parametrize("transposed", [False, True])
def test_a_packing_gives_what_the_microkernel_reads(transposed: bool) -> None:
    """u8 less 128, groups of four, zeros after the sixth row; a column that is not packed keeps what it holds."""
    rng = np.random.default_rng(0)
    matrix = rng.integers(0, 256, (6, 5)).astype(np.uint8)
    x, w = param("x", *(5, 6) if transposed else (6, 5), dtype=DType.u8), param("w", 2, 6, 4, dtype=DType.s8)
    axes = ((1, 1), (0, 1)) if transposed else ((0, 1), (1, 1))
    f = Func("f", (x, w), Pack(Slice(x, (Const(0), Const(0)), axes), Slice(w, (Const(0),) * 3, ((0, 1), (1, 1))), 6, 5))
    got = np.full((2, 6, 4), 77, np.int8)
    interpret(f, [matrix.T.copy() if transposed else matrix, got])
    want = np.pad(matrix.astype(int) - 128, ((0, 2), (0, 0))).reshape(2, 4, 5).swapaxes(1, 2)
    np.testing.assert_array_equal(got[:, :5], want)
    assert (got[:, 5] == 77).all()


def test_packing_rounds_to_bf16() -> None:
    x, w = param("x", 2, 1), param("w", 1, 1, 2, dtype=DType.bf16)
    axes = ((0, 1), (1, 1))
    got = np.zeros((1, 1, 2), DType.bf16.numpy)
    f = Func("f", (x, w), Pack(Slice(x, (Const(0), Const(0)), axes), Slice(w, (Const(0),) * 3, axes), 2, 1))
    interpret(f, [np.array([[1 + 2**-8], [1 + 3 * 2**-8]], np.float32), got])
    assert got.ravel().tolist() == [1.0, 1 + 2**-6]
