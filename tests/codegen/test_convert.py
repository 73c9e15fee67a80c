from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import product

import ml_dtypes
import numpy as np
import pytest
from numpy.typing import NDArray

from benchgraph.codegen.emit import emit
from benchgraph.core.dtypes import DType
from benchgraph.core.errors import Unimplemented
from benchgraph.machine.target import Isa, host
from benchgraph.tir.build import cast, type_of
from benchgraph.tir.ir import (
    Broadcast,
    Cast,
    Const,
    Func,
    Load,
    Ramp,
    Scope,
    Select,
    Store,
    Tensor,
    Unary,
    UnOp,
    Var,
    tensor,
)
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


HALVES = {DType.bf16: ml_dtypes.bfloat16, DType.f16: np.float16}
AWKWARD = np.array(
    [0.0, -0.0, 0.5, 1.5, 2.5, -0.5, -1.5, 127.5, 128.5, -128.5, -129.0, 254.5, 255.5, 256.0, 65504.0, 65519.9, 65520.0, 65536.0, 2.0**31,
     2147483520.0, -(2.0**31), 2.0**63, 9.2233715e18, -(2.0**63), 1e30, -1e30, np.inf, -np.inf, np.nan, 1e-45, 6e-8, 2.9e-8, 3.1e-8, 6.1e-5,
     3.4e38, 3.3961e38, 1.0039062, 1.0117188, 8388607.5, 8388609.0, 0.49999997, -0.49999997],
    np.float32,
)  # fmt: skip


@pytest.mark.parametrize("half", HALVES, ids=lambda d: d.value)
def test_every_half_widens_exactly(half: DType, mapped: Mapped, same: Same) -> None:
    x = np.arange(1 << 16, dtype=np.uint16).view(HALVES[half])
    same(mapped(lambda a: Cast(a, F32), [x], [half], F32), x.astype(np.float32))


@pytest.mark.parametrize("half", HALVES, ids=lambda d: d.value)
def test_narrowing_to_half_rounds_to_nearest_even(half: DType, isa: Isa, mapped: Mapped, same: Same) -> None:
    """The instruction that makes bf16 takes subnormal numbers as zeros."""
    every = np.arange(1 << 16, dtype=np.uint16).view(HALVES[half]).astype(np.float32).view(np.uint32)
    around = np.concatenate([every + np.uint32(step) for step in (0, 1, 0x0FFF, 0x1000, 0x1001, 0x7FFF, 0x8000, 0x8001, 0x18000)]).view(
        np.float32
    )
    x = np.concatenate([around, AWKWARD, np.array([0x7F800001, 0xFF80FFFF], np.uint32).view(np.float32)])
    is_flushed = (half is DType.bf16 and isa.has_bf16) & (abs(x) < np.float32(2.0**-126))
    with np.errstate(all="ignore"):
        want = np.where(is_flushed, np.copysign(np.float32(0), x), x).astype(HALVES[half])
    same(mapped(lambda a: Cast(a, half), [x], [F32], half), want)


EIGHTS = [DType.f8_e4m3, DType.f8_e5m2]


def every(dtype: DType) -> Array:
    return np.arange(256, dtype=np.uint8).view(dtype.numpy)


def neighbours(x: NDArray[np.float32]) -> NDArray[np.float32]:
    """Each value, and the f32 numbers just beside it."""
    bits = x.view(np.uint32)
    return np.concatenate([bits + np.uint32(step) for step in (0, 1, 0xFFFFFFFF)]).view(np.float32)


def hard_to_round(dtype: DType) -> NDArray[np.float32]:
    """Every value, every tie between two of them and at the ends of the range; every f16; every 4099th f32: all NaN and inf included."""
    size = np.sort(every(dtype)[:128].astype(np.float64)[np.isfinite(every(dtype)[:128].astype(np.float64))])
    beyond = 2 * size[-1] - size[-2]
    ties = np.append((size[1:] + size[:-1]) / 2, (size[-1] + beyond) / 2)
    exact = np.concatenate([size, ties, [beyond, np.inf]]).astype(np.float32)
    with np.errstate(invalid="ignore"):
        halves = np.arange(1 << 16, dtype=np.uint16).view(np.float16).astype(np.float32)
    dense = np.arange(0, 1 << 32, 4099, dtype=np.uint64).astype(np.uint32).view(np.float32)
    nans = np.array([0x7F800001, 0xFF80FFFF, 0x7FFFFFFF, 0xFFFFFFFF], np.uint32).view(np.float32)
    return np.concatenate([neighbours(np.concatenate([exact, -exact, halves])), dense, nans, AWKWARD])


@pytest.mark.parametrize("eight", EIGHTS, ids=lambda d: d.value)
@pytest.mark.parametrize("dst", [F32, DType.bf16, DType.f16], ids=lambda d: d.value)
def test_every_8_bit_float_widens_exactly(eight: DType, dst: DType, mapped: Mapped, same: Same) -> None:
    same(mapped(lambda a: Cast(a, dst), [every(eight)], [eight], dst), every(eight).astype(np.float32).astype(dst.numpy))


@pytest.mark.parametrize("eight", EIGHTS, ids=lambda d: d.value)
def test_narrowing_to_8_bit_floats_rounds_once_to_nearest_even(eight: DType, mapped: Mapped) -> None:
    x = hard_to_round(eight)
    with np.errstate(all="ignore"):
        want = x.astype(eight.numpy)
    got = mapped(lambda a: Cast(a, eight), [x], [F32], eight)
    np.testing.assert_array_equal(got.view(np.uint8), want.view(np.uint8))  # the signs of NaNs too


def test_what_is_too_large_becomes_infinity_where_there_is_one_and_nan_elsewhere(mapped: Mapped) -> None:
    x = np.array([448, 464, 465, 480, np.inf, -np.inf, 61439, 61440, -61440], np.float32)
    e4m3 = mapped(lambda a: Cast(a, DType.f8_e4m3), [x], [F32], DType.f8_e4m3).astype(np.float32)
    np.testing.assert_array_equal(e4m3, np.array([448, 448] + [np.nan] * 7, np.float32))
    e5m2 = mapped(lambda a: Cast(a, DType.f8_e5m2), [x], [F32], DType.f8_e5m2).astype(np.float32)
    np.testing.assert_array_equal(e5m2, np.array([448, 448, 448, 512, np.inf, -np.inf, 57344, np.inf, -np.inf], np.float32))


def test_8_bit_floats_convert_as_their_f32_values_do(together: Together, same: Same) -> None:
    """And so do halves."""
    cases = {}
    for src, dst in product([*EIGHTS, *HALVES], [*EIGHTS, DType.s8, DType.u8, DType.s32, BOOL]):
        x = np.arange(1 << src.bits, dtype=f"u{src.bits // 8}").view(src.numpy)
        with np.errstate(all="ignore"):
            wide = x.astype(np.float32)
        cases[f"{src.value}-{dst.value}"] = Mapping(partial(Cast, dtype=dst), [x], [src], dst)
        cases[f"f32-{src.value}-{dst.value}"] = Mapping(partial(Cast, dtype=dst), [wide], [F32], dst)
    got = together(cases)
    all_hold(same, {name: (got[name], got[f"f32-{name}"]) for name in got if not name.startswith("f32-")})


@pytest.mark.parametrize("eight", EIGHTS, ids=lambda d: d.value)
def test_8_bit_floats_are_copied_and_selected_bit_by_bit(eight: DType, mapped: Mapped) -> None:
    x = every(eight)
    assert mapped(lambda a: a, [x], [eight], eight).tobytes() == x.tobytes()
    other = np.roll(x, 77)
    got = mapped(lambda a, b, c: Select(c, a, Const(-3.5, eight) if type_of(c)[1] == 1 else Broadcast(Const(-3.5, eight), type_of(c)[1])),
                 [x, other, np.arange(256) % 3 == 0], [eight, eight, BOOL], eight)  # fmt: skip
    assert got.tobytes() == np.where(np.arange(256) % 3 == 0, x, eight.numpy.type(-3.5)).tobytes()


@pytest.mark.parametrize("eight", EIGHTS, ids=lambda d: d.value)
@pytest.mark.parametrize("lanes", [2, 3, 8, 24, 48])
def test_any_lane_count_and_step_loads_and_stores_8_bit_floats(eight: DType, lanes: int, isa: Isa, run: Run) -> None:
    src, dst = param("src", eight, 3 * lanes), param("dst", eight, 3 * lanes)
    negated = Cast(Unary(UnOp.neg, Cast(Load(src, (Ramp(Const(2), 3, lanes),)), F32)), eight)
    x = np.resize(every(eight)[1:120:3], 3 * lanes)
    (got,) = run(Func("main", (src, dst), Store(dst, (Ramp(Const(1), 3, lanes),), negated)), [x], isa=isa)
    want = np.full(3 * lanes, 0x5A, np.uint8)
    want[1::3] = (-x[2::3].astype(np.float32)).astype(eight.numpy).view(np.uint8)
    np.testing.assert_array_equal(got.view(np.uint8), want)


@pytest.mark.parametrize("dst", [DType.s8, DType.u8, DType.s32, DType.s64], ids=lambda d: d.value)
def test_float_to_integer_rounds_saturates_and_drops_nan(dst: DType, mapped: Mapped, same: Same) -> None:
    x = np.concatenate([AWKWARD, np.linspace(-300, 300, 2401, dtype=np.float32)])
    info = np.iinfo(dst.numpy)
    whole = [0 if np.isnan(v) else round(float(v)) if np.isfinite(v) else int(np.copysign(2**70, v)) for v in x]
    want = np.array([max(info.min, min(info.max, v)) for v in whole])
    same(mapped(lambda a: Cast(a, dst), [x], [F32], dst), want.astype(dst.numpy))


INTEGERS = [DType.s8, DType.u8, DType.s32, DType.s64]
PACKED = [DType.s4, DType.u4]
ENDS = [0, 1, -1, 127, 128, -128, -129, 255, 256, 2**31 - 1, -(2**31), 2**31, -(2**31) - 1, 2**63 - 1, -(2**63), 16777217]


def test_integers_convert_with_saturation(together: Together, same: Same) -> None:
    cases, want = {}, dict[str, Array]()
    for src, dst in product([*INTEGERS, BOOL], [*INTEGERS, BOOL, F32, DType.bf16, DType.f16, *EIGHTS]):
        name, x = f"{src.value}-{dst.value}", ends(src)
        cases[name] = Mapping(partial(cast, dtype=dst), [x], [src], dst)
        with np.errstate(over="ignore"):
            if dst is BOOL:
                want[name] = x != 0
            elif dst.is_float:
                want[name] = x.astype(np.float32).astype(dst.numpy)
            else:
                info = np.iinfo(dst.numpy)
                want[name] = np.array([max(info.min, min(info.max, int(v))) for v in x]).astype(dst.numpy)
    got = together(cases)
    all_hold(same, {name: (got[name], want[name]) for name in cases})


def ends(src: DType) -> Array:
    """What is hard to convert, of the values that the dtype has."""
    if src is BOOL:
        return np.arange(40) % 3 == 0
    info = np.iinfo(src.numpy)
    return np.array([v for v in ENDS if info.min <= v <= info.max] * 3).astype(src.numpy)


def test_float_to_boolean_is_unequal_to_zero(mapped: Mapped, same: Same) -> None:
    same(mapped(lambda a: Cast(a, BOOL), [AWKWARD], [F32], BOOL), AWKWARD != 0)


def test_booleans_are_stored_as_0_and_1_whatever_nonzero_byte_was_read(mapped: Mapped) -> None:
    x = np.array([0, 1, 2, 128, 255] * 7, np.uint8).view(np.bool_)
    got = mapped(lambda a: a, [x], [BOOL], BOOL)
    np.testing.assert_array_equal(got.view(np.uint8), (x.view(np.uint8) != 0).astype(np.uint8))


@pytest.mark.parametrize("dtype", PACKED, ids=lambda d: d.value)
def test_a_store_of_half_a_byte_is_refused(dtype: DType) -> None:
    src, dst = param("src", dtype, 4), param("dst", dtype, 4)
    with pytest.raises(Unimplemented, match=f"writing dtype {dtype.value}; write s8 or u8"):
        "".join(emit([Func("main", (src, dst), Store(dst, (Const(0),), Load(src, (Const(0),))))], host()))


def test_a_dtype_that_is_none_is_named() -> None:
    src, dst = param("src", DType.undef, 4), param("dst", DType.undef, 4)
    with pytest.raises(Unimplemented, match="code generation for dtype undef; use one of f32"):
        "".join(emit([Func("main", (src, dst), Store(dst, (Const(0),), Load(src, (Const(0),))))], host()))
