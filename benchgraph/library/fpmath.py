"""Floating-point math modes."""

from __future__ import annotations

from enum import Enum


class FpmathMode(Enum):
    """How far the values of f32 ops may be rounded inside an op (dnnl_fpmath_mode_t).

    A mode is a permission: computing more exactly is always allowed.
    """

    strict = "strict"
    bf16 = "bf16"
    f16 = "f16"
    tf32 = "tf32"
    any = "any"
