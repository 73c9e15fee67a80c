from __future__ import annotations

from collections.abc import Callable

import ml_dtypes
import numpy as np
import pytest
from numpy.typing import NDArray

from benchgraph.codegen.emit import emit
from benchgraph.core.dtypes import DType
from benchgraph.core.errors import Unimplemented
from benchgraph.core.target import host
from benchgraph.tir.build import cast
from benchgraph.tir.ir import (
    Cast,
    Const,
    Func,
    Load,
    Module,
    Scope,
    Store,
    Tensor,
    Var,
    tensor,
)

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
def test_narrowing_to_half_rounds_to_nearest_even(half: DType, mapped: Mapped, same: Same) -> None:
    every = np.arange(1 << 16, dtype=np.uint16).view(HALVES[half]).astype(np.float32).view(np.uint32)
    around = np.concatenate([every + np.uint32(step) for step in (0, 1, 0x0FFF, 0x1000, 0x1001, 0x7FFF, 0x8000, 0x8001, 0x18000)]).view(
        np.float32
    )
    x = np.concatenate([around, AWKWARD, np.array([0x7F800001, 0xFF80FFFF], np.uint32).view(np.float32)])
    with np.errstate(all="ignore"):
        want = x.astype(HALVES[half])
    same(mapped(lambda a: Cast(a, half), [x], [F32], half), want)


@pytest.mark.parametrize("dst", [DType.s8, DType.u8, DType.s32, DType.s64], ids=lambda d: d.value)
def test_float_to_integer_rounds_saturates_and_drops_nan(dst: DType, mapped: Mapped, same: Same) -> None:
    x = np.concatenate([AWKWARD, np.linspace(-300, 300, 2401, dtype=np.float32)])
    info = np.iinfo(dst.numpy)
    whole = [0 if np.isnan(v) else round(float(v)) if np.isfinite(v) else int(np.copysign(2**70, v)) for v in x]
    want = np.array([max(info.min, min(info.max, v)) for v in whole])
    same(mapped(lambda a: Cast(a, dst), [x], [F32], dst), want.astype(dst.numpy))


INTEGERS = [DType.s8, DType.u8, DType.s32, DType.s64]
ENDS = [0, 1, -1, 127, 128, -128, -129, 255, 256, 2**31 - 1, -(2**31), 2**31, -(2**31) - 1, 2**63 - 1, -(2**63), 16777217]


@pytest.mark.parametrize("src", [*INTEGERS, BOOL], ids=lambda d: d.value)
@pytest.mark.parametrize("dst", [*INTEGERS, BOOL, F32, DType.bf16, DType.f16], ids=lambda d: d.value)
def test_integers_convert_with_saturation(src: DType, dst: DType, mapped: Mapped, same: Same) -> None:
    if src is BOOL:
        x: Array = np.arange(40) % 3 == 0
    else:
        info = np.iinfo(src.numpy)
        x = np.array([v for v in ENDS if info.min <= v <= info.max] * 3).astype(src.numpy)
    with np.errstate(over="ignore"):
        if dst is BOOL:
            want: Array = x != 0
        elif dst.is_float:
            want = x.astype(np.float32).astype(dst.numpy)
        else:
            want = np.array([max(np.iinfo(dst.numpy).min, min(np.iinfo(dst.numpy).max, int(v))) for v in x]).astype(dst.numpy)
    same(mapped(lambda a: cast(a, dst), [x], [src], dst), want)


def test_float_to_boolean_is_unequal_to_zero(mapped: Mapped, same: Same) -> None:
    same(mapped(lambda a: Cast(a, BOOL), [AWKWARD], [F32], BOOL), AWKWARD != 0)


def test_booleans_are_stored_as_0_and_1_whatever_nonzero_byte_was_read(mapped: Mapped) -> None:
    x = np.array([0, 1, 2, 128, 255] * 7, np.uint8).view(np.bool_)
    got = mapped(lambda a: a, [x], [BOOL], BOOL)
    np.testing.assert_array_equal(got.view(np.uint8), (x.view(np.uint8) != 0).astype(np.uint8))


@pytest.mark.parametrize("dtype", [DType.s4, DType.u4, DType.f8_e4m3, DType.f8_e5m2], ids=lambda d: d.value)
def test_a_dtype_without_code_generation_is_named(dtype: DType) -> None:
    src, dst = param("src", dtype, 4), param("dst", dtype, 4)
    with pytest.raises(Unimplemented, match=dtype.value):
        emit(Module(Func("main", (src, dst), Store(dst, (Const(0),), Load(src, (Const(0),))))), host())
