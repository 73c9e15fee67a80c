from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial, reduce
from itertools import accumulate, product

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.special import ndtr

from benchgraph.codegen.emit import emit
from benchgraph.core.dtypes import DType
from benchgraph.core.philox import blocks
from benchgraph.machine.target import Isa, host
from benchgraph.tir.build import f32, mul, seq, type_of, unary
from benchgraph.tir.ir import (
    Binary,
    BinOp,
    Broadcast,
    Cast,
    Const,
    Expr,
    For,
    Func,
    Load,
    Ramp,
    Random,
    ReduceLanes,
    Scope,
    Select,
    Store,
    Tensor,
    Unary,
    UnOp,
    Var,
    tensor,
)
from tests.support.machine_code import assembly
from tests.support.table import all_hold
from tests.support.tir_maps import Mapping, Together

Array = NDArray[np.generic]
Same = Callable[[Array, Array], None]
Mapped = Callable[..., Array]
Run = Callable[..., list[Array]]
S64, F32, BOOL = DType.s64, DType.f32, DType.boolean
VAR_I, VAR_J = Var("i"), Var("j")


def param(name: str, dtype: DType, size: int) -> Tensor:
    return tensor(name, dtype, (size,), Scope.param)


AWKWARD = np.array(
    [0.0, -0.0, 0.5, 1.5, 2.5, -0.5, -1.5, 127.5, 128.5, -128.5, -129.0, 254.5, 255.5, 256.0, 65504.0, 65519.9, 65520.0, 65536.0, 2.0**31,
     2147483520.0, -(2.0**31), 2.0**63, 9.2233715e18, -(2.0**63), 1e30, -1e30, np.inf, -np.inf, np.nan, 1e-45, 6e-8, 2.9e-8, 3.1e-8, 6.1e-5,
     3.4e38, 3.3961e38, 1.0039062, 1.0117188, 8388607.5, 8388609.0, 0.49999997, -0.49999997],
    np.float32,
)  # fmt: skip


def values(seed: int, n: int = 151) -> NDArray[np.float32]:
    return np.random.default_rng(seed).normal(size=n).astype(np.float32)


FLOAT_OPS: dict[BinOp, Callable[..., Array]] = {
    BinOp.add: np.add,
    BinOp.sub: np.subtract,
    BinOp.mul: np.multiply,
    BinOp.div: np.divide,
    BinOp.min: lambda a, b: np.where(a < b, a, b),
    BinOp.max: lambda a, b: np.where(a > b, a, b),
}
COMPARISONS: dict[BinOp, Callable[..., Array]] = {
    BinOp.eq: np.equal,
    BinOp.ne: np.not_equal,
    BinOp.lt: np.less,
    BinOp.le: np.less_equal,
    BinOp.gt: np.greater,
    BinOp.ge: np.greater_equal,
}


@pytest.mark.parametrize("op", FLOAT_OPS)
def test_float_arithmetic_is_ieee(op: BinOp, mapped: Mapped, same: Same) -> None:
    a, b = values(1), values(2)
    a[3], b[5], a[7], b[7], a[9], b[9] = np.nan, np.nan, 0.0, -0.0, np.inf, np.inf
    with np.errstate(all="ignore"):
        want = FLOAT_OPS[op](a, b)
    same(mapped(lambda x, y: Binary(op, x, y), [a, b], [F32, F32], F32), want)


NAN_WINS: dict[BinOp, Callable[..., Array]] = {BinOp.minimum: np.minimum, BinOp.maximum: np.maximum}


@pytest.mark.parametrize("count", [2, 3, 4, 5])
@pytest.mark.parametrize("op", NAN_WINS)
def test_minimum_and_maximum_of_several_give_nan_wherever_it_stands(op: BinOp, count: int, mapped: Mapped, same: Same) -> None:
    """All ways in which some of the operands are NaN, or infinite; a chain of them is folded as one."""
    kinds = np.array([1.5, -2.5, np.nan, np.inf, -np.inf], np.float32)
    operands = [np.ascontiguousarray(a) for a in kinds[np.indices((kinds.size,) * count).reshape(count, -1)]]
    want = reduce(NAN_WINS[op], operands)
    same(mapped(lambda *e: reduce(partial(Binary, op), e), operands, [F32] * count, F32), want)


@pytest.mark.parametrize("op", NAN_WINS)
def test_minimum_and_maximum_with_a_number_take_one_instruction(op: BinOp, isa: Isa) -> None:
    src, dst = param("src", F32, isa.lanes), param("dst", F32, isa.lanes)
    here = Ramp(Const(0), 1, isa.lanes)
    clamped = Store(dst, (here,), Binary(op, Load(src, (here,)), Broadcast(f32(2.0), isa.lanes)))
    text = assembly("".join(emit([Func("main", (src, dst), clamped)], replace(host(), isa=isa))), isa)
    assert text.count(f"{op.by_order.name}ps") == 1
    assert "cmp" not in text


@pytest.mark.parametrize("op", NAN_WINS)
def test_taps_of_a_window_are_loaded_by_what_compares_them(op: BinOp, isa: Isa) -> None:
    """Nine taps: one load, eight maxima that load, and four comparisons of results; the ninth tap is NaN exactly if the last maximum is."""
    taps, lanes = 9, isa.lanes
    src, dst = param("src", F32, taps * 64), param("dst", F32, lanes)
    window = reduce(partial(Binary, op), (Load(src, (Ramp(Const(tap * 64), 1, lanes),)) for tap in range(taps)))
    text = assembly(
        "".join(emit([Func("main", (src, dst), Store(dst, (Ramp(Const(0), 1, lanes),), window))], replace(host(), isa=isa))), isa
    )
    extremes = re.findall(rf"{op.by_order.name}ps\t.*", text)
    assert len(extremes) == taps - 1
    if isa.needs:
        assert all("(" in line for line in extremes)
        assert len(re.findall(r"cmp\w*ps\t", text)) == taps // 2


def nested(op: BinOp, taps: Sequence[Expr], size: int) -> Expr:
    """Of lines of so many taps."""
    return reduce(partial(Binary, op), (reduce(partial(Binary, op), taps[i : i + size]) for i in range(0, len(taps), size)))


@pytest.mark.parametrize("size", [1, 2, 3, 9])
@pytest.mark.parametrize("op", NAN_WINS)
def test_a_window_is_nan_wherever_nan_stands(op: BinOp, size: int, mapped: Mapped, same: Same) -> None:
    operands = values(5, 9 * 11).reshape(9, 11)
    operands[range(9), range(9)] = np.nan
    operands[:, 10] = np.inf
    want = reduce(NAN_WINS[op], operands)
    assert np.isnan(want).tolist() == [True] * 9 + [False] * 2
    same(mapped(lambda *taps: nested(op, taps, size), list(operands), [F32] * 9, F32), want)


@pytest.mark.parametrize("op", NAN_WINS)
def test_windows_share_lines_with_their_comparisons(op: BinOp, isa: Isa) -> None:
    """Two windows of three lines, of which two are the same: the maxima and the comparison of each of four lines, and of each window."""
    lanes, here = isa.lanes, Ramp(Const(0), 1, isa.lanes)
    src, dsts = param("src", F32, 12 * 64), [param(f"dst{i}", F32, lanes) for i in range(2)]
    taps = [Load(src, (Ramp(Const(tap * 64), 1, lanes),)) for tap in range(12)]
    stores = [Store(dst, (here,), nested(op, taps[3 * i : 3 * i + 9], 3)) for i, dst in enumerate(dsts)]
    text = assembly("".join(emit([Func("main", (src, *dsts), seq(*stores))], replace(host(), isa=isa))), isa)
    assert len(re.findall(rf"{op.by_order.name}ps\t", text)) == 4 * 2 + 2 * 2
    if isa.needs:
        assert len(re.findall(r"cmp\w*ps\t", text)) == 4 + 2


@pytest.mark.parametrize("op", NAN_WINS)
def test_a_number_beside_nan(op: BinOp, mapped: Mapped, same: Same) -> None:
    x = np.array([np.nan, 1.0, 3.0, np.inf, -np.inf], np.float32)

    def beside(e: Expr, number: float) -> Expr:
        lanes = type_of(e)[1]
        return f32(number) if lanes == 1 else Broadcast(f32(number), lanes)

    for number in (2.0, np.nan):
        want = NAN_WINS[op](x, np.float32(number))
        same(mapped(lambda e, number=number: Binary(op, e, beside(e, number)), [x], [F32], F32), want)
        same(mapped(lambda e, number=number: Binary(op, beside(e, number), e), [x], [F32], F32), want)


@pytest.mark.parametrize("op", NAN_WINS)
def test_a_reduction_of_lanes_is_nan_if_any_lane_is(op: BinOp, isa: Isa, run: Run, same: Same) -> None:
    srcs, dsts, stores, memory = [], [], [], []
    for count in (2, 3, 8, 16):
        for where in (*range(count), None):
            memory.append(np.linspace(-3, 4, count, dtype=np.float32))
            memory[-1][where if where is not None else slice(0, 0)] = np.nan
            srcs.append(param(f"src{len(srcs)}", F32, count))
            dsts.append(param(f"dst{len(dsts)}", F32, 1))
            stores.append(Store(dsts[-1], (Const(0),), ReduceLanes(op, Load(srcs[-1], (Ramp(Const(0), 1, count),)))))
    got = run(Func("main", (*srcs, *dsts), seq(*stores)), memory, isa=isa)
    same(np.concatenate(got), np.array([NAN_WINS[op].reduce(m) for m in memory], np.float32))


def test_comparisons_know_nan_and_unsigned(together: Together, same: Same) -> None:
    a, b = values(1), values(2)
    a[3], b[5], b[10:20] = np.nan, np.nan, a[10:20]
    bits = [np.random.default_rng(seed).integers(0, 256, 77).astype(np.uint8).view(np.int8) for seed in (3, 4)]
    pairs = {F32: (a, b)} | {dtype: tuple(x.astype(dtype.numpy) for x in bits) for dtype in (DType.u8, DType.s8, DType.s32, S64)}
    cases = {
        f"{op.value} {dtype.value}": Mapping(partial(Binary, op), pair, [dtype, dtype], BOOL)
        for op in COMPARISONS
        for dtype, pair in pairs.items()
    }
    want = {f"{op.value} {dtype.value}": compare(*pair) for op, compare in COMPARISONS.items() for dtype, pair in pairs.items()}
    got = together(cases)
    all_hold(same, {name: (got[name], want[name]) for name in cases})


def test_integer_arithmetic_wraps(together: Together, same: Same) -> None:
    by_numpy = {
        BinOp.add: np.add, BinOp.sub: np.subtract, BinOp.mul: np.multiply, BinOp.min: np.minimum, BinOp.max: np.maximum,
        BinOp.minimum: np.minimum, BinOp.maximum: np.maximum,
    }  # fmt: skip
    cases, want = {}, dict[str, Array]()
    for op, dtype in product(by_numpy, (DType.s8, DType.u8, DType.s32, S64)):
        name, rng = f"{op.value} {dtype.value}", np.random.default_rng(4)
        pair = [rng.integers(0, 256, 8 * 77).astype(np.uint8).view(dtype.numpy)[:77] for _ in range(2)]
        cases[name], want[name] = Mapping(partial(Binary, op), pair, [dtype, dtype], dtype), by_numpy[op](*pair)
    got = together(cases)
    all_hold(same, {name: (got[name], want[name]) for name in cases})


@pytest.mark.parametrize("divisor", [1, 3, 4, 7, 64])
def test_floordiv_and_mod_round_towards_minus_infinity(divisor: int, lanes: int, mapped: Mapped, same: Same) -> None:
    x = np.arange(-50, 50)
    for op, want in ((BinOp.floordiv, x // divisor), (BinOp.mod, x % divisor)):

        def f(a: Expr, op: BinOp = op) -> Expr:
            return Binary(op, a, Const(divisor) if lanes == 1 else Broadcast(Const(divisor), lanes))

        same(mapped(f, [x], [S64], S64), want)


def test_random_numbers_are_the_streams_words(mapped: Mapped, same: Same) -> None:
    """Of any places in any streams: every lane has its own."""
    rng = np.random.default_rng(9)
    place, seed, offset = (rng.integers(-(2**63), 2**63 - 1, 77, endpoint=True) for _ in range(3))
    place[:5], seed[:2], offset[:2] = (0, 1, 2, 3, 2**32), (0, -1), (0, -1)
    words = np.choose(place % 4, blocks(place, seed, offset)).astype(np.int64)
    same(mapped(Random, [place, seed, offset], [S64, S64, S64], DType.s32), (words - 2**31).astype(np.int32))


@pytest.mark.parametrize("first", [0, 2**32 - 8, 6])
def test_random_numbers_of_neighbours_are_the_same_ones(first: int, isa: Isa, run: Run) -> None:
    """Whole blocks are drawn together, also across 32 bits; what begins within a block, and a few of them, are not."""
    widths = (2, 4, 8, 10, 12, 16, 64)
    stream, dst = tensor("stream", S64, (2,), Scope.param), tensor("dst", DType.s32, (sum(widths),), Scope.param)
    seed, offset = (Load(stream, (Const(k),)) for k in range(2))
    ends = list(accumulate(widths, initial=0))
    stores = [
        Store(dst, (Ramp(Const(at), 1, w),), Random(Ramp(Const(first), 1, w), Broadcast(seed, w), Broadcast(offset, w)))
        for at, w in zip(ends, widths, strict=False)
    ]
    numbers = np.array([-6510615555426900571, 1234567890123])
    (got,) = run(Func("main", (stream, dst), seq(*stores)), [numbers], isa=isa)
    place = first + np.concatenate([np.arange(w) for w in widths])
    words = np.choose(place % 4, blocks(place, *numbers.tolist())).astype(np.int64)
    assert np.array_equal(got, words - 2**31)


UNARIES: dict[UnOp, Callable[[Array], Array]] = {
    UnOp.neg: np.negative,
    UnOp.abs: np.abs,
    UnOp.sqrt: np.sqrt,
    UnOp.round: np.rint,
    UnOp.floor: np.floor,
}


@pytest.mark.parametrize("op", UNARIES)
def test_exact_unary_operations(op: UnOp, mapped: Mapped, same: Same) -> None:
    x = np.concatenate([AWKWARD, values(5) * 10])
    with np.errstate(all="ignore"):
        same(mapped(lambda a: Unary(op, a), [x], [F32], F32), UNARIES[op](x))


@pytest.mark.parametrize("op", [UnOp.exp, UnOp.decay, UnOp.log, UnOp.tanh, UnOp.normal_tail, UnOp.gauss])
def test_transcendentals_reach_vmath(op: UnOp, mapped: Mapped) -> None:
    x = np.abs(values(6)) + np.float32(0.1)
    functions = {
        UnOp.exp: np.exp,
        UnOp.decay: lambda v: np.expm1(-v),
        UnOp.log: np.log,
        UnOp.tanh: np.tanh,
        UnOp.normal_tail: lambda v: ndtr(-v),
        UnOp.gauss: lambda v: np.exp(-v * v / 2),
    }
    want = functions[op](x.astype(np.float64))
    np.testing.assert_allclose(mapped(lambda a: unary(op, a), [x], [F32], F32), want, rtol=1e-6, atol=1e-7)


def test_integer_neg_abs_and_not(mapped: Mapped, same: Same) -> None:
    x = np.arange(-60, 60, dtype=np.int32)
    same(mapped(lambda a: Unary(UnOp.neg, a), [x], [DType.s32], DType.s32), -x)
    same(mapped(lambda a: Unary(UnOp.abs, a), [x], [DType.s32], DType.s32), np.abs(x))
    flags = x % 3 == 0
    same(mapped(lambda a: Unary(UnOp.not_, a), [flags], [BOOL], BOOL), ~flags)


def test_select_and_logic(lanes: int, mapped: Mapped, same: Same) -> None:
    a, b, n = values(7), values(8), lanes

    def zero() -> Expr:
        return f32(0) if n == 1 else Broadcast(f32(0), n)

    def f(x: Expr, y: Expr) -> Expr:
        positive = Binary(BinOp.gt, x, zero()), Binary(BinOp.gt, y, zero())
        return Select(Binary(BinOp.and_, *positive), x, Select(Binary(BinOp.or_, *positive), y, zero()))

    want = np.where((a > 0) & (b > 0), a, np.where((a > 0) | (b > 0), b, np.float32(0)))
    same(mapped(f, [a, b], [F32, F32], F32), want)


def test_a_product_and_a_sum_become_one_fma_where_the_isa_has_it(isa: Isa) -> None:
    src, dst = param("src", F32, 16), param("dst", F32, 16)
    x = Load(src, (Ramp(Const(0), 1, 16),))
    body = Store(dst, (Ramp(Const(0), 1, 16),), Binary(BinOp.add, Binary(BinOp.mul, x, x), x))
    target = replace(host(), isa=isa)
    text = assembly("".join(emit([Func("main", (src, dst), body)], target)), isa)
    assert ("vfm" in text) == ("fma" not in isa.without)
    assert ("zmm" in text) == (isa.lanes == 16)
    assert ("ymm" in text) == (isa.lanes == 8)


@pytest.mark.parametrize("op", [BinOp.min, BinOp.max])
def test_an_extreme_is_stored_as_a_whole(op: BinOp, isa: Isa) -> None:
    """A masked store, of the lanes that changed, would make the next row's load wait for it."""
    src, acc = param("src", F32, 8 * isa.lanes), param("acc", F32, isa.lanes)
    here = Ramp(Const(0), 1, isa.lanes)
    row = Store(acc, (here,), Binary(op, Load(acc, (here,)), Load(src, (Ramp(mul(VAR_I, isa.lanes), 1, isa.lanes),))))
    text = assembly("".join(emit([Func("main", (src, acc), For(VAR_I, Const(8), row))], replace(host(), isa=isa))), isa)
    assert f"{op.name}ps" in text
    assert "maskmov" not in text
    assert "{%k" not in text


def test_reduce_lanes(isa: Isa, run: Run) -> None:
    folds = {BinOp.add: np.sum, BinOp.mul: np.prod, BinOp.min: np.min, BinOp.max: np.max}
    srcs, dsts, stores, memory, want = [], [], [], [], []
    for n, (op, count) in enumerate(product(folds, (2, 3, 5, 8, 16))):
        memory.append(np.arange(1, count + 1, dtype=np.float32)[::-1].copy())
        srcs.append(param(f"src{n}", F32, count))
        dsts.append(param(f"dst{n}", F32, 1))
        stores.append(Store(dsts[-1], (Const(0),), ReduceLanes(op, Load(srcs[-1], (Ramp(Const(0), 1, count),)))))
        want.append(folds[op](memory[-1]))
    got = run(Func("main", (*srcs, *dsts), seq(*stores)), memory, isa=isa)
    np.testing.assert_allclose(np.concatenate(got), want, rtol=1e-6)


def test_vectors_shorter_than_the_machines_have_the_same_results(isa: Isa, run: Run, same: Same) -> None:
    """2 and 4 lanes of what else has all of them."""
    x = np.array(
        [0.0, -0.0, 0.5, -1.5, 2.5, 127.5, -129.0, 255.5, 65520.0, 2.0**31, 88.8, -104.0, np.inf, -np.inf, np.nan, 1e-40], np.float32
    )
    to = (DType.s32, DType.s64, DType.s8, DType.u8, DType.bf16, DType.f16, DType.f8_e4m3, DType.f8_e5m2, BOOL)
    made: list[Callable[[Expr], Expr]] = [
        *(partial(Unary, op) for op in UnOp if op is not UnOp.not_),
        *(partial(Cast, dtype=d) for d in to),
    ]
    src, dsts, stores = param("src", F32, x.size), [], []
    for f, lanes in product(made, (isa.lanes, 4, 2)):
        ramps = [Ramp(Const(k), 1, lanes) for k in range(0, x.size, lanes)]
        dsts.append(param(f"dst{len(dsts)}", type_of(f(Load(src, (ramps[0],))))[0], x.size))
        stores += [Store(dsts[-1], (ramp,), f(Load(src, (ramp,)))) for ramp in ramps]
    got = run(Func("main", (src, *dsts), seq(*stores)), [x], isa=isa)
    for whole, four, two in zip(got[::3], got[1::3], got[2::3], strict=True):
        same(four, whole)
        same(two, whole)


@pytest.mark.parametrize("dtype", [F32, DType.bf16, DType.f16, DType.f8_e4m3, DType.f8_e5m2, DType.s32, BOOL], ids=lambda d: d.value)
def test_literals_of_every_kind(dtype: DType, run: Run, same: Same) -> None:
    dst = param("dst", dtype, 16)
    value: int | float = 1.5 if dtype.is_float else 1
    body = seq(
        Store(dst, (Ramp(Const(0), 1, 8),), Broadcast(Const(value, dtype), 8)),
        Store(dst, (Ramp(Const(8), 1, 8),), Broadcast(Const(value, dtype), 8)),
    )
    same(run(Func("main", (dst,), body), [])[0], np.full(16, value).astype(dtype.numpy))


@pytest.mark.parametrize("dtype", [S64, DType.s32], ids=lambda d: d.value)
def test_ramps_as_data(dtype: DType, run: Run, same: Same) -> None:
    dst = param("dst", dtype, 16)
    body = Store(dst, (Ramp(Const(0), 1, 16),), Ramp(Const(-5, dtype), 3, 16))
    same(run(Func("main", (dst,), body), [])[0], np.arange(-5, 43, 3).astype(dtype.numpy))


def test_ramps_of_s32_are_compared_as_such(run: Run, same: Same) -> None:
    """`lane < limit` on s64 has a short cut that this is not."""
    dst = param("dst", BOOL, 16)
    limit = Broadcast(Const(2, DType.s32), 16)
    body = Store(dst, (Ramp(Const(0), 1, 16),), Binary(BinOp.lt, Ramp(Const(-5, DType.s32), 1, 16), limit))
    same(run(Func("main", (dst,), body), [])[0], np.arange(-5, 11) < 2)


def test_infinite_and_nan_literals(run: Run, same: Same) -> None:
    dst = param("dst", F32, 3)
    body = seq(*(Store(dst, (Const(i),), f32(v)) for i, v in enumerate((np.inf, -np.inf, np.nan))))
    same(run(Func("main", (dst,), body), [])[0], np.array([np.inf, -np.inf, np.nan], np.float32))
