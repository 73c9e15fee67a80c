"""The data types of oneDNN Graph: names, sizes, ranges, and their numpy counterparts."""

from __future__ import annotations

from enum import Enum
from functools import cached_property
from typing import Any

import ml_dtypes
import numpy as np

_finfo: Any = ml_dtypes.finfo  # untyped upstream; unlike numpy's it knows bf16 and f8


class DType(Enum):
    """A data type; the value is its name in JSON dumps and on the command line. Only the compiler uses s16: see GRAPH_DTYPES."""

    undef = "undef"
    f32 = "f32"
    bf16 = "bf16"
    f16 = "f16"
    f8_e4m3 = "f8_e4m3"
    f8_e5m2 = "f8_e5m2"
    s64 = "s64"
    s32 = "s32"
    s16 = "s16"
    s8 = "s8"
    u8 = "u8"
    s4 = "s4"
    u4 = "u4"
    boolean = "boolean"

    __hash__ = object.__hash__  # Enum's is a function in Python

    @cached_property
    def bits(self) -> int:
        """Width of one element in bits; 0 for undef."""
        return _BITS[self]

    @cached_property
    def is_float(self) -> bool:
        return self in _FLOATS

    @cached_property
    def is_integer(self) -> bool:
        """True for s4 to s64, u4 and u8; boolean is neither float nor integer."""
        return self in _INT_RANGE

    @cached_property
    def is_packed(self) -> bool:
        """True for s4 and u4: two elements share a byte of memory, which numpy cannot address (core/arrays.py packs and unpacks)."""
        return self.bits == 4

    @cached_property
    def numpy(self) -> np.dtype:
        """The numpy dtype of one element; s4 and u4 take a byte each there (int8, uint8)."""
        if self is DType.undef:
            raise ValueError("dtype undef has no numpy counterpart")
        return np.dtype(_NUMPY[self])

    @property
    def eps(self) -> float:
        """Distance from 1 to the next value for floats, 0 for the exact types."""
        return float(_finfo(self.numpy).eps) if self.is_float else 0.0

    @property
    def least_normal(self) -> float:
        """The smallest positive number of a float type that is not subnormal."""
        return float(_finfo(self.numpy).smallest_normal)

    @property
    def least_subnormal(self) -> float:
        """The smallest positive number of a float type, which is also the distance between numbers near 0."""
        return float(_finfo(self.numpy).smallest_subnormal)

    @property
    def range(self) -> tuple[float, float]:
        """The smallest and the largest finite value."""
        if self.is_float:
            info = _finfo(self.numpy)
            return float(info.min), float(info.max)
        return (0.0, 1.0) if self is DType.boolean else _INT_RANGE[self]

    def nbytes(self, elements: int) -> int:
        """Bytes that hold this many elements; two s4 or u4 share a byte."""
        return (elements * self.bits + 7) // 8


GRAPH_DTYPES = tuple(dtype for dtype in DType if dtype is not DType.s16)
"""The dtypes that tensors of a graph may have, undef included. Compiled code widens bytes to s16 on CPUs that cannot multiply bytes."""

_BITS = {
    DType.undef: 0, DType.f32: 32, DType.bf16: 16, DType.f16: 16, DType.f8_e4m3: 8, DType.f8_e5m2: 8, DType.s64: 64,
    DType.s32: 32, DType.s16: 16, DType.s8: 8, DType.u8: 8, DType.s4: 4, DType.u4: 4, DType.boolean: 8,
}  # fmt: skip
_FLOATS = frozenset({DType.f32, DType.bf16, DType.f16, DType.f8_e4m3, DType.f8_e5m2})
_INT_RANGE: dict[DType, tuple[float, float]] = {
    DType.s64: (-(2.0**63), 2.0**63 - 1), DType.s32: (-(2.0**31), 2.0**31 - 1), DType.s16: (-32768.0, 32767.0), DType.s8: (-128.0, 127.0),
    DType.u8: (0.0, 255.0), DType.s4: (-8.0, 7.0), DType.u4: (0.0, 15.0),
}  # fmt: skip
_NUMPY: dict[DType, type] = {
    DType.f32: np.float32, DType.bf16: ml_dtypes.bfloat16, DType.f16: np.float16, DType.f8_e4m3: ml_dtypes.float8_e4m3fn,
    DType.f8_e5m2: ml_dtypes.float8_e5m2, DType.s64: np.int64, DType.s32: np.int32, DType.s16: np.int16, DType.s8: np.int8,
    DType.u8: np.uint8, DType.s4: np.int8, DType.u4: np.uint8, DType.boolean: np.bool_,
}  # fmt: skip
